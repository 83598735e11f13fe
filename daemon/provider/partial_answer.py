"""A streamed answer, as far as it has come: as a server sends it, and as its events tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from daemon.model.messages import ReasoningPart, TextPart, ToolCallPart
from daemon.provider.model_calls import (
    Complete,
    PartStop,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)

if TYPE_CHECKING:
    from daemon.model.messages import Part, StopReason, Usage
    from daemon.provider.model_calls import ProviderEvent

Kind = Literal["text", "reasoning", "redacted", "tool_call", "unknown"]


class GrowingPart(Struct):
    """A part that is still arriving; pieces are joined only when the whole is needed."""

    kind: Kind
    index: int | None = None
    """Its number in the answer; None: it has not begun, because nothing has come of it."""
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])
    extra: str = ""
    """Signature, redacted data, or a tool input that came whole."""

    @property
    def text(self) -> str:
        """The text that has come."""
        return "".join(self.pieces)

    def part(self, *, finished: bool = True) -> Part:
        """Return the part as far as it has come."""
        match self.kind:
            case "tool_call":
                given = (self.text or self.extra or "{}") if finished else self.text
                return ToolCallPart(id=self.id, name=self.name, input=given, finished=finished)
            case "text":
                return TextPart(text=self.text)
            case "redacted":
                return ReasoningPart(text="", redacted=self.extra)
            case _:
                return ReasoningPart(text=self.text, signature=self.extra or None)


class AnswerParts:
    """The parts of an answer as a server sends it, numbered in the order in which they begin."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._done: dict[int, Part] = {}
        self._begun = 0

    def _begin(self, part: GrowingPart) -> GrowingPart:
        part.index = self._begun
        self._begun += 1
        return part

    def _grow(self, part: GrowingPart, piece: str) -> list[ProviderEvent]:
        """Add a piece to a part, which begins with it if it has not yet."""
        if not piece:
            return []
        index = part.index if part.index is not None else self._begin(part).index or 0
        part.pieces.append(piece)
        if part.kind == "tool_call":
            return [ToolCallDelta(index, part.id, piece)]
        return [TextDelta(index, piece) if part.kind == "text" else ReasoningDelta(index, piece)]

    def _stop(self, part: GrowingPart | None) -> list[ProviderEvent]:
        if part is None or part.index is None:
            return []
        self._done[part.index] = done = part.part()
        return [PartStop(part.index, done)]

    def _complete(self, reason: StopReason, usage: Usage, detail: str, *, may_call: bool = True) -> Complete:
        parts = tuple(self._done[index] for index in sorted(self._done))
        if reason == "end_turn" and may_call and any(isinstance(part, ToolCallPart) for part in parts):
            # Many servers report the end of the turn although there are tool calls.
            reason = "tool_use"
        return Complete(parts, reason, usage, self._model, detail)


class PartialAnswer:
    """The parts of an answer, as far as they have come."""

    def __init__(self) -> None:
        self._done: dict[int, Part] = {}
        self._growing: dict[int, GrowingPart] = {}

    def add(self, event: TextDelta | ReasoningDelta | ToolCallStart | ToolCallDelta | PartStop) -> None:
        """Take one event in."""
        if isinstance(event, PartStop):
            self._growing.pop(event.index, None)
            self._done[event.index] = event.part
        elif isinstance(event, TextDelta):
            self._growing.setdefault(event.index, GrowingPart("text")).pieces.append(event.text)
        elif isinstance(event, ReasoningDelta):
            self._growing.setdefault(event.index, GrowingPart("reasoning")).pieces.append(event.text)
        elif isinstance(event, ToolCallStart):
            self._growing[event.index] = GrowingPart("tool_call", id=event.id, name=event.name)
        elif event.index in self._growing:
            self._growing[event.index].pieces.append(event.json)

    def parts(self) -> tuple[Part, ...]:
        """Return all parts in order, unfinished ones as far as they got."""
        found = {**{stop.index: stop.part for stop in self.unfinished()}, **self._done}
        return tuple(found[index] for index in sorted(found))

    def unfinished(self) -> list[PartStop]:
        """Return the ends of the parts that have none, in order."""
        growing = sorted(self._growing.items())
        return [PartStop(index, part.part(finished=False)) for index, part in growing]

    def clear(self) -> None:
        """Forget everything: the call is made again from the start."""
        self._done.clear()
        self._growing.clear()
