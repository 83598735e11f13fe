"""Models of an attached editor, over the daemon's real door: the client plays VS Code, message by message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from daemon.model.messages import FilePart, TextPart, ToolCallPart, ToolResultPart, Usage
from daemon.provider import catalogue
from daemon.provider.context_windows import Windows
from daemon.provider.editor_models import EDITOR, EDITORS, EditorModels
from daemon.provider.model_calls import (
    Complete,
    ModelRequest,
    PromptMessage,
    ProviderError,
    ProviderEvent,
    Retry,
    SystemBlock,
    TextDelta,
    ToolSpec,
)
from daemon.provider.retry import with_retry
from daemon.provider.variables import is_provider_variable
from daemon.provider.vscode import VSCodeProvider
from tests.support.drivers.bridge import Door, Raw, RpcError, served
from tests.support.drivers.waiting import until

pytestmark = pytest.mark.asyncio

READ = ToolSpec("read", "Read a file.", {"type": "object", "properties": {}})
MODELS = [
    {"vendor": "copilot", "id": "gpt-x", "name": "GPT X", "maxInputTokens": 64_000, "tools": True},
    {"vendor": "copilot", "id": "no-tools", "name": "Small", "maxInputTokens": 8_000, "tools": False},
    {"vendor": "acme", "id": "big/one", "name": "", "maxInputTokens": 3},
]


@dataclass
class Window:
    """A client that says it is an editor with models, and what the daemon asked it."""

    client: Raw
    env: dict[str, str] = field(default_factory=dict[str, str])

    async def asked(self) -> dict[str, Any]:
        """The params of the next question for an answer."""
        while (message := await self.client.receive()).get("method") != "goalwright/editor/chat":
            pass
        params: dict[str, Any] = message["params"]
        return params

    async def say(self, chat: dict[str, Any], *pieces: dict[str, Any], end: object = None) -> bool:
        """Send pieces, and perhaps the ending; whether more is wanted."""
        params = {"chatId": chat["chatId"], "pieces": pieces, "ending": end}
        return bool((await self.client.request("goalwright/model/answer", params))["wanted"])

    async def list_models(self, result: object) -> None:
        """Answer the next question for the list."""
        while (message := await self.client.receive()).get("method") != "goalwright/editor/models":
            pass
        self.client.send({"jsonrpc": "2.0", "id": message["id"], "result": result})


@asynccontextmanager
async def window(door: Door) -> AsyncGenerator[Window]:
    """A window that attaches, and leaves at the end."""
    before = set(EDITORS._editors)  # pyright: ignore[reportPrivateUsage]
    client = await door.client("VS Code", languageModels=True)
    (own,) = set(EDITORS._editors) - before  # pyright: ignore[reportPrivateUsage]
    yield Window(client, {EDITOR: own})
    await client.close()
    await until(lambda: own not in EDITORS._editors, "the window has left")  # pyright: ignore[reportPrivateUsage]


def request(*messages: PromptMessage, model: str = "copilot/gpt-x", **more: Any) -> ModelRequest:
    asked = messages or (PromptMessage("user", (TextPart(text="hello"),)),)
    return ModelRequest(model, (SystemBlock("Be brief."),), asked, (READ,), **more)


async def played(provider: VSCodeProvider, wanted: ModelRequest) -> list[ProviderEvent]:
    return [event async for event in provider.stream(wanted)]


async def failed(provider: VSCodeProvider, wanted: ModelRequest) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await played(provider, wanted)
    return caught.value


async def ended_with(at: Window, code: str, message: str = "") -> ProviderError:
    """The error of a call that the window ends in this way."""
    call = asyncio.create_task(failed(VSCodeProvider(), request(env=at.env)))
    await at.say(await at.asked(), end={"error": code, "message": message})
    return await call


async def test_answer_streams_with_calls_and_counts() -> None:
    async with served() as door, window(door) as at:
        call = asyncio.create_task(played(VSCodeProvider(), request(tail="The plan.", env=at.env)))
        chat = await at.asked()
        assert chat["model"] == "copilot/gpt-x"
        assert chat["messages"] == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hello\n\nThe plan."},
        ]
        assert [tool["function"]["name"] for tool in chat["tools"]] == ["read"]
        assert await at.say(chat, {"reasoning": "hm"}, {"text": "I "})
        assert await at.say(
            chat, {"text": "look."}, {"callId": "c1", "callName": "read", "callInput": '{"a": 1}'}
        )
        assert await at.say(chat, {"callId": "c2", "callName": "read", "callInput": "{}"})
        assert not await at.say(chat, end={"inputTokens": 12, "outputTokens": 7})
        *events, complete = await call
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["I ", "look."]
    assert isinstance(complete, Complete)
    assert complete.stop_reason == "tool_use"
    assert complete.usage == Usage(input=12, output=7)
    assert complete.model == "vscode/copilot/gpt-x"
    calls = [part for part in complete.parts if isinstance(part, ToolCallPart)]
    assert [(part.id, part.input) for part in calls] == [("c1", '{"a": 1}'), ("c2", "{}")]


async def test_conversation_with_results_and_images_is_sent() -> None:
    image = FilePart(name="a.png", media_type="image/png", data="iVBO")
    messages = (
        PromptMessage("user", (image, TextPart(text="look"))),
        PromptMessage("assistant", (ToolCallPart(id="c1", name="read", input="{}"),)),
        PromptMessage("tool", (ToolResultPart(tool_call_id="c1", name="read", content="ja ✓"),)),
    )
    async with served() as door, window(door) as at:
        call = asyncio.create_task(played(VSCodeProvider(), request(*messages, env=at.env)))
        chat = await at.asked()
        await at.say(chat, {"text": "done"}, end={})
        complete = (await call)[-1]
    _, said, called, result = chat["messages"]
    assert said["content"][0]["image_url"]["url"] == "data:image/png;base64,iVBO"
    assert called["tool_calls"][0]["function"] == {"name": "read", "arguments": "{}"}
    assert result == {"role": "tool", "tool_call_id": "c1", "content": "ja ✓"}
    assert isinstance(complete, Complete)
    assert (complete.stop_reason, complete.usage.output) == ("end_turn", 1)  # estimated
    assert complete.usage.input > 0


async def test_stop_cancels_in_the_editor() -> None:
    async with served() as door, window(door) as at:
        stream = VSCodeProvider().stream(request(env=at.env))
        first = asyncio.ensure_future(anext(stream))
        chat = await at.asked()
        assert await at.say(chat, {"text": "I "})
        await first
        await stream.aclose()
        while (message := await at.client.receive()).get("method") != "goalwright/editor/chatCancel":
            pass
        assert message["params"] == {"chatId": chat["chatId"]}
        assert not await at.say(chat, {"text": "late"})


async def test_errors_say_what_to_do() -> None:
    async with served() as door, window(door) as at:
        cases = [
            ("NoPermissions", "", "auth", False, "Manage Language Model Access…"),
            ("NotFound", "", "bad_request", False, "enabled and signed in"),
            ("Blocked", "limit of the month", "rate_limit", False, "limit of the month"),
            ("OffTopic", "", "bad_request", False, "off-topic"),
            ("Failed", "Request Failed: 429 slow down", "rate_limit", True, "slow down"),
            (
                "Failed",
                "You have exceeded your premium requests quota",
                "rate_limit",
                False,
                "quota may be used up",
            ),
            ("Failed", "Error: 401 bad token", "auth", False, "Sign in to it"),
            ("Failed", "status 503", "overloaded", True, "status 503"),
            ("Failed", "net::ERR_CONNECTION_RESET", "network", True, "ERR_CONNECTION_RESET"),
            (
                "Failed",
                "prompt too long: context length is 4096",
                "overflow",
                False,
                "too long for the model",
            ),
            ("Failed", "", "bad_request", False, "The extension of vscode/copilot/gpt-x failed"),
        ]
        for code, message, kind, retryable, words in cases:
            error = await ended_with(at, code, message)
            assert (error.kind, error.retryable) == (kind, retryable), message
            assert words in str(error)
        assert (await ended_with(at, "Failed", "context length is 4096")).window == 4096


async def test_without_a_window_the_error_says_so() -> None:
    error = await failed(VSCodeProvider(EditorModels()), request())
    assert (error.kind, error.retryable) == ("bad_request", False)
    assert "Open the folder in VS Code" in str(error)


async def test_silence_ends_the_call() -> None:
    async with served() as door, window(door) as at:
        error = await failed(VSCodeProvider(silence_s=0.01), request(env=at.env))
    assert "does not answer" in str(error)


async def test_reloaded_window_gives_the_answer_again() -> None:
    async def at_once(_: float) -> None:
        pass

    async with served() as door:
        async with window(door) as first:
            retried = with_retry(VSCodeProvider(), request(env=first.env), sleep=at_once)
            events: list[ProviderEvent] = []

            async def play() -> None:
                events.extend([event async for event in retried])

            call = asyncio.create_task(play())
            await first.say(await first.asked(), {"text": "half"})
        async with window(door) as second:
            await second.say(await second.asked(), {"text": "whole"}, end={})
            await call
    assert [type(event) for event in events].count(Retry) == 1
    assert isinstance(events[-1], Complete)
    assert events[-1].parts == (TextPart(text="whole"),)


async def test_window_that_stays_away_ends_the_call() -> None:
    now = [0.0]
    editors = EditorModels(clock=lambda: now[0], return_s=5)
    async with served() as door, window(door):
        (editor,) = EDITORS._editors.values()  # pyright: ignore[reportPrivateUsage]
    editors.came(editor)
    chat = editors.begin(editor)
    editors.left(editor.id)
    with pytest.raises(ProviderError, match="has closed") as caught:
        _ = [item async for item in chat.items(1)]
    assert caught.value.retryable
    now[0] = 5.0
    assert await editors.awaited({}) is None


async def test_the_window_of_the_prompt_is_asked() -> None:
    async with served() as door, window(door) as one, window(door) as two:
        for at, other in ((two, one), (one, two)):
            call = asyncio.create_task(played(VSCodeProvider(), request(env=at.env)))
            chat = await at.asked()
            assert not await other.say(chat, {"text": "I was not asked"})
            await at.say(chat, {"text": "mine"}, end={})
            complete = (await call)[-1]
            assert isinstance(complete, Complete)
            assert complete.parts == (TextPart(text="mine"),)


async def test_pieces_are_limited() -> None:
    async with served() as door, window(door) as at:
        stream = VSCodeProvider().stream(request(env=at.env))
        first = asyncio.ensure_future(anext(stream))
        chat = await at.asked()
        large = {"text": "x" * 4_000_001}
        with pytest.raises(RpcError, match="at most 4000000"):
            await at.say(chat, large)
        await at.say(chat, {"text": "a"})
        await first
        # Nothing reads any more.
        part = {"text": "x" * 3_900_000}
        await at.say(chat, part)
        await at.say(chat, part)
        with pytest.raises(RpcError, match="too much of the answer"):
            await at.say(chat, part)
        await stream.aclose()


async def test_models_are_listed_with_windows() -> None:
    async with served() as door, window(door) as at:
        listing = asyncio.create_task(catalogue.providers(at.env, "vscode"))
        await at.list_models({"models": [*MODELS, {"vendor": "x", "id": "bad\nname"}]})
        [found] = await listing
        assert found.connected
        shown = [
            (one.model, one.label, one.window, one.window_assumed, one.input_price) for one in found.models
        ]
        assert shown == [
            ("vscode/copilot/gpt-x", "GPT X", 64_000, False, None),
            ("vscode/acme/big/one", "", 128_000, True, None),
        ]
        checking = asyncio.create_task(catalogue.check("vscode/copilot/gpt-y", at.env))
        await at.list_models({"models": MODELS})
        assert "Similar: vscode/copilot/gpt-x" in await checking
        windows = Windows()
        windows.ask_window("vscode/copilot/gpt-x", at.env)
        await at.list_models({"models": MODELS})
        await until(lambda: windows.window("vscode/copilot/gpt-x", {}) == 64_000, "the window")
        assert not windows.window_is_assumed("vscode/copilot/gpt-x", {})


@pytest.mark.parametrize("result", [None, [], {"models": 3}, {"models": [{"vendor": 1}]}])
async def test_invalid_list_of_models_is_none(result: object) -> None:
    async with served() as door, window(door) as at:
        listing = asyncio.create_task(catalogue.providers(at.env, "vscode"))
        await at.list_models(result)
        [found] = await listing
    assert (found.connected, found.models) == (False, ())


async def test_clients_cannot_name_an_editor() -> None:
    assert not is_provider_variable(EDITOR)
