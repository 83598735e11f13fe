"""Operations on the goal tree, one by one (seed 000)."""

from __future__ import annotations

import pytest

from daemon.model.goals import Goal, GoalTree
from daemon.plan.text import progress_lines
from daemon.plan.tree import (
    MAX_DESCRIPTION,
    MAX_GOALS_AT_ONCE,
    MAX_SUMMARY,
    Added,
    PlanError,
    PlanTree,
    Removed,
    Updated,
)


def add(tree: PlanTree, *descriptions: str, reason: str = "") -> None:
    for change in tree.plan_add(descriptions, reason):
        tree.apply(change)


def focus(tree: PlanTree, number: str) -> None:
    for change in tree.plan_focus(tree.find(number)):
        tree.apply(change)


def done(tree: PlanTree, summary: str = "done") -> None:
    for change in tree.plan_done(summary):
        tree.apply(change)


def abandon(tree: PlanTree, reason: str = "does not work") -> None:
    for change in tree.plan_abandon(reason):
        tree.apply(change)


def work(tree: PlanTree, *tools: str, tokens: int = 10, cost: float = 0.01) -> None:
    tree.apply_counts(tree.count(tree.current_id, tokens=tokens, cost=cost, tools=tools))


def statuses(tree: PlanTree) -> dict[str, str]:
    return {goal.description: goal.status for goal in tree.snapshot().goals}


def numbered(tree: PlanTree) -> dict[str, str]:
    return {number: tree.goals[goal_id].description for goal_id, number in tree.numbers().items()}


def test_goals_added_without_a_focus_are_at_the_top_level() -> None:
    tree = PlanTree()
    add(tree, "分析代码", "实现功能", "测试")
    assert progress_lines(tree) == ["[ ] 1. 分析代码", "[ ] 2. 实现功能", "[ ] 3. 测试"]


def test_goals_added_with_a_focus_are_its_children() -> None:
    tree = PlanTree()
    add(tree, "分析代码", "实现功能", "测试")
    focus(tree, "2")
    add(tree, "设计接口", "实现代码")
    assert progress_lines(tree) == [
        "[ ] 1. 分析代码",
        "[→] 2. 实现功能  ← current",
        "    [ ] 2.1 设计接口",
        "    [ ] 2.2 实现代码",
        "[ ] 3. 测试",
    ]


def test_goal_ids_increase_on_every_level() -> None:
    tree = PlanTree()
    add(tree, "a", "b")
    focus(tree, "1")
    add(tree, "a1")
    focus(tree, "2")
    add(tree, "b1")
    assert [(g.id, g.parent_id) for g in tree.snapshot().goals] == [
        ("1", None),
        ("2", None),
        ("3", "1"),
        ("4", "2"),
    ]


def test_id_of_a_removed_goal_is_not_reused() -> None:
    tree = PlanTree()
    add(tree, "a", "b")
    focus(tree, "2")
    abandon(tree)
    add(tree, "c")
    assert [goal.id for goal in tree.snapshot().goals] == ["1", "3"]


def test_a_copy_gives_the_same_ids_as_the_original() -> None:
    tree = PlanTree()
    add(tree, "a", "b")
    focus(tree, "2")
    abandon(tree)
    assert tree.copy().plan_add(["c"], "") == tree.plan_add(["c"], "")


def test_focus_starts_the_goal_and_its_pending_ancestors() -> None:
    tree = PlanTree()
    add(tree, "a")
    focus(tree, "1")
    add(tree, "b")
    focus(tree, "1.1")
    add(tree, "c")
    # A tree whose upper goals were never focused, as the person may build it.
    pending = GoalTree(goals=[g.model_copy(update={"status": "pending"}) for g in tree.snapshot().goals])
    fresh = PlanTree(pending)
    focus(fresh, "1.1.1")
    assert set(statuses(fresh).values()) == {"in_progress"}
    assert fresh.current_id == "3"


def test_focus_moves_between_open_goals_that_stay_in_progress() -> None:
    tree = PlanTree()
    add(tree, "a", "b")
    focus(tree, "1")
    focus(tree, "2")
    assert statuses(tree) == {"a": "in_progress", "b": "in_progress"}
    assert tree.current_id == "2"


def test_done_moves_the_focus_to_the_parent() -> None:
    tree = PlanTree()
    add(tree, "a")
    focus(tree, "1")
    add(tree, "a1", "a2")
    focus(tree, "1.1")
    done(tree, "found it")
    assert tree.current_id == "1"
    assert tree.goals["2"].summary == "found it"
    assert statuses(tree) == {"a": "in_progress", "a1": "completed", "a2": "pending"}


