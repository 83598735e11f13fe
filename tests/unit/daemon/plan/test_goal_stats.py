"""Numbers of goals: what a message adds (seed 000, "统计更新逻辑")."""

from __future__ import annotations

import pytest

from daemon.model.goals import GoalStats
from daemon.plan.goal_stats import joined_preview
from daemon.plan.tree import PlanTree, extended_preview


def test_message_counts_for_its_goal_and_ancestors() -> None:
    tree = PlanTree()
    for parent, texts in ((None, ["a", "other"]), ("1", ["a1"])):
        for change in tree.plan_add(texts, "", parent_id=parent):
            tree.apply(change)
    affected = tree.count("3", tokens=100, cost=0.5, tools=["read"])
    assert [item.goal_id for item in affected] == ["3", "1"]
    assert affected[1].self_stats is None
    tree.apply_counts(affected)
    stats = GoalStats(message_count=1, total_tokens=100, total_cost=0.5, preview="read")
    assert tree.goals["3"].self_stats == stats
    assert tree.goals["3"].cumulative_stats == stats
    assert tree.goals["1"].self_stats == GoalStats()
    assert tree.goals["1"].cumulative_stats == stats
    assert tree.goals["2"].cumulative_stats == GoalStats()


def test_count_is_pure_and_ignores_unknown_goals() -> None:
    tree = PlanTree()
    for change in tree.plan_add(["a"], ""):
        tree.apply(change)
    before = tree.snapshot()
    tree.count("1", tokens=1, cost=0, tools=[])
    assert tree.snapshot() == before
    assert tree.count(None, tokens=1, cost=0, tools=[]) == ()
    assert tree.count("77", tokens=1, cost=0, tools=[]) == ()


@pytest.mark.parametrize(
    ("before", "tools", "after"),
    [
        (None, [], None),
        (None, ["glob", "read", "read"], "glob → read × 2"),
        ("read", ["edit"], "read → edit"),
        ("read → edit", ["edit"], "read → edit × 2"),
        ("read → edit × 9", ["edit"], "read → edit × 10"),
        ("read → edit × 2", ["read"], "read → edit × 2 → read"),
        ("read", ["a → b × x"], "read → a - b - x"),
        ("read × x", ["read", " "], "read × 2 → ?"),
        ("a → b → c → d → e → f → g → h", ["i"], "… → c → d → e → f → g → h → i"),
        ("… → c → d → e → f → g → h → i", ["j"], "… → d → e → f → g → h → i → j"),
    ],
)
def test_the_preview_joins_repetitions_and_forgets_the_oldest(
    before: str | None, tools: list[str], after: str | None
) -> None:
    assert extended_preview(before, tools) == after


@pytest.mark.parametrize(
    ("previews", "whole"),
    [
        ([], None),
        ([None, "read", None], "read"),
        (["glob → read × 2", "read", "edit → read"], "glob → read × 3 → edit → read"),
        (["a → b → c → d", "e → f → g → h → i"], "… → c → d → e → f → g → h → i"),
        (["a → …", "… → b"], "a → … → b"),
        (["read × " + "9" * 5000, "read × 2"], "read × 3"),
    ],
)
def test_previews_are_joined_in_order(previews: list[str | None], whole: str | None) -> None:
    assert joined_preview(previews) == whole


def test_moving_a_goal_updates_parent_previews_in_plan_order() -> None:
    tree = PlanTree()
    for parent, texts in ((None, ["a", "b"]), ("1", ["a1", "a2"]), ("2", ["b1"])):
        for change in tree.plan_add(texts, "", parent_id=parent):
            tree.apply(change)
    for goal_id, tools in (("5", ["grep"]), ("1", ["goal"]), ("3", ["read", "bash"]), ("4", ["bash"])):
        tree.apply_counts(tree.count(goal_id, tokens=1, cost=0, tools=tools))
    previews = [tree.goals[goal_id].cumulative_stats.preview for goal_id in "12"]
    assert previews == ["goal → read → bash × 2", "grep"]
    (move,) = tree.plan_move(tree.goals["3"], "2", "5")
    tree.apply(move)
    previews = [tree.goals[goal_id].cumulative_stats.preview for goal_id in "12"]
    assert previews == ["goal → bash", "read → bash → grep"]
    (move,) = tree.plan_move(tree.goals["3"], "1", "4")
    tree.apply(move)
    previews = [tree.goals[goal_id].cumulative_stats.preview for goal_id in "12"]
    assert previews == ["goal → read → bash × 2", "grep"]
