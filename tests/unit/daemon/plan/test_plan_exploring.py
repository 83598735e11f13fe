"""The goals of an exploration among all others: whatever is done to the plan, it stays in order."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.model.goals import GoalStats
from daemon.plan.explore_goals import (
    is_given_up,
    plan_counted,
    plan_exploration,
    plan_explored,
    plan_given_up,
)
from daemon.plan.goal_index import ENDED
from daemon.plan.tree import Change, PlanError, PlanTree

STATS = GoalStats(message_count=3, total_tokens=30, total_cost=0.5)


def do(tree: PlanTree, changes: list[Change]) -> None:
    for change in changes:
        tree.apply(change)


def explored(tree: PlanTree) -> str:
    do(tree, plan_exploration(tree, "Explore 2 approaches", ["A", "B"]))
    return str(tree.last_id)


def numbered(tree: PlanTree) -> list[str]:
    return [f"{number} {tree.goals[i].type}" for i, number in tree.numbers().items()]


def test_exploration_merge_and_next_goal_are_siblings() -> None:
    tree = PlanTree()
    do(tree, tree.plan_add(["analyse", "later"], ""))
    do(tree, tree.plan_focus(tree.goals["1"]))
    start = explored(tree)
    do(tree, plan_explored(tree, start, "short", "long"))
    do(tree, tree.plan_add(["finish"], ""))
    assert numbered(tree) == ["1 normal", "2 explore_start", "3 explore_merge", "4 normal", "5 normal"]
    assert [goal.description for goal in tree.live_children(None)][3:] == ["finish", "later"]


def test_a_choice_does_not_finish_the_goal_that_explored() -> None:
    tree = PlanTree()
    do(tree, tree.plan_add(["above"], ""))
    do(tree, tree.plan_focus(tree.goals["1"]))
    do(tree, tree.plan_add(["analyse"], ""))
    do(tree, tree.plan_focus(tree.goals["2"]))
    do(tree, plan_explored(tree, explored(tree), "short", "long"))
    do(tree, tree.plan_done("A it is"))
    assert [tree.goals[i].status for i in "1234"] == ["in_progress", "in_progress", "completed", "completed"]
    assert tree.current_id == "1"
    do(tree, tree.plan_done("analysed", tree.goals["2"]))
    assert tree.goals["1"].status == "completed"


def test_exploration_goal_follows_the_focus_and_takes_it() -> None:
    tree = PlanTree()
    do(tree, tree.plan_add(["first", "second"], ""))
    do(tree, tree.plan_focus(tree.goals["1"]))
    start = explored(tree)
    assert (tree.goals[start].parent_id, tree.current_id) == (None, start)
    do(tree, plan_explored(tree, start, "short", "long"))
    merge = tree.goals[tree.current_id or ""]
    assert (merge.type, merge.parent_id, merge.merge_summary) == ("explore_merge", None, "long")
    assert tree.goals["1"].status == "in_progress"
    do(tree, tree.plan_done("A it is"))
    assert [tree.goals[i].status for i in (start, merge.id)] == ["completed"] * 2
    assert [goal.id for goal in tree.children(None)] == ["1", start, merge.id, "2"]


def test_abandoned_exploration_stays_with_its_branches() -> None:
    tree = PlanTree()
    start = explored(tree)
    do(tree, tree.plan_abandon("enough", tree.goals[start]))
    assert (tree.goals[start].status, tree.goals[start].branch_ids) == ("abandoned", ["A", "B"])
    assert is_given_up(tree, start)
    assert plan_given_up(tree, start, "again") == []
    with pytest.raises(PlanError, match="has already ended"):
        plan_explored(tree, start, "s", "m")


def test_exploration_replaces_an_abandoned_goal() -> None:
    tree = PlanTree()
    do(tree, tree.plan_add(["one way", "test"], ""))
    do(tree, tree.plan_focus(tree.goals["1"]))
    tree.apply_counts(tree.count("1", tokens=1, cost=0.0, tools=()))
    do(tree, tree.plan_abandon("wrong"))
    start = explored(tree)
    assert [goal.id for goal in tree.children(None)] == ["1", start, "2"]
    assert tree.replaced == {start: "1"}


def test_branch_usage_counts_for_all_ancestors() -> None:
    tree = PlanTree()
    do(tree, tree.plan_add(["above"], ""))
    do(tree, tree.plan_add(["look"], "", parent_id="1"))
    do(tree, tree.plan_focus(tree.goals["2"]))
    start = explored(tree)
    do(tree, plan_counted(tree, start, STATS))
    do(tree, plan_counted(tree, start, STATS))
    for goal_id in ("1", start):
        stats = tree.goals[goal_id].cumulative_stats
        assert (stats.message_count, stats.total_tokens, stats.total_cost) == (6, 60, 1.0)
    assert tree.goals[start].self_stats == GoalStats()
    assert plan_counted(tree, "none", STATS) == plan_counted(tree, start, GoalStats()) == []


_OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            (
                "explore",
                "explored",
                "counted",
                "given_up",
                "add",
                "done",
                "abandon",
                "focus",
                "rename",
                "move",
            )
        ),
        st.integers(0, 30),
    ),
    max_size=40,
)


@given(_OPERATIONS)
def test_no_order_of_operations_breaks_the_plan(operations: list[tuple[str, int]]) -> None:
    tree = PlanTree()
    starts: list[str] = []
    for name, number in operations:
        goals = list(tree.goals.values())
        goal = goals[number % len(goals)] if goals else None
        start = starts[number % len(starts)] if starts else ""
        with suppress(PlanError):
            match name:
                case "explore":
                    starts.append(explored(tree))
                case "explored" if start:
                    do(tree, plan_explored(tree, start, "s", "m"))
                case "counted" if start:
                    do(tree, plan_counted(tree, start, STATS))
                case "given_up" if start:
                    do(tree, plan_given_up(tree, start, "why"))
                case "add":
                    parent = goal.id if goal is not None and number % 2 else None
                    do(tree, tree.plan_add([f"g{number}"], "", parent_id=parent))
                case "done" if goal is not None:
                    do(tree, tree.plan_done("done", goal))
                case "abandon" if goal is not None:
                    do(tree, tree.plan_abandon("why", goal))
                case "focus" if goal is not None:
                    do(tree, tree.plan_focus(goal))
                case "rename" if goal is not None:
                    do(tree, tree.plan_rename(goal, f"r{number}"))
                case "move" if goal is not None:
                    parents = [None, *tree.goals]
                    do(tree, tree.plan_move(goal, parents[number // 3 % len(parents)]))
                case _:
                    pass
    for start in starts:
        goal = tree.goals[start]  # it never leaves the plan
        assert goal.type == "explore_start"
        assert tree.children(start) == []
        merges = [other for other in tree.goals.values() if other.explore_start_id == start]
        assert len(merges) == (1 if goal.status == "completed" else 0)
    for goal in tree.goals.values():
        if goal.status not in ENDED:
            assert all(above.status not in ENDED for above in tree.ancestors(goal.id))
    assert tree.current_id is None or tree.ended_root(tree.current_id) is None
    again = PlanTree(
        tree.snapshot(), last_id=tree.last_id, replaceable=tree.replaceable, replaced=tree.replaced
    )
    assert again.snapshot() == tree.snapshot()
