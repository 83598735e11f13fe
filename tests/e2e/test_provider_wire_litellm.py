"""litellm against a fake model server: OpenAI, servers that imitate it, and Ollama."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from daemon.model.messages import FilePart, ReasoningPart, TextPart, ToolCallPart, Usage
from daemon.provider.litellm import LiteLLMProvider
from tests.support.fakes.model_replies import Call, Reply
from tests.support.fakes.model_server import ModelServer
from tests.support.scenarios.model_requests import (
    KEY,
    assistant,
    complete,
    failure,
    ollama_env,
    openai_env,
    request,
    result,
    user,
)

# litellm and the pydantic of today; outside of pytest nobody sees them.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Accessing the 'model_:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning"),
]

LONG = "abc " * 30
TALK = (user("look at a.py"),)


async def test_openai_request_has_the_form_the_api_expects() -> None:
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


async def test_an_answer_of_equal_pieces_is_an_answer() -> None:
    async with ModelServer([Reply(text="=" * 400, chunk=1)] * 2) as server:
        for provider, env in (
            (LiteLLMProvider("openai"), openai_env),
            (LiteLLMProvider("ollama"), ollama_env),
        ):
            end = await complete(provider, request(model="m", env=env(server)))
            assert end.parts == (TextPart(text="=" * 400),)


async def test_an_unknown_provider_is_not_asked_for_the_key_of() -> None:
    error = await failure(LiteLLMProvider(), request(model="foo/bar"))
    assert (error.kind, error.retryable) == ("bad_request", False)
    assert str(error).startswith(
        "There is no model provider 'foo'. Write provider/model, for example "
        "anthropic/claude-sonnet-5-5, openai/gpt-6.1-sol or ollama/qwen3-coder."
    )
    error = await failure(LiteLLMProvider(), request(model="groq/some-model"))
    assert (error.kind, str(error)) == (
        "no_key",
        "No key for groq. Connect it in VS Code, set GROQ_API_KEY, or choose another model.",
    )


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
        (
            Reply(status=400, error_type="invalid_request_error", error_message="[" * 5_000),
            "bad_request",
            False,
            None,
        ),
        (Reply(status=503, error_type="server_error"), "overloaded", True, None),
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


async def test_ollama_context_size_leaves_room_beyond_the_prompt() -> None:
    async with ModelServer(["hello"]) as server:
        await complete(
            LiteLLMProvider("ollama"), request(user("a"), model="qwen3:8b", env=ollama_env(server), tail="b")
        )
    sent = server.requests[0].json
    assert sent["options"]["num_ctx"] == 32_768
    assert sent["messages"][-1]["content"] == "a\n\nb"
    assert server.other == [], "litellm must not ask about the model: it blocks while it does"


async def test_ollama_error_message_is_passed_on() -> None:
    async with ModelServer([Reply(status=400, error_message="m does not support tools")]) as server:
        error = await failure(LiteLLMProvider("ollama"), request(model="m", env=ollama_env(server)))
    assert error.kind == "bad_request"
    assert str(error).endswith("rejected the request: m does not support tools")


def test_litellm_reads_no_dotenv_prints_nothing_uses_no_network(tmp_path: Path) -> None:
    """Its import is also no part of a call's time limit, which is none at all here."""
    (tmp_path / ".env").write_text("OPENAI_API_KEY=from-dot-env\nGOALWRIGHT_TEST=poisoned\n")
    code = """
import asyncio, contextlib, os
from daemon.provider import litellm
from daemon.provider.catalogue import answer_of
from daemon.provider.model_calls import ProviderError
from tests.support.scenarios.model_requests import failure, request

env = {"OPENAI_API_BASE": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "k"}

async def ask():
    with contextlib.suppress(ProviderError):
        await answer_of("openai/x", env, "task", "text", max_tokens=9, timeout_s=0)
    assert litellm._loaded, "the time limit ended the import"

asyncio.run(ask())
asyncio.run(failure(litellm.LiteLLMProvider("openai"), request(model="x", env=env)))
assert "GOALWRIGHT_TEST" not in os.environ, "the .env of the workspace was run"
assert "LITELLM_MODE" not in os.environ
"""
    root = str(Path(__file__).resolve().parents[2])
    # A proxy that is not there: whoever asks the network for anything fails loudly.
    env = {**os.environ, "PYTHONPATH": root, "HTTPS_PROXY": "http://127.0.0.1:9"}
    # Python itself tells of the call that was ended before it began.
    command = [sys.executable, "-W", "ignore:coroutine 'OpenAIChatCompletion", "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env=env, timeout=100
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
