"""The real SDKs against a fake model server: what is sent, what comes back, and everything that can go wrong."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from daemon.model.messages import FilePart, ReasoningPart, TextPart, ToolCallPart, Usage
from daemon.provider.anthropic import AnthropicProvider
from daemon.provider.base import Complete, ModelRequest, PartStop, Provider, TextDelta
from daemon.provider.litellm import LiteLLMProvider
from tests.fakes.model_replies import Call, Reply
from tests.fakes.model_requests import (
    assistant,
    call,
    collect,
    complete,
    failure,
    request,
    result,
    thought,
    user,
)
from tests.fakes.model_server import ModelServer
from tests.fakes.waiting import until

# litellm and the pydantic of today; outside of pytest nobody sees them.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Accessing the 'model_:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning"),
]

KEY = "sk-test-0123456789"
LONG = "abc " * 30
TALK = (user("look at a.py"),)


def anthropic_env(server: ModelServer, key: str = KEY) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": key, "ANTHROPIC_BASE_URL": server.url}


def openai_env(server: ModelServer, key: str = KEY) -> dict[str, str]:
    return {"OPENAI_API_KEY": key, "OPENAI_BASE_URL": f"{server.url}/v1"}


def ollama_env(server: ModelServer) -> dict[str, str]:
    return {"OLLAMA_HOST": server.url}


class Wire:
    """A provider, and the environment that leads it to a fake server."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.provider: Provider
        self.provider = AnthropicProvider() if name == "anthropic" else LiteLLMProvider(name)

    def request(self, server: ModelServer, **fields: Any) -> ModelRequest:
        envs = {"anthropic": anthropic_env, "openai": openai_env, "ollama": ollama_env}
        models = {"anthropic": "claude-sonnet-5-5", "openai": "some-model", "ollama": "qwen3:8b"}
        messages = fields.pop("messages", TALK)
        return request(*messages, **{"model": models[self.name], "env": envs[self.name](server), **fields})


@pytest.fixture
async def claude() -> AsyncIterator[AnthropicProvider]:
    provider = AnthropicProvider()
    yield provider
    await provider.aclose()


@pytest.fixture(params=["anthropic", "openai", "ollama"])
async def wire(request: pytest.FixtureRequest) -> AsyncIterator[Wire]:
    made = Wire(request.param)
    yield made
    if isinstance(made.provider, AnthropicProvider):
        await made.provider.aclose()


# --- on every wire ---


async def test_text_and_tool_calls_arrive(wire: Wire) -> None:
    calls = (Call("read", {"file_path": "a.py"}), Call("read", {"file_path": "b.py"}))
    async with ModelServer([Reply(text="I read both.", tool_calls=calls, chunk=4)]) as server:
        events = await collect(wire.provider.stream(wire.request(server)))
    end = events[-1]
    assert isinstance(end, Complete)
    text, first, second = end.parts
    assert text == TextPart(text="I read both.")
    assert isinstance(first, ToolCallPart)
    assert isinstance(second, ToolCallPart)
    assert [first.arguments(), second.arguments()] == [{"file_path": "a.py"}, {"file_path": "b.py"}]
    assert first.id != second.id
    assert end.stop_reason == "tool_use"
    assert end.usage.output > 0
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["I re", "ad b", "oth."]
    assert {event.index: event.part for event in events if isinstance(event, PartStop)} == dict(
        enumerate(end.parts)
    )


async def test_the_answers_of_tools_are_accepted_by_the_server(wire: Wire) -> None:
    async with ModelServer([Reply(tool_calls=(Call("read"), Call("read"))), "done"]) as server:
        first = await complete(wire.provider, wire.request(server))
        ids = [part.id for part in first.parts if isinstance(part, ToolCallPart)]
        results = [result(ids[0], "x"), result(ids[1], "", is_error=True)]
        talk = (*TALK, assistant(*first.parts), *results)
        second = await complete(
            wire.provider, wire.request(server, messages=talk, tail="## Current Plan\n→ 1. Look")
        )
    assert second.parts == (TextPart(text="done"),)
    assert server.rejected == []
    assert "## Current Plan" in json.dumps(server.requests[1].json["messages"][-1])


