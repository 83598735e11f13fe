"""The ``goal`` tool's port: all operations of a call or none, each recorded."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.model.goals import Goal
from daemon.plan.port import SessionPlan
from daemon.plan.text import plan_to_prompt
from daemon.plan.tree import Added, Change, PlanError, PlanTree, Updated
from tools.tool import PermissionDeniedError, PlanEdit, ToolError


class Recorder:
    def __init__(self) -> None:
        self.tree = PlanTree()
        self.changes: list[Change] = []
        self.plan = SessionPlan(self.tree, self.record)

    def record(self, change: Change) -> None:
        self.changes.append(change)
        self.tree.apply(change)

    def work(self) -> None:
        tree = self.tree
        tree.apply_counts(tree.count(tree.current_id, tokens=1, cost=0, tools=[]))


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


async def test_update_result_summarizes_the_changes(recorder: Recorder) -> None:
    plan = recorder.plan
    assert await plan.update(PlanEdit(add=["a", "b"], reason="because")) == (
        "Added: 1 a; 2 b.\nNo goal has the focus. Next to do: 1 a."
    )
    assert [goal.reason for goal in recorder.tree.snapshot().goals] == ["because", "because"]
    assert await plan.update(PlanEdit(focus="1")) == "Focus: 1 a."
    assert await plan.update(PlanEdit(add=["x"] * 6)) == "Added: 1.1 to 1.6 (6 goals).\nFocus: 1 a."
    assert await plan.update(PlanEdit(focus="1.1", rename="y")) == "Renamed: 1.1 y.\nFocus: 1.1 y."
    assert await plan.update(PlanEdit(done="a very long summary", focus="1.2", add=["deep"])) == (
        "Done: 1.1 y.\nAdded: 1.2.1 deep.\nFocus: 1.2 x."
    )
    recorder.work()
    assert await plan.update(PlanEdit(abandon="no way")) == (
        "Abandoned: 1.2 x, with 1 goal below it.\nNumbers now: 1.2 x (g5); 1.3 x (g6); 1.4 x (g7); 1.5 x "
        "(g8).\nFocus: 1 a."
    )
    assert await plan.update(PlanEdit(add=["instead"])) == (
        "Added: 1.2 instead.\nNumbers now: 1.3 x (g5); 1.4 x (g6); 1.5 x (g7); 1.6 x (g8).\nFocus: 1.2 instead."
    )
    assert await plan.update(PlanEdit(abandon="not needed")) == (
        "Deleted, because it had not been started: 1.2 instead.\nNumbers now: 1.2 x (g5); 1.3 x (g6); 1.4 "
        "x (g7); 1.5 x (g8).\nFocus: 1 a."
    )


async def test_changed_goals_are_identified_by_id(recorder: Recorder) -> None:
    plan = recorder.plan
    await plan.update(PlanEdit(add=["a", "b"], focus="1"))
    assert [(one.operation, one.goal_id, one.description) for one in plan.changed] == [
        ("added", "1", "a"),
        ("added", "2", "b"),
        ("focused", "1", "a"),
    ]
    await plan.update(PlanEdit(add=["deep"], focus="1.1", rename="deeper"))
    assert [(one.operation, one.description) for one in plan.changed][-1] == ("renamed", "deeper")
    await plan.update(PlanEdit(done="found it", focus="2"))
    assert [(one.operation, one.description) for one in plan.changed] == [
        ("completed", "deeper"),
        ("completed", "a"),
        ("focused", "b"),
    ]
    await plan.update(PlanEdit(add=["c"]))
    await plan.update(PlanEdit(goal="2.1", abandon="not needed"))
    assert [(one.operation, one.description) for one in plan.changed] == [("removed", "c")]


async def test_done_reports_completed_parents_and_the_next_goal(
    recorder: Recorder,
) -> None:
    plan = recorder.plan
    await plan.update(PlanEdit(add=["a", "b"]))
    await plan.update(PlanEdit(focus="1", add=["a1"]))
    await plan.update(PlanEdit(focus="1.1"))
    assert await plan.update(PlanEdit(done="x")) == (
        "Done: 1.1 a1. With it: 1 a.\nNo goal has the focus. Next to do: 2 b."
    )
    await plan.update(PlanEdit(focus="2"))
    assert await plan.update(PlanEdit(done="x")) == "Done: 2 b.\nAll goals of the plan are done."


async def test_done_focus_and_add_apply_in_this_order(recorder: Recorder) -> None:
    await recorder.plan.update(PlanEdit(add=["a", "b"]))
    await recorder.plan.update(PlanEdit(focus="1"))
    await recorder.plan.update(PlanEdit(done="finished", focus="2", add=["b1"]))
    assert list(recorder.tree.numbers().values()) == ["1", "2", "2.1"]
    assert recorder.tree.goals["3"].parent_id == "2"
    assert recorder.tree.goals["1"].status == "completed"


async def test_numbers_are_those_the_model_saw_before_the_call(recorder: Recorder) -> None:
    await recorder.plan.update(PlanEdit(add=["a", "b", "c"]))
    await recorder.plan.update(PlanEdit(focus="1"))
    # "a" leaves the plan, which makes "b" number 1; the model meant "b" all the same.
    await recorder.plan.update(PlanEdit(abandon="not needed", focus="2"))
    assert recorder.tree.goals[recorder.tree.current_id or ""].description == "b"


async def test_abandon_and_add_in_one_call_replace_the_goal(recorder: Recorder) -> None:
    await recorder.plan.update(PlanEdit(add=["A", "test"]))
    await recorder.plan.update(PlanEdit(focus="1"))
    recorder.work()
    await recorder.plan.update(PlanEdit(abandon="fails", add=["B"]))
    assert recorder.tree.goals[recorder.tree.find("1").id].description == "B"
    assert recorder.tree.current_id == "3"


async def test_recorded_changes_describe_the_update(recorder: Recorder) -> None:
    await recorder.plan.update(PlanEdit(add=["a"]))
    await recorder.plan.update(PlanEdit(focus="1"))
    assert isinstance(recorder.changes[0], Added)
    assert recorder.changes[1:] == [Updated("1", {"status": "in_progress"}, current_id="1")]


@pytest.mark.parametrize(
    "call",
    [
        {"done": "x", "abandon": "y"},
        {"done": "x", "focus": "9"},
        {"done": "x", "add": [""]},
        {"focus": "2", "add": ["x" * 501]},
        {"done": "x", "focus": "1"},
        {"abandon": "dropped before any work", "focus": "1"},
        {"done": " "},
        {"focus": "²"},
        {"focus": "1" * 5000},
        {"focus": "0"},
        {"focus": ""},
        {"rename": " "},
        {"rename": "x" * 501},
        {"done": "x", "rename": "y"},
        {"abandon": "x", "rename": "y"},
        {"focus": "2", "revert_files": True},
        {"abandon": "x", "revert_files": True},
        {"add": ["x"] * 1000},
        {"add": ["x"], "reason": "y" * 100_000},
        {"done": "x" * 1_000_000},
        {"abandon": "x" * 1_000_000},
    ],
    ids=str,
)
async def test_a_call_with_one_wrong_operation_changes_nothing(
    recorder: Recorder, call: dict[str, Any]
) -> None:
    await recorder.plan.update(PlanEdit(add=["a", "b"]))
    await recorder.plan.update(PlanEdit(focus="1"))
    before, recorded = recorder.tree.snapshot(), list(recorder.changes)
    with pytest.raises(ToolError):
        await recorder.plan.update(PlanEdit(**call))
    assert recorder.tree.snapshot() == before
    assert recorder.changes == recorded
    assert recorder.tree.copy().plan_add(["c"], "") == recorder.tree.plan_add(["c"], "")


async def test_an_error_shows_the_unchanged_plan(recorder: Recorder) -> None:
    await recorder.plan.update(PlanEdit(add=["a"]))
    with pytest.raises(ToolError, match="unchanged") as caught:
        await recorder.plan.update(PlanEdit(focus="7"))
    assert plan_to_prompt(recorder.tree) in str(caught.value)


async def test_call_without_operations_reports_the_plan_only(recorder: Recorder) -> None:
    assert await recorder.plan.update(PlanEdit()) == "The plan is empty."
    assert recorder.changes == []


async def test_focus_may_name_a_goal_that_the_same_call_adds(recorder: Recorder) -> None:
    text = await recorder.plan.update(PlanEdit(add=["Read", "Write"], focus="1"))
    assert text.endswith("Focus: 1 Read.")
    text = await recorder.plan.update(PlanEdit(add=["Look", "Think"], focus="Think"))
    assert text.endswith("Focus: 1.2 Think.")


async def test_focus_may_name_the_number_of_an_added_goal(recorder: Recorder) -> None:
    await recorder.plan.update(PlanEdit(add=["A", "test"], focus="1"))
    recorder.work()
    text = await recorder.plan.update(PlanEdit(abandon="fails", add=["B", "C"], focus="1"))
    assert text == "Abandoned: 1 A.\nAdded: 1 B; 2 C.\nNumbers now: 3 test (g2).\nFocus: 1 B."


async def test_focus_on_a_missing_goal_fails_and_adds_nothing(
    recorder: Recorder,
) -> None:
    with pytest.raises(ToolError, match="no goal 3"):
        await recorder.plan.update(PlanEdit(add=["Read", "Write"], focus="3"))
    assert recorder.tree.snapshot().goals == []


class Reverter:
    """A port that undoes file changes after the user was asked: meanwhile anything may happen."""

    def __init__(self, recorder: Recorder) -> None:
        self.goals: list[Goal] = []
        self.fail: Exception | None = None
        self.meanwhile: list[Change] = []
        self.recorder = recorder
        recorder.plan = SessionPlan(recorder.tree, recorder.record, self.revert)

    async def revert(self, goal: Goal) -> str:
        self.goals.append(goal)
        if self.fail is not None:
            raise self.fail
        for change in self.meanwhile:
            self.recorder.record(change)
        return "Undone: src/a.py."


async def test_files_are_reverted_before_the_goal_is_abandoned(recorder: Recorder) -> None:
    reverter = Reverter(recorder)
    await recorder.plan.update(PlanEdit(add=["A", "test"], focus="1"))
    recorder.work()
    text = await recorder.plan.update(PlanEdit(abandon="fails", revert_files=True, add=["B"]))
    assert text == "Abandoned: 1 A.\nUndone: src/a.py.\nAdded: 1 B.\nFocus: 1 B."
    assert [goal.description for goal in reverter.goals] == ["A"]


@pytest.mark.parametrize(
    ("error", "raised", "words"),
    [
        (ToolError("src/a.py was changed since."), ToolError, "changed since. The plan is unchanged."),
        (PermissionDeniedError("The user said no."), PermissionDeniedError, "The user said no."),
    ],
)
async def test_failed_revert_leaves_the_plan_unchanged(
    recorder: Recorder, error: Exception, raised: type[Exception], words: str
) -> None:
    Reverter(recorder).fail = error
    await recorder.plan.update(PlanEdit(add=["A"], focus="1"))
    recorder.work()
    before, recorded = recorder.tree.snapshot(), list(recorder.changes)
    with pytest.raises(raised, match=words):
        await recorder.plan.update(PlanEdit(abandon="fails", revert_files=True))
    assert (recorder.tree.snapshot(), recorder.changes) == (before, recorded)


async def test_impossible_call_reverts_no_files(recorder: Recorder) -> None:
    reverter = Reverter(recorder)
    await recorder.plan.update(PlanEdit(add=["A"], focus="1"))
    with pytest.raises(ToolError, match="no goal 7"):
        await recorder.plan.update(PlanEdit(abandon="fails", revert_files=True, focus="7"))
    assert reverter.goals == []


async def test_abandon_keeps_its_goal_though_the_user_moved_the_focus(
    recorder: Recorder,
) -> None:
    reverter = Reverter(recorder)
    await recorder.plan.update(PlanEdit(add=["A", "B"], focus="1"))
    recorder.work()
    reverter.meanwhile = recorder.tree.plan_focus(recorder.tree.find("2"))
    text = await recorder.plan.update(PlanEdit(abandon="fails", revert_files=True))
    assert text == "Abandoned: 1 A.\nUndone: src/a.py.\nNumbers now: 1 B (g2).\nFocus: 1 B."


async def test_reverted_files_are_reported_even_if_the_goal_has_ended(
    recorder: Recorder,
) -> None:
    reverter = Reverter(recorder)
    await recorder.plan.update(PlanEdit(add=["A"], focus="1"))
    recorder.work()
    reverter.meanwhile = recorder.tree.plan_done("good as it is")
    with pytest.raises(ToolError, match=r"^Undone: src/a\.py\.\nGoal 1 A is completed"):
        await recorder.plan.update(PlanEdit(abandon="fails", revert_files=True))


async def test_the_progress_is_that_of_the_tree(recorder: Recorder) -> None:
    assert recorder.plan.progress() == "The plan is empty."
    await recorder.plan.update(PlanEdit(add=["A"], focus="1"))
    assert recorder.plan.progress() == "[→] 1. A  (g1)  ← current"


async def planned(recorder: Recorder, *goals: str) -> None:
    await recorder.plan.update(PlanEdit(add=goals))


def order(recorder: Recorder) -> list[str]:
    return [f"{number} {recorder.tree.goals[i].description}" for i, number in recorder.tree.numbers().items()]


async def test_goals_are_added_before_and_after_any_goal(recorder: Recorder) -> None:
    await planned(recorder, "a", "b")
    await recorder.plan.update(PlanEdit(focus="1", add=["a1"]))
    await recorder.plan.update(PlanEdit(focus="1.1"))
    await recorder.plan.update(PlanEdit(done="found"))
    # Beside a goal that has ended, too, and whatever has the focus.
    await recorder.plan.update(PlanEdit(add=["first"], before="g1"))
    told = await recorder.plan.update(PlanEdit(add=["next", "then"], after="g1"))
    assert order(recorder) == ["1 first", "2 a", "2.1 a1", "3 next", "4 then", "5 b"]
    assert (
        told == "Added: 3 next; 4 then.\nNumbers now: 5 b (g2).\nNo goal has the focus. Next to do: 1 first."
    )
    await recorder.plan.update(PlanEdit(add=["b1"], goal="g2"))
    await recorder.plan.update(PlanEdit(add=["b0"], before="g7"))
    assert order(recorder)[-3:] == ["5 b", "5.1 b0", "5.2 b1"]


async def test_pending_goals_are_edited_without_moving_the_focus(recorder: Recorder) -> None:
    await planned(recorder, "a", "b", "c")
    await recorder.plan.update(PlanEdit(focus="1"))
    recorder.work()
    told = await recorder.plan.update(PlanEdit(goal="g3", before="g2"))
    assert told == "Moved: 2 c (g3).\nNumbers now: 2 c (g3); 3 b (g2).\nFocus: 1 a."
    assert await recorder.plan.update(PlanEdit(goal="3", rename="B")) == "Renamed: 3 B.\nFocus: 1 a."
    assert await recorder.plan.update(PlanEdit(goal="g3", abandon="not needed")) == (
        "Deleted, because it had not been started: 2 c.\nNumbers now: 2 B (g2).\nFocus: 1 a."
    )
    await recorder.plan.update(PlanEdit(goal="g2", done="was done already"))
    assert [(goal.status, goal.description) for goal in recorder.tree.snapshot().goals] == [
        ("in_progress", "a"),
        ("completed", "B"),
    ]


async def test_replacement_of_an_unfocused_goal_takes_its_place(recorder: Recorder) -> None:
    await planned(recorder, "a", "b", "c")
    await recorder.plan.update(PlanEdit(focus="1"))
    await recorder.plan.update(PlanEdit(goal="g2", abandon="no need", add=["B"]))
    assert order(recorder) == ["1 a", "2 B", "3 c"]
    assert recorder.tree.current_id == "1"


async def test_reassigned_goal_number_is_refused_with_its_meaning(
    recorder: Recorder,
) -> None:
    await planned(recorder, "a", "b", "c")
    seen = recorder.tree.copy()
    plan = SessionPlan(recorder.tree, recorder.record, seen=seen)
    await plan.update(PlanEdit(goal="1", abandon="not needed"))
    before = recorder.tree.snapshot()
    for edit in (PlanEdit(focus="2"), PlanEdit(goal="2", rename="x"), PlanEdit(add=["x"], before="2")):
        with pytest.raises(ToolError) as caught:
            await plan.update(edit)
        assert str(caught.value).startswith(
            "2 is 2 c (g3) since the plan changed. Before, it was 'b' (g2), now number 1: refer to the "
            "goal that you mean by its id. The plan is unchanged."
        )
    with pytest.raises(ToolError, match=r"3 names no goal since .* was 'c' \(g3\), now number 2"):
        await plan.update(PlanEdit(focus="3", add=["x"]))
    with pytest.raises(ToolError, match=r"1 is 1 b \(g2\) since .* was 'a' \(g1\), no longer in the plan"):
        await plan.update(PlanEdit(focus="1"))
    assert recorder.tree.snapshot() == before
    assert await plan.update(PlanEdit(focus="g2")) == "Focus: 1 b."
    assert await plan.update(PlanEdit(add=["d"])) == "Added: 1.1 d.\nFocus: 1 b."
    assert await plan.update(PlanEdit(focus="1.1")) == "Focus: 1.1 d."


async def test_goals_are_found_by_every_name_the_plan_shows(recorder: Recorder) -> None:
    await planned(recorder, "a", "b")
    shown = plan_to_prompt(recorder.tree, ids=True).splitlines()
    assert shown[-2:] == ["[ ] 1. a  (g1)", "[ ] 2. b  (g2)"]
    for name in ("g2", "G2", "(g2)", "2. b  (g2)", "b  (g2)  ← current", "2", "b"):
        assert recorder.tree.find(name).id == "2"
    with pytest.raises(ToolError, match="no goal g9"):
        await recorder.plan.update(PlanEdit(focus="g9"))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"goal": "g1"}, "give one of them"),
        ({"before": "g1"}, "need add"),
        ({"before": "g1", "after": "g2", "add": ["x"]}, "either before or after"),
        ({"goal": "g1", "abandon": "x", "rename": "y", "focus": "2"}, "stays open"),
        ({"goal": "g2", "done": "x", "before": "g1"}, "only open goals can be moved"),
        ({"goal": "g2", "before": "g9"}, "no goal g9"),
    ],
    ids=str,
)
async def test_meaningless_edits_are_refused(recorder: Recorder, call: dict[str, Any], words: str) -> None:
    await planned(recorder, "a", "b")
    before = recorder.tree.snapshot()
    with pytest.raises(ToolError, match=words):
        await recorder.plan.update(PlanEdit(**call))
    assert recorder.tree.snapshot() == before


async def test_plan_with_an_abandoned_last_goal_is_not_called_done(recorder: Recorder) -> None:
    await planned(recorder, "a", "b")
    await recorder.plan.update(PlanEdit(focus="1"))
    await recorder.plan.update(PlanEdit(done="reached", focus="2"))
    recorder.work()
    assert (await recorder.plan.update(PlanEdit(abandon="no way"))).endswith(
        "No goal is open: 1 done, 1 abandoned."
    )


@pytest.mark.usefixtures("chinese")
async def test_plan_errors_are_english_to_model_and_localized_to_user(
    recorder: Recorder,
) -> None:
    await recorder.plan.update(PlanEdit(add=["a"]))
    with pytest.raises(ToolError, match=r"There is no goal 9\. Goals: 1\. The plan is unchanged\."):
        await recorder.plan.update(PlanEdit(focus="9"))
    with pytest.raises(ToolError, match="there is nothing to abandon: focus a goal first"):
        await recorder.plan.update(PlanEdit(abandon="no way"))
    with pytest.raises(PlanError, match=r"没有目标 9。目标: 1。$"):
        recorder.tree.find("9")
    with pytest.raises(PlanError, match=r"没有可以放弃的: 请先关注一个目标。$"):
        recorder.tree.plan_abandon("no way")


def user_focuses(tree: PlanTree, goal_id: str) -> None:
    for change in tree.plan_focus(tree.goals[goal_id]):
        tree.apply(change)


async def test_the_model_does_not_end_or_rename_the_users_new_focus(recorder: Recorder) -> None:
    await planned(recorder, "a", "b", "c")
    await recorder.plan.update(PlanEdit(focus="1"))
    recorder.work()
    tree = recorder.tree
    plan = SessionPlan(tree, recorder.record, seen=tree.copy())
    user_focuses(tree, "2")
    assert await plan.update(PlanEdit(rename="A")) == "Renamed: 1 A.\nFocus: 2 b."
    assert await plan.update(PlanEdit(done="made")) == "Done: 1 A.\nFocus: 2 b."
    # What it focuses itself counts from then on.
    await plan.update(PlanEdit(focus="3"))
    assert (await plan.update(PlanEdit(done="made, too"))).startswith("Done: 3 c.")
    assert [goal.status for goal in tree.children(None)] == ["completed", "in_progress", "completed"]


@pytest.mark.parametrize(
    ("edit", "added"),
    [
        (PlanEdit(done="made", add=["new"]), "3 new"),
        (PlanEdit(done="made", goal="g3", add=["new"]), "3 new"),
        (PlanEdit(add=["new"]), "1.1.1 new"),
        (PlanEdit(add=["new"], focus="new"), "1.1.1 new"),
        (PlanEdit(add=["new"], focus="2"), "2.1 new"),
        (PlanEdit(add=["new"], goal="2"), "2.1 new"),
        (PlanEdit(add=["new"], after="2"), "3 new"),
    ],
)
async def test_new_goals_do_not_go_to_the_users_new_focus(
    recorder: Recorder, edit: PlanEdit, added: str
) -> None:
    await planned(recorder, "a", "b")
    await recorder.plan.update(PlanEdit(focus="1", add=["a1"]))
    await recorder.plan.update(PlanEdit(focus="1.1"))
    recorder.work()
    tree = recorder.tree
    plan = SessionPlan(tree, recorder.record, seen=tree.copy())
    user_focuses(tree, "2")
    await plan.update(edit)
    assert added in order(recorder)


async def test_new_goals_go_below_a_focus_that_model_and_user_chose(recorder: Recorder) -> None:
    await planned(recorder, "a", "b")
    await recorder.plan.update(PlanEdit(focus="1"))
    tree = recorder.tree
    plan = SessionPlan(tree, recorder.record, seen=tree.copy())
    user_focuses(tree, "2")
    await plan.update(PlanEdit(focus="2"))
    await plan.update(PlanEdit(add=["new"]))
    assert order(recorder) == ["1 a", "2 b", "2.1 new"]


async def test_new_goals_follow_the_choice_that_the_model_works_on(recorder: Recorder) -> None:
    await planned(recorder, "a", "b")
    tree = recorder.tree
    tree.apply(
        Added(Goal(id="3", parent_id="1", description="try", type="explore_start", status="completed"), None)
    )
    tree.apply(
        Added(
            Goal(id="4", parent_id="1", description="choice", type="explore_merge", explore_start_id="3"),
            None,
        )
    )
    user_focuses(tree, "4")
    plan = SessionPlan(tree, recorder.record, seen=tree.copy())
    user_focuses(tree, "2")
    await plan.update(PlanEdit(add=["next"]))
    assert order(recorder) == ["1 a", "1.1 try", "1.2 choice", "1.3 next", "2 b"]


async def test_a_goal_that_the_user_removed_is_not_ended(recorder: Recorder) -> None:
    await planned(recorder, "a", "b")
    await recorder.plan.update(PlanEdit(focus="1", add=["a1"]))
    await recorder.plan.update(PlanEdit(focus="1.1"))
    tree = recorder.tree
    plan = SessionPlan(tree, recorder.record, seen=tree.copy())
    for change in tree.plan_abandon("not needed", tree.goals["3"]):
        tree.apply(change)
    with pytest.raises(ToolError, match=r"the focus is now on 1 a \(g1\)"):
        await plan.update(PlanEdit(done="made"))
    assert tree.goals["1"].status == "in_progress"


async def test_goal_is_replaced_after_the_one_before_it(recorder: Recorder) -> None:
    await planned(recorder, "a", "b", "c")
    await recorder.plan.update(PlanEdit(goal="g2", abandon="no need", add=["B"], after="g1"))
    assert order(recorder) == ["1 a", "2 B", "3 c"]


@pytest.mark.parametrize(("before", "after"), [(None, "g2"), ("g2", None), ("g3", None)])
async def test_goal_is_replaced_at_its_own_place(
    recorder: Recorder, before: str | None, after: str | None
) -> None:
    await planned(recorder, "a", "b", "c")
    edit = PlanEdit(goal="g2", abandon="no need", add=["B"], before=before, after=after)
    await recorder.plan.update(edit)
    assert order(recorder) == ["1 a", "2 B", "3 c"]
