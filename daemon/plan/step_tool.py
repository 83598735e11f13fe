"""The ``step`` tool's operations on the goal tree. Pure.

It is the same plan as that of the ``goal`` tool: new steps go below the goal in focus, and the rules of the tree hold.
A plain list of steps needs two differences: goals are named by their descriptions, and completing a goal does not
require the steps below it that have not begun: they move beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from daemon.plan.changes import Added, Change, Focus, PlanError
from daemon.plan.goal_index import ENDED
from daemon.plan.goal_lookup import (
    HERE,
    LONGEST,
    NAMED,
    known_focus,
    levels,
    listed,
    named,
    place_of_new,
    spelling,
)
from tools.goal_lines import without_marks

if TYPE_CHECKING:
    from daemon.model.goals import Goal
    from daemon.plan.tree import PlanTree

_COPIED = re.compile(r"[✓→✗]\s*\]")
"""Marks of a shown plan, which nobody writes in a new list."""
_DONE = re.compile(r"\[\s*[xX✓✔✅]\s*\]|[☑✓✔✅]")
_NO_GOAL = re.compile(r"→\s|\[…\]")
"""Lines of a shown plan that are no goals: summaries, and counts of goals that are left out."""
MARKS = "A mark in plan does not complete a goal: use complete, with a summary."

_Make = Callable[[Sequence[Change]], None]


class StepCall(Struct):
    """One call of ``step``. ``changes`` plans it; the other fields then have the facts that the changes lack."""

    plan: Sequence[str] = ()
    focus: str | None = None
    complete: bool = False
    summary: str = ""
    seen: PlanTree | None = None
    """The plan as the model knows it; None: the current one."""
    known: list[str] = field(default_factory=list[str])
    """Ids of goals of ``plan`` that were there already, and open: they are not added again."""
    ended: list[str] = field(default_factory=list[str])
    """Ids of goals of ``plan`` that were completed already: it repeats the list, and they are not added again."""
    claimed: bool = False
    """``plan`` marks something as done that is not."""
    moved: list[str] = field(default_factory=list[str])
    """Ids of goals without work that were moved beside their parent because it is completed."""

    def changes(self, tree: PlanTree) -> list[Change]:
        """Return the changes in the order complete, focus, plan; ``focus`` may name a goal of ``plan``.

        Raises PlanError; the tree is unchanged. The model's numbers refer to ``tree``.
        """
        self.known, self.ended, self.moved, self.claimed = [], [], [], False
        trial, done = tree.copy(), list[Change]()

        def make(changes: Sequence[Change]) -> None:
            for change in changes:
                trial.apply(change)
            done.extend(changes)

        ending = known_focus(tree, self.seen) if self.complete else None
        wanted = self._wanted(tree, ending)
        if self.complete:
            if ending is not None:
                self._make_room(trial, ending, make)
            going_on = None if wanted is None else wanted.id
            make(trial.plan_done(self.summary, ending, going_on=going_on))
        if wanted is not None:
            make(trial.plan_focus(wanted))
        if self.plan:
            new = self._new(trial)
            parent = Focus.CURRENT if wanted is not None else place_of_new(tree, self.seen, trial)
            added = trial.plan_add(new, "", parent_id=parent) if new else []
            make(added)
            if self.focus is not None and wanted is None:
                make(trial.plan_focus(self._added(trial, added)))
        return done

    def _wanted(self, tree: PlanTree, ending: Goal | None) -> Goal | None:
        """Return the goal to focus; None for none, and for one that this call is to add."""
        if self.focus is None:
            return None
        if spelling(self.focus) in map(spelling, self.plan):
            return None
        try:
            found = named(tree, self.focus, self.seen)
        except PlanError:
            if not self.plan:
                raise
            return None
        if ending is not None and found.id == ending.id:
            raise PlanError(
                "focus names the goal that this call completes: name the next one, or leave it out."
            )
        return found

    def _new(self, tree: PlanTree) -> list[str]:
        """Return the new lines of ``plan``: models tend to send the whole list again, as they have it or see it."""
        copied = any(_COPIED.search(line) or HERE.search(line) for line in self.plan)
        lines = [line for line in self.plan if not (copied and _NO_GOAL.match(line.strip()))]
        near = _near(tree)
        found: dict[str, tuple[str, Goal | None]] = {}
        for line in lines:
            text = without_marks(HERE.sub("", line))
            goal = near.get(spelling(text)) or (listed(tree, text) if copied else None)
            found.setdefault(goal.id if goal is not None else spelling(text), (line, goal))
        goals = [goal for _, goal in found.values()]
        # A finished goal in a repeated list is not added again. Alone, or after something new, it is a new goal:
        # running the tests once more is a goal like others.
        again = copied or (len(goals) > 1 and (goals[0] is not None or any(map(_is_open, goals))))
        new: list[str] = []
        for line, goal in found.values():
            open_still = _is_open(goal)
            if goal is not None and open_still:
                self.known.append(goal.id)
            elif goal is not None and again and not self._focuses(goal):
                self.ended.append(goal.id)
            else:
                new.append(without_marks(HERE.sub("", line)))
            self.claimed |= (goal is None or open_still) and _DONE.match(line.strip(" \t-*•")) is not None
        return new

    def _focuses(self, goal: Goal) -> bool:
        return self.focus is not None and spelling(self.focus) == spelling(goal.description)

    def _added(self, tree: PlanTree, added: Sequence[Change]) -> Goal:
        fresh = [change.goal for change in added if isinstance(change, Added)]
        wanted = spelling(self.focus or "")
        for goal in (*fresh, *(tree.goals[goal_id] for goal_id in self.known)):
            if spelling(goal.description) == wanted:
                return goal
        return named(tree, self.focus or "", self.seen)

    def _make_room(self, tree: PlanTree, goal: Goal, make: _Make) -> None:
        """Move open goals that have not begun from below a completed goal to its side, so that nothing of a plan is
        lost."""
        below = [child for child in tree.children(goal.id) if child.status not in ENDED]
        begun = [
            child for child in below if child.status != "pending" or child.cumulative_stats.message_count
        ]
        if begun:
            titles = "; ".join(tree.title(child.id, LONGEST) for child in begun[:NAMED])
            raise PlanError(
                f"Goal {tree.title(goal.id)} still has goals that were started: {titles}. Focus and "
                "complete each of them, then this one."
            )
        siblings = [child.id for child in tree.children(goal.parent_id)]
        following = siblings[siblings.index(goal.id) + 1 :][:1]
        for child in below:
            # Move all of them in order: whatever they need of each other stays before them.
            following_id = following[0] if following else None
            make(tree.plan_move(child, goal.parent_id, following_id, keep_needs=False))
            self.moved.append(child.id)


def _near(tree: PlanTree) -> dict[str, Goal]:
    """Return the goals that a plan may repeat: below the one in focus, beside it, and on the way to it; open ones
    first.

    Abandoned ones may be planned again.
    """
    here = [goal for level in levels(tree) for goal in level if goal.status != "abandoned"]
    found: dict[str, Goal] = {}
    for goal in (*filter(_is_open, here), *here):
        found.setdefault(spelling(goal.description), goal)
    return found


def _is_open(goal: Goal | None) -> bool:
    return goal is not None and goal.status not in ENDED
