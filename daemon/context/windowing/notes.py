"""Notes that replace messages that are no longer sent. They have no display numbers: those change, and bytes must
not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.context.windowing.blocks import Block, Kind, Rules, note
from daemon.model.goals import Goal
from daemon.model.messages import NotePart
from daemon.model.tags import attribute, plain
from tools.text.truncate import head

if TYPE_CHECKING:
    from daemon.plan.tree import PlanTree

MAX_SUMMARY_NOTE = 24_000
"""Characters: with more than this, the summaries of goals below the ended one are cut."""
_LEAST = 200
"""Characters that each of them keeps, as far as there is room at all."""

GO_ON = "Go on."
BEGINS = "What came before this is no longer known."
IN_SUMMARY = "The summary of their goal says what these calls did."


def summary_text(plan: PlanTree, root: Goal) -> str:
    """Return the message that replaces those of an ended goal and of the goals below it."""
    own, below = _own_words(plan, root), _below(plan, root)
    lines = _lines(below, None)
    if sum(map(len, lines)) + len(own) > MAX_SUMMARY_NOTE:
        lines = _fitted(below, max(0, MAX_SUMMARY_NOTE - len(own)))
    nothing = "completed without a summary" if root.status == "completed" else "abandoned without a reason"
    body = "\n".join(filter(None, (own, *lines))) or f"It was {nothing}."
    return (
        f'<goal_summary status="{root.status}" goal="{attribute(root.description)}">\n{body}\n</goal_summary>'
    )


def attempts_text(plan: PlanTree, goal: Goal) -> str:
    """Return the earlier attempts at ``goal`` and why they failed.

    ``goal`` itself is not named: it may be renamed, and this text is in the provider's cache.
    """
    lines = ["<earlier_attempts>", "Earlier attempts at this that were abandoned:"]
    for attempt in plan.predecessors(goal.id):
        why = plain((attempt.summary or "no reason was given").strip())
        lines.append(f"- {attribute(attempt.description)}: {_indented(why, 1)}")
    return "\n".join([*lines, "</earlier_attempts>"])


def _own_words(plan: PlanTree, goal: Goal) -> str:
    """Return the goal's summary, unless it only repeats its children's, joined: it completed with the last of them."""
    text = (goal.summary or goal.merge_summary or "").strip()
    with_children = goal.status == "completed" and bool(text) and bool(plan.live_children(goal.id))
    return "" if with_children and text == plan.summary_of_children(goal.id) else plain(text)


_Below = list[tuple[int, Goal, str]]
"""Depth, goal, and its own words."""


def _below(plan: PlanTree, root: Goal) -> _Below:
    """Return the goals below in order, without those that have nothing to report. Not recursive: a tree may be deep."""
    found: _Below = []
    seen = {root.id}
    todo = [(0, child) for child in reversed(plan.children(root.id))]
    while todo:
        depth, goal = todo.pop()
        if goal.id in seen:
            continue
        seen.add(goal.id)
        found.append((depth, goal, _own_words(plan, goal)))
        todo += [(depth + 1, child) for child in reversed(plan.children(goal.id))]
    kept: _Below = []
    needed = -1
    for depth, goal, words in reversed(found):
        # Abandoned with the goal above it, without a reason: kept only as a heading for goals below it.
        if words or goal.status != "abandoned" or needed > depth:
            kept.append((depth, goal, words))
            needed = depth
    return kept[::-1]


def _lines(below: _Below, limit: int | None) -> list[str]:
    found: list[str] = []
    for depth, goal, words in below:
        if limit is not None and len(words) > limit:
            words = f"{head(words, limit)} […]"
        words = _indented(words, depth + 1)
        said = {
            "completed": f": {words}" if words else "",
            "abandoned": f": abandoned: {words}" if words else ": abandoned",
        }.get(goal.status, f": not finished{f': {words}' if words else ''}")
        found.append(f"{'  ' * min(depth, 8)}- {attribute(goal.description)}{said}")
    return found


def _fitted(below: _Below, room: int) -> list[str]:
    names = sum(len(goal.description) + 16 for _, goal, _ in below)
    limit = max(_LEAST, (room - names) // max(1, len(below)))
    lines: list[str] = []
    for line in _lines(below, limit):
        room -= len(line) + 1
        if room < 0:
            lines.append(f"- and {len(below) - len(lines)} goals more")
            break
        lines.append(line)
    return lines


def _indented(text: str, depth: int) -> str:
    return text.replace("\n", "\n" + "  " * min(depth, 9))


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
