"""The plan as the model reads it: in each request, and from ``read_progress``.

The plan goes uncached with every request, so it is bounded. The least informative parts are left out first: the goals
below finished ones, those below goals that are far away, then far siblings, then long texts. The goals on the way to
the current one, those beside them and those below it stay. Whatever the size of the tree, only the shown goals and
their siblings are visited.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from daemon.model.goals import Goal
from daemon.model.tags import plain
from daemon.plan.changes import MAX_DESCRIPTION
from daemon.plan.dependencies import needed
from daemon.plan.goal_index import ENDED
from tools.text.truncate import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from daemon.plan.tree import PlanTree

MAX_PLAN = 6_000
"""Characters of the plan in a request."""
MAX_PROGRESS = 30_000
"""Characters of an answer of ``read_progress``."""
_MAX_MISSION = 240
"""Most characters of the mission: the full text is in the context too, as the user's own words."""

_MARK = {"completed": "✓", "in_progress": "→", "pending": " ", "abandoned": "✗"}
_NEVER_BEGUN = "-"
"""Mark of a goal that was abandoned before it had any work, as in ``daemon.steps.texts``."""


class _Detail(Struct, frozen=True):
    """The level of detail."""

    summary: int = 80
    """Characters of a summary; 0: none. The full text is in the context, until a full compaction."""
    description: int = MAX_DESCRIPTION
    below_done: bool = False
    """Goals below completed ones."""
    below_far: bool = True
    """Goals below open ones that do not lead to the focus."""
    near: int | None = None
    """Goals at each side of the one that leads to the focus; None: all."""
    levels: int | None = None
    """Levels on the way to the focus; None: all."""
    given_up: bool = False
    """Include abandoned goals, which have no numbers. Only where a whole level is shown."""
    numbers: bool = True
    """Each goal with its number, and the current one marked."""
    ids: bool = False
    """Open goals with their ids, by which they can be named whatever their numbers become."""


_LESS_AND_LESS = (
    _Detail(),
    _Detail(near=12),
    _Detail(80, 300, below_far=False, near=8, levels=16),
    _Detail(80, 200, below_far=False, near=4, levels=10),
    _Detail(80, 120, below_far=False, near=2, levels=8),
    _Detail(60, 80, below_far=False, near=1, levels=6),
    _Detail(0, 60, below_far=False, near=0, levels=5),
)


_WITH_LONG_SUMMARIES = (_Detail(240), _Detail(120))
"""Levels of detail of the plan in a request while there is room."""


def plan_to_prompt(tree: PlanTree, *, ids: bool = False) -> str:
    """Return ``## Current Plan`` with mission, current goal and progress, in at most ``MAX_PLAN`` characters.

    Abandoned goals are left out. ``ids``: open goals are shown with their ids, for a model that can edit the plan.
    """
    head = ["## Current Plan", ""]
    if tree.mission:
        head.append(f"**Mission**: {one_line(tree.mission, _MAX_MISSION)}")
    if tree.current_id is not None and (number := tree.number_of(tree.current_id)) is not None:
        head.append(f"**Current**: {number} {tree.goals[tree.current_id].description}")
    taken = sum(map(len, head)) + len(head) + len("\n**Progress**:\n")
    details = [replace(detail, ids=ids) for detail in (*_WITH_LONG_SUMMARIES, *_LESS_AND_LESS)]
    progress = _bounded(tree, details, MAX_PLAN - taken)
    return plain("\n".join([*head, "", "**Progress**:", *progress] if progress else head))


def progress_text(tree: PlanTree, *, ids: bool = False) -> str:
    """Return all goals with their marks and numbers, without summaries.

    Abandoned ones are included; in a plan that is too long they are the first to be left out. At most ``MAX_PROGRESS``
    characters.
    """
    return _progress(tree, numbers=True, ids=ids)


