"""The notes that a session's windows have in place of messages. Keeping them saves time and changes no result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.context.windowing.blocks import Block, Kind, Rules, note
from daemon.context.windowing.notes import summary_text
from daemon.model.messages import NotePart

if TYPE_CHECKING:
    from daemon.model.goals import Goal
    from daemon.plan.tree import PlanTree


class NoteCache:
    """The notes of the last windows of one session."""

    def __init__(self) -> None:
        self._notes: dict[object, Block] = {}
        self._old_notes: dict[object, Block] = {}
        self._summaries: dict[str, tuple[tuple[Goal, ...], str]] = {}

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

    def extended(self, block: Block, text: str) -> Block:
        """Return a note with this text at its end; the same one for the same words."""
        key = (block, text)
        found = self._old_notes.get(key)
        if found is None:
            texts = [part.text for part in block.parts if isinstance(part, NotePart)]
            found = block.but(parts=(NotePart(text="\n\n".join([*texts, text])),))
        self._notes[key] = found
        return found
