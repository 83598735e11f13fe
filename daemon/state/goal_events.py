"""The event that stores a change of the plan. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.model.branches import branch_of
from daemon.model.events import AffectedGoal, GoalAdded, GoalMoved, GoalRemoved, GoalUpdated, Occurrence
from daemon.model.goals import GoalStats
from daemon.plan.tree import Added, Change, Moved, Removed, Updated

if TYPE_CHECKING:
    from datetime import datetime

    from daemon.plan.goal_index import GoalIndex

GoalEvent = GoalAdded | GoalUpdated | GoalMoved | GoalRemoved


def goal_event(
    change: Change, trace_id: str, now: datetime, by: str = "", *, plan: GoalIndex | None = None
) -> GoalEvent:
    """Return ``change`` as an event; ``SessionState.apply`` turns it into the same change again.

    ``by`` names the user's client when a user made the change (the model is then notified), empty when the model did.
    With the ``plan`` that is changed, the event has the numbers of the goals that it touches.
    """
    where: Occurrence = {"trace_id": trace_id, "time": now}
    if isinstance(change, Added):
        # The goal has the id of its branch, because it is shown beside goals of other branches.
        goal = change.goal.model_copy(update={"branch_id": branch_of(trace_id)})
        return GoalAdded(**where, goal=goal, parent_id=goal.parent_id, index=change.index, by=by)
    if isinstance(change, Updated):
        return GoalUpdated(
            **where,
            goal_id=change.goal_id,
            updates=dict(change.updates),
            affected_goals=change.affected if plan is None else _numbered(change, plan),
            current_id=change.current_id,
            by=by,
        )
    if isinstance(change, Moved):
        return GoalMoved(
            **where,
            goal_id=change.goal_id,
            parent_id=change.parent_id,
            before_id=change.before_id,
            affected_goals=change.affected,
            by=by,
        )
    gone = plan.goals.get(change.goal_id) if plan is not None else None
    return GoalRemoved(
        **where,
        goal_id=change.goal_id,
        current_id=change.current_id,
        description="" if gone is None else gone.description,
        by=by,
    )


def change_of(event: GoalEvent) -> Change:
    """Return the change that an event stores."""
    match event:
        case GoalAdded():
            return Added(event.goal, event.index)
        case GoalUpdated():
            return Updated(event.goal_id, event.updates, event.current_id, event.affected_goals)
        case GoalMoved():
            return Moved(event.goal_id, event.parent_id, event.before_id, event.affected_goals)
        case GoalRemoved():
            return Removed(event.goal_id, event.current_id)


def _numbered(change: Updated, plan: GoalIndex) -> tuple[AffectedGoal, ...]:
    """Return the affected goals with their numbers so far, including the changed one: viewers need no further
    request."""
    affected = change.affected
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