def _progress(tree: PlanTree, *, numbers: bool, ids: bool = False) -> str:
    if not tree.goals:
        return "The plan is empty."
    briefly = [replace(detail, summary=0, numbers=numbers, ids=ids) for detail in _LESS_AND_LESS]
    whole = replace(briefly[0], below_done=True)
    further = [replace(detail, near=100, levels=None) for detail in briefly[1:3]]
    all_of_it = replace(whole, given_up=True)
    lines = _bounded(tree, [all_of_it, whole, briefly[0], *further, *briefly[1:]], MAX_PROGRESS)
    return "\n".join(lines) or "The plan has no goals left: all were abandoned."


def todo_text(tree: PlanTree) -> str:
    """Return ``[mark] description`` of each goal, those below it indented.

    At most ``MAX_PROGRESS`` characters.
    """
    return _progress(tree, numbers=False)


def progress_lines(tree: PlanTree) -> list[str]:
    """Return one line a live goal, a finished one with its summary under it. All of them."""
    return list(_Lines(tree).told(_Detail(below_done=True)))


def _bounded(tree: PlanTree, details: Sequence[_Detail], limit: int) -> list[str]:
    source = _Lines(tree)
    found: list[str] = []
    for detail in details:
        found, left = [], limit
        for line in source.told(detail):
            left -= len(line) + 1
            if left < 0:
                break
            found.append(line)
        if left >= 0:
            break
    # Even the smallest form may not fit when an untrusted log nests goals endlessly; use it anyway.
    return found


_Item = str | tuple[Goal, str, int]
"""A line, or a goal with its number and depth, still to be written."""


class _Level(Struct, frozen=True):
    """The live goals below one."""

    goals: Sequence[Goal]
    done: Sequence[int]
    """How many of those before each place are completed."""
    middle: int
    """Place of the one that leads to the focus, or is to be done next."""


