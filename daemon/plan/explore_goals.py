"""The changes of an exploration to the plan of the main session.

Like the operations of ``PlanTree``, these functions return changes and touch nothing. The goals of branches are in
plans of their own; here are only the goal that represents all of them and the one that comes after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.model.events import AffectedGoal
from daemon.model.goals import Goal, GoalStats
from daemon.plan.goal_index import ENDED
from daemon.plan.goal_stats import joined
from daemon.plan.tree import MAX_SUMMARY, Added, Change, PlanError, PlanTree, Updated
from tools.localization import noted, t
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Sequence

MERGE_DESCRIPTION = noted("Choose among the explored approaches")


def plan_exploration(tree: PlanTree, description: str, branch_ids: Sequence[str]) -> list[Change]:
    """Return a goal of type ``explore_start`` after the goal in focus, as its sibling, with the focus. Raises
    PlanError.

    So the exploration, the choice and the following work stay at the level of the exploring goal, which stays open.
    """
    goal_id = str(tree.last_id + 1)
    trial = tree.copy()
    changes: list[Change] = []
    current = tree.goals.get(tree.current_id or "")
    if current is None:
        added = tree.plan_add([description], "")
    else:
        following = tree.following(current.id)
        added = tree.plan_add([description], "", parent_id=current.parent_id, before_id=following)
    for change in added:
        if isinstance(change, Added):
            explores = {"type": "explore_start", "branch_ids": list(branch_ids)}
            change = Added(change.goal.model_copy(update=explores), change.index)
        changes.append(change)
        trial.apply(change)
    return [*changes, *trial.plan_focus(trial.goal(goal_id))]


def plan_explored(tree: PlanTree, start_id: str, summary: str, merge_summary: str) -> list[Change]:
    """Return the changes when the branches have ended: ``explore_start`` completes, and an ``explore_merge`` goal
    follows.

    That one gets the focus, unless the user has moved the focus meanwhile. It may exist already after a crash. Raises
    PlanError when the exploration was abandoned.
    """
    start = tree.goal(start_id)
    if tree.ended_root(start_id) is not None:
        raise PlanError(f"Goal {tree.title(start_id)} has already ended.")
    there = merge_of(tree, start_id)
    merge = there or Goal(
        id=str(tree.last_id + 1),
        parent_id=start.parent_id,
        type="explore_merge",
        description=t(MERGE_DESCRIPTION),
        explore_start_id=start_id,
        merge_summary=merge_summary,
    )
    # Add the next goal first: completing the last open sub-goal would complete its parents.
    changes: list[Change] = [] if there else [Added(merge, tree.index_behind(start_id))]
    takes_focus = tree.current_id in (start_id, None)
    focus = merge.id if takes_focus else tree.current_id
    done = {"status": "completed", "summary": head(summary, MAX_SUMMARY)}
    changes.append(Updated(start_id, done, focus))
    if takes_focus:
        changes.append(Updated(merge.id, {"status": "in_progress"}, merge.id))
    return changes


def merge_of(tree: PlanTree, start_id: str) -> Goal | None:
    """Return the goal of the choice among the branches of an exploration."""
    return next(
        (
            goal
            for goal in tree.goals.values()
            if goal.type == "explore_merge" and goal.explore_start_id == start_id
        ),
        None,
    )


def plan_counted(tree: PlanTree, goal_id: str, stats: GoalStats) -> list[Change]:
    """Count the statistics of a branch or a sub-agent for the goal that it worked for and for those above.

    Its time does not count: it worked while the goal waited for it, mostly in parallel with others.
    """
    return _plan_joined(tree, goal_id, stats.model_copy(update={"duration_ms": 0}))


def plan_timed(tree: PlanTree, start_id: str, duration_ms: int) -> list[Change]:
    """Return the change that adds the time of an exploration's branches, all together."""
    return _plan_joined(tree, start_id, GoalStats(duration_ms=duration_ms))


def _plan_joined(tree: PlanTree, goal_id: str, stats: GoalStats) -> list[Change]:
    goal = tree.goals.get(goal_id)
    if goal is None or stats == GoalStats():
        return []
    above = tuple(
        AffectedGoal(goal_id=other.id, cumulative_stats=joined(other.cumulative_stats, stats))
        for other in tree.ancestors(goal_id)
    )
    total = joined(goal.cumulative_stats, stats)
    return [Updated(goal_id, {"cumulative_stats": total.model_dump()}, tree.current_id, above)]


def plan_given_up(tree: PlanTree, start_id: str, why: str) -> list[Change]:
    """Return the changes that end an interrupted exploration; none when its goal has ended already."""
    goal = tree.goals.get(start_id)
    if goal is None or goal.status in ENDED or tree.ended_root(start_id) is not None:
        return []
    return tree.plan_abandon(head(why, MAX_SUMMARY), goal)


def is_given_up(tree: PlanTree, start_id: str) -> bool:
    """Return whether the goal of an exploration has ended or gone while its branches were at work."""
    return start_id not in tree.goals or tree.ended_root(start_id) is not None
