"""Redirects of model servers, and answers without an end."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from urllib.parse import urljoin

import httpx
import pytest

from daemon.model.messages import ReasoningPart, TextPart, ToolCallPart, Usage
from daemon.provider import answer_guard
from daemon.provider.answer_guard import (
    Allowance,
    AnswerTooLongError,
    RedirectRefusedError,
    causes,
    check_redirect,
    cut_at_limit,
    guard_all,
)
from daemon.provider.model_calls import (
    Complete,
    PartStop,
    ProviderEvent,
    ReasoningDelta,
    Retry,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)
from tests.support.scenarios.model_requests import collect, request


@pytest.mark.parametrize(
    "location",
    [
        "https://other.example/v1",
        "http://api.example/v1",
        "https://api.example:8443/v1",
        "//other.example/v1",
        "https://api.example@other.example/",
        "https://api.example:x/",
        "https://sub.api.example/v1",
    ],
)
def test_a_redirect_to_another_origin_is_refused(location: str) -> None:
    with pytest.raises(RedirectRefusedError, match="redirects to another server"):
        check_redirect("https://api.example/v1/messages", location)


@pytest.mark.parametrize("location", ["/v2", "v2", "https://api.example/x", "https://API.example:443/x"])
def test_a_redirect_to_the_same_origin_is_followed(location: str) -> None:
    url = "https://api.example/v1/messages"
    assert check_redirect(url, location) == urljoin(url, location)


def test_credentials_in_a_redirect_url_are_not_echoed() -> None:
    with pytest.raises(RedirectRefusedError) as refused:
        check_redirect("https://me:pw@api.example/", "https://me:pw@other.example/?key=1")
    assert "pw" not in str(refused.value)
    assert "key=1" not in str(refused.value)


class _Endless(httpx.AsyncByteStream):
    async def __aiter__(self) -> AsyncGenerator[bytes]:
        while True:
            yield b"x" * 1000


async def test_the_bytes_of_an_answer_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        class AsyncClient(httpx.AsyncClient):
            """One that no other test sees guarded."""

        class Client(httpx.Client):
            """Another one that no other test sees guarded."""

    monkeypatch.setattr(answer_guard, "MAX_BYTES", 10_000)
    guard_all(Library)
    guard_all(Library)  # not twice
    transport = httpx.MockTransport(lambda _: httpx.Response(200, stream=_Endless()))
    async with Library.AsyncClient(transport=transport) as client:
        assert len(client.event_hooks["response"]) == 1
        with pytest.raises(AnswerTooLongError, match="cut off"):
            await client.post("http://model.example/")
    hops = httpx.MockTransport(lambda _: httpx.Response(307, headers={"location": "http://other.example/"}))
    with Library.Client(transport=hops, follow_redirects=True) as client, pytest.raises(RedirectRefusedError):
        client.post("http://model.example/", headers={"x-api-key": "secret"})


@pytest.mark.parametrize("size", [1, 7, 60, 1_000])
@pytest.mark.parametrize(
    ("text", "events", "passes"),
    [
        (b"data: " + b"a" * 200, True, False),
        (b"data: " + b"a" * 80 + b"\n" + b"data: " + b"b" * 80, True, False),
        (b"data: " + b"a" * 80 + b"\n" + b"data: " + b"b" * 80, False, True),
        ((b"data: " + b"a" * 80 + b"\n\n") * 9, True, True),
        ((b"data: " + b"a" * 80 + b"\r\n\r\n") * 9, True, True),
        ((b"data: " + b"a" * 80 + b"\r\r") * 9, True, True),
        ((b"{" + b"a" * 80 + b"}\n") * 9, False, True),
        (b"{}\n" * 9 + b"{" + b"a" * 200, False, False),
    ],
)
def test_an_event_of_an_answer_has_a_limit(
    monkeypatch: pytest.MonkeyPatch, text: bytes, events: bool, passes: bool, size: int
) -> None:
    monkeypatch.setattr(answer_guard, "MAX_EVENT_BYTES", 100)
    allowance = Allowance(events=events)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    if passes:
        assert b"".join(map(allowance.take, pieces)) == text
    else:
        with pytest.raises(AnswerTooLongError, match="a single event"):
            list(map(allowance.take, pieces))


def test_redirect_refusal_is_found_behind_sdk_exceptions() -> None:
    try:
        try:
            raise RedirectRefusedError("no")
        except RedirectRefusedError as inner:
            raise ValueError("Connection error.") from inner
    except ValueError as outer:
        assert [str(error) for error in causes(outer) if isinstance(error, RedirectRefusedError)] == ["no"]


async def _stream(*events: ProviderEvent) -> AsyncGenerator[ProviderEvent, None]:
    for event in events:
        yield event


async def test_answer_longer_than_requested_is_truncated_and_reported() -> None:
    pieces = [TextDelta(1, "y" * 100) for _ in range(1_000)]
    events = _stream(
        ReasoningDelta(0, "hm"), PartStop(0, ReasoningPart(text="hm")), *pieces, ToolCallStart(2, "c", "read")
    )
    got = await collect(cut_at_limit(events, request(max_tokens=2_000)))
    end = got[-1]
    assert isinstance(end, Complete)
    assert end.stop_reason == "max_tokens"
    assert "was cut off after 32,000 characters" in end.detail
    assert end.parts == (ReasoningPart(text="hm"), TextPart(text="y" * 31_998))
    assert got[-2] == PartStop(1, TextPart(text="y" * 31_998))


async def test_endless_call_is_truncated_and_left_unfinished() -> None:
    pieces = [ToolCallDelta(0, "c", "[" * 1_000) for _ in range(100)]
    got = await collect(
        cut_at_limit(_stream(ToolCallStart(0, "c", "read"), *pieces), request(max_tokens=100))
    )
    end = got[-1]
    assert isinstance(end, Complete)
    (call,) = end.parts
    assert isinstance(call, ToolCallPart)
    assert not call.finished


async def test_ordinary_answer_passes_unchanged_and_retry_resets_count() -> None:
    part = TextPart(text="z" * 10_000)
    events = [
        TextDelta(0, "z" * 10_000),
        Retry(1, 1.0, "the response was not valid"),
        TextDelta(0, "z" * 10_000),
        PartStop(0, part),
        Complete((part,), "end_turn", Usage(input=1), "m"),
    ]
    assert await collect(cut_at_limit(_stream(*events), request(max_tokens=100))) == events
