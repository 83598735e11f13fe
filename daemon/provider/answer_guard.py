"""Check what model servers answer: where they redirect to, and how much they send.

The SDKs follow redirects, and httpx takes no header away but ``Authorization`` and ``Cookie``
(https://github.com/openai/openai-python/issues/3516), so the key and the conversation would go to wherever a server
points. And the SDKs read answers of any length into memory. Both are checked by a response hook, which httpx and httpx2
call before a redirect is followed and before the body is read.
"""

from __future__ import annotations

import functools
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urljoin, urlsplit

from msgspec.structs import replace

from daemon.model.messages import Usage
from daemon.provider.model_calls import (
    Complete,
    ModelRequest,
    ProviderError,
    ProviderEvents,
    ReasoningDelta,
    Restart,
    Retry,
    TextDelta,
    ToolCallDelta,
)
from daemon.provider.partial_answer import PartialAnswer
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

MAX_BYTES = 64_000_000
"""Most bytes of one answer on the wire. Each token of an answer comes in an event of its own, of 100 to 400 bytes."""
MAX_EVENT_BYTES = 8_000_000
"""Most bytes of one event, or one line, on the wire: the SDKs assemble an event in quadratic time, so an endless one
would keep them busy for minutes. A whole answer in a single event has less than 2 MB."""
LETTERS_A_TOKEN = 16
"""An answer with more characters than this for each token that was asked for is cut. Code has 3 to 4 a token, and only
long runs of blanks have more than 10."""
_LEAST_LETTERS = 16_000
_PORTS = {"http": 80, "https": 443}


class AnswerRefusedError(Exception):
    """Raised for a server's answer that is rejected; the text says why, without secrets."""


class RedirectRefusedError(AnswerRefusedError):
    """A server points to another origin."""


class AnswerTooLongError(AnswerRefusedError):
    """An answer has more than MAX_BYTES, or an event of it more than MAX_EVENT_BYTES."""


