"""What comes from the Anthropic Messages API: the events of one stream, put together. Pure, without the SDK.

Source: the streaming events of the API (``anthropic.types.raw_message_stream_event``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from daemon.model.messages import Part, ReasoningPart, StopReason, TextPart, ToolCallPart, Usage
from daemon.provider import errors
from daemon.provider.base import (
    Complete,
    PartStop,
    ProviderError,
    ProviderEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)

_STOPS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "pause_turn": "end_turn",
    "refusal": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
}


@dataclass(slots=True)
class _Growing:
    """A content block on its way: our part index, and the pieces so far."""

    kind: str
    index: int | None
    id: str = ""
    name: str = ""
    text: list[str] = field(default_factory=list[str])
    extra: str = ""
    """Signature, redacted data, or a tool input that came whole."""


class MessageBuilder:
    """Puts the events of one stream together."""

    def __init__(self, host: str, model: str) -> None:
        self.ended = False
        """The message came to its end."""
        self._host = host
        self._model = model
        self._open: dict[int, _Growing] = {}
        self._parts: dict[int, Part] = {}
        self._next = 0
        self._stop: str | None = None
        self._detail = ""
        self._usage: dict[str, int] = {}

    def broken(self, detail: str) -> ProviderError:
        """The error for a stream that does not keep the protocol."""
        return errors.malformed(self._host, detail)

    def feed(self, event: Any) -> list[ProviderEvent]:
        """Events for one of the SDK's. Unknown ones are ignored: the API reserves the right to add some.

        ``event`` is Any, because a server may leave out what the SDK's types promise.
        """
        match getattr(event, "type", None):
            case "message_start":
                self._start(event.message)
            case "content_block_start":
                return self._block_start(event.index, event.content_block)
            case "content_block_delta":
                return self._block_delta(event.index, event.delta)
            case "content_block_stop":
                return self._block_stop(event.index)
            case "message_delta":
                self._end_of_message(event)
            case "message_stop":
                if self._open:
                    raise self.broken("a content block has no end")
                self.ended = True
            case _:
                pass
        return []

    def _start(self, message: Any) -> None:
        self._model = getattr(message, "model", None) or self._model
        self._count(getattr(message, "usage", None))

    def _count(self, usage: Any) -> None:
        names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        for name in names:
            value = getattr(usage, name, None)
            # Counts in later events are totals, and absent where nothing changed.
            if isinstance(value, int):
                self._usage[name] = value

    def _new_index(self) -> int:
        self._next += 1
        return self._next - 1

    def _block_start(self, at: int, block: Any) -> list[ProviderEvent]:
        kind = str(getattr(block, "type", ""))
        growing = _Growing(kind, None)
        self._open[at] = growing
        match kind:
            case "tool_use":
                growing.index = self._new_index()
                growing.id, growing.name = str(block.id), str(block.name)
                whole = getattr(block, "input", None)
                growing.extra = json.dumps(whole) if whole else ""
                return [ToolCallStart(growing.index, growing.id, growing.name)]
            case "text" if getattr(block, "text", None):
                return self._grow_text(growing, block.text)
            case "thinking":
                growing.index = self._new_index()
                growing.extra = getattr(block, "signature", None) or ""
            case "redacted_thinking":
                growing.index = self._new_index()
                growing.extra = str(block.data)
            case _:
                pass
        return []

    def _grow_text(self, growing: _Growing, text: str) -> list[ProviderEvent]:
        if not text:
            return []
        if growing.index is None:
            # Only now: a text block that stays empty is no part.
            growing.index = self._new_index()
        growing.text.append(text)
        return [TextDelta(growing.index, text)]

    def _block_delta(self, at: int, delta: Any) -> list[ProviderEvent]:
        growing = self._open.get(at)
        if growing is None:
            raise self.broken("a piece of a content block that never began")
        match getattr(delta, "type", None):
            case "text_delta" if growing.kind == "text":
                return self._grow_text(growing, delta.text)
            case "input_json_delta" if growing.index is not None and delta.partial_json:
                growing.text.append(delta.partial_json)
                return [ToolCallDelta(growing.index, growing.id, delta.partial_json)]
            case "thinking_delta" if growing.index is not None and delta.thinking:
                growing.text.append(delta.thinking)
                return [ReasoningDelta(growing.index, delta.thinking)]
            case "signature_delta":
                growing.extra += delta.signature
            case _:
                pass
        return []

    def _block_stop(self, at: int) -> list[ProviderEvent]:
        growing = self._open.pop(at, None)
        if growing is None:
            raise self.broken("the end of a content block that never began")
        if growing.index is None:
            return []
        text = "".join(growing.text)
        part: Part
        match growing.kind:
            case "text":
                part = TextPart(text=text)
            case "thinking":
                part = ReasoningPart(text=text, signature=growing.extra or None)
            case "redacted_thinking":
                part = ReasoningPart(text="", redacted=growing.extra)
            case _:
                part = ToolCallPart(id=growing.id, name=growing.name, input=text or growing.extra or "{}")
        self._parts[growing.index] = part
        return [PartStop(growing.index, part)]

    def _end_of_message(self, event: Any) -> None:
        delta = getattr(event, "delta", None)
        self._stop = getattr(delta, "stop_reason", None) or self._stop
        if self._stop == "refusal":
            details = getattr(delta, "stop_details", None)
            self._detail = getattr(details, "explanation", None) or "The model declined to go on."
        elif self._stop == "model_context_window_exceeded":
            self._detail = "The model's context window is full."
        self._count(getattr(event, "usage", None))

    def complete(self) -> Complete:
        """The event that ends the call."""
        parts = tuple(self._parts[index] for index in sorted(self._parts))
        reason = _STOPS.get(self._stop or "", "end_turn")
        # Imitations of the API are seen to report "end_turn" beside tool calls.
        if (
            reason == "end_turn"
            and self._stop != "refusal"
            and any(isinstance(p, ToolCallPart) for p in parts)
        ):
            reason = "tool_use"
        count = self._usage.get
        usage = Usage(
            input=count("input_tokens", 0),
            output=count("output_tokens", 0),
            cache_read=count("cache_read_input_tokens", 0),
            cache_write=count("cache_creation_input_tokens", 0),
        )
        return Complete(parts, reason, usage, self._model, self._detail)
