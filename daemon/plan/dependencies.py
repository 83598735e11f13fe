"""Dependencies between goals: which goals have to wait, and where that allows them to be. Pure.

A goal that needs others waits until they are completed, and so do the goals below it. In the order of the plan all
needs of a goal come entirely before it, so that a pass through the plan from its top never meets a cycle. A log may be
damaged: needs that name unknown goals count as met.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.plan.goal_index import ENDED, GoalIndex

if TYPE_CHECKING:
    from daemon.model.goals import Goal


def needed(tree: GoalIndex, goal: Goal) -> list[Goal]:
    """Return the unmet needs of ``goal`` itself: open goals, and abandoned ones without a replacement.

    A goal that replaced an abandoned one counts in its stead. A goal that was removed, because it had no work, is no
    longer needed.
    """
    found = (stand_in(tree, goal_id) for goal_id in goal.needs or ())
    return [need for need in found if need is not None and need.status != "completed"]


def waits_for(tree: GoalIndex, goal: Goal) -> list[Goal]:
    """Return what ``goal`` and the goals above it need and do not have yet; when there is nothing, it may begin."""
    chain = (goal, *tree.ancestors(goal.id))
    return list({need.id: need for one in chain for need in needed(tree, one)}.values())


def misplaced(tree: GoalIndex) -> set[tuple[str, str]]:
    """Return pairs of an open goal and an open one that it needs, where the second is not wholly before the first."""
    waiting = [goal for goal in tree.goals.values() if goal.needs and goal.status not in ENDED]
    if not waiting:
        return set()
    begins: dict[str, int] = {}
    ends: dict[str, int] = {}
    for top in tree.children(None):
        for goal in (top, *tree.descendants(top.id)):
            begins[goal.id] = len(begins)
            for above in (goal, *tree.ancestors(goal.id)):
                ends[above.id] = begins[goal.id]
    return {
        (goal.id, need.id)
        for goal in waiting
        for need in needed(tree, goal)
        if need.status not in ENDED and ends.get(need.id, -1) >= begins.get(goal.id, 0)
    }


def stand_in(tree: GoalIndex, goal_id: str) -> Goal | None:
    """Return the goal, or what took its place when it was abandoned; None when it is gone."""
    seen: set[str] = set()
    goal = tree.goals.get(goal_id)
    while goal is not None and goal.status == "abandoned" and goal.id not in seen:
        seen.add(goal.id)
        new = next((new for new, old in tree.replaced.items() if old == goal.id and new in tree.goals), None)
        if new is None:
            break
        goal = tree.goals[new]
    return goal
