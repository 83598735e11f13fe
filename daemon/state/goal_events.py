"""The event that stores a change of the plan. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from daemon.model.branches import branch_of
from daemon.model.events import AffectedGoal, GoalAdded, GoalMoved, GoalRemoved, GoalUpdated
from daemon.model.goals import GoalStats
from daemon.plan.tree import Added, Change, Moved, Updated

if TYPE_CHECKING:
    from datetime import datetime

    from daemon.model.events import GoalEvent
    from daemon.plan.goal_index import GoalIndex


def goal_event(
    change: Change, trace_id: str, now: datetime, by: str = "", *, plan: GoalIndex | None = None
) -> GoalEvent:
    """Return ``change`` as an event, with fields of the same names; ``GoalIndex.apply`` makes the same of both.

    ``by`` names the user's client when a user made the change (the model is then notified), empty when the model did.
    With the ``plan`` that is changed, the event has the numbers of the goals that it touches.
    """
    given: dict[str, Any] = asdict(change)
    given |= {"trace_id": trace_id, "time": now, "by": by}
    if isinstance(change, Added):
        # The goal has the id of its branch, because it is shown beside goals of other branches.
        given["goal"] = change.goal.model_copy(update={"branch_id": branch_of(trace_id)})
        return GoalAdded(**given, parent_id=change.goal.parent_id)
    if isinstance(change, Updated):
        if plan is not None:
            given["affected_goals"] = _numbered(change, plan)
        return GoalUpdated(**given)
    if isinstance(change, Moved):
        return GoalMoved(**given)
    gone = plan.goals.get(change.goal_id) if plan is not None else None
    return GoalRemoved(**given, description="" if gone is None else gone.description)


def _numbered(change: Updated, plan: GoalIndex) -> tuple[AffectedGoal, ...]:
    """Return the affected goals with their numbers so far, including the changed one: viewers need no further
    request."""
    affected = change.affected_goals
    if not any(item.goal_id == change.goal_id for item in affected):
        # Stats in the change itself are those that the goal has after it.
        brought = change.updates.get("cumulative_stats")
        stats = None if brought is None else GoalStats.model_validate(brought)
        affected = (AffectedGoal(goal_id=change.goal_id, cumulative_stats=stats), *affected)
    return tuple(
        item.model_copy(update={"cumulative_stats": goal.cumulative_stats})
        if item.cumulative_stats is None and (goal := plan.goals.get(item.goal_id)) is not None
        else item
        for item in affected
    )
