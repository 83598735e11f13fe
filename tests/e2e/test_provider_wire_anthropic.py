"""The Anthropic SDK against a fake model server: requests, thinking, caching, errors."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from daemon.model.messages import ReasoningPart, TextPart, ToolCallPart, Usage
from daemon.provider.anthropic import AnthropicProvider
from tests.support.fakes.model_replies import Call, Reply
from tests.support.fakes.model_server import ModelServer
from tests.support.scenarios.model_requests import (
    KEY,
    anthropic_env,
    assistant,
    complete,
    failure,
    request,
    result,
    thought,
    user,
)

LONG = "abc " * 30
TALK = (user("look at a.py"),)


@pytest.fixture
async def claude() -> AsyncIterator[AnthropicProvider]:
    provider = AnthropicProvider()
    yield provider
    await provider.aclose()


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
    # The tools come before the system prompt, whose breakpoint covers them.
    assert "cache_control" not in sent.json["tools"][-1]
    assert sent.json["system"][-1]["cache_control"] == {"type": "ephemeral"}
    assert sent.headers["x-api-key"] == KEY


async def test_an_address_with_a_password_signs_in_at_the_gateway(claude: AnthropicProvider) -> None:
    async with ModelServer(["hello"], api_key=KEY) as server:
        env = {**anthropic_env(server), "ANTHROPIC_BASE_URL": server.url.replace("://", "://me:secret@")}
        await complete(claude, request(user("hi"), env=env))
    sent = server.requests[0].headers
    assert sent["x-api-key"] == KEY
    assert sent["authorization"] == f"Basic {b64encode(b'me:secret').decode()}"


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
    assert len(server.requests) == 1, "the provider must not retry by itself"


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
    server = Path(__file__).resolve().parents[1] / "support" / "fakes" / "model_server.py"
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
