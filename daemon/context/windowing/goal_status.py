"""The state of a goal: open, or ended and part of the summary of the topmost ended goal above it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from daemon.model.goals import Goal
    from daemon.plan.tree import PlanTree


@dataclass(frozen=True, slots=True)
class GoalStatus:
    """The state of one goal: live, or ended and part of a summary."""

    known: bool = False
    """It is in the plan."""
    root: Goal | None = None
    """The ended root: the topmost completed or abandoned goal among it and its ancestors. None: it is live."""
    successors: tuple[Goal, ...] = ()
    """Live goals among it and its ancestors that took the place of an abandoned one, the topmost first."""


NOWHERE = GoalStatus()


class GoalStatuses:
    """The states of all goals of one plan. Each is computed once, from that of its parent."""

    def __init__(self, plan: PlanTree) -> None:
        self._plan = plan
        self._known: dict[str, GoalStatus] = {}

    def of(self, goal_id: str | None) -> GoalStatus:
        """Return the state of a goal; one that is not in the plan counts as none."""
        if goal_id is None:
            return NOWHERE
        found = self._known.get(goal_id)
        return found if found is not None else self._worked_out(goal_id)

    def _worked_out(self, goal_id: str) -> GoalStatus:
        goals = self._plan.goals
        if goal_id not in goals:
            return NOWHERE
        chain: dict[str, Goal] = {}
        at: str | None = goal_id
        # A damaged log may have lost a parent, or contain a cycle.
        while at is not None and at in goals and at not in chain and at not in self._known:
            chain[at] = goals[at]
            at = goals[at].parent_id
        status = self._known.get(at or "", NOWHERE)
        for goal in reversed(chain.values()):
            status = self._below(status, goal)
            self._known[goal.id] = status
        return status

    def _below(self, above: GoalStatus, goal: Goal) -> GoalStatus:
        if above.root is not None:
            return above
        if goal.status in ("completed", "abandoned"):
            return GoalStatus(True, goal, above.successors)
        if goal.id in self._plan.replaced and self._plan.predecessors(goal.id):
            return GoalStatus(True, None, (*above.successors, goal))
        return GoalStatus(True, None, above.successors) if not above.known else above
