"""The cache that a session keeps from one window to the next. It saves time and changes no result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.context.windowing.blocks import Block, Kind, Rules, WindowMessage, note
from daemon.context.windowing.notes import summary_text
from daemon.context.windowing.pairing import MessageReader
from daemon.model.messages import NotePart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.model.goals import Goal
    from daemon.model.messages import Message
    from daemon.plan.tree import PlanTree


class WindowCache:
    """The cache of one session. For two sessions at once results would still be right, but slow."""

    def __init__(self) -> None:
        self._reader = MessageReader()
        self._notes: dict[object, Block] = {}
        self._old_notes: dict[object, Block] = {}
        self._summaries: dict[str, tuple[tuple[Goal, ...], str]] = {}
        self._blocks: list[Block] = []
        self._entries: list[WindowMessage] = []
        self._tokens = 0

    def reader(self, messages: Sequence[Message]) -> MessageReader:
        """Return a reader that has read ``messages``."""
        if not self._reader.follows(messages):
            self._reader = MessageReader()
        self._reader.read(messages)
        return self._reader

    def begin(self) -> None:
        """A window is built: notes that the one before the last had are forgotten."""
        self._old_notes, self._notes = self._notes, {}

    def note(
        self, text: str, kind: Kind, *, goal_id: str | None = None, sequence: int = 0, rules: Rules = ()
    ) -> Block:
        """Return the same block for the same text, so that whatever is cached with the block is found again."""
        key = (text, kind, goal_id, sequence, rules)
        found = self._old_notes.get(key)
        if found is None:
            found = note(text, kind, goal_id=goal_id, sequence=sequence, rules=rules)
        self._notes[key] = found
        return found

    def summary(self, plan: PlanTree, root: Goal) -> str:
        """Return the summary that replaces an ended goal. It is rebuilt only when one of its goals is another
        object."""
        goals = (root, *plan.descendants(root.id))
        known = self._summaries.get(root.id)
        if known is None or known[0] != goals:
            known = self._summaries[root.id] = (goals, summary_text(plan, root))
        return known[1]

    def entries(self, blocks: Sequence[Block]) -> tuple[list[WindowMessage], int]:
        """Return the messages of ``blocks`` and their tokens. Only what the last window had not is looked at."""
        known = len(self._blocks)
        if known >= len(blocks) or blocks[:known] != self._blocks:  # compares by identity
            known, self._blocks, self._entries, self._tokens = 0, [], [], 0
        # Results may still change the last block.
        new = blocks[known:-1]
        found = [entry for block in new for entry in block.entries]
        self._blocks += new
        self._entries += found
        self._tokens += sum([entry.tokens for entry in found])
        last = [entry for block in blocks[-1:] for entry in block.entries]
        return [*self._entries, *last], self._tokens + sum([entry.tokens for entry in last])

    def extended(self, block: Block, text: str) -> Block:
        """Return a note with this text at its end; the same one for the same words."""
        key = (block, text)
        found = self._old_notes.get(key)
        if found is None:
            texts = [part.text for part in block.parts if isinstance(part, NotePart)]
            found = block.but(parts=(NotePart(text="\n\n".join([*texts, text])),))
        self._notes[key] = found
        return found