def test_parents_complete_with_their_last_child_up_to_the_root() -> None:
    tree = PlanTree()
    add(tree, "root", "other")
    focus(tree, "1")
    add(tree, "first", "second")
    focus(tree, "1.2")
    add(tree, "deep")
    focus(tree, "1.1")
    done(tree, "one")
    focus(tree, "1.2.1")
    (change,) = tree.plan_done("three")
    assert isinstance(change, Updated)
    assert [affected.goal_id for affected in change.affected_goals] == ["4", "1"]
    tree.apply(change)
    assert statuses(tree) == {
        "root": "completed",
        "other": "pending",
        "first": "completed",
        "second": "completed",
        "deep": "completed",
    }
    assert tree.current_id is None
    root = tree.goals["1"].summary
    assert root is not None
    assert "one" in root
    assert "three" in root


def test_an_abandoned_sibling_does_not_stop_the_cascade() -> None:
    tree = PlanTree()
    add(tree, "a")
    focus(tree, "1")
    add(tree, "a1", "a2")
    focus(tree, "1.1")
    work(tree)
    abandon(tree)
    focus(tree, "1.1")
    assert tree.goals[tree.current_id or ""].description == "a2"
    done(tree)
    assert statuses(tree) == {"a": "completed", "a1": "abandoned", "a2": "completed"}


def test_an_open_sibling_stops_the_cascade() -> None:
    tree = PlanTree()
    add(tree, "a")
    focus(tree, "1")
    add(tree, "a1", "a2")
    focus(tree, "1.2")
    focus(tree, "1.1")
    done(tree)
    assert statuses(tree)["a"] == "in_progress"


def test_done_is_refused_while_children_are_open_and_names_them() -> None:
    tree = PlanTree()
    add(tree, "a")
    focus(tree, "1")
    add(tree, "a1")
    with pytest.raises(PlanError, match=r"1\.1 a1"):
        tree.plan_done("done")


def test_done_is_allowed_when_all_children_were_abandoned() -> None:
    tree = PlanTree()
    add(tree, "a")
    focus(tree, "1")
    add(tree, "a1")
    focus(tree, "1.1")
    work(tree)
    abandon(tree)
    done(tree, "without it")
    assert statuses(tree) == {"a": "completed", "a1": "abandoned"}


def test_abandoned_goal_without_work_is_removed() -> None:
    tree = PlanTree()
    add(tree, "a", "b")
    focus(tree, "1")
    assert tree.plan_abandon("not needed") == [Removed("1", current_id=None)]
    abandon(tree)
    assert numbered(tree) == {"1": "b"}
    assert "1" not in tree.goals


def test_abandoned_goal_with_work_is_kept_with_the_reason() -> None:
    tree = PlanTree()
    add(tree, "a", "b")
    focus(tree, "1")
    work(tree, "read")
    abandon(tree, "dependency trouble")
    assert tree.goals["1"].status == "abandoned"
    assert tree.goals["1"].summary == "dependency trouble"
    assert tree.current_id is None
    assert numbered(tree) == {"1": "b"}


def test_abandoning_a_goal_abandons_its_open_children_only() -> None:
    tree = PlanTree()
    add(tree, "a")
    focus(tree, "1")
    add(tree, "a1", "a2")
    focus(tree, "1.1")
    done(tree)
    focus(tree, "1")
    abandon(tree)
    assert statuses(tree) == {"a": "abandoned", "a1": "completed", "a2": "abandoned"}
    assert tree.numbers() == {}


def test_replacement_goal_takes_place_and_focus_of_the_abandoned() -> None:
    tree = PlanTree()
    add(tree, "分析代码", "实现方案 A", "测试")
    focus(tree, "1")
    work(tree)
    done(tree, "分析完成")
    focus(tree, "2")
    work(tree)
    assert [g.id for g in tree.snapshot().goals] == ["1", "2", "3"]
    abandon(tree, "尝试方案 A,因依赖问题失败")
    add(tree, "实现方案 B")
    assert [(g.id, g.description, g.status) for g in tree.snapshot().goals] == [
        ("1", "分析代码", "completed"),
        ("2", "实现方案 A", "abandoned"),
        ("4", "实现方案 B", "in_progress"),
        ("3", "测试", "pending"),
    ]
    assert tree.current_id == "4"
    assert [line for line in progress_lines(tree) if "→ 分析完成" not in line] == [
        "[✓] 1. 分析代码",
        "[→] 2. 实现方案 B  ← current",
        "[ ] 3. 测试",
    ]


def test_several_goals_replace_one_in_their_order() -> None:
    tree = PlanTree()
    add(tree, "a", "b", "c")
    focus(tree, "2")
    add(tree, "b1")
    focus(tree, "2")
    work(tree)
    abandon(tree)
    add(tree, "x", "y")
    assert numbered(tree) == {"1": "a", "2": "x", "3": "y", "4": "c"}
    assert tree.goals[tree.current_id or ""].description == "x"


def test_goal_added_at_another_level_replaces_nothing() -> None:
    tree = PlanTree()
    add(tree, "a", "b", "c")
    focus(tree, "1")
    work(tree)
    abandon(tree)
    focus(tree, "2")
    add(tree, "c1")
    assert numbered(tree) == {"1": "b", "2": "c", "2.1": "c1"}


