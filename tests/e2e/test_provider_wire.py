"""The real SDKs against a fake model server: what holds for every provider."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from daemon.model.messages import TextPart, ToolCallPart
from daemon.provider.anthropic import AnthropicProvider
from daemon.provider.litellm import LiteLLMProvider
from daemon.provider.model_calls import Complete, ModelRequest, PartStop, Provider, TextDelta
from daemon.provider.models import ProviderModels
from tests.support.drivers.waiting import until
from tests.support.fakes.model_replies import Call, Reply
from tests.support.fakes.model_server import ModelServer
from tests.support.scenarios.model_requests import (
    KEY,
    anthropic_env,
    assistant,
    call,
    collect,
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
        return request(*messages, env=envs[self.name](server), model=models[self.name], **fields)


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
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "I read both."
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
async def test_stream_chunks_of_any_size_are_joined(wire: Wire, size: int) -> None:
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
async def test_broken_stream_is_malformed_and_retryable(wire: Wire, fault: Any) -> None:
    async with ModelServer([Reply(text=LONG, fault=fault, fault_after=2)]) as server:
        error = await failure(wire.provider, wire.request(server))
    assert (error.kind, error.retryable) in (("malformed", True), ("network", True))
    if fault == "truncate":
        assert error.kind == "malformed"


async def test_server_error_is_retryable(wire: Wire) -> None:
    async with ModelServer([Reply(status=500, error_message="out of order")]) as server:
        error = await failure(wire.provider, wire.request(server))
    assert (error.kind, error.retryable) == ("server", True)
    assert "out of order" in str(error)


async def test_unknown_model_error_suggests_another_model(wire: Wire) -> None:
    reply = Reply(status=404, error_type="not_found_error", error_message="model: none such")
    async with ModelServer([reply]) as server:
        error = await failure(wire.provider, wire.request(server))
    assert (error.kind, error.retryable) == ("bad_request", False)
    assert "Choose another" in str(error)


async def test_unreachable_server_error_names_the_address() -> None:
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


async def test_half_a_character_in_the_past_is_replaced(wire: Wire) -> None:
    half = ToolCallPart(id="toolu_1", name="read", input='{"file_path": "a\\ud800.py", "\\udfff": [1]}')
    talk = (user("hi"), assistant("cut \ud83d", half), result("toolu_1", "\udc00 no such file"))
    async with ModelServer(["ok"]) as server:
        await complete(wire.provider, wire.request(server, messages=talk))
        (sent,) = server.requests
    text = json.dumps(sent.json, ensure_ascii=False)
    assert "a\ufffd.py" in text
    assert text.encode()  # UTF-8 holds all of it


async def test_redirect_to_another_server_sends_it_nothing(wire: Wire) -> None:
    async with ModelServer() as other:
        away = Reply(status=307, headers={"location": f"{other.url}/v1/messages?x=1"})
        async with ModelServer([away]) as server:
            error = await failure(wire.provider, wire.request(server))
        assert (other.connections, other.requests) == (0, [])
    assert f"redirects to another server ({other.url})" in str(error)
    assert (
        "The redirect was not followed, because that server would receive your key and the conversation."
    ) in str(error)
    assert not error.retryable


async def test_a_redirect_within_a_server_is_followed(wire: Wire) -> None:
    talk = [
        user("hi"),
        *(one for n in range(300) for one in (assistant(f"{n}: {'é' * 600}"), user(f"on, {n}"))),
    ]
    async with ModelServer([]) as server:
        paths = {"anthropic": "/v1/messages", "openai": "/v1/chat/completions", "ollama": "/api/chat"}
        replies = iter([Reply(status=307, headers={"location": paths[wire.name]}), Reply(text="here")])
        server.choose = lambda request, wire: next(replies)
        end = await complete(wire.provider, wire.request(server, messages=tuple(talk)))
    first, second = server.requests
    assert first.json == second.json
    assert len(first.json["messages"]) >= len(talk)
    assert end.parts == (TextPart(text="here"),)


async def test_endless_answer_is_truncated_and_reported_as_max_tokens(wire: Wire) -> None:
    models = ProviderModels()
    async with ModelServer([Reply(text="word " * 100_000, chunk=2_000)]) as server:
        wanted = wire.request(server, max_tokens=1_000)
        events = await collect(models.stream(f"{wire.name}/{wanted.model}", wanted))
        end = events[-1]
        assert isinstance(end, Complete)
        assert (end.stop_reason, len(end.parts)) == ("max_tokens", 1)
        assert "was cut off after 16,000 characters" in end.detail
    await models.aclose()


@pytest.mark.timeout(100)  # the SDKs took minutes
async def test_an_event_that_does_not_end_is_an_error(wire: Wire) -> None:
    async with ModelServer([Reply(text="a few words", fault="long_event", fault_after=2)]) as server:
        error = await failure(wire.provider, wire.request(server))
    assert (error.kind, error.retryable) == ("bad_request", False)
    assert "a single event in it is larger than 8 MB." in str(error)


async def test_missing_key_sends_no_request() -> None:
    for provider, name in (
        (AnthropicProvider(), "ANTHROPIC_API_KEY"),
        (LiteLLMProvider("openai"), "OPENAI_API_KEY"),
    ):
        error = await failure(provider, request())
        assert (error.kind, error.retryable) == ("no_key", False)
        assert f"set {name}, or choose another model" in str(error)


@pytest.mark.parametrize("url", ["notaurl", "ftp://x", "http://", "http://h:port", "http://[::1"])
async def test_invalid_base_url_is_reported_and_not_used(claude: AnthropicProvider, url: str) -> None:
    for provider, name, key, model in (
        (claude, "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "m"),
        (LiteLLMProvider("openai"), "OPENAI_BASE_URL", "OPENAI_API_KEY", "m"),
        (LiteLLMProvider("openai"), "OPENAI_API_BASE", "OPENAI_API_KEY", "m"),
        (LiteLLMProvider(), "GROQ_API_BASE", "GROQ_API_KEY", "groq/m"),
    ):
        error = await failure(provider, request(model=model, env={name: url, key: KEY}))
        assert (error.kind, error.retryable) == ("bad_request", False)
        assert str(error) == f"{name} is not a web address: it must look like https://api.example.com."


async def test_process_environment_is_not_used_for_keys(
    monkeypatch: pytest.MonkeyPatch, claude: AnthropicProvider
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    assert (await failure(claude, request())).kind == "no_key"
    assert (await failure(LiteLLMProvider("openai"), request())).kind == "no_key"


async def test_wrong_key_error_names_its_variable_but_not_its_value(claude: AnthropicProvider) -> None:
    wrong = "sk-wrong-9876543210"
    async with ModelServer(["never"], api_key=KEY) as server:
        first = await failure(claude, request(env=anthropic_env(server, wrong)))
        second = await failure(LiteLLMProvider("openai"), request(model="x", env=openai_env(server, wrong)))
    for error, name in ((first, "ANTHROPIC_API_KEY"), (second, "OPENAI_API_KEY")):
        assert (error.kind, error.retryable) == ("auth", False)
        assert f"127.0.0.1:{server.url.rpartition(':')[2]} rejected the API key. Check {name}" in str(error)
        assert wrong not in str(error)
        assert wrong not in repr(error)


async def test_a_token_instead_of_a_key(claude: AnthropicProvider) -> None:
    async with ModelServer(["hello"], api_key="token-123456") as server:
        env = {"ANTHROPIC_AUTH_TOKEN": "token-123456", "ANTHROPIC_BASE_URL": server.url}
        await complete(claude, request(env=env))
    assert server.requests[0].headers["authorization"] == "Bearer token-123456"
    assert "x-api-key" not in server.requests[0].headers
