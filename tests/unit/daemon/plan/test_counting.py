"""Numbers of goals: what a message adds (seed 000, "统计更新逻辑")."""

from __future__ import annotations

import pytest

from daemon.model.goals import GoalStats
from daemon.plan.tree import PlanTree, extended_preview


def test_a_message_counts_for_its_goal_and_for_all_above() -> None:
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


def test_counting_changes_nothing_before_it_is_applied_and_knows_no_stranger() -> None:
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