def test_goal_added_after_other_work_takes_no_old_place() -> None:
    tree = PlanTree()
    add(tree, "a", "b")
    focus(tree, "1")
    work(tree)
    abandon(tree)
    focus(tree, "1")
    done(tree)
    add(tree, "afterwards")
    assert numbered(tree) == {"1": "b", "2": "afterwards"}
    assert tree.current_id is None


@pytest.mark.parametrize("number", ["0", "3", "1.2", "", ".", "-1", "x", "²", "1.²", "9" * 5000, "1..1"])
def test_unknown_number_is_refused_with_the_existing_numbers(number: str) -> None:
    tree = PlanTree()
    add(tree, "a", "b")
    focus(tree, "1")
    add(tree, "a1")
    with pytest.raises(PlanError, match=r"Goals: 1, 1\.1, 2\."):
        tree.find(number)


@pytest.mark.parametrize("number", ["1.1", " 1.1 ", "1.1."])
def test_goal_number_may_have_spaces_and_a_trailing_dot(number: str) -> None:
    tree = PlanTree()
    add(tree, "a")
    focus(tree, "1")
    add(tree, "a1")
    assert tree.find(number).description == "a1"


def test_finished_and_abandoned_goals_cannot_be_focused() -> None:
    tree = PlanTree()
    add(tree, "a", "b")
    focus(tree, "1")
    done(tree)
    with pytest.raises(PlanError, match="completed"):
        tree.plan_focus(tree.find("1"))
    focus(tree, "2")
    work(tree)
    abandon(tree)
    with pytest.raises(PlanError, match="abandoned"):
        tree.plan_focus(tree.goals["2"])


def test_done_and_abandon_require_a_focus() -> None:
    tree = PlanTree()
    add(tree, "a")
    with pytest.raises(PlanError, match="focus"):
        tree.plan_done("x")
    with pytest.raises(PlanError, match="focus"):
        tree.plan_abandon("x")


def test_empty_and_excessive_texts_are_refused() -> None:
    tree = PlanTree()
    with pytest.raises(PlanError, match="description"):
        tree.plan_add(["  ", ""], "")
    with pytest.raises(PlanError, match="too long"):
        tree.plan_add(["x" * (MAX_DESCRIPTION + 1)], "")
    with pytest.raises(PlanError, match="too many"):
        tree.plan_add(["x"] * (MAX_GOALS_AT_ONCE + 1), "")
    add(tree, "a")
    focus(tree, "1")
    for operation in (tree.plan_done, tree.plan_abandon):
        with pytest.raises(PlanError, match="summary"):
            operation(" \n ")
        with pytest.raises(PlanError, match="the limit is 8000"):
            operation("x" * (MAX_SUMMARY + 1))


def test_descriptions_become_one_line() -> None:
    tree = PlanTree()
    add(tree, " two\n  lines\t", reason=" because ")
    assert tree.goals["1"].description == "two lines"
    assert tree.goals["1"].reason == "because"


def test_goal_ids_continue_after_a_snapshot() -> None:
    tree = PlanTree(GoalTree(goals=[Goal(id="7", description="a")]))
    (change,) = tree.plan_add(["b"], "")
    assert isinstance(change, Added)
    assert change.goal.id == "8"


def test_changes_of_a_damaged_log_do_not_break_the_tree() -> None:
    # The line that added goal 1 could not be read.
    tree = PlanTree()
    tree.apply(Updated("1", {"status": "in_progress"}, current_id="1"))
    tree.apply(Added(Goal(id="2", parent_id="1", description="child of the lost one"), None))
    tree.apply(Removed("9", current_id=None))
    assert tree.current_id is None
    assert tree.count("2", tokens=1, cost=0, tools=[])[0].goal_id == "2"
    add(tree, "next")
    assert numbered(tree) == {"1": "child of the lost one", "2": "next"}
    assert tree.find("1").id == "2"


def test_goals_whose_parent_is_lost_are_numbered_at_the_top() -> None:
    goals = [
        Goal(id="4", parent_id="3", description="above its parent in the file"),
        Goal(id="1", parent_id="9", description="child of a lost goal"),
        Goal(id="2", parent_id="1", description="grandchild"),
        Goal(id="3", description="top"),
        Goal(id="5", parent_id="6", description="in a circle"),
        Goal(id="6", parent_id="5", description="in the same circle"),
    ]
    tree = PlanTree(GoalTree(goals=goals, current_id="2"))
    numbers = {"1": "1", "2": "1.1", "3": "2", "4": "2.1", "5": "3", "6": "3.1"}
    assert tree.numbers() == numbers
    assert {goal: tree.number_of(goal) for goal in numbers} == numbers
    # Clients build the tree from what they are sent, and see the same.
    assert [goal.parent_id for goal in tree.snapshot().goals] == ["3", None, "1", None, None, "5"]
    tree.apply(Removed("1", current_id=None))
    assert tree.numbers() == {"2": "1", "3": "2", "4": "2.1", "5": "3", "6": "3.1"}
