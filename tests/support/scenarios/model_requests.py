"""Short ways to write model requests, and to play them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from daemon.model.messages import FilePart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from daemon.provider.model_calls import (
    Complete,
    ModelRequest,
    PromptMessage,
    Provider,
    ProviderError,
    ProviderEvent,
    SystemBlock,
    ToolSpec,
)
from tests.support.fakes.model_server import ModelServer

KEY = "sk-test-0123456789"
READ = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"file_path": {"type": "string"}}})


def user(*content: str | FilePart) -> PromptMessage:
    """Return a message of the user."""
    return PromptMessage("user", tuple(TextPart(text=c) if isinstance(c, str) else c for c in content))


def assistant(*content: str | Part) -> PromptMessage:
    """Return a message of the model."""
    return PromptMessage("assistant", tuple(TextPart(text=c) if isinstance(c, str) else c for c in content))


def thought(text: str, signature: str | None = "sig") -> ReasoningPart:
    """Reasoning of the model."""
    return ReasoningPart(text=text, signature=signature)


def call(ident: str, arguments: str = "{}", name: str = "read") -> ToolCallPart:
    """A tool call."""
    return ToolCallPart(id=ident, name=name, input=arguments)


def result(ident: str, content: str = "ok", **fields: Any) -> PromptMessage:
    """A tool's answer."""
    return PromptMessage(
        "tool", (ToolResultPart(tool_call_id=ident, name="read", content=content, **fields),)
    )


def request(*messages: PromptMessage, env: dict[str, str] | None = None, **fields: Any) -> ModelRequest:
    """A request with one system block and one tool, unless told otherwise."""
    given: dict[str, Any] = {"model": "claude-sonnet-5-5", "tools": (READ,)}
    given["system"] = (SystemBlock("You are a test.", cache=True),)
    return ModelRequest(**{**given, **fields}, messages=messages or (user("hello"),), env=env or {})


async def collect(events: AsyncIterator[ProviderEvent]) -> list[ProviderEvent]:
    """All events."""
    return [event async for event in events]


async def complete(provider: Provider, wanted: ModelRequest) -> Complete:
    """The end of a call that is to succeed."""
    last = (await collect(provider.stream(wanted)))[-1]
    assert isinstance(last, Complete)
    return last


async def failure(provider: Provider, wanted: ModelRequest) -> ProviderError:
    """The error of a call that is to fail."""
    try:
        events = await collect(provider.stream(wanted))
    except ProviderError as error:
        return error
    raise AssertionError(f"it did not fail: {events[-1]}")


def anthropic_env(server: ModelServer, key: str = KEY) -> dict[str, str]:
    """Return variables that lead the Anthropic SDK to the fake server."""
    return {"ANTHROPIC_API_KEY": key, "ANTHROPIC_BASE_URL": server.url}


def openai_env(server: ModelServer, key: str = KEY) -> dict[str, str]:
    """Return variables that lead OpenAI clients to the fake server."""
    return {"OPENAI_API_KEY": key, "OPENAI_BASE_URL": f"{server.url}/v1"}


def ollama_env(server: ModelServer) -> dict[str, str]:
    """Return variables that lead Ollama clients to the fake server."""
    return {"OLLAMA_HOST": server.url}
