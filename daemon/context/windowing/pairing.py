"""Stored messages as blocks: every call with exactly its result, whatever a crash left of the log.

Results without a call are left out, calls without a result get one that says so, and empty messages go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from daemon.context.windowing.blocks import Answer, Block
from daemon.model.messages import (
    CompactionPart,
    FilePart,
    FinishPart,
    Message,
    Part,
    ReasoningPart,
    SubtaskPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)


@dataclass(frozen=True, slots=True)
class Compaction:
    """A full compaction that is complete."""

    mark: CompactionPart
    blocks: tuple[Block, ...]
    """Request, summary, and what was carried over."""
    sequence: int
    """Of the request."""
    before: int
    """How many blocks stood before it."""


class Reader:
    """Reads a session's messages one after the other, so that one that goes on is read on, not anew."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        """What was read."""
        self.blocks: list[Block] = []
        """All but those of compactions."""
        self.compaction: Compaction | None = None
        """The last complete one."""
        self.has_rules = False
        """Some result showed instruction files."""
        self._callers: dict[str, int] = {}
        self._triple: dict[str, Message] = {}
        self._before = 0

    def follows(self, messages: Sequence[Message]) -> bool:
        """Whether ``messages`` begin with what was read."""
        known = len(self.messages)
        # Equal objects are mostly identical ones, which a list compares without looking into them.
        return known <= len(messages) and self.messages == list(messages[:known])

    def read(self, messages: Sequence[Message]) -> None:
        """Take in what is new in ``messages``, which begin with what was read before."""
        for message in messages[len(self.messages) :]:
            self.messages.append(message)
            if message.role == "tool":
                self._answer(message)
            elif (mark := message.compaction()) is not None:
                self._compact(message, mark)
            else:
                self._say(message)

    def _say(self, message: Message) -> None:
        parts, calls = _sent(message.content, with_calls=message.role == "assistant")
        if not parts or all(isinstance(part, ReasoningPart) for part in parts):
            return
        if message.role == "assistant":
            self._callers.update((call.id, len(self.blocks)) for call in calls)
            answers = tuple(Answer(call, None, message.goal_id, None) for call in calls)
            self.blocks.append(Block("assistant", message.goal_id, message.sequence, parts, answers))
            return
        person = any(isinstance(part, TextPart | FilePart) for part in parts)
        self.blocks.append(Block("user", message.goal_id, message.sequence, parts, person=person))

    def _answer(self, message: Message) -> None:
        # To the last message before it that made the call: some servers number their calls anew in each answer, so
        # an id alone does not say which call is meant.
        result = message.tool_result()
        at = None if result is None else self._callers.get(result.tool_call_id)
        if result is None or at is None:
            return
        self.has_rules = self.has_rules or "instructions" in result.metadata
        block = self.blocks[at]
        answers = list(block.answers)
        for position, answer in enumerate(answers):
            if answer.call.id == result.tool_call_id and answer.result is None:
                answers[position] = Answer(answer.call, result, message.goal_id, message.sequence)
                self.blocks[at] = replace(block, answers=tuple(answers))
                return

    def _compact(self, message: Message, mark: CompactionPart) -> None:
        if mark.kind == "request":
            self._triple = {}
            self._before = len(self.blocks)
        self._triple[mark.kind] = message
        if mark.kind == "carried" and len(self._triple) == 3:
            stored = [self._triple[kind] for kind in ("request", "summary", "carried")]
            blocks = tuple(
                Block(
                    "assistant" if m.role == "assistant" else "user",
                    None,
                    m.sequence,
                    parts,
                    kind="compaction",
                )
                for m in stored
                if (parts := _sent(m.content, with_calls=False)[0])
            )
            self.compaction = Compaction(mark, blocks, stored[0].sequence, self._before)
            self._triple = {}


def _sent(content: Sequence[Part], *, with_calls: bool) -> tuple[tuple[Part, ...], tuple[ToolCallPart, ...]]:
    """The parts of a message that are sent, and the calls among them."""
    parts: list[Part] = []
    calls: dict[str, ToolCallPart] = {}
    for part in content:
        match part:
            case FinishPart() | CompactionPart() | ToolResultPart():
                continue
            case ToolCallPart():
                # No provider takes two calls of one id in a message, so only the first is there.
                if with_calls and part.id not in calls:
                    calls[part.id] = part
                    parts.append(part)
            case ReasoningPart() | FilePart():
                parts.append(part)
            case SubtaskPart():
                if part.prompt.strip():
                    parts.append(TextPart(text=part.prompt))
            case _:
                if part.text.strip():
                    parts.append(part)
    return tuple(parts), tuple(calls.values())
