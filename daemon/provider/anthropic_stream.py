"""Assemble the events of one stream of the Anthropic Messages API. Pure.

Source: the streaming events of the API (``anthropic.types.raw_message_stream_event``).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from daemon.model.messages import StopReason, Usage
from daemon.provider import errors
from daemon.provider.model_calls import (
    Complete,
    ProviderError,
    ProviderEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)
from daemon.provider.partial_answer import AnswerParts, GrowingPart, Kind
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Event = dict[str, Any]
"""An event, or a part of one, as decoded JSON. Any, because a server may leave out what the API promises."""
_STOPS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "pause_turn": "end_turn",
    "refusal": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
}
_KINDS: dict[str, Kind] = {
    "text": "text",
    "thinking": "reasoning",
    "redacted_thinking": "redacted",
    "tool_use": "tool_call",
}


class MessageBuilder(AnswerParts):
    """Puts the events of one stream together."""

    def __init__(self, host: str, model: str) -> None:
        super().__init__(model)
        self.ended = False
        """The message came to its end."""
        self._host = host
        self._open: dict[int, GrowingPart] = {}
        """Content blocks on their way, by the server's index."""
        self._stopped_by = ""
        self._detail = ""
        self._usage: dict[str, int] = {}

    def broken(self, detail: str) -> ProviderError:
        """Return the error for a stream that does not keep the protocol."""
        return errors.malformed(self._host, detail)

    def feed(self, event: Event) -> list[ProviderEvent]:
        """Process one event of the API, and return the resulting events. Raises ProviderError when it violates the
        protocol.

        Unknown events are skipped: the API reserves the right to add some.
        """
        try:
            return self._feed(event)
        except (KeyError, TypeError, AttributeError) as error:
            raise self.broken(f"an event of type {event.get('type')} is not complete") from error

    def _feed(self, event: Event) -> list[ProviderEvent]:
        match event.get("type"):
            case "message_start":
                if self._begun:  # a gateway has asked its model again: calls would run twice
                    raise self.broken("it begins again")
                message: Event = event["message"]
                self._model = message.get("model") or self._model
                self._count(message.get("usage") or {})
            case "content_block_start":
                return self._block_start(event["index"], event["content_block"])
            case "content_block_delta":
                return self._block_delta(event["index"], event["delta"])
            case "content_block_stop":
                return self._block_stop(event["index"])
            case "message_delta":
                self._end_of_message(event)
            case "message_stop":
                if self._open:
                    raise self.broken("a content block has no end")
                self.ended = True
            case _:
                pass
        return []

    def _count(self, usage: Event) -> None:
        names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        for name in names:
            value = usage.get(name)
            # Counts in later events are totals, and missing where nothing changed.
            if isinstance(value, int):
                self._usage[name] = value

    def _block_start(self, at: int, block: Event) -> list[ProviderEvent]:
        if at in self._open:
            raise self.broken("a content block begins again")
        growing = GrowingPart(_KINDS.get(str(block.get("type", "")), "unknown"))
        self._open[at] = growing
        match growing.kind:
            case "tool_call":
                growing.id, growing.name = str(block["id"]), str(block["name"])
                whole = block.get("input")
                growing.extra = json.dumps(whole) if whole else ""
                return [ToolCallStart(self._begin(growing).index or 0, growing.id, growing.name)]
            case "text":  # an empty text block is no part
                return self._grow(growing, block.get("text") or "")
            case "reasoning":
                self._begin(growing).extra = block.get("signature") or ""
            case "redacted":
                self._begin(growing).extra = str(block["data"])
            case "unknown":
                pass
        return []

    def _block_delta(self, at: int, delta: Event) -> list[ProviderEvent]:
        growing = self._open.get(at)
        if growing is None:
            raise self.broken("a piece of a content block that never began")
        match delta.get("type"):
            case "text_delta" if growing.kind == "text":
                return self._grow(growing, delta["text"])
            case "input_json_delta" if growing.kind == "tool_call":
                return self._grow(growing, delta["partial_json"])
            case "thinking_delta" if growing.kind == "reasoning":
                return self._grow(growing, delta["thinking"])
            case "signature_delta":
                growing.extra += delta["signature"]
            case _:
                pass
        return []

    def _block_stop(self, at: int) -> list[ProviderEvent]:
        growing = self._open.pop(at, None)
        if growing is None:
            raise self.broken("the end of a content block that never began")
        return self._stop(growing)

    def _end_of_message(self, event: Event) -> None:
        delta: Event = event.get("delta") or {}
        self._stopped_by = delta.get("stop_reason") or self._stopped_by
        if self._stopped_by == "refusal":
            details: Event = delta.get("stop_details") or {}
            self._detail = details.get("explanation") or t("The model declined to continue.")
        elif self._stopped_by == "model_context_window_exceeded":
            self._detail = t("The model's context window is full.")
        self._count(event.get("usage") or {})

    def complete(self) -> Complete:
        """Return the event that ends the call."""
        count = self._usage.get
        usage = Usage(
            input=count("input_tokens", 0),
            output=count("output_tokens", 0),
            cache_read=count("cache_read_input_tokens", 0),
            cache_write=count("cache_creation_input_tokens", 0),
        )
        reason = _STOPS.get(self._stopped_by, "end_turn")
        return self._complete(reason, usage, self._detail, may_call=self._stopped_by != "refusal")


def joined(events: Iterable[ProviderEvent]) -> Iterator[ProviderEvent]:
    """Yield events that came at once; deltas of one part that follow each other become one."""
    held: ProviderEvent | None = None
    try:
        for event in events:
            if held is not None and (longer := _longer(held, event)) is not None:
                held = longer
                continue
            if held is not None:
                yield held
            held = event
    except ProviderError:
        if held is not None:
            yield held
        raise
    if held is not None:
        yield held


def _longer(one: ProviderEvent, more: ProviderEvent) -> ProviderEvent | None:
    """Return the delta ``one`` with what ``more`` adds to it; None when that is something else."""
    match one, more:
        case ToolCallDelta(), ToolCallDelta() if one.index == more.index:
            return replace(one, json=one.json + more.json)
        case (TextDelta(), TextDelta()) | (ReasoningDelta(), ReasoningDelta()) if one.index == more.index:
            return replace(one, text=one.text + more.text)
        case _:
            return None