def causes(error: BaseException | None) -> list[BaseException]:
    """Return an error and what it was caused by: SDKs wrap what hooks raise."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def provider_error(refusal: AnswerRefusedError) -> ProviderError:
    """Return the rejection as an error for the user. Trying again would end the same way."""
    return ProviderError("bad_request", str(refusal))


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port: the origin that a key belongs to."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(scheme)


def location_in(status: int, headers: Mapping[str, str]) -> str | None:
    """Return the address that an answer redirects to; None for any other answer."""
    return headers.get("location") if 300 <= status < 400 else None


def check_redirect(url: str, location: str) -> str:
    """Return where the answer of ``url`` points to. Raises RedirectRefusedError for another origin."""
    target = urljoin(url, location)
    try:
        same = origin_of(target) == origin_of(url)
    except ValueError:  # the port is no number, or an IPv6 address is incomplete
        same = False
    if not same:
        parts = urlsplit(target)
        here, there = urlsplit(url).netloc.rpartition("@")[2], parts.netloc.rpartition("@")[2]
        raise RedirectRefusedError(
            t(
                "{here} redirects to another server ({scheme}://{there}). The redirect was not followed, "
                "because that server would receive your key and the conversation. If you trust it, set its "
                "address as the base URL.",
                here=here,
                scheme=parts.scheme,
                there=there,
            )
        )
    return target


async def guard_async(response: Any) -> None:
    """A response hook of ``AsyncClient``. Any: httpx and httpx2 have a class each, with the same attributes."""
    guard_sync(response)


def guard_sync(response: Any) -> None:
    """A response hook of ``Client``."""
    if location := location_in(response.status_code, response.headers):
        check_redirect(str(response.request.url), location)
    # The SDKs look for events in everything that a server calls its stream, except JSON lines.
    events = "json" not in response.headers.get("content-type", "").lower()
    limited = _limited_kind(cast("type[Any]", type(response.stream)))
    response.stream = limited(response.stream, events=events)


def guard_all(library: Any) -> None:
    """Put the hooks into every client that is made from now on with ``library`` (httpx). Does so once.

    litellm makes its clients in many places, and takes none that all of its providers use:
    https://github.com/BerriAI/litellm/issues/13049
    """
    for name, hook in (("AsyncClient", guard_async), ("Client", guard_sync)):
        made = getattr(library, name)
        if getattr(made.__init__, "guarded", False):
            continue
        made.__init__ = _guarded(made.__init__, hook)


def _guarded(init: Any, hook: Any) -> Any:
    def guarded(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        hooks = self.event_hooks
        self.event_hooks = {**hooks, "response": [hook, *hooks.get("response", ())]}

    guarded.guarded = True  # type: ignore[attr-defined] - marks what is guarded already
    return guarded


@functools.cache
def _limited_kind(kind: type[Any]) -> Any:
    """Return the class of limited streams of a kind: httpx requires instances of its own classes."""
    return type(f"Limited{kind.__name__}", (_Limited, kind), {})


class Allowance:
    """The number of bytes of one answer, and of one event in it, that may still be read."""

    def __init__(self, *, events: bool) -> None:
        """``events``: the answer consists of events that blank lines end; if not, each line counts as one."""
        self._left = MAX_BYTES
        self._ends = (b"\n\n", b"\r\n\r\n", b"\r\r") if events else (b"\n", b"\r")
        self._event = 0
        self._last = b""

    def take(self, piece: bytes) -> bytes:
        """Count ``piece`` and return it. Raises AnswerTooLongError."""
        self._left -= len(piece)
        if self._left < 0:
            raise AnswerTooLongError(
                t(
                    "The model server's response was cut off: it is larger than {max_bytes} MB. None of it "
                    "was run. Choose another model, or check the server.",
                    max_bytes=MAX_BYTES // 1000000,
                )
            )
        text = self._last + piece
        ended = max(found + len(end) if (found := text.rfind(end)) >= 0 else -1 for end in self._ends)
        self._event = self._event + len(piece) if ended < 0 else len(text) - ended
        if self._event > MAX_EVENT_BYTES:
            raise AnswerTooLongError(
                t(
                    "The model server's response was cut off: a single event in it is larger than "
                    "{max_bytes} MB. None of it was run. Choose another model, or check the server.",
                    max_bytes=MAX_EVENT_BYTES // 1_000_000,
                )
            )
        self._last = text[-3:]
        return piece


class _Limited:
    """The bytes of an answer, up to the limit."""

    def __init__(self, stream: Any, *, events: bool) -> None:
        self._stream = stream
        self._allowance = Allowance(events=events)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            yield self._allowance.take(piece)

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._stream:
            yield self._allowance.take(piece)

    async def aclose(self) -> None:
        await self._stream.aclose()

    def close(self) -> None:
        self._stream.close()


async def cut_at_limit(events: ProviderEvents, request: ModelRequest) -> ProviderEvents:
    """``events`` of one call, ended when the server sends far more than the tokens that it was asked for.

    The answer then ends with ``max_tokens``, as if the server had kept to them; so calls in it are not run.
    """
    most = max((request.max_tokens + request.thinking_tokens) * LETTERS_A_TOKEN, _LEAST_LETTERS)
    answer, letters = PartialAnswer(), 0
    async with aclosing(events):
        async for event in events:
            if isinstance(event, TextDelta | ReasoningDelta | ToolCallDelta):
                more = len(event.json if isinstance(event, ToolCallDelta) else event.text)
                if letters + more > most:
                    if letters < most and isinstance(event, TextDelta | ReasoningDelta):
                        event = replace(event, text=event.text[: most - letters])
                        answer.add(event)
                        letters = most
                        yield event
                    break
                letters += more
            if isinstance(event, Retry | Restart):
                answer.clear()
                letters = 0
            elif not isinstance(event, Complete):
                answer.add(event)
            yield event
            if isinstance(event, Complete):
                return
        else:
            return
    for part in answer.unfinished():
        yield part
    words = t(
        "The response was cut off after {letters:,} characters: the server was asked for at most "
        "{max_tokens:,} tokens and sent far more.",
        letters=letters,
        max_tokens=request.max_tokens,
    )
    yield Complete(answer.parts(), "max_tokens", Usage(output=letters // 4), request.model, words)
