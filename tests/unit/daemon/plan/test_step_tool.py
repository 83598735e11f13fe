"""The step tool's operations on the plan (seed 003, "step 工具", "状态变化")."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.plan.goal_lookup import named
from daemon.plan.port import SessionPlan
from daemon.plan.step_tool import StepCall
from daemon.plan.text import plan_to_prompt, progress_lines, todo_text
from daemon.plan.tree import Change, PlanError, PlanTree
from tools.tool import PlanEdit, ToolError


class Work:
    """A plan and the port that the step tool has of it."""

    def __init__(self) -> None:
        self.tree = PlanTree()
        self.changes: list[Change] = []
        self.plan = SessionPlan(self.tree, self.record, front="step")

    def record(self, change: Change) -> None:
        self.changes.append(change)
        self.tree.apply(change)

    async def planned(self, *goals: str) -> None:
        await self.plan.step(plan=goals)

    def status(self) -> dict[str, str]:
        return {goal.description: goal.status for goal in self.tree.goals.values()}

    @property
    def focus(self) -> str | None:
        return self.tree.goals[self.tree.current_id].description if self.tree.current_id else None


@pytest.fixture
def work() -> Work:
    return Work()


async def test_the_states_are_those_of_the_seed(work: Work) -> None:
    await work.plan.step(plan=["A", "B", "C"])
    assert work.status() == {"A": "pending", "B": "pending", "C": "pending"}
    await work.plan.step(focus="A")
    assert (work.status(), work.focus) == ({"A": "in_progress", "B": "pending", "C": "pending"}, "A")
    told = await work.plan.step(complete=True, summary="found it", focus="B")
    assert (work.status(), work.focus) == ({"A": "completed", "B": "in_progress", "C": "pending"}, "B")
    assert work.tree.goals["1"].summary == "found it"
    assert told == "Done: 1 A.\nFocus: 2 B."


async def test_the_example_of_the_seed_gives_its_todo_list(work: Work) -> None:
    await work.plan.step(plan=["探索代码库", "修改配置", "运行测试"])
    await work.plan.step(focus="探索代码库")
    await work.plan.step(complete=True, summary="主配置在 /src/config.yaml", focus="修改配置")
    assert work.plan.progress() == "[✓] 探索代码库\n[→] 修改配置\n[ ] 运行测试"
    await work.plan.step(plan=["备份配置"])
    assert work.plan.progress() == "[✓] 探索代码库\n[→] 修改配置\n    [ ] 备份配置\n[ ] 运行测试"
    told = await work.plan.step(complete=True, summary="改了", focus="运行测试")
    assert work.plan.progress() == "[✓] 探索代码库\n[✓] 修改配置\n[ ] 备份配置\n[→] 运行测试"
    assert told == "Done: 2 修改配置.\nNot started, and still planned: 备份配置.\nFocus: 4 运行测试."


async def test_one_call_plans_and_begins(work: Work) -> None:
    told = await work.plan.step(plan=["one", "two"], focus="two")
    assert (work.status(), work.focus) == ({"one": "pending", "two": "in_progress"}, "two")
    assert told == "Added: 1 one; 2 two.\nFocus: 2 two."
    await work.plan.step(complete=True, summary="s", plan=["three"], focus="three")
    assert (work.status()["two"], work.focus) == ("completed", "three")
    assert work.tree.goals["3"].parent_id is None


@pytest.mark.parametrize(
    "text",
    [
        "Fix f(a, b)", "  fix  F(a, b) ", "2", "2.", "#2", "2. Fix f(a, b)", "2 Fix f", "[ ] 2. Fix f(a, b)",
        "[→] Fix f(a, b)", "[ ] Fix f(a, b)  ← current", "- Fix f(a, b)", "Fix f…", "9. Fix f(a, b)", "Ｆix f(a, b)",
        "2: Fix f(a, b)", "2：Fix f(a, b)", "Goal 2", "goal 2: Fix f(a, b)", "Step 2 - Fix f(a, b)", "[2] Fix f(a, b)",
        "**Fix f(a, b)**", "“Fix f(a, b)”", '"Fix f(a, b)"', "`Fix f(a, b)`", "- [ ] **2. Fix f(a, b)**",
        "(2) Fix f(a, b)",
    ],
)  # fmt: skip
async def test_goal_is_found_by_the_spellings_of_models(work: Work, text: str) -> None:
    await work.planned("Look", "Fix f(a, b)", "Test")
    await work.plan.step(focus=text)
    assert work.focus == "Fix f(a, b)"


async def test_description_starting_with_a_number_is_not_a_goal_number(work: Work) -> None:
    await work.planned("404 page", "3 tests to write", "2")
    for text, focus in (
        ("404 page", "404 page"),
        ("3 tests to write", "3 tests to write"),
        ("2", "2"),
        ("1", "404 page"),
    ):
        await work.plan.step(focus=text)
        assert work.focus == focus
    with pytest.raises(ToolError, match="There is no goal '3 files to read'"):
        await work.plan.step(focus="3 files to read")


async def test_of_equally_named_goals_the_nearest_is_focused(work: Work) -> None:
    await work.planned("a", "b")
    await work.plan.step(focus="a", plan=["test"])
    await work.plan.step(focus="b", plan=["test", "other"])
    await work.plan.step(focus="test")
    assert work.tree.current_id == "4"
    await work.plan.step(focus="1.1")
    assert work.tree.current_id == "3"
    await work.plan.step(focus="test")
    assert work.tree.current_id == "3"


async def test_ambiguous_goal_name_is_refused_with_the_numbers(work: Work) -> None:
    await work.planned("a", "b", "c")
    for goal in ("a", "b"):
        await work.plan.step(focus=goal, plan=["test"])
    await work.plan.step(focus="c")
    with pytest.raises(
        ToolError, match=r"2 open goals are named 'test': focus one by its number \(1\.1, 2\.1\)"
    ):
        await work.plan.step(focus="test")
    assert work.focus == "c"


async def test_planned_goals_are_not_added_again(work: Work) -> None:
    await work.planned("a", "b", "c")
    await work.plan.step(focus="a")
    told = await work.plan.step(plan=["a", "b", "new", "c", "new"])
    assert told == "Planned already: a; b; c.\nAdded: 1.1 new.\nFocus: 1 a."
    assert len(work.tree.goals) == 4
    told = await work.plan.step(plan=["a", "b", "c"], complete=False, focus="b")
    assert told == "Planned already: a; b; c.\nFocus: 2 b."


async def test_nested_goal_numbers_are_parsed_in_common_spellings(work: Work) -> None:
    await work.planned("a", "b")
    await work.plan.step(focus="b", plan=["c"])
    for text in ("2.1", "2.1: c", "Goal 2.1", "2.1 – c", "**2.1** c"):
        await work.plan.step(focus="a")
        await work.plan.step(focus=text)
        assert work.focus == "c"


@pytest.mark.parametrize(
    "line",
    [
        "[ ] boxed",
        "* [ ] boxed",
        "(1) boxed",
        "a) boxed",
        "- [x] boxed",
        "☐ boxed",
        "1. [ ] boxed",
        "1、boxed",
    ],
)
async def test_list_marks_are_stripped_from_goal_names(work: Work, line: str) -> None:
    await work.planned("first", line)
    assert list(work.status()) == ["first", "boxed"]
    for focus in (line, "boxed"):
        await work.plan.step(focus="first")
        await work.plan.step(focus=focus)
        assert work.focus == "boxed"


async def test_goal_planned_with_a_check_box_is_found_by_it(work: Work) -> None:
    for change in work.tree.plan_add(["[ ] boxed", "other"], ""):
        work.record(change)
    for focus in ("[ ] boxed", "boxed", "[→] boxed"):
        await work.plan.step(focus="other")
        await work.plan.step(focus=focus)
        assert work.focus == "[ ] boxed"


async def test_resent_list_adds_only_new_goals_and_reports_done_ones(work: Work) -> None:
    await work.planned("A", "B", "C")
    await work.plan.step(focus="A")
    await work.plan.step(complete=True, summary="a done", focus="B")
    told = await work.plan.step(plan=["A", "B", "C", "D"])
    assert (
        told == "Planned already: B; C.\nAlready done, and not planned again: A.\nAdded: 2.1 D.\nFocus: 2 B."
    )
    shown = [line.strip() for line in work.plan.progress().splitlines()]
    for again in (
        shown,
        ["[✓] A", "[→] B", "[ ] C"],
        ["1. A", "2. B"],
        ["- [x] A", "- [ ] B"],
        ["**A**", "“B”"],
    ):
        told = await work.plan.step(plan=again)
        assert "Added" not in told
        assert "Already done, and not planned again: A." in told
    assert list(work.status()) == ["A", "B", "C", "D"]
    # All of it is done but what comes next.
    for goal in ("D", "C"):  # with the first its goal above
        await work.plan.step(focus=goal)
        await work.plan.step(complete=True, summary="s")
    told = await work.plan.step(plan=["A", "B", "C", "E"])
    assert told.startswith("Already done, and not planned again: A; B; C.\nAdded: 4 E.")


async def test_resent_plan_text_changes_nothing(work: Work) -> None:
    await work.planned("A", "B", "C")
    await work.plan.step(focus="A", plan=["a1", "a2"])
    for goal in ("a1", "a2"):
        await work.plan.step(focus=goal)
        await work.plan.step(complete=True, summary=f"{goal} was found", focus="B")
    await work.plan.step(plan=["b1", "b2"], focus="b1")
    before = progress_lines(work.tree)
    text = plan_to_prompt(work.tree)
    shown = text[text.index("[") :].splitlines()
    for again in (shown, before):
        told = await work.plan.step(plan=again)
        assert "Added" not in told, told
        assert progress_lines(work.tree) == before


async def test_checked_mark_in_a_plan_completes_nothing(work: Work) -> None:
    await work.planned("A", "B")
    told = await work.plan.step(plan=["[x] A", "[ ] B"])
    assert "A mark in plan does not complete a goal:" in told
    assert work.status() == {"A": "pending", "B": "pending"}
    assert "A mark in plan" not in await work.plan.step(plan=["[ ] A", "B"])


async def test_done_goal_is_planned_again_if_alone_later_or_focused(
    work: Work,
) -> None:
    await work.planned("test")
    await work.plan.step(focus="test")
    await work.plan.step(complete=True, summary="red")
    await work.plan.step(plan=["fix", "test"])
    assert [goal.status for goal in work.tree.goals.values()] == ["completed", "pending", "pending"]
    for goal in ("fix", "test"):
        await work.plan.step(focus=goal)
        await work.plan.step(complete=True, summary="s")
    await work.plan.step(plan=["test", "publish"], focus="test")
    assert (work.focus, work.tree.current_id) == ("test", "4")
    await work.plan.step(complete=True, summary="green")
    await work.plan.step(plan=["test"], focus="test")
    assert work.tree.current_id == "6"


async def test_complete_without_a_focus_does_not_suggest_numbers(work: Work) -> None:
    await work.planned("A")
    with pytest.raises(ToolError, match=r"focus a goal first\.") as refused:
        await work.plan.step(complete=True, summary="s")
    assert "number" not in str(refused.value)


async def test_completed_goal_can_be_planned_again(work: Work) -> None:
    await work.planned("test", "fix")
    await work.plan.step(focus="test")
    await work.plan.step(complete=True, summary="red", plan=["test"], focus="fix")
    assert work.tree.goals["3"].parent_id == "2"
    await work.plan.step(focus="test")
    assert work.tree.current_id == "3"


async def test_goal_is_completed_and_replanned_in_one_call(work: Work) -> None:
    await work.planned("test")
    await work.plan.step(focus="test")
    await work.plan.step(complete=True, summary="red", plan=["test"], focus="test")
    assert (work.tree.goals["1"].status, work.tree.current_id) == ("completed", "2")


async def test_focused_parent_continues_after_its_child(work: Work) -> None:
    await work.planned("above")
    await work.plan.step(focus="above")
    await work.plan.step(plan=["below"], focus="below")
    await work.plan.step(complete=True, summary="done", focus="above")
    assert work.status() == {"above": "in_progress", "below": "completed"}
    await work.plan.step(complete=True, summary="all of it")
    assert work.tree.goals["1"].summary == "all of it"


async def test_without_focus_parents_complete_with_their_last_goal(work: Work) -> None:
    await work.planned("above")
    await work.plan.step(focus="above")
    await work.plan.step(plan=["below"], focus="below")
    told = await work.plan.step(complete=True, summary="done")
    assert told == "Done: 1.1 below. With it: 1 above.\nAll goals of the plan are done."


async def test_goal_with_started_children_is_not_completed(work: Work) -> None:
    await work.planned("above")
    await work.plan.step(focus="above", plan=["one", "two"])
    await work.plan.step(focus="one")
    await work.plan.step(focus="above")
    with pytest.raises(
        ToolError,
        match=r"still has goals that were started: 1\.1 one\.",
    ):
        await work.plan.step(complete=True, summary="done")
    assert work.status() == {"above": "in_progress", "one": "in_progress", "two": "pending"}


async def test_completing_a_goal_keeps_its_pending_steps_in_order(work: Work) -> None:
    await work.planned("a", "z")
    await work.plan.step(focus="a", plan=["b", "c"])
    await work.plan.step(complete=True, summary="s", focus="c")
    assert todo_text(work.tree) == "[✓] a\n[ ] b\n[→] c\n[ ] z"


@pytest.mark.parametrize(
    ("focus", "message"),
    [
        ("nothing like it", "Open goals: 2 b. Focus one of them, or plan it first."),
        ("7", "There is no goal '7'"),
        ("a", "Goal 1 a is completed"),
        ("1", "Goal 1 a is completed"),
    ],
)  # fmt: skip
async def test_impossible_focus_leaves_the_plan_unchanged(work: Work, focus: str, message: str) -> None:
    await work.planned("a", "b")
    await work.plan.step(focus="a")
    await work.plan.step(complete=True, summary="s")
    before = progress_lines(work.tree)
    with pytest.raises(ToolError, match=message):
        await work.plan.step(plan=[], focus=focus)
    assert progress_lines(work.tree) == before


async def test_call_that_fails_in_part_changes_nothing(work: Work) -> None:
    await work.planned("a", "b")
    await work.plan.step(focus="a")
    count = len(work.changes)
    for focus, message in (
        ("no such", "no goal 'no such'"),
        ("a", "names the goal that this call completes"),
    ):
        with pytest.raises(ToolError, match=message):
            await work.plan.step(complete=True, summary="s", focus=focus)
    with pytest.raises(ToolError, match="nothing to finish"):
        await Work().plan.step(complete=True, summary="s", plan=["x"])
    assert len(work.changes) == count


async def test_empty_plan_error_gives_advice(work: Work) -> None:
    with pytest.raises(ToolError, match="none is open: plan it first"):
        await work.plan.step(focus="a")
    assert work.plan.progress() == "The plan is empty."


async def test_both_plan_tools_work_on_one_plan(work: Work) -> None:
    goal = SessionPlan(work.tree, work.record)
    await goal.update(PlanEdit(add=["a", "b"], focus="1"))
    await work.plan.step(complete=True, summary="s", focus="b")
    await goal.update(PlanEdit(abandon="no way"))
    assert goal.progress() == "[✓] 1. a"
    assert work.plan.progress() == "[✓] a"


_TEXTS = st.sampled_from(
    ["a", "b", "A ", "1", "2.1", "1. a", "[ ] b", "[✓] a", "2.1: b", "**a**", "b…", "測試", "", "x" * 600]
)


@given(st.lists(st.tuples(st.lists(_TEXTS, max_size=4), st.none() | _TEXTS, st.booleans()), max_size=12))
def test_any_step_call_is_applied_fully_or_changes_nothing(
    calls: list[tuple[list[str], str | None, bool]],
) -> None:
    tree = PlanTree()
    for plan, focus, complete in calls:
        twin = tree.copy()
        before = progress_lines(tree)
        try:
            changes = StepCall(plan, focus, complete, "summary").changes(tree)
        except PlanError:
            assert progress_lines(tree) == before
            continue
        assert progress_lines(tree) == before
        for change in changes:
            tree.apply(change)
        open_before = {goal.id for goal in twin.goals.values() if goal.status in ("pending", "in_progress")}
        ended = {i for i in open_before if tree.goals[i].status not in ("pending", "in_progress")}
        assert not ended or complete
        if tree.current_id is not None:
            assert tree.ended_root(tree.current_id) is None
        assert all(
            named(tree, number).id == i or not number
            for i, number in tree.numbers().items()
            if number not in {g.description for g in tree.goals.values()}
        )


async def test_changes_by_the_user_do_not_redirect_a_step(work: Work) -> None:
    await work.planned("a", "b", "c")
    await work.plan.step(focus="a")
    tree = work.tree
    plan = SessionPlan(tree, work.record, front="step", seen=tree.copy())
    for change in (*tree.plan_focus(tree.goals["2"]), *tree.plan_move(tree.goals["3"], None, "1")):
        tree.apply(change)
    with pytest.raises(ToolError, match=r"1 is 'c' since the plan changed\. Before, it was 'a'"):
        await plan.step(focus="1")
    await plan.step(plan=["a1"])
    assert [goal.description for goal in tree.children("1")] == ["a1"]
    assert (await plan.step(complete=True, summary="made", plan=["d"])).startswith("Done: 2 a.")
    assert [goal.description for goal in tree.children(None)] == ["c", "a", "a1", "b", "d"]
    assert work.status() | {"a1": "", "d": ""} == {
        "c": "pending", "a": "completed", "b": "in_progress", "a1": "", "d": "",
    }  # fmt: skip
