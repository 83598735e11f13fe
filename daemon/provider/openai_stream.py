"""The pieces of a streamed chat completion, put together. Pure, without a library.

Servers differ: some send tool calls in pieces by index, some whole, some all at index 0, some without ids.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from daemon.model.messages import Part, ReasoningPart, StopReason, TextPart, ToolCallPart, Usage
from daemon.provider import errors
from daemon.provider.model_calls import (
    Complete,
    PartStop,
    ProviderEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable

_STOPS: dict[str, StopReason] = {
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
}


@dataclass(slots=True)
class _Growing:
    """A part on its way."""

    kind: str
    index: int
    id: str = ""
    name: str = ""
    text: list[str] = field(default_factory=list[str])

    def json(self) -> str:
        return "".join(self.text)

    def part(self) -> Part:
        text = self.json()
        if self.kind == "call":
            return ToolCallPart(id=self.id, name=self.name, input=text or "{}")
        return TextPart(text=text) if self.kind == "text" else ReasoningPart(text=text)


class AnswerBuilder:
    """Feed it the chunks; it answers with events. Chunks are Any: servers leave out what types promise."""

    def __init__(self, model: str, host: str, new_id: Callable[[], str]) -> None:
        self._model = model
        self._host = host
        self._new_id = new_id
        self._open: _Growing | None = None
        self._calls: dict[int, _Growing] = {}
        """Tool calls by the server's index; they may grow in turn, so they end together."""
        self._parts: dict[int, Part] = {}
        self._count = 0
        self._finish = ""
        self._usage = Usage()

    def feed(self, chunk: Any) -> list[ProviderEvent]:
        """Events for one chunk."""
        self._model = getattr(chunk, "model", None) or self._model
        usage = getattr(chunk, "usage", None)
        if usage is not None:
            self._usage = _usage(usage)
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
            events += self._grow("reasoning", reasoning)
        if isinstance(text, str) and text:
            events += self._grow("text", text)
        for call in getattr(delta, "tool_calls", None) or ():
            events += self._call(call)
        return events

    def end(self, finished: bool) -> list[ProviderEvent]:
        """Return the last events. Raises ProviderError when the answer was cut off (``finished`` is false)."""
        if not finished:
            raise errors.malformed(self._host, t("it ended too early"))
        events = self._close()
        for call in self._calls.values():
            events += self._stop(call)
        parts = tuple(self._parts[index] for index in sorted(self._parts))
        reason = _STOPS.get(self._finish, "end_turn")
        detail = ""
        if self._finish == "content_filter":
            detail = t("The provider's content filter ended the answer.")
        elif reason == "end_turn" and any(isinstance(part, ToolCallPart) for part in parts):
            # Many servers report "stop" although there are tool calls.
            reason = "tool_use"
        return [*events, Complete(parts, reason, self._usage, self._model, detail)]

    def _new(self, kind: str) -> _Growing:
        self._count += 1
        return _Growing(kind, self._count - 1)

    def _close(self) -> list[ProviderEvent]:
        growing, self._open = self._open, None
        return self._stop(growing) if growing else []

    def _stop(self, growing: _Growing) -> list[ProviderEvent]:
        part = growing.part()
        self._parts[growing.index] = part
        return [PartStop(growing.index, part)]

    def _grow(self, kind: str, text: str) -> list[ProviderEvent]:
        events: list[ProviderEvent] = []
        if self._open is None or self._open.kind != kind:
            events = self._close()
            self._open = self._new(kind)
        self._open.text.append(text)
        index = self._open.index
        return [*events, ReasoningDelta(index, text) if kind == "reasoning" else TextDelta(index, text)]

    def _call(self, call: Any) -> list[ProviderEvent]:
        function = getattr(call, "function", None)
        name = getattr(function, "name", None) or ""
        piece = getattr(function, "arguments", None) or ""
        ident = getattr(call, "id", None) or ""
        at = int(getattr(call, "index", None) or 0)
        events: list[ProviderEvent] = []
        growing = self._calls.get(at)
        if growing is None or self._is_another(growing, ident, name, piece):
            events = self._close()
            if growing is not None:
                events += self._stop(growing)
            growing = self._new("call")
            growing.id, growing.name = ident or f"call_{self._new_id()}", name
            self._calls[at] = growing
            events.append(ToolCallStart(growing.index, growing.id, growing.name))
        elif not growing.name:
            growing.name = name
        if piece:
            growing.text.append(piece)
            events.append(ToolCallDelta(growing.index, growing.id, piece))
        return events

    def _is_another(self, growing: _Growing, ident: str, name: str, piece: str) -> bool:
        """Return whether a piece at a used index begins a new call: servers exist that send all of them at 0."""
        if not name or ident == growing.id:
            return False
        return _whole(growing.json() or "{}") if ident else bool(piece) and _whole(growing.json())


def _whole(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
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
