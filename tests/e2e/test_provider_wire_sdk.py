"""Our wire beside the Anthropic SDK's: the same requests, the same reading of answers, the same sign-in."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from daemon.model.messages import ReasoningPart, TextPart, ToolCallPart
from daemon.provider import anthropic_wire
from daemon.provider.anthropic import AnthropicProvider
from daemon.provider.model_calls import Complete, ModelRequest
from tests.support.fakes.model_replies import Call, Reply
from tests.support.fakes.model_server import ModelServer
from tests.support.scenarios.model_requests import (
    KEY,
    anthropic_env,
    assistant,
    call,
    complete,
    failure,
    request,
    result,
    thought,
    user,
)

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from anthropic.types import Message

TALK = (
    user("look at ä.py"),
    assistant(thought("Hm."), "I look.", call("toolu_1", '{"file_path": "ä.py"}')),
    result("toolu_1", "no such file", is_error=True),
    user("then b.py"),
)
REPLIES = [
    Reply(text="grüße 世界 🎈", split=3),
    Reply(reasoning="Why?", redacted="opaque", text="So.", tool_calls=(Call("read", {"file_path": "b.py"}),)),
    Reply(tool_calls=(Call("read"), Call("read", {"file_path": "ä"})), chunk=1),
    Reply(text="cut", stop_reason="max_tokens"),
    Reply(text="x" * 200, fault="unknown_events"),
]


@pytest.fixture
async def claude() -> AsyncIterator[AnthropicProvider]:
    provider = AnthropicProvider()
    yield provider
    await provider.aclose()


def the_sdk(**settings: Any) -> AsyncAnthropic:
    """A client of the SDK, whose import takes seconds: every process that collects the tests would do it."""
    from anthropic import AsyncAnthropic

    return AsyncAnthropic(api_key=KEY, **settings)


async def by_the_sdk(server: ModelServer, wanted: ModelRequest) -> Message:
    """Send the same request by the SDK, and return the message that it assembles."""
    async with the_sdk(base_url=server.url, max_retries=0) as client:
        wanted_body = anthropic_wire.build(wanted)
        arguments: Any = dict(wanted_body)
        temperature = {"temperature": arguments.pop("temperature")} if "temperature" in arguments else None
        headers = {"anthropic-version": anthropic_wire.version_for(wanted_body)}
        async with client.messages.stream(
            **arguments, extra_body=temperature, extra_headers=headers
        ) as stream:
            return await stream.get_final_message()


def read_by_the_sdk(message: Message) -> list[object]:
    """The blocks of a message of the SDK as our parts."""
    parts: list[object] = []
    for block in message.content:
        if block.type == "text":
            parts.append(TextPart(text=block.text))
        elif block.type == "thinking":
            parts.append(ReasoningPart(text=block.thinking, signature=block.signature))
        elif block.type == "redacted_thinking":
            parts.append(ReasoningPart(text="", redacted=block.data))
        elif block.type == "tool_use":
            parts.append((block.id, block.name, block.input))
    return parts


def read_by_us(end: Complete) -> list[object]:
    return [(p.id, p.name, p.arguments()) if isinstance(p, ToolCallPart) else p for p in end.parts]


@pytest.mark.parametrize("reply", REPLIES, ids=range(len(REPLIES)))
async def test_an_answer_means_the_same(claude: AnthropicProvider, reply: Reply) -> None:
    # A server each: it counts requests, and knows which prefix it has seen.
    async with ModelServer([reply]) as server, ModelServer([reply]) as other:
        wanted = request(*TALK, env=anthropic_env(server), thinking_tokens=8000)
        ours, sdk = await complete(claude, wanted), await by_the_sdk(other, wanted)
    assert read_by_us(ours) == read_by_the_sdk(sdk)
    usage = sdk.usage
    assert (ours.usage.input, ours.usage.output) == (usage.input_tokens, usage.output_tokens)
    assert (ours.usage.cache_read, ours.usage.cache_write) == (
        usage.cache_read_input_tokens or 0,
        usage.cache_creation_input_tokens or 0,
    )


@pytest.mark.parametrize(
    "fields", [{}, {"thinking_tokens": 8000}, {"model": "claude-sonnet-4-6", "temperature": 0.5}]
)
async def test_a_request_is_the_same(claude: AnthropicProvider, fields: dict[str, Any]) -> None:
    async with ModelServer(["a", "b"]) as server:
        wanted = request(*TALK, env=anthropic_env(server), **fields)
        await complete(claude, wanted)
        await by_the_sdk(server, wanted)
        ours, sdk = server.requests
    assert ours.json == sdk.json
    assert ours.headers["authorization"] == sdk.headers["authorization"]
    assert the_sdk().default_headers["anthropic-version"] == anthropic_wire.VERSION


def profile(folder: Path, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile whose token is written by somebody else, as a sign-in leaves it."""
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(folder))
    for name in ("configs", "credentials"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    config = {"authentication": {"type": "user_oauth"}, "workspace_id": "wrkspc_1"}
    (folder / "configs" / "work.json").write_text(json.dumps(config))
    secret = folder / "credentials" / "work.json"
    secret.write_text(json.dumps({"access_token": token, "expires_at": 4_000_000_000}))
    secret.chmod(0o600)


async def test_a_profile_signs_in_and_again_when_its_token_is_refused(
    claude: AnthropicProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ModelServer(["a", "b"], api_key="token-of-tomorrow") as server:
        env = {"ANTHROPIC_PROFILE": "work", "ANTHROPIC_BASE_URL": server.url}
        profile(tmp_path, "token-of-yesterday", monkeypatch)
        error = await failure(claude, request(env=env))
        assert (error.kind, "Check ANTHROPIC_PROFILE" in str(error)) == ("auth", True)
        assert "yesterday" not in str(error)
        profile(tmp_path, "token-of-tomorrow", monkeypatch)
        await complete(claude, request(env=env))
    headers = server.requests[-1].headers
    assert headers["authorization"] == "Bearer token-of-tomorrow"
    assert (headers["anthropic-workspace-id"], headers["anthropic-beta"]) == ("wrkspc_1", "oauth-2025-04-20")


async def test_a_profile_that_is_not_there_is_named(
    claude: AnthropicProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    error = await failure(claude, request(env={"ANTHROPIC_PROFILE": "none-such"}))
    assert (error.kind, error.retryable) == ("auth", False)
    assert "The profile none-such (ANTHROPIC_PROFILE) cannot sign in" in str(error)
