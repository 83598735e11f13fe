"""The unit of all reductions: a message with the results of its calls, so that no reduction can separate the two.

Blocks never change. A reduced block is a new object, made once and cached with the original: so a growing session
builds the same objects again, and everything that depends on them (estimates, the wire format) can be cached, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from daemon.context.instructions import METADATA_KEY, instructions_of
from daemon.context.tokens import message_tokens
from daemon.model.messages import NotePart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from daemon.provider.model_calls import PromptMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

CLEARED = "[Old tool result content cleared]"
INTERRUPTED = "The tool was interrupted before it answered."

Kind = Literal["message", "goal_summary", "compaction", "history"]
Rules = tuple[tuple[str, str], ...]
"""Instruction files that tool results showed: path and text."""
_Made = TypeVar("_Made", bound="Block | None")


class WindowMessage(Struct, frozen=True):
    """A message as it will be sent, and where it comes from."""

    prompt: PromptMessage
    kind: Kind
    """``history`` and ``goal_summary``: messages were left out, or are replaced by this one."""
    goal_id: str | None
    tokens: int
    """Estimated, not calibrated."""


class CallWithResult(Struct):
    """A call and its result. Never changed; not frozen, because making it is quicker so."""

    call: ToolCallPart
    result: ToolResultPart | None
    """None: a crash came before it."""
    goal_id: str | None
    """The goal that had the focus when it ran."""
    sequence: int | None
    """Sequence of the message with the result."""
    cleared: bool = False

    @property
    def rules(self) -> dict[str, str]:
        """The instruction files that came with the result."""
        result = self.result
        if result is None or METADATA_KEY not in result.metadata:
            return {}
        return instructions_of(result.metadata)

    def sent(self) -> ToolResultPart:
        """Return the result for the model."""
        if self.result is not None:
            return self.result
        return ToolResultPart(
            tool_call_id=self.call.id, name=self.call.name, content=INTERRUPTED, is_error=True
        )


class Block(Struct, eq=False):
    """The content to send for one stored message and the results of its calls, or a note that replaces others.

    Immutable except for values that are cached with it.
    """

    role: Literal["user", "assistant"]
    goal_id: str | None
    sequence: int
    """Sequence of the stored message; for a note, that of the first message that it replaces."""
    parts: tuple[Part, ...]
    """In the order of the message, the calls among them."""
    answers: tuple[CallWithResult, ...] = ()
    """One for each call in ``parts``, in the same order."""
    kind: Kind = "message"
    stored: bool = True
    """False: a note of the window's own making."""
    person: bool = False
    """The user said something here: a turn begins."""
    rules: Rules = ()
    """Rules from results that this note replaces."""
    _goals: tuple[str | None, ...] | None = None
    _entries: tuple[WindowMessage, ...] | None = None
    _made: dict[object, Any] | None = None

    @property
    def goals(self) -> tuple[str | None, ...]:
        """The goals that something in here belongs to, the message's own first."""
        if self._goals is None:
            self._goals = tuple(dict.fromkeys([self.goal_id, *[answer.goal_id for answer in self.answers]]))
        return self._goals

    @property
    def says(self) -> bool:
        """There is text in it."""
        return any(isinstance(part, TextPart) for part in self.parts)

    @property
    def entries(self) -> tuple[WindowMessage, ...]:
        """As it is sent: the message, and its results as one more."""
        if self._entries is None:
            self._entries = self._as_sent()
        return self._entries

    def _as_sent(self) -> tuple[WindowMessage, ...]:
        found: list[WindowMessage] = []
        if self.parts:
            prompt = PromptMessage(self.role, self.parts)
            found.append(WindowMessage(prompt, self.kind, self.goal_id, message_tokens(prompt)))
        if self.answers:
            prompt = PromptMessage("tool", tuple([answer.sent() for answer in self.answers]))
            found.append(WindowMessage(prompt, self.kind, self.answers[0].goal_id, message_tokens(prompt)))
        return tuple(found)

    def but(self, **changes: object) -> Block:
        """This block with other fields."""
        return replace(self, **changes, _goals=None, _entries=None, _made=None)

    def make(self, key: object, block: Callable[[], _Made]) -> _Made:
        """Return the block that a reduction makes of this one, computed once. ``key`` identifies the reduction and its
        arguments."""
        made = self._made
        if made is None:
            made = self._made = {}
        if key not in made:
            made[key] = block()
        return made[key]

    def left(
        self, own: Literal["all", "text", "none"], answers: Iterable[int], kind: Kind = "message"
    ) -> Block | None:
        """Return this block with only the calls at the positions ``answers``, and the part of its text that ``own``
        selects.

        ``text`` drops reasoning, which belongs to the calls it led to; ``none`` leaves only calls. None when nothing is
        left.
        """
        wanted = tuple(answers)
        if len(wanted) == len(self.answers) and own == "all":
            return self
        if own == "none" and not wanted:
            return None
        return self.make((own, wanted, kind), lambda: self._left(own, frozenset(wanted), kind))

    def _left(self, own: str, wanted: frozenset[int], kind: Kind) -> Block | None:
        parts: list[Part] = []
        at = 0
        for part in self.parts:
            if isinstance(part, ToolCallPart):
                if at in wanted:
                    parts.append(part)
                at += 1
            elif own == "all" or (own == "text" and not isinstance(part, ReasoningPart)):
                parts.append(part)
        # Reasoning alone is no message: no provider accepts it.
        if all(isinstance(part, ReasoningPart) for part in parts):
            return None
        kept = tuple(answer for at, answer in enumerate(self.answers) if at in wanted)
        return self.but(parts=tuple(parts), answers=kept, kind=kind)

    def with_results(self, key: object, change: Callable[[CallWithResult], CallWithResult]) -> Block:
        """Return this block with other results, computed once; ``key`` identifies the change."""
        return self.make(key, lambda: self.but(answers=tuple(map(change, self.answers))))


def note(text: str, kind: Kind, *, goal_id: str | None = None, sequence: int = 0, rules: Rules = ()) -> Block:
    """Return a user message of the window's own making; without text it is only a place for ``rules``."""
    parts = (NotePart(text=text),) if text else ()
    return Block("user", goal_id, sequence, parts, kind=kind, stored=False, rules=rules)
