"""The goals of one session, indexed: reading them, their display numbers, and applying planned changes.

Costs: a change visits one goal's siblings, its place in the flat list and its ancestors; counting a message touches
only the chain from its goal to the root; a copy shares all goals and all lists of siblings. A log or snapshot may be
damaged, or untrusted: then the tree has whatever is usable, and never raises or loops. A goal whose parent is lost is a
top-level goal, for the model and for clients.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any, Self

from pydantic import ValidationError

from daemon.model.events import AffectedGoal, GoalAdded, GoalEvent, GoalMoved, GoalRemoved, GoalUpdated
from daemon.model.goals import Goal, GoalStats, GoalTree
from daemon.plan.changes import Added, Change, Moved, PlanError, Removed, Updated
from daemon.plan.goal_stats import with_counts
from tools.localization import t
from tools.text.truncate import short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

ENDED = ("completed", "abandoned")

_NUMBER = re.compile(r"(?:goal|step|no\.?|#)?\s*(\d+(?:\.\d+)*)\.?(?:[\s:)\]].*)?", re.IGNORECASE)
_ID = re.compile(r"(?:(?:.*\s)?\(g(\d+)\)|g(\d+))(?:\s*← current)?", re.IGNORECASE)
"""An id as the plan shows it, ``g4``, or a copied line that ends with one: ``2. Build  (g4)  ← current``."""
_AFFECTED = ("status", "summary", "self_stats", "cumulative_stats")
_CHANGEABLE = frozenset(Goal.model_fields) - {"id", "parent_id"}


class GoalIndex:
    """The goals of one session, indexed. ``PlanTree`` adds the operations."""

    def __init__(
        self,
        tree: GoalTree | None = None,
        *,
        last_id: int = 0,
        replaceable: str | None = None,
        replaced: Mapping[str, str] | None = None,
    ) -> None:
        """``last_id``, ``replaceable`` and ``replaced`` are those of the tree that ``tree`` is a snapshot of."""
        tree = tree or GoalTree()
        self.mission = tree.mission
        self.goals: dict[str, Goal] = {}
        self._order: list[str] = []
        self._children: dict[str | None, list[str]] = {}
        self._own: set[str | None] = set()
        """Parents whose list of children no copy shares."""
        self._abandoned: set[str] = set()
        self.revision = 0
        """Grows with each change except counts: anything derived from the plan stays valid while it is equal."""
        self.last_id = last_id
        """Number of the newest id; those of removed goals are not given again."""
        self.replaceable: str | None = None
        """The goal abandoned last, until a goal at its level replaces it or work continues elsewhere."""
        self.replaced: dict[str, str] = {}
        """The abandoned goal that a goal took the place of, by the id of the new one."""
        for goal in _rooted(tree.goals):
            self._insert(goal, None)
        self.replaceable = replaceable
        self.replaced = dict(replaced or {})
        self.current_id: str | None = None
        self._set_focus(tree.current_id)

    def skip_ids(self, last: int) -> None:
        """Give no id up to this number."""
        self.last_id = max(self.last_id, last)

    # -- reading --

    def snapshot(self) -> GoalTree:
        """Return the tree as data."""
        return GoalTree(
            mission=self.mission, current_id=self.current_id, goals=[self.goals[i] for i in self._order]
        )

    def copy(self) -> Self:
        """Return an independent copy, to try operations on. Its contents are shared until one of the two changes."""
        twin = type(self)()
        twin.mission, twin.current_id = self.mission, self.current_id
        twin.last_id, twin.replaceable = self.last_id, self.replaceable
        twin.goals, twin.replaced = dict(self.goals), dict(self.replaced)
        twin._order, twin._abandoned = list(self._order), set(self._abandoned)
        twin._children = dict(self._children)
        self._own = set()
        return twin

    def children(self, goal_id: str | None) -> list[Goal]:
        """Children in order, abandoned ones too; None for the top level."""
        return [self.goals[i] for i in self._children.get(goal_id, ())]

    def live_children(self, goal_id: str | None) -> list[Goal]:
        """Children in order without abandoned ones: the ones that have numbers, from 1."""
        return [self.goals[i] for i in self._children.get(goal_id, ()) if i not in self._abandoned]

    def following(self, goal_id: str) -> str | None:
        """Return the next goal at the level of a goal, even an abandoned one; None for the last."""
        siblings = self._children.get(self.goals[goal_id].parent_id, [])
        return next(iter(siblings[siblings.index(goal_id) + 1 :]), None)

    def next_open(self, goal_id: str | None) -> Goal | None:
        """Return the first child that has not ended; None for the top level."""
        children = (self.goals[i] for i in self._children.get(goal_id, ()))
        return next((goal for goal in children if goal.status not in ENDED), None)

    def next_step(self, goal_id: str | None) -> Goal | None:
        """Return the first open goal below one (None: of all) without open goals below it."""
        found = self.next_open(goal_id)
        while found is not None and (inner := self.next_open(found.id)) is not None:
            found = inner
        return found

    def ancestors(self, goal_id: str) -> Iterator[Goal]:
        """Parent, grandparent, … of a goal; none of an unknown one."""
        goal = self.goals.get(goal_id)
        while goal is not None and goal.parent_id is not None:
            goal = self.goals[goal.parent_id]
            yield goal

    def descendants(self, goal_id: str) -> Iterator[Goal]:
        """Yield all goals below a goal, parents first."""
        todo = list(reversed(self._children.get(goal_id, ())))
        while todo:
            below = todo.pop()
            yield self.goals[below]
            todo += reversed(self._children.get(below, ()))

    def ended_root(self, goal_id: str | None) -> str | None:
        """Return the topmost completed or abandoned goal among a goal and its ancestors; None when all are open.

        None also for a goal that is not in the tree.
        """
        goal = self.goals.get(goal_id or "")
        if goal is None:
            return None
        root = goal.id if goal.status in ENDED else None
        for above in self.ancestors(goal.id):
            if above.status in ENDED:
                root = above.id
        return root

    def predecessors(self, goal_id: str) -> list[Goal]:
        """Return the abandoned goals that a goal replaces, oldest first."""
        found: dict[str, Goal] = {}
        before = self.replaced.get(goal_id)
        while before is not None and before not in found:
            goal = self.goals.get(before)
            if goal is None or goal.status != "abandoned":
                break
            found[before] = goal
            before = self.replaced.get(before)
        return list(reversed(found.values()))

    # -- display numbers: consecutive, abandoned goals and all below them left out --

    def numbers(self) -> dict[str, str]:
        """Display number of each live goal by id, in the order of the plan. Walks the whole tree."""
        return dict(self._numbered())

    def number_of(self, goal_id: str) -> str | None:
        """Display number of a goal; None for one that has none (abandoned, below such a one, unknown)."""
        goal = self.goals.get(goal_id)
        if goal is None:
            return None
        steps: list[str] = []
        for step in reversed([goal, *self.ancestors(goal_id)]):
            if step.id in self._abandoned:
                return None
            siblings = self._children[step.parent_id]
            place = siblings.index(step.id)
            gone = sum(map(self._abandoned.__contains__, itertools.islice(siblings, place)))
            steps.append(str(place + 1 - gone))
        return ".".join(steps)

    def find(self, number: str) -> Goal:
        """Return the goal with an id (``g4``), or the live goal with a display number (``2.1.``, ``#2``, ``2. Build
        it``).

        The description of one open goal is understood too. Raises PlanError with the numbers that exist.
        """
        if (goal := self.with_id(number)) is not None:
            return goal
        match = _NUMBER.fullmatch(number.strip())
        if match is None:
            return self._described(number)
        goal_id: str | None = None
        for step in match[1].split("."):
            live = (i for i in self._children.get(goal_id, ()) if i not in self._abandoned)
            place = int(step) if len(step) <= 9 else 0
            goal_id = next(itertools.islice(live, place - 1, None), None) if place else None
            if goal_id is None:
                break
        if goal_id is None:
            raise PlanError(self._no_such_goal(number))
        return self.goals[goal_id]

    def with_id(self, text: str) -> Goal | None:
        """Return the goal that a text names by its id, which stays the same while numbers shift."""
        match = _ID.fullmatch(text.strip())
        return None if match is None else self.goals.get(match[1] or match[2])

    def _described(self, text: str) -> Goal:
        wanted = " ".join(text.split()).casefold()
        same = [goal for goal in self.goals.values() if goal.description.casefold() == wanted]
        same = [goal for goal in same if self.ended_root(goal.id) is None]
        if len(same) != 1:
            raise PlanError(self._no_such_goal(text))
        return same[0]

    def goal(self, goal_id: str) -> Goal:
        """Return the goal with an id. Raises PlanError when there is none."""
        goal = self.goals.get(goal_id)
        if goal is None:
            raise PlanError(t("That goal is no longer in the plan."))
        return goal

    def title(self, goal_id: str, limit: int = 100) -> str:
        """Number and description of a goal in one line, the latter cut at ``limit`` characters."""
        goal = self.goals[goal_id]
        text = short(goal.description, limit)
        return f"{self.number_of(goal_id) or ''} {text}".strip()

    def _numbered(self) -> Iterator[tuple[str, str]]:
        """Each live goal's id with its number, in the order of the plan."""

        def level(parent: str | None, prefix: str) -> list[tuple[str, str]]:
            live = (one for one in self._children.get(parent, ()) if one not in self._abandoned)
            return [(goal_id, f"{prefix}{place}") for place, goal_id in enumerate(live, 1)][::-1]

        todo = level(None, "")
        while todo:
            goal_id, number = todo.pop()
            yield goal_id, number
            if goal_id in self._children:
                todo += level(goal_id, f"{number}.")

    def _no_such_goal(self, number: str) -> str:
        wanted = short(number, 80)
        known = [found for _, found in itertools.islice(self._numbered(), 31)]
        if not known:
            return t("There is no goal {wanted}: the plan is empty. Add goals first.", wanted=wanted)
        shown = ", ".join(known[:30]) + (", …" if len(known) > 30 else "")
        return t("There is no goal {wanted}. Goals: {shown}.", wanted=wanted, shown=shown)

    # -- changing --

    def apply(self, change: Change | GoalEvent) -> None:
        """Make a change that was planned on this state of the tree, or that an event stores (in the same order)."""
        self.revision += 1
        if isinstance(change, Added | GoalAdded):
            known = change.goal.parent_id is None or change.goal.parent_id in self.goals
            self._insert(change.goal if known else _on_top(change.goal), change.index)
        elif isinstance(change, Updated | GoalUpdated):
            self._update(change.goal_id, change.updates)
            for affected in change.affected_goals:
                self._affect(affected)
            self._set_focus(change.current_id)
        elif isinstance(change, Moved | GoalMoved):
            self._move(change)
        else:
            self._remove(change)

    def _insert(self, goal: Goal, index: int | None) -> None:
        if goal.id in self.goals:
            return
        siblings = self._changeable(goal.parent_id)
        if index is None or not 0 <= index < len(self._order):
            self._order.append(goal.id)
            siblings.append(goal.id)
        else:
            siblings.insert(self._place_among(siblings, goal.parent_id, index), goal.id)
            self._order.insert(index, goal.id)
        self._put(goal)
        if goal.id.isdecimal() and len(goal.id) < 16:
            self.skip_ids(int(goal.id))
        replaced = self.goals.get(self.replaceable or "")
        if replaced is not None and replaced.parent_id == goal.parent_id:
            self.replaced[goal.id] = replaced.id
            self.replaceable = None

    def _place_among(self, siblings: list[str], parent: str | None, index: int) -> int:
        # Find the neighbouring sibling in the flat list, mostly directly behind or before it.
        behind = self._order[index]
        if self.goals[behind].parent_id == parent:
            return siblings.index(behind)
        for before in reversed(self._order[:index]):
            if self.goals[before].parent_id == parent:
                return siblings.index(before) + 1
        return 0

    def _update(self, goal_id: str, updates: Mapping[str, Any]) -> None:
        goal = self.goals.get(goal_id)
        if (status := updates.get("status")) is not None:
            self.replaceable = goal_id if status == "abandoned" else None
        if goal is None:
            return
        wanted = {key: value for key, value in updates.items() if key in _CHANGEABLE}
        try:
            self._put(Goal.model_validate({**goal.__dict__, **wanted}))
        except ValidationError:
            # The event comes from an untrusted log, so the goal stays unchanged.
            return

    def _affect(self, affected: AffectedGoal) -> None:
        goal = self.goals.get(affected.goal_id)
        if goal is None:
            return
        values = {name: getattr(affected, name) for name in _AFFECTED}
        self._put(
            goal.model_copy(update={name: value for name, value in values.items() if value is not None})
        )

    def _move(self, change: Moved | GoalMoved) -> None:
        goal, parent = self.goals.get(change.goal_id), change.parent_id
        if goal is None or (parent is not None and parent not in self.goals):
            return
        if parent == goal.id or (parent and any(above.id == goal.id for above in self.ancestors(parent))):
            return
        self._changeable(goal.parent_id).remove(goal.id)
        self._order.remove(goal.id)
        siblings = self._changeable(parent)
        if change.before_id is not None and change.before_id in siblings:
            siblings.insert(siblings.index(change.before_id), goal.id)
            self._order.insert(self._order.index(change.before_id), goal.id)
        else:
            siblings.append(goal.id)
            self._order.append(goal.id)
        self._put(goal.model_copy(update={"parent_id": parent}))
        self.apply_counts(change.affected_goals)

    def _remove(self, change: Removed | GoalRemoved) -> None:
        goal = self.goals.pop(change.goal_id, None)
        if goal is not None:
            self._order.remove(goal.id)
            self._changeable(goal.parent_id).remove(goal.id)
            if below := self._children.pop(goal.id, None):  # only in a damaged log
                self.goals |= {child: _on_top(self.goals[child]) for child in below}
                self._children[None] = [i for i in self._order if self.goals[i].parent_id is None]
            self._own.discard(goal.id)
            self._abandoned.discard(goal.id)
            if (before := self.replaced.pop(goal.id, None)) is not None:
                # The goal had replaced an abandoned one and did no work, so the place is free again.
                self.replaceable = before
        self._set_focus(change.current_id)

    def _put(self, goal: Goal) -> None:
        self.goals[goal.id] = goal
        if goal.status == "abandoned":
            self._abandoned.add(goal.id)
        else:
            self._abandoned.discard(goal.id)

    def _set_focus(self, goal_id: str | None) -> None:
        # Work never belongs to an ended goal, because nothing of it would stay in the context.
        self.current_id = goal_id if goal_id in self.goals and self.ended_root(goal_id) is None else None

    def _changeable(self, parent: str | None) -> list[str]:
        if parent not in self._own:
            self._own.add(parent)
            self._children[parent] = list(self._children.get(parent, ()))
        return self._children[parent]

    # -- counting --

    def count(
        self,
        goal_id: str | None,
        *,
        tokens: int,
        cost: float,
        tools: Sequence[str],
        time_of: Callable[[str], int] = lambda _: 0,
        unpriced: int = 0,
    ) -> tuple[AffectedGoal, ...]:
        """Return the effect of one more message on its goal and that goal's ancestors; nothing is changed yet.

        Own and cumulative numbers for the goal, cumulative ones for its ancestors. ``time_of``: its milliseconds for a
        goal, see ``daemon.plan.goal_stats.OverlapTimer``; ``unpriced``: tokens whose price is not known.
        """
        goal = self.goals.get(goal_id or "")
        if goal is None:
            return ()

        def more(stats: GoalStats, place: str) -> GoalStats:
            return with_counts(stats, tokens, cost, tools, time_of(place), unpriced)

        affected = [
            AffectedGoal(
                goal_id=goal.id,
                self_stats=more(goal.self_stats, f"{goal.id} alone"),
                cumulative_stats=more(goal.cumulative_stats, goal.id),
            )
        ]
        affected.extend(
            AffectedGoal(goal_id=ancestor.id, cumulative_stats=more(ancestor.cumulative_stats, ancestor.id))
            for ancestor in self.ancestors(goal.id)
        )
        return tuple(affected)

    def apply_counts(self, affected: Iterable[AffectedGoal]) -> None:
        """Take over what ``count`` computed."""
        for item in affected:
            self._affect(item)


def _on_top(goal: Goal) -> Goal:
    return goal.model_copy(update={"parent_id": None})


def _rooted(goals: Iterable[Goal]) -> Iterable[Goal]:
    """Yield stored goals; one whose parent is lost, and the first of a circle of parents, as top-level goals."""
    by_id: dict[str, Goal] = {}
    for goal in goals:
        by_id.setdefault(goal.id, goal)
    rooted: set[str] = set()
    for first in list(by_id):
        way: dict[str, None] = {}
        at: str | None = first
        while at is not None and at not in rooted:
            way[at] = None
            parent = by_id[at].parent_id
            if parent is not None and (parent in way or parent not in by_id):
                lost = parent if parent in way else at
                by_id[lost] = _on_top(by_id[lost])
                parent = None
            at = parent
        rooted |= way.keys()
    return by_id.values()