@pytest.mark.parametrize("size", [1, 7])
async def test_pieces_cut_anywhere_are_put_together(wire: Wire, size: int) -> None:
    reply = Reply(
        text="grüße, 世界 🎈 " * 3, tool_calls=(Call("read", {"file_path": "ä/世.py"}),), split=size
    )
    async with ModelServer([reply]) as server:
        end = await complete(wire.provider, wire.request(server))
    assert end.parts[0] == TextPart(text=reply.text)
    assert isinstance(end.parts[1], ToolCallPart)
    assert end.parts[1].arguments() == {"file_path": "ä/世.py"}


async def test_the_length_limit_is_reported(wire: Wire) -> None:
    async with ModelServer([Reply(text="and so", stop_reason="max_tokens")]) as server:
        assert (await complete(wire.provider, wire.request(server))).stop_reason == "max_tokens"


async def test_unknown_events_are_stepped_over(wire: Wire) -> None:
    async with ModelServer([Reply(text=LONG, fault="unknown_events")]) as server:
        assert (await complete(wire.provider, wire.request(server))).parts == (TextPart(text=LONG),)


@pytest.mark.parametrize("fault", ["truncate", "malformed", "reset"])
async def test_a_broken_stream_is_malformed_and_worth_another_try(wire: Wire, fault: Any) -> None:
    async with ModelServer([Reply(text=LONG, fault=fault, fault_after=2)]) as server:
        error = await failure(wire.provider, wire.request(server))
    assert (error.kind, error.retryable) in (("malformed", True), ("network", True))
    if fault == "truncate":
        assert error.kind == "malformed"


async def test_a_server_that_fails_is_worth_another_try(wire: Wire) -> None:
    async with ModelServer([Reply(status=500, error_message="out of order")]) as server:
        error = await failure(wire.provider, wire.request(server))
    assert (error.kind, error.retryable) == ("server", True)
    assert "out of order" in str(error)


async def test_an_unknown_model_is_told(wire: Wire) -> None:
    reply = Reply(status=404, error_type="not_found_error", error_message="model: none such")
    async with ModelServer([reply]) as server:
        error = await failure(wire.provider, wire.request(server))
    assert (error.kind, error.retryable) == ("bad_request", False)
    assert "choose another" in str(error)


