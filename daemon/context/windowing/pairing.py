"""Pair stored messages into blocks: every call with exactly its result, whatever a crash left of the log.

Results without a call are dropped, calls without a result get a placeholder, and empty messages go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from daemon.context.instructions import METADATA_KEY
from daemon.context.windowing.blocks import Block, CallWithResult
from daemon.model.messages import (
    CompactionPart,
    Message,
    NotePart,
    Part,
    TextPart,
    ToolCallPart,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class Compaction(Struct, frozen=True):
    """A full compaction that is complete."""

    mark: CompactionPart
    blocks: tuple[Block, ...]
    """Request, summary, and carried-over text."""
    sequence: int
    """Sequence of the request."""
    before: int
    """Number of blocks before it."""


class MessageReader:
    """Reads a session's messages one after the other; for a growing session it continues instead of starting over."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        """The messages read so far."""
        self.blocks: list[Block] = []
        """All but those of compactions."""
        self.compaction: Compaction | None = None
        """The last complete one."""
        self.has_rules = False
        """Some result showed instruction files."""
        self._callers: dict[str, int] = {}
        self._open: dict[str, CallWithResult] = {}
        """The calls of the last message, as long as results may follow."""
        self._triple: dict[str, Message] = {}
        self._before = 0

    def follows(self, messages: Sequence[Message]) -> bool:
        """Return whether ``messages`` begin with those read so far."""
        known = len(self.messages)
        # Equal objects are mostly identical, and lists compare identical items without looking into them.
        return known <= len(messages) and self.messages == list(messages[:known])

    def read(self, messages: Sequence[Message]) -> None:
        """Read the new ones of ``messages``, which begin with those read before."""
        for message in messages[len(self.messages) :]:
            self.messages.append(message)
            if message.role == "tool":
                self._answer(message)
                continue
            self._close()
            parts, calls, mark = _sent(message.content)
            if mark is not None:
                self._compact(message, mark)
            elif message.role == "assistant":
                self._ask(message, parts, calls)
            else:
                self._say(message, parts)
        self._close()

    def _say(self, message: Message, parts: tuple[Part, ...]) -> None:
        if parts:
            person = any(part.type in ("text", "file") for part in parts)
            self.blocks.append(Block("user", message.goal_id, message.sequence, parts, person=person))

    def _ask(self, message: Message, parts: tuple[Part, ...], calls: tuple[ToolCallPart, ...]) -> None:
        # Reasoning alone is no message: no provider accepts it.
        if not calls and all(part.type == "reasoning" for part in parts):
            return
        if len(calls) > 1 and len({call.id for call in calls}) < len(calls):
            # No provider accepts two calls with one id in a message, so keep only the first.
            first = {call.id: call for call in reversed(calls)}
            parts = tuple(p for p in parts if not isinstance(p, ToolCallPart) or first[p.id] is p)
            calls = tuple(call for call in calls if first[call.id] is call)
        goal_id = message.goal_id
        at = len(self.blocks)
        for call in calls:
            self._callers[call.id] = at
            self._open[call.id] = CallWithResult(call, None, goal_id, None)
        self.blocks.append(Block("assistant", goal_id, message.sequence, parts))

    def _answer(self, message: Message) -> None:
        # Use the last message before it that made the call: some servers restart their numbering in each answer, so an
        # id alone is ambiguous.
        result = next((part for part in message.content if part.type == "tool_result"), None)
        if result is None:
            return
        self.has_rules = self.has_rules or METADATA_KEY in result.metadata
        call_id = result.tool_call_id
        waits = self._open.get(call_id)
        if waits is not None:
            if waits.result is None:
                self._open[call_id] = CallWithResult(waits.call, result, message.goal_id, message.sequence)
        elif (at := self._callers.get(call_id)) is not None:
            self._close()
            block = self.blocks[at]
            late = CallWithResult(block.answers[0].call, result, message.goal_id, message.sequence)
            self.blocks[at] = block.but(
                answers=tuple(
                    replace(late, call=answer.call)
                    if answer.call.id == call_id and answer.result is None
                    else answer
                    for answer in block.answers
                )
            )

    def _close(self) -> None:
        """The last message of the model has all of its results that came right behind it."""
        if self._open:
            self.blocks[-1].answers = tuple(self._open.values())
            self._open = {}

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
                    words,
                    kind="compaction",
                )
                for m in stored
                if (words := _words(m))
            )
            self.compaction = Compaction(mark, blocks, stored[0].sequence, self._before)
            self._triple = {}


def _sent(
    content: Sequence[Part],
) -> tuple[tuple[Part, ...], tuple[ToolCallPart, ...], CompactionPart | None]:
    """Return the parts of a message that are sent, the calls among them, and the mark of a compaction."""
    parts: list[Part] = []
    calls: list[ToolCallPart] = []
    mark: CompactionPart | None = None
    # Compare the name of the type, because isinstance() asks pydantic, which takes ten times as long.
    for part in content:
        if part.type == "tool_call":
            calls.append(part)
            parts.append(part)
        elif part.type == "text" or part.type == "note":
            text = part.text
            if text and (text[0] > " " or text.strip()):
                parts.append(part)
        elif part.type == "reasoning" or part.type == "file":
            parts.append(part)
        elif part.type == "subtask":
            if part.prompt.strip():
                parts.append(TextPart(text=part.prompt))
        elif part.type == "agent":
            parts.append(
                NotePart(text=f"From here on you are the agent {part.agent}: the user switched to it.")
            )
        elif part.type == "compaction":
            mark = part
    return tuple(parts), tuple(calls), mark


def _words(message: Message) -> tuple[Part, ...]:
    return tuple(part for part in _sent(message.content)[0] if isinstance(part, TextPart | NotePart))
