"""The pieces of a streamed chat completion, put together. Pure, without a library.

Servers differ: some send tool calls in pieces by index, some whole, some all at index 0, some without ids.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any, Literal

from daemon.model.messages import StopReason, Usage
from daemon.provider import errors
from daemon.provider.model_calls import ProviderEvent, ToolCallStart
from daemon.provider.partial_answer import AnswerParts, GrowingPart
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable

_STOPS: dict[str, StopReason] = {
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
}


class AnswerBuilder(AnswerParts):
    """Feed it the chunks; it answers with events. Chunks are Any: servers leave out what types promise."""

    def __init__(
        self, model: str, host: str, new_id: Callable[[], str] = lambda: secrets.token_hex(6)
    ) -> None:
        """``new_id`` names tool calls of servers that leave them without an id."""
        super().__init__(model)
        self._host = host
        self._new_id = new_id
        self._open: GrowingPart | None = None
        self._calls: dict[int, GrowingPart] = {}
        """Tool calls by the server's index; they may grow in turn, so they end together."""
        self._finish = ""
        self.usage = Usage()
        """Tokens, as far as they are known."""

    def feed(self, chunk: Any) -> list[ProviderEvent]:
        """Events for one chunk."""
        self._model = getattr(chunk, "model", None) or self._model
        usage = getattr(chunk, "usage", None)
        if usage is not None:
            self.usage = _usage(usage)
        choices = getattr(chunk, "choices", None)
        if not choices:
            return []
        self._finish = getattr(choices[0], "finish_reason", None) or self._finish
        delta = getattr(choices[0], "delta", None)
        # vLLM's and LM Studio's newer name is the shorter one.
        reasoning = getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None)
        text = getattr(delta, "content", None)
        events: list[ProviderEvent] = []
        if isinstance(reasoning, str) and reasoning:
            events += self.say("reasoning", reasoning)
        if isinstance(text, str) and text:
            events += self.say("text", text)
        for call in getattr(delta, "tool_calls", None) or ():
            function, at = getattr(call, "function", None), int(getattr(call, "index", None) or 0)
            name, piece = getattr(function, "name", None) or "", getattr(function, "arguments", None) or ""
            events += self.call(at, getattr(call, "id", None) or "", name, piece)
        return events

    def end(self, finished: bool) -> list[ProviderEvent]:
        """Return the last events. Raises ProviderError when the answer was cut off (``finished`` is false)."""
        if not finished:
            raise errors.malformed(self._host, t("it ended too early"))
        events = self._close()
        for call in self._calls.values():
            events += self._stop(call)
        filtered = self._finish == "content_filter"
        detail = t("The provider's content filter ended the answer.") if filtered else ""
        reason = _STOPS.get(self._finish, "end_turn")
        return [*events, self._complete(reason, self.usage, detail, may_call=not filtered)]

    def _close(self) -> list[ProviderEvent]:
        growing, self._open = self._open, None
        return self._stop(growing)

    def say(self, kind: Literal["text", "reasoning"], text: str) -> list[ProviderEvent]:
        """Return the events for more text or reasoning."""
        events: list[ProviderEvent] = []
        if self._open is None or self._open.kind != kind:
            events = self._close()
            self._open = GrowingPart(kind)
        return events + self._grow(self._open, text)

    def call(self, at: int, ident: str, name: str, piece: str) -> list[ProviderEvent]:
        """Return the events for a piece of a tool call; ``at``: the server's index of it. ``ident``: empty for none."""
        events: list[ProviderEvent] = []
        growing = self._calls.get(at)
        if growing is None or self._is_another(growing, ident, name, piece):
            events = self._close() + self._stop(growing)
            growing = GrowingPart("tool_call", id=ident or f"call_{self._new_id()}", name=name)
            self._calls[at] = self._begin(growing)
            events.append(ToolCallStart(growing.index or 0, growing.id, growing.name))
        elif not growing.name:
            growing.name = name
        return events + self._grow(growing, piece)

    def _is_another(self, growing: GrowingPart, ident: str, name: str, piece: str) -> bool:
        """Return whether a piece at a used index begins a new call: servers exist that send all of them at 0."""
        if not name or ident == growing.id:
            return False
        return _whole(growing.text or "{}") if ident else bool(piece) and _whole(growing.text)


def _whole(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _usage(usage: Any) -> Usage:
    details = getattr(usage, "prompt_tokens_details", None)
    read = int(getattr(details, "cached_tokens", None) or 0)
    written = int(getattr(details, "cache_creation_tokens", None) or 0)
    given = int(getattr(usage, "prompt_tokens", None) or 0)
    return Usage(
        input=max(0, given - read - written),
        output=int(getattr(usage, "completion_tokens", None) or 0),
        cache_read=read,
        cache_write=written,
    )
