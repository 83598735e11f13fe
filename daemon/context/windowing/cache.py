"""The cache that a session keeps from one window to the next. It saves time and changes no result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.context.windowing.goals import GoalCompaction
from daemon.context.windowing.notes import NoteCache
from daemon.context.windowing.pairing import MessageReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.context.windowing.blocks import Block, WindowMessage
    from daemon.context.windowing.goals import GoalStatuses
    from daemon.model.messages import Message
    from daemon.plan.tree import PlanTree


class WindowCache:
    """The cache of one session. For two sessions at once results would still be right, but slow."""

    def __init__(self) -> None:
        self.notes = NoteCache()
        self._reader = MessageReader()
        self._goals: GoalCompaction | None = None
        self._blocks: list[Block] = []
        self._entries: list[WindowMessage] = []
        self._tokens = 0

    def reader(self, messages: Sequence[Message]) -> MessageReader:
        """Return a reader that has read ``messages``."""
        if not self._reader.follows(messages):
            self._reader = MessageReader()
        self._reader.read(messages)
        return self._reader

    def goals(
        self, plan: PlanTree, statuses: GoalStatuses, blocks: Sequence[Block], *, has_rules: bool
    ) -> GoalCompaction:
        """Return the pass over ``blocks`` that replaces those of ended goals: that of the last window if it goes on."""
        if self._goals is None or not self._goals.goes_on(plan, blocks, has_rules=has_rules):
            self._goals = GoalCompaction(plan, statuses, self.notes, has_rules=has_rules)
        return self._goals

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
