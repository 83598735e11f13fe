"""The ``goal`` tool's port: all operations of a call or none, each recorded."""

from __future__ import annotations

import pytest

from daemon.plan.port import SessionPlan
from daemon.plan.text import plan_to_prompt
from daemon.plan.tree import Added, Change, PlanTree, Updated
from tools.base import ToolError


class Recorder:
    def __init__(self) -> None:
        self.tree = PlanTree()
        self.changes: list[Change] = []
        self.plan = SessionPlan(self.tree, self.record)

    def record(self, change: Change) -> None:
        self.changes.append(change)
        self.tree.apply(change)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


async def test_the_answer_is_the_plan_after_the_call(recorder: Recorder) -> None:
    answer = await recorder.plan.update(add=["a", "b"], reason="because")
    assert answer == plan_to_prompt(recorder.tree)
    assert [goal.reason for goal in recorder.tree.snapshot().goals] == ["because", "because"]


async def test_done_focus_and_add_apply_in_this_order(recorder: Recorder) -> None:
    await recorder.plan.update(add=["a", "b"])
    await recorder.plan.update(focus="1")
    await recorder.plan.update(done="finished", focus="2", add=["b1"])
    assert list(recorder.tree.numbers().values()) == ["1", "2", "2.1"]
    assert recorder.tree.goals["3"].parent_id == "2"
    assert recorder.tree.goals["1"].status == "completed"


async def test_numbers_are_those_the_model_saw_before_the_call(recorder: Recorder) -> None:
    await recorder.plan.update(add=["a", "b", "c"])
    await recorder.plan.update(focus="1")
    # "a" leaves the plan, which makes "b" number 1; the model meant "b" all the same.
    await recorder.plan.update(abandon="not needed", focus="2")
    assert recorder.tree.goals[recorder.tree.current_id or ""].description == "b"


async def test_abandon_and_add_in_one_call_replace_the_goal(recorder: Recorder) -> None:
    await recorder.plan.update(add=["A", "test"])
    await recorder.plan.update(focus="1")
    recorder.tree.apply_counts(recorder.tree.count("1", tokens=1, cost=0, tools=[]))
    await recorder.plan.update(abandon="fails", add=["B"])
    assert recorder.tree.goals[recorder.tree.find("1").id].description == "B"
    assert recorder.tree.current_id == "3"


async def test_what_is_recorded_says_what_changed(recorder: Recorder) -> None:
    await recorder.plan.update(add=["a"])
    await recorder.plan.update(focus="1")
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
    ],
    ids=str,
)
async def test_a_call_with_one_wrong_operation_changes_nothing(
    recorder: Recorder, call: dict[str, object]
) -> None:
    await recorder.plan.update(add=["a", "b"])
    await recorder.plan.update(focus="1")
    before, recorded = recorder.tree.snapshot(), list(recorder.changes)
    with pytest.raises(ToolError):
        await recorder.plan.update(**call)  # type: ignore[arg-type]  # parametrized
    assert recorder.tree.snapshot() == before
    assert recorder.changes == recorded
    assert recorder.tree.copy().plan_add(["c"], "") == recorder.tree.plan_add(["c"], "")


async def test_an_error_shows_the_unchanged_plan(recorder: Recorder) -> None:
    await recorder.plan.update(add=["a"])
    with pytest.raises(ToolError, match="unchanged") as caught:
        await recorder.plan.update(focus="7")
    assert plan_to_prompt(recorder.tree) in str(caught.value)


async def test_a_call_without_operations_only_shows_the_plan(recorder: Recorder) -> None:
    assert await recorder.plan.update() == plan_to_prompt(recorder.tree)
    assert recorder.changes == []


async def test_focus_may_name_a_goal_that_the_same_call_adds(recorder: Recorder) -> None:
    text = await recorder.plan.update(add=["Read", "Write"], focus="1")
    assert "**Current**: 1 Read" in text


async def test_focus_on_a_number_that_is_not_there_even_after_the_add_changes_nothing(
    recorder: Recorder,
) -> None:
    with pytest.raises(ToolError, match="no goal 3"):
        await recorder.plan.update(add=["Read", "Write"], focus="3")
    assert recorder.tree.snapshot().goals == []
