"""Derives from each event the new values that clients show. They are sent beside it, live and from the log. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from daemon.model.events import (
    BranchMessageAdded,
    Event,
    GoalAdded,
    GoalMoved,
    GoalRemoved,
    GoalUpdated,
)
from daemon.model.traces import ViewUpdate

if TYPE_CHECKING:
    from daemon.plan.goal_index import GoalIndex
    from daemon.state.session_head import SessionHead


class Projection:
    """Follows one session. The cost of an event does not grow with the session, unless goals are renumbered."""

    def __init__(self, head: SessionHead, plan: GoalIndex) -> None:
        """Both are followed: ``changes`` returns how they differ from the last time."""
        self._head = head
        self._plan = plan
        self._shown = self._totals()
        self._numbers = plan.numbers()

    def whole(self) -> ViewUpdate:
        """Status and totals as they are now."""
        return ViewUpdate(**self._totals())

    def changes(self, event: Event) -> ViewUpdate | None:
        """Return the new values after ``event``, which head and plan have just applied; None: nothing changed."""
        before, self._shown = self._shown, self._totals()
        changed = {name: value for name, value in self._shown.items() if value != before[name]}
        if isinstance(event, GoalAdded | GoalMoved | GoalRemoved | GoalUpdated) and (
            numbers := self._renumbered(event)
        ):
            changed["goal_numbers"] = numbers
        if isinstance(event, BranchMessageAdded) and (
            branch := self._head.children.branches.get(event.branch_id)
        ):
            changed["branches"] = {branch.id: branch.cumulative_stats}
        return ViewUpdate(**changed) if changed else None

    def _totals(self) -> dict[str, Any]:
        trace = self._head.trace
        return {
            "status": self._head.status,
            "awaits_choice": tuple(self._head.children.awaited),
            "total_messages": trace.message_count,
            "total_tokens": trace.usage.total,
            "total_cost": trace.total_cost,
            "unpriced_tokens": trace.usage.unpriced,
            "usage": trace.usage,
        }

    def _renumbered(self, event: GoalAdded | GoalMoved | GoalRemoved | GoalUpdated) -> dict[str, str | None]:
        plan, before = self._plan, self._numbers
        if isinstance(event, GoalAdded):
            goal_id, touched = event.goal.id, {event.goal.id}
        else:
            goal_id, touched = event.goal_id, {event.goal_id}
            if not isinstance(event, GoalRemoved):
                touched.update(goal.goal_id for goal in event.affected_goals)
        # The goals below one that is removed move up, and it may have had no number itself.
        if not isinstance(event, GoalRemoved) and all(
            plan.number_of(one) == before.get(one) for one in touched
        ):
            return {}
        number = plan.number_of(goal_id)
        if isinstance(event, GoalAdded) and number is not None and plan.following(goal_id) is None:
            before[goal_id] = number
            return {goal_id: number}
        now = self._numbers = plan.numbers()
        return {one: now.get(one) for one in before | now if now.get(one) != before.get(one)}
