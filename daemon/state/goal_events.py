"""The event that stores a change of the plan. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.model.branches import branch_of
from daemon.model.events import AffectedGoal, GoalAdded, GoalMoved, GoalRemoved, GoalUpdated
from daemon.model.goals import GoalStats
from daemon.plan.tree import Added, Change, Moved, Updated

if TYPE_CHECKING:
    from datetime import datetime

    from daemon.plan.forest import GoalForest

GoalEvent = GoalAdded | GoalUpdated | GoalMoved | GoalRemoved


def goal_event(
    change: Change, trace_id: str, now: datetime, by: str = "", *, plan: GoalForest | None = None
) -> GoalEvent:
    """``change`` as an event; ``SessionState.apply`` turns it into the same change again.

    ``by`` names the person's client when a person did it (then the model is told), empty when the model did. With the
    ``plan`` that is changed, its event says the numbers of the goals it touches (source: seed 000, ``goal_updated``).
    """
    if isinstance(change, Added):
        # A goal says whose plan it is in: it is shown beside those of other branches (seed 000, "branch_id").
        goal = change.goal.model_copy(update={"branch_id": branch_of(trace_id)})
        return GoalAdded(
            trace_id=trace_id, time=now, goal=goal, parent_id=goal.parent_id, index=change.index, by=by
        )
    if isinstance(change, Updated):
        return GoalUpdated(
            trace_id=trace_id,
            time=now,
            goal_id=change.goal_id,
            updates=dict(change.updates),
            affected_goals=change.affected if plan is None else _numbered(change, plan),
            current_id=change.current_id,
            by=by,
        )
    if isinstance(change, Moved):
        return GoalMoved(
            trace_id=trace_id,
            time=now,
            goal_id=change.goal_id,
            parent_id=change.parent_id,
            before_id=change.before_id,
            affected_goals=change.affected,
            by=by,
        )
    gone = plan.goals.get(change.goal_id) if plan is not None else None
    return GoalRemoved(
        trace_id=trace_id,
        time=now,
        goal_id=change.goal_id,
        current_id=change.current_id,
        description="" if gone is None else gone.description,
        by=by,
    )


def _numbered(change: Updated, plan: GoalForest) -> tuple[AffectedGoal, ...]:
    """The affected goals with what they took so far, the changed one among them: who draws them need not ask."""
    affected = change.affected
    if not any(item.goal_id == change.goal_id for item in affected):
        # Numbers that the change itself brings are those that the goal has with it.
        brought = change.updates.get("cumulative_stats")
        stats = None if brought is None else GoalStats.model_validate(brought)
        affected = (AffectedGoal(goal_id=change.goal_id, cumulative_stats=stats), *affected)
    return tuple(
        item.model_copy(update={"cumulative_stats": goal.cumulative_stats})
        if item.cumulative_stats is None and (goal := plan.goals.get(item.goal_id)) is not None
        else item
        for item in affected
    )
