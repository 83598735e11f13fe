"""The live goal tree: every operation is checked first, then expressed as changes (source: seed 000).

An operation never half-happens: it returns the changes, and only ``apply`` changes the tree. The same changes
are stored as events, so replaying the log builds exactly the tree that was live. Costs: an operation looks at
one goal's siblings and ancestors; counting a message touches only the chain from its goal to the root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from daemon.model.events import AffectedGoal
from daemon.model.goals import Goal, GoalStats, GoalTree

MAX_GOALS_AT_ONCE = 50
MAX_DESCRIPTION = 500
MAX_SUMMARY = 8_000
_PREVIEW_SEGMENTS = 8


class PlanError(Exception):
    """The operation is not possible; the message is for the model and says what is."""


@dataclass(frozen=True, slots=True)
class Added:
    """``goal`` joins the flat list at ``index`` (None: at the end)."""

    goal: Goal
    index: int | None


@dataclass(frozen=True, slots=True)
class Updated:
    """Fields of a goal change; ancestors that change with it are in ``affected``."""

    goal_id: str
    updates: Mapping[str, Any]
    current_id: str | None
    affected: tuple[AffectedGoal, ...] = ()


@dataclass(frozen=True, slots=True)
class Removed:
    """A goal that nobody worked on leaves the plan without a trace in it."""

    goal_id: str
    current_id: str | None


@dataclass(frozen=True, slots=True)
class Moved:
    """A goal stands under another parent, or elsewhere among its siblings: before ``before_id``, None: last."""

    goal_id: str
    parent_id: str | None
    before_id: str | None
    affected: tuple[AffectedGoal, ...] = ()


Change = Added | Updated | Moved | Removed


class PlanTree:
    """The goal tree of one session (or branch), indexed for quick operations."""

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
        self.current_id = tree.current_id
        self.goals: dict[str, Goal] = {goal.id: goal for goal in tree.goals}
        self._order: list[str] = [goal.id for goal in tree.goals]
        self._children: dict[str | None, list[str]] = {}
        for goal in tree.goals:
            self._children.setdefault(goal.parent_id, []).append(goal.id)
        self.last_id = max([last_id, *(int(i) for i in self.goals if i.isdecimal())])
        """Number of the newest id; those of removed goals are not given again."""
        self.replaceable = replaceable
        """The goal abandoned last, until a goal at its level takes its place or work goes on elsewhere."""
        self.replaced = dict(replaced or {})
        """The abandoned goal that a goal took the place of, by the id of the new one."""

    # -- reading --

    def snapshot(self) -> GoalTree:
        """The tree as data."""
        return GoalTree(
            mission=self.mission, current_id=self.current_id, goals=[self.goals[i] for i in self._order]
        )

    def copy(self) -> PlanTree:
        """An independent copy, to try operations on."""
        return PlanTree(
            self.snapshot(), last_id=self.last_id, replaceable=self.replaceable, replaced=self.replaced
        )

    def children(self, goal_id: str | None) -> list[Goal]:
        """Children in order, abandoned ones too; None for the top level."""
        return [self.goals[i] for i in self._children.get(goal_id, ())]

    def ancestors(self, goal_id: str) -> Iterator[Goal]:
        """Parent, grandparent, … of a goal."""
        goal = self.goals[goal_id]
        # A damaged log may have lost a parent: its children then count as the top.
        while (goal := self.goals.get(goal.parent_id or "")) is not None:
            yield goal

    def numbers(self) -> dict[str, str]:
        """Display number by id: consecutive, abandoned goals (and all below them) left out."""
        found: dict[str, str] = {}

        def walk(parent: str | None, prefix: str) -> None:
            count = 0
            for child in self._children.get(parent, ()):
                if self.goals[child].status == "abandoned":
                    continue
                count += 1
                found[child] = f"{prefix}{count}"
                walk(child, f"{prefix}{count}.")

        walk(None, "")
        return found

    def find(self, number: str) -> Goal:
        """The live goal with a display number. Raises PlanError with the numbers that exist."""
        wanted = number.strip().rstrip(".")
        parent: str | None = None
        for step in wanted.split("."):
            live = [i for i in self._children.get(parent, ()) if self.goals[i].status != "abandoned"]
            # Not isdigit(): it also takes "²", which int() refuses.
            if not step.isdecimal() or len(step) > 9 or not 1 <= int(step) <= len(live):
                raise PlanError(self._no_such_goal(number))
            parent = live[int(step) - 1]
        assert parent is not None
        return self.goals[parent]

    def _no_such_goal(self, number: str) -> str:
        known = list(self.numbers().values())
        if not known:
            return f"There is no goal {number}: the plan is empty. Add goals first."
        shown = ", ".join(known[:30]) + (", …" if len(known) > 30 else "")
        return f"There is no goal {number}. Goals: {shown}."

    # -- operations: return the changes, touch nothing --

    def plan_add(self, descriptions: Sequence[str], reason: str) -> list[Change]:
        """New goals under the focus, or at the top level without one.

        The first goal added at the level of an abandoned one takes its place in the order and the focus
        (seed 000, "回溯": plan B stands where plan A stood).
        """
        texts = [" ".join(text.split()) for text in descriptions]
        texts = [text for text in texts if text]
        if not texts:
            raise PlanError("A goal needs a description: say in a few words what will be achieved.")
        if len(texts) > MAX_GOALS_AT_ONCE:
            raise PlanError(
                f"{len(texts)} goals at once are too many (at most {MAX_GOALS_AT_ONCE}): add the next few, "
                "and break them down when you get there."
            )
        for text in texts:
            if len(text) > MAX_DESCRIPTION:
                raise PlanError(
                    f"A description of {len(text)} characters is too long (at most {MAX_DESCRIPTION}): "
                    "name the goal in one line and put the rest into the reason."
                )
        parent = self.current_id
        replaced = self.goals.get(self.replaceable or "")
        takes_place = replaced is not None and replaced.parent_id == parent
        index = self._order.index(replaced.id) + 1 if replaced is not None and takes_place else None
        if index is not None and replaced is not None:
            below = set(self._descendants(replaced.id))
            while index < len(self._order) and self._order[index] in below:
                index += 1
        changes: list[Change] = []
        for offset, text in enumerate(texts):
            goal = Goal(
                id=str(self.last_id + 1 + offset), parent_id=parent, description=text, reason=reason.strip()
            )
            changes.append(Added(goal, None if index is None else index + offset))
        if takes_place:
            first = str(self.last_id + 1)
            changes.append(Updated(first, {"status": "in_progress"}, current_id=first))
        return changes

    def plan_focus(self, goal: Goal) -> list[Change]:
        """Work on ``goal`` now; it and its pending ancestors are in progress from here on."""
        if goal.status in ("completed", "abandoned"):
            number = self.numbers().get(goal.id, goal.id)
            raise PlanError(f"Goal {number} is {goal.status}: add a new goal for what is still to do.")
        started = tuple(
            AffectedGoal(goal_id=ancestor.id, status="in_progress")
            for ancestor in self.ancestors(goal.id)
            if ancestor.status == "pending"
        )
        return [Updated(goal.id, {"status": "in_progress"}, current_id=goal.id, affected=started)]

    def plan_done(self, summary: str) -> list[Change]:
        """Complete the focused goal; parents whose live children are all completed complete with it."""
        goal = self._focused("done")
        summary = self._checked_summary(summary, "done")
        numbers = self.numbers()
        still_open = [child for child in self.children(goal.id) if child.status in ("pending", "in_progress")]
        if still_open:
            names = ", ".join(f"{numbers[child.id]} {child.description}" for child in still_open[:5])
            raise PlanError(
                f"Goal {numbers[goal.id]} still has open goals: {names}. Focus each and finish or abandon it."
            )
        cascade: list[AffectedGoal] = []
        finished = {goal.id: summary}
        current = goal.parent_id
        for ancestor in self.ancestors(goal.id):
            live = [child for child in self.children(ancestor.id) if child.status != "abandoned"]
            if any(child.status != "completed" and child.id not in finished for child in live):
                break
            parts = [finished.get(child.id) or child.summary or child.description for child in live]
            combined = ancestor.summary or "; ".join(parts)[:MAX_SUMMARY]
            cascade.append(AffectedGoal(goal_id=ancestor.id, status="completed", summary=combined))
            finished[ancestor.id] = combined
            current = ancestor.parent_id
        updates = {"status": "completed", "summary": summary}
        return [Updated(goal.id, updates, current_id=current, affected=tuple(cascade))]

    def plan_abandon(self, reason: str) -> list[Change]:
        """Give the focused goal up: dropped when nobody worked on it, else kept as abandoned with the reason."""
        goal = self._focused("abandon")
        reason = self._checked_summary(reason, "abandon")
        if goal.cumulative_stats.message_count == 0 and not self._children.get(goal.id):
            return [Removed(goal.id, current_id=goal.parent_id)]
        below = tuple(
            AffectedGoal(goal_id=i, status="abandoned")
            for i in self._descendants(goal.id)
            if self.goals[i].status in ("pending", "in_progress")
        )
        updates = {"status": "abandoned", "summary": reason}
        return [Updated(goal.id, updates, current_id=goal.parent_id, affected=below)]

    def _focused(self, operation: str) -> Goal:
        if self.current_id is None:
            raise PlanError(
                f"No goal has the focus, so there is nothing to {'finish' if operation == 'done' else operation}: "
                "focus a goal by its number first."
            )
        return self.goals[self.current_id]

    def _checked_summary(self, text: str, operation: str) -> str:
        text = text.strip()
        if not text:
            what = "what was found or changed" if operation == "done" else "why it is given up"
            raise PlanError(f"`{operation}` needs a summary: say {what}, it replaces the details.")
        if len(text) > MAX_SUMMARY:
            raise PlanError(f"The summary has {len(text)} characters; at most {MAX_SUMMARY}.")
        return text

    def _descendants(self, goal_id: str) -> Iterator[str]:
        for child in self._children.get(goal_id, ()):
            yield child
            yield from self._descendants(child)

    # -- changing --

    def apply(self, change: Change) -> None:
        """Make a change that was planned on this state of the tree (or is replayed in the same order)."""
        if isinstance(change, Added):
            self._insert(change.goal, change.index)
        elif isinstance(change, Updated):
            if (status := change.updates.get("status")) is not None:
                self.replaceable = change.goal_id if status == "abandoned" else None
            self._update(change.goal_id, change.updates)
            for affected in change.affected:
                self._update(affected.goal_id, affected.model_dump(exclude={"goal_id"}, exclude_none=True))
        elif isinstance(change, Moved):
            self._move(change)
        elif (goal := self.goals.pop(change.goal_id, None)) is not None:
            self._order.remove(goal.id)
            self._children[goal.parent_id].remove(goal.id)
        if isinstance(change, Updated | Removed):
            self.current_id = change.current_id if change.current_id in self.goals else None

    def _insert(self, goal: Goal, index: int | None) -> None:
        siblings = self._children.setdefault(goal.parent_id, [])
        replaced = self.goals.get(self.replaceable or "")
        if index is None:
            self._order.append(goal.id)
            siblings.append(goal.id)
        else:
            self._order.insert(index, goal.id)
            before = [i for i in siblings if self._order.index(i) < index]
            siblings.insert(len(before), goal.id)
        if replaced is not None and replaced.parent_id == goal.parent_id:
            self.replaced[goal.id] = replaced.id
            self.replaceable = None
        self.goals[goal.id] = goal
        if goal.id.isdecimal():
            self.last_id = max(self.last_id, int(goal.id))

    def _move(self, change: Moved) -> None:
        goal = self.goals.get(change.goal_id)
        if goal is None:
            return
        self._children[goal.parent_id].remove(goal.id)
        siblings = self._children.setdefault(change.parent_id, [])
        self._order.remove(goal.id)
        if change.before_id in siblings:
            siblings.insert(siblings.index(change.before_id), goal.id)
            self._order.insert(self._order.index(change.before_id), goal.id)
        else:
            siblings.append(goal.id)
            self._order.append(goal.id)
        self.goals[goal.id] = goal.model_copy(update={"parent_id": change.parent_id})
        self.apply_counts(change.affected)

    def _update(self, goal_id: str, updates: Mapping[str, Any]) -> None:
        goal = self.goals.get(goal_id)
        if goal is not None:
            values = {
                key: GoalStats.model_validate(value)
                if key in ("self_stats", "cumulative_stats") and isinstance(value, Mapping)
                else value
                for key, value in updates.items()
            }
            self.goals[goal_id] = goal.model_copy(update=values)

    # -- counting --

    def count(
        self, goal_id: str | None, *, tokens: int, cost: float, tools: Sequence[str]
    ) -> tuple[AffectedGoal, ...]:
        """What one more message does to its goal and that goal's ancestors; nothing is changed yet.

        Own and cumulative numbers for the goal, cumulative ones for its ancestors (seed 000, ``affected_goals``).
        """
        goal = self.goals.get(goal_id or "")
        if goal is None:
            return ()
        affected = [
            AffectedGoal(
                goal_id=goal.id,
                self_stats=counted(goal.self_stats, tokens, cost, tools),
                cumulative_stats=counted(goal.cumulative_stats, tokens, cost, tools),
            )
        ]
        affected.extend(
            AffectedGoal(
                goal_id=ancestor.id, cumulative_stats=counted(ancestor.cumulative_stats, tokens, cost, tools)
            )
            for ancestor in self.ancestors(goal.id)
        )
        return tuple(affected)

    def apply_counts(self, affected: Iterable[AffectedGoal]) -> None:
        """Take over what ``count`` computed."""
        for item in affected:
            goal = self.goals.get(item.goal_id)
            if goal is None:
                continue
            updates: dict[str, Any] = {}
            if item.self_stats is not None:
                updates["self_stats"] = item.self_stats
            if item.cumulative_stats is not None:
                updates["cumulative_stats"] = item.cumulative_stats
            self.goals[item.goal_id] = goal.model_copy(update=updates)


def counted(stats: GoalStats, tokens: int, cost: float, tools: Sequence[str]) -> GoalStats:
    """``stats`` after one more message."""
    return GoalStats(
        message_count=stats.message_count + 1,
        total_tokens=stats.total_tokens + tokens,
        total_cost=stats.total_cost + cost,
        preview=extended_preview(stats.preview, tools),
    )


def extended_preview(preview: str | None, tools: Sequence[str]) -> str | None:
    """``read → edit`` and ``edit`` make ``read → edit × 2``; the oldest fall out of a long one."""
    segments = preview.split(" → ") if preview else []
    for tool in tools:
        name, _, count = segments[-1].partition(" × ") if segments else ("", "", "")
        if name == tool:
            segments[-1] = f"{tool} × {int(count or 1) + 1}"
        else:
            segments.append(tool)
    if len(segments) > _PREVIEW_SEGMENTS:
        segments = ["…", *segments[-_PREVIEW_SEGMENTS + 1 :]]
    return " → ".join(segments) or None