class _Lines:
    """The lines of one tree, in more or less detail."""

    def __init__(self, tree: PlanTree) -> None:
        self._tree = tree
        self._detail = _Detail()
        self._levels: dict[str | None, _Level] = {}
        self._way: list[Goal] = []
        """From the top to the current goal."""
        current = tree.goals.get(tree.current_id or "")
        number = None if current is None else tree.number_of(current.id)
        if current is not None and number is not None:
            self._way = [*reversed(list(tree.ancestors(current.id))), current]
            self._steps = number.split(".")
        self._on_way = {goal.id for goal in self._way}

    def told(self, detail: _Detail) -> Iterator[str]:
        """Yield the lines, lazily."""
        self._detail = detail
        stack = [self._everything(None, "", 0) if detail.given_up else self._level(None, "", 0)]
        while stack:
            item = next(stack[-1], None)
            if item is None:
                stack.pop()
            elif isinstance(item, str):
                yield item
            else:
                yield from self._goal(*item)
                stack.append(self._below(*item))

    def _goal(self, goal: Goal, number: str, depth: int) -> Iterator[str]:
        description = one_line(goal.description, self._detail.description)
        if self._detail.numbers and number:
            dot = "" if "." in number else "."
            here = "  ← current" if goal.id == self._tree.current_id else ""
            goal_id = self._id(goal) if self._detail.ids and goal.status not in ENDED else ""
            description = f"{number}{dot} {description}{goal_id}{here}"
        skipped = goal.status == "abandoned" and not goal.cumulative_stats.message_count
        mark = _NEVER_BEGUN if skipped else _MARK.get(goal.status, " ")
        yield f"{_indent(depth)}[{mark}] {description}"
        if goal.status == "completed" and goal.summary and self._detail.summary and not self._repeats(goal):
            yield f"{_indent(depth)}    → {one_line(goal.summary, self._detail.summary)}"

    def _id(self, goal: Goal) -> str:
        """Return its id, behind the ids of the goals that it waits for."""
        waits = ", ".join(f"g{need.id}" for need in needed(self._tree, goal)) if goal.needs else ""
        return f"  [needs {waits}]  (g{goal.id})" if waits else f"  (g{goal.id})"

    def _repeats(self, goal: Goal) -> bool:
        # A goal completed with its last child: its children have the same text one line further down.
        below = self._detail.below_done and self._below_goal(goal.id).goals
        return bool(below) and goal.summary == self._tree.summary_of_children(goal.id)

    def _below(self, goal: Goal, number: str, depth: int) -> Iterator[_Item]:
        detail = self._detail
        if detail.given_up:
            yield from self._everything(goal.id, f"{number}." if number else None, depth + 1)
            return
        if goal.id in self._on_way:
            if detail.levels is not None and len(self._way) > detail.levels and goal.id == self._way[1].id:
                place = len(self._way) - detail.levels + 2
                yield f"{_indent(depth + 1)}[…] {place - 2} levels down"
                yield self._way[place], ".".join(self._steps[: place + 1]), depth + 1
            else:
                yield from self._level(goal.id, f"{number}.", depth + 1)
        elif goal.status == "completed":
            if detail.below_done:
                yield from self._level(goal.id, f"{number}.", depth + 1)
        elif detail.below_far:
            yield from self._level(goal.id, f"{number}.", depth + 1)
        else:
            yield from self._folded(goal.id, 0, None, f"{number}.", depth + 1)

    def _everything(self, parent: str | None, prefix: str | None, depth: int) -> Iterator[_Item]:
        """Yield all goals, including abandoned ones. ``prefix`` None: below such a goal, where nothing has a number."""
        places = itertools.count(1)
        for goal in self._tree.children(parent):
            numbered = prefix is not None and goal.status != "abandoned"
            yield goal, f"{prefix}{next(places)}" if numbered else "", depth

    def _level(self, parent: str | None, prefix: str, depth: int) -> Iterator[_Item]:
        goals = self._below_goal(parent).goals
        start, end = self._window(self._below_goal(parent))
        yield from self._folded(parent, 0, start, prefix, depth)
        for place in range(start, end):
            yield goals[place], f"{prefix}{place + 1}", depth
        yield from self._folded(parent, end, None, prefix, depth)

    def _window(self, level: _Level) -> tuple[int, int]:
        """Return the range of goals to show of a level: those around its middle."""
        near, count = self._detail.near, len(level.goals)
        if near is None or count <= 2 * near + 1:
            return 0, count
        start, end = max(0, level.middle - near), min(count, level.middle + near + 1)
        # A line about one omitted goal is no shorter than the goal.
        return (0 if start == 1 else start), (count if end == count - 1 else end)

    def _folded(
        self, parent: str | None, start: int, end: int | None, prefix: str, depth: int
    ) -> Iterator[str]:
        """Yield one line for the goals of a level from ``start`` up to ``end`` (None: its end), if there are any."""
        level = self._below_goal(parent)
        end = len(level.goals) if end is None else end
        if (count := end - start) <= 0:
            return
        done = level.done[end] - level.done[start]
        how = "done" if done == count else "to do" if done == 0 else f"({done} done, {count - done} to do)"
        what = "goal" if count == 1 else "goals"
        more = "" if count == len(level.goals) else "more "
        # Show numbers, so that one of them can be focused, unless they would fill most of the line.
        first, last = f"{prefix}{start + 1}", f"{prefix}{end}"
        span = "" if len(prefix) > 20 else f"{first}: " if count == 1 else f"{first}–{last}: "
        yield f"{_indent(depth)}[…] {span}{count} {more}{what} {how}"

    def _below_goal(self, parent: str | None) -> _Level:
        # Cache it, because rendering in less and less detail asks for a level again and again.
        if (known := self._levels.get(parent)) is not None:
            return known
        goals = self._tree.live_children(parent)
        done = [0, *itertools.accumulate(goal.status == "completed" for goal in goals)]
        middle = next((place for place, goal in enumerate(goals) if goal.id in self._on_way), None)
        if middle is None:
            middle = next(
                (place for place, goal in enumerate(goals) if goal.status != "completed"), len(goals)
            )
        level = self._levels[parent] = _Level(goals, done, min(middle, max(0, len(goals) - 1)))
        return level


def _indent(depth: int) -> str:
    return "    " * depth
