"""A streamed answer, as far as it has come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from daemon.model.messages import ReasoningPart, TextPart, ToolCallPart
from daemon.provider.model_calls import PartStop, ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart

if TYPE_CHECKING:
    from daemon.model.messages import Part


@dataclass(slots=True)
class _PartialPart:
    """A part that is still arriving; pieces are joined only when the whole is needed."""

    kind: Literal["text", "reasoning", "tool_call"]
    pieces: list[str] = field(default_factory=list[str])
    id: str = ""
    name: str = ""

    def part(self) -> Part:
        text = "".join(self.pieces)
        if self.kind == "tool_call":
            return ToolCallPart(id=self.id, name=self.name, input=text, finished=False)
        return TextPart(text=text) if self.kind == "text" else ReasoningPart(text=text)


class PartialAnswer:
    """The parts of an answer, as far as they have come."""

    def __init__(self) -> None:
        self._done: dict[int, Part] = {}
        self._growing: dict[int, _PartialPart] = {}

    def add(self, event: TextDelta | ReasoningDelta | ToolCallStart | ToolCallDelta | PartStop) -> None:
        """Take one event in."""
        if isinstance(event, PartStop):
            self._growing.pop(event.index, None)
            self._done[event.index] = event.part
        elif isinstance(event, TextDelta):
            self._growing.setdefault(event.index, _PartialPart("text")).pieces.append(event.text)
        elif isinstance(event, ReasoningDelta):
            self._growing.setdefault(event.index, _PartialPart("reasoning")).pieces.append(event.text)
        elif isinstance(event, ToolCallStart):
            self._growing[event.index] = _PartialPart("tool_call", id=event.id, name=event.name)
        elif event.index in self._growing:
            self._growing[event.index].pieces.append(event.json)

    def parts(self) -> tuple[Part, ...]:
        """Return all parts in order, unfinished ones as far as they got."""
        indexes = sorted({*self._done, *self._growing})
        return tuple(self._done[i] if i in self._done else self._growing[i].part() for i in indexes)

    def unfinished(self) -> list[PartStop]:
        """Return the ends of the parts that have none, in order."""
        return [PartStop(index, growing.part()) for index, growing in sorted(self._growing.items())]

    def clear(self) -> None:
        """Forget everything: the call is made again from the start."""
        self._done.clear()
        self._growing.clear()