async def test_nobody_there_is_told_with_the_address() -> None:
    nowhere = "http://127.0.0.1:9"
    for provider, env, words in (
        (AnthropicProvider(), {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": nowhere}, "is it running?"),
        (LiteLLMProvider("openai"), {"OPENAI_BASE_URL": f"{nowhere}/v1"}, "is it running?"),
        (LiteLLMProvider("ollama"), {"OLLAMA_HOST": nowhere}, "start it with `ollama serve`"),
    ):
        error = await failure(provider, request(env=env))
        assert (error.kind, error.retryable) == ("network", True)
        assert nowhere in str(error)
        assert words in str(error)


async def test_silence_ends_in_a_timeout() -> None:
    async with ModelServer(
        [Reply(fault="silent"), Reply(text=LONG, fault="hang"), Reply(fault="silent")]
    ) as server:
        claude = AnthropicProvider(read_timeout_s=0.2)
        for _ in range(2):
            error = await failure(claude, request(env=anthropic_env(server)))
            assert (error.kind, error.retryable) == ("network", True)
            assert "stopped answering" in str(error)
        await claude.aclose()
        error = await failure(
            LiteLLMProvider("openai", timeout_s=0.5), request(model="x", env=openai_env(server))
        )
        assert (error.kind, error.retryable) == ("network", True)


@pytest.mark.parametrize("when", ["silent", "hang"])
async def test_a_cancelled_call_ends_the_http_request(wire: Wire, when: Any) -> None:
    async with ModelServer([Reply(text=LONG, fault=when, fault_after=6)]) as server:
        seen = asyncio.Event()

        async def read() -> None:
            async for _ in wire.provider.stream(wire.request(server)):
                seen.set()

        reading = asyncio.create_task(read())
        async with asyncio.timeout(30):
            if when == "hang":
                await seen.wait()
            else:
                await until(lambda: server.requests, "the request")
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            await server.requests[0].client_left.wait()


async def test_closing_the_iterator_ends_the_http_request(wire: Wire) -> None:
    async with ModelServer([Reply(text=LONG, fault="hang", fault_after=6)]) as server:
        events: Any = wire.provider.stream(wire.request(server))
        async with asyncio.timeout(30):
            await anext(events)
            await events.aclose()
            await server.requests[0].client_left.wait()


# --- keys ---


async def test_without_a_key_no_request_is_made() -> None:
    for provider, name in (
        (AnthropicProvider(), "ANTHROPIC_API_KEY"),
        (LiteLLMProvider("openai"), "OPENAI_API_KEY"),
    ):
        error = await failure(provider, request())
        assert (error.kind, error.retryable) == ("no_key", False)
        assert f"set {name} or choose another model" in str(error)


async def test_the_environment_of_the_process_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch, claude: AnthropicProvider
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    assert (await failure(claude, request())).kind == "no_key"
    assert (await failure(LiteLLMProvider("openai"), request())).kind == "no_key"


async def test_a_wrong_key_is_named_but_not_shown(claude: AnthropicProvider) -> None:
    wrong = "sk-wrong-9876543210"
    async with ModelServer(["never"], api_key=KEY) as server:
        first = await failure(claude, request(env=anthropic_env(server, wrong)))
        second = await failure(LiteLLMProvider("openai"), request(model="x", env=openai_env(server, wrong)))
    for error, name in ((first, "ANTHROPIC_API_KEY"), (second, "OPENAI_API_KEY")):
        assert (error.kind, error.retryable) == ("auth", False)
        assert f"The key was refused by 127.0.0.1:{server.url.rpartition(':')[2]}: check {name}" in str(error)
        assert wrong not in str(error)
        assert wrong not in repr(error)


async def test_a_token_instead_of_a_key(claude: AnthropicProvider) -> None:
    async with ModelServer(["hello"], api_key="token-123456") as server:
        env = {"ANTHROPIC_AUTH_TOKEN": "token-123456", "ANTHROPIC_BASE_URL": server.url}
        await complete(claude, request(env=env))
    assert server.requests[0].headers["authorization"] == "Bearer token-123456"
    assert "x-api-key" not in server.requests[0].headers


# --- Anthropic ---


async def test_a_claude_request_is_what_the_api_wants(claude: AnthropicProvider) -> None:
    async with ModelServer(["hello"], api_key=KEY) as server:
        await complete(
            claude, request(user("hi"), env=anthropic_env(server), thinking_tokens=8000, max_tokens=9000)
        )
    sent = server.requests[0]
    assert server.rejected == []
    assert sent.json["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert sent.json["max_tokens"] == 9000
    assert sent.json["stream"] is True
    assert sent.json["tools"][-1]["cache_control"] == {"type": "ephemeral"}
    assert sent.headers["x-api-key"] == KEY
    assert sent.headers["x-stainless-retry-count"] == "0"


async def test_thinking_is_replayed_as_it_came(claude: AnthropicProvider) -> None:
    replies = [
        Reply(reasoning="I should look.", redacted="opaque", text="Hm.", tool_calls=(Call("read"),)),
        "done",
    ]
    async with ModelServer(replies) as server:
        first = await complete(claude, request(*TALK, env=anthropic_env(server)))
        talk = (*TALK, assistant(*first.parts), result("toolu_1_0"))
        await complete(claude, request(*talk, env=anthropic_env(server)))
    assert first.parts[0] == ReasoningPart(text="I should look.", signature="signature-1")
    assert first.parts[1] == ReasoningPart(text="", redacted="opaque")
    assert server.requests[1].json["messages"][1]["content"][:2] == [
        {"type": "thinking", "thinking": "I should look.", "signature": "signature-1"},
        {"type": "redacted_thinking", "data": "opaque"},
    ]


async def test_thinking_that_another_model_refuses_is_left_out(claude: AnthropicProvider) -> None:
    refusal = "messages.1.content.0: Invalid `signature` in `thinking` block"

    def strict(sent: dict[str, Any]) -> Reply:
        if "thinking" in json.dumps(sent["messages"]):
            return Reply(status=400, error_type="invalid_request_error", error_message=refusal)
        return Reply(text="fine")

    async with ModelServer(strict) as server:
        talk = (*TALK, assistant(thought("of another model"), "yes"), user("go on"))
        end = await complete(claude, request(*talk, env=anthropic_env(server)))
    assert end.parts == (TextPart(text="fine"),)
    assert len(server.requests) == 2


async def test_the_growing_prefix_is_read_from_the_cache(claude: AnthropicProvider) -> None:
    async with ModelServer(
        [Reply(tool_calls=(Call("read"),)) for _ in range(4)] + [Reply(text="done")]
    ) as server:
        talk = [user("please " * 500)]
        usages: list[Usage] = []
        for number in range(5):
            end = await complete(claude, request(*talk, env=anthropic_env(server), tail=f"plan {number}"))
            usages.append(end.usage)
            ids = [part.id for part in end.parts if isinstance(part, ToolCallPart)]
            talk += [assistant(*end.parts), *(result(ident, "x" * 4000) for ident in ids)]
    assert usages[0].cache_read == 0
    for before, after in itertools.pairwise(usages):
        assert after.cache_read == before.cache_read + before.cache_write
        assert after.input < 20


async def test_one_connection_serves_many_calls(claude: AnthropicProvider) -> None:
    async with ModelServer(["a", "b", "c"]) as server:
        for _ in range(3):
            await complete(claude, request(env=anthropic_env(server)))
    assert server.connections == 1


async def test_a_provider_can_be_used_in_one_loop_after_another() -> None:
    provider = AnthropicProvider()

    async def once() -> None:
        async with ModelServer(["a"]) as server:
            await complete(provider, request(env=anthropic_env(server)))

    await once()
    await asyncio.to_thread(asyncio.run, once())


async def test_a_warm_provider_works(claude: AnthropicProvider) -> None:
    async with ModelServer(["a"]) as server:
        await asyncio.to_thread(claude.warm, anthropic_env(server))
        await complete(claude, request(env=anthropic_env(server)))


@pytest.mark.parametrize(
    ("reason", "mapped"),
    [
        ("end_turn", "end_turn"),
        ("stop_sequence", "end_turn"),
        ("pause_turn", "end_turn"),
        ("refusal", "end_turn"),
        ("model_context_window_exceeded", "max_tokens"),
        ("something_new", "end_turn"),
    ],
)
async def test_stop_reasons(claude: AnthropicProvider, reason: str, mapped: str) -> None:
    details = (
        {"type": "refusal", "category": "cyber", "explanation": "Not this."} if reason == "refusal" else None
    )
    async with ModelServer([Reply(text="a", stop_reason=reason, stop_details=details)]) as server:
        end = await complete(claude, request(env=anthropic_env(server)))
    assert end.stop_reason == mapped
    assert end.detail == ("Not this." if reason == "refusal" else end.detail)


async def test_tool_json_that_is_broken_is_handed_on_as_it_came(claude: AnthropicProvider) -> None:
    async with ModelServer([Reply(tool_calls=(Call("read", '{"file_path": '),))]) as server:
        end = await complete(claude, request(env=anthropic_env(server)))
    assert isinstance(end.parts[0], ToolCallPart)
    assert end.parts[0].input == '{"file_path": '


@pytest.mark.parametrize(
    ("reply", "kind", "retryable", "after"),
    [
        (Reply(status=403, error_type="permission_error"), "auth", False, None),
        (
            Reply(status=429, error_type="rate_limit_error", headers={"retry-after": "12"}),
            "rate_limit",
            True,
            12,
        ),
        (
            Reply(status=429, error_type="rate_limit_error", headers={"retry-after-ms": "250"}),
            "rate_limit",
            True,
            0.25,
        ),
        (Reply(status=529, error_type="overloaded_error"), "overloaded", True, None),
        (Reply(status=413, error_type="request_too_large"), "overflow", False, None),
        (
            Reply(status=400, error_type="invalid_request_error", error_message="prompt is too long: 2 > 1"),
            "overflow",
            False,
            None,
        ),
        (
            Reply(status=400, error_type="invalid_request_error", error_message="odd"),
            "bad_request",
            False,
            None,
        ),
        (Reply(status=402, error_type="billing_error"), "bad_request", False, None),
        (Reply(text=LONG, fault="error_event", error_type="overloaded_error"), "overloaded", True, None),
        (Reply(text=LONG, fault="error_event", error_type="api_error"), "server", True, None),
    ],
)
async def test_errors_of_the_api(
    claude: AnthropicProvider, reply: Reply, kind: str, retryable: bool, after: float | None
) -> None:
    async with ModelServer([reply]) as server:
        error = await failure(claude, request(env=anthropic_env(server)))
    assert (error.kind, error.retryable, error.retry_after_s) == (kind, retryable, after)
    assert len(server.requests) == 1, "the SDK must not retry by itself"


# --- OpenAI and Ollama through litellm ---


async def test_an_openai_request_is_what_the_api_wants() -> None:
    png = FilePart(name="a.png", media_type="image/png", data="iVBO")
    async with ModelServer(
        [Reply(text="hello", usage={"cache_read_input_tokens": 4})], api_key=KEY
    ) as server:
        end = await complete(
            LiteLLMProvider("openai"), request(user("hi", png), model="gpt-4.1", env=openai_env(server))
        )
    sent = server.requests[0].json
    assert sent["model"] == "gpt-4.1"
    assert sent["messages"][0] == {"role": "system", "content": "You are a test."}
    assert {part["type"] for part in sent["messages"][1]["content"]} == {"text", "image_url"}
    assert sent["tools"][0]["function"]["name"] == "read"
    assert sent["stream_options"] == {"include_usage": True}
    assert "_skip_mcp_handler" not in sent
    assert end.usage == Usage(input=10, output=1, cache_read=4)


async def test_reasoning_of_other_models_is_shown() -> None:
    async with ModelServer([Reply(reasoning="hm", text="yes")] * 2) as server:
        for provider, env in (
            (LiteLLMProvider("openai"), openai_env),
            (LiteLLMProvider("ollama"), ollama_env),
        ):
            end = await complete(provider, request(model="m", env=env(server)))
            assert end.parts == (ReasoningPart(text="hm"), TextPart(text="yes"))


@pytest.mark.parametrize(
    "reply", [Reply(whole_calls=True), Reply(no_ids=True), Reply(whole_calls=True, no_ids=True)]
)
async def test_tool_calls_of_sloppy_servers(reply: Reply) -> None:
    calls = (Call("read", {"file_path": "a"}), Call("read", {"file_path": "b"}))
    async with ModelServer([replace(reply, tool_calls=calls)]) as server:
        end = await complete(LiteLLMProvider("openai"), request(model="m", env=openai_env(server)))
    found = [part for part in end.parts if isinstance(part, ToolCallPart)]
    assert [part.arguments()["file_path"] for part in found] == ["a", "b"]
    assert len({part.id for part in found} - {""}) == 2


@pytest.mark.parametrize(
    ("reply", "kind", "retryable", "after"),
    [
        (Reply(status=429, error_type="rate_limit", headers={"retry-after": "12"}), "rate_limit", True, 12),
        (
            Reply(
                status=429, error_type="insufficient_quota", error_message="You exceeded your current quota"
            ),
            "rate_limit",
            False,
            None,
        ),
        (
            Reply(
                status=400,
                error_type="context_length_exceeded",
                error_message="This model's maximum context length is 8 tokens.",
            ),
            "overflow",
            False,
            None,
        ),
        (
            Reply(status=400, error_type="invalid_request_error", error_message="odd"),
            "bad_request",
            False,
            None,
        ),
        (Reply(status=503, error_type="server_error"), "server", True, None),
        (Reply(text=LONG, fault="error_event", error_type="server_error"), "server", True, None),
    ],
)
async def test_errors_of_openai(reply: Reply, kind: str, retryable: bool, after: float | None) -> None:
    async with ModelServer([reply]) as server:
        error = await failure(LiteLLMProvider("openai"), request(model="m", env=openai_env(server)))
    assert (error.kind, error.retryable, error.retry_after_s) == (kind, retryable, after)
    assert len(server.requests) == 1, "litellm must not retry by itself"


async def test_new_openai_models_work_over_the_responses_api() -> None:
    """OpenAI refuses tools for them in chat completions; litellm then goes another way, which must work too."""
    replies = [
        Reply(text="I look.", tool_calls=(Call("read", {"file_path": "a"}), Call("read"))),
        Reply(text="done"),
    ]
    async with ModelServer(replies) as server:
        provider, env = LiteLLMProvider("openai"), openai_env(server)
        first = await complete(provider, request(*TALK, model="responses/gpt-6.1-sol", env=env))
        ids = [part.id for part in first.parts if isinstance(part, ToolCallPart)]
        talk = (*TALK, assistant(*first.parts), *(result(ident) for ident in ids))
        second = await complete(provider, request(*talk, model="responses/gpt-6.1-sol", env=env))
    assert [sent.wire for sent in server.requests] == ["responses", "responses"]
    assert first.stop_reason == "tool_use"
    assert len(ids) == 2
    outputs = [
        item["call_id"] for item in server.requests[1].json["input"] if item["type"] == "function_call_output"
    ]
    assert outputs == ids
    assert second.parts == (TextPart(text="done"),)


async def test_ollama_is_asked_for_a_context_that_holds_more_than_the_prompt() -> None:
    async with ModelServer(["hello"]) as server:
        await complete(
            LiteLLMProvider("ollama"), request(user("a"), model="qwen3:8b", env=ollama_env(server), tail="b")
        )
    sent = server.requests[0].json
    assert sent["options"]["num_ctx"] == 32_768
    assert sent["messages"][-1]["content"] == "a\n\nb"
    assert server.other == [], "litellm must not ask about the model: it blocks while it does"


async def test_ollama_says_what_is_wrong_with_a_model() -> None:
    async with ModelServer([Reply(status=400, error_message="m does not support tools")]) as server:
        error = await failure(LiteLLMProvider("ollama"), request(model="m", env=ollama_env(server)))
    assert error.kind == "bad_request"
    assert str(error).endswith("refused the request: m does not support tools")


async def test_invalid_calls_of_the_past_do_not_make_a_request_invalid(wire: Wire) -> None:
    talk = (
        *TALK,
        assistant(call("c1", "{broken"), call("c2", "[]", name="no.such tool")),
        result("c1"),
        result("c2"),
    )
    async with ModelServer(["fine"]) as server:
        await complete(wire.provider, wire.request(server, messages=talk))
    assert server.rejected == []


def test_litellm_neither_reads_the_workspace_nor_prints_nor_reaches_out(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_API_KEY=from-dot-env\nGOALWRIGHT_TEST=poisoned\n")
    code = (
        "import asyncio, os, sys; from daemon.provider.litellm import LiteLLMProvider, warm; warm();"
        "from tests.fakes.model_requests import failure, request;"
        "env = {'OPENAI_BASE_URL': 'http://127.0.0.1:9/v1'};"
        "asyncio.run(failure(LiteLLMProvider('openai'), request(model='x', env=env)));"
        "assert 'GOALWRIGHT_TEST' not in os.environ, 'the .env of the workspace was run';"
        "assert 'LITELLM_MODE' not in os.environ"
    )
    root = str(Path(__file__).resolve().parents[2])
    # A proxy that is not there: whoever asks the network for anything fails loudly.
    env = {**os.environ, "PYTHONPATH": root, "HTTPS_PROXY": "http://127.0.0.1:9"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env=env, timeout=100
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# --- the fake server as a process ---


async def test_the_fake_server_plays_a_script_file_as_a_process(
    tmp_path: Path, claude: AnthropicProvider
) -> None:
    script = tmp_path / "script.json"
    steps = [
        {
            "text": "in ${workspace}",
            "tool_calls": [{"name": "read", "input": {"file_path": "${workspace}/a"}}],
        },
        {"choices": [{"when": {"last_result": "found"}, "go": {"text": "yes"}}, {"go": {"text": "no"}}]},
    ]
    script.write_text(json.dumps({"name": "s", "turns": [steps, [{"text": "second turn"}]]}))
    server = Path(__file__).resolve().parents[1] / "fakes" / "model_server.py"
    command = [sys.executable, str(server), "--script", str(script), "--workspace", str(tmp_path)]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=tmp_path, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    async with asyncio.timeout(60):
        env = {
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": json.loads(await process.stdout.readline())["url"],
        }
        first = await complete(claude, request(*TALK, env=env, tail="## Current Plan"))
        assert first.parts[0] == TextPart(text=f"in {tmp_path.as_posix()}")
        ids = [part.id for part in first.parts if isinstance(part, ToolCallPart)]
        talk = (*TALK, assistant(*first.parts), result(ids[0], "found it"))
        second = await complete(claude, request(*talk, env=env, tail="## Current Plan"))
        assert second.parts == (TextPart(text="yes"),)
        third = await complete(claude, request(*talk, assistant(*second.parts), user("more"), env=env))
        assert third.parts == (TextPart(text="second turn"),)
        process.stdin.close()
        assert await process.wait() == 0
