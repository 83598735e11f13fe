"""For any plan: each step is done once, and never before what it needs, whoever moves what meanwhile."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from daemon.plan.dependencies import stand_in
from daemon.plan.tree import PlanError, PlanTree
from daemon.planner.next_action import (
    AskForPlan,
    Began,
    Decision,
    End,
    Happening,
    PlanMade,
    Ran,
    RanInParallel,
    TurnProgress,
    Work,
    decide,
)
from daemon.planner.plan_parser import BadPlanError, read_plan
from daemon.planner.replanning import revised
from tests.support.examples import examples

NAMES = "abcdefgh"


@st.composite
def dags(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Steps in any order; the needs make no circle. Some plans say nothing of needs."""
    names = draw(st.permutations(NAMES[: draw(st.integers(1, len(NAMES)))]))
    silent = draw(st.booleans()) and draw(st.booleans())
    steps: list[dict[str, Any]] = []
    for place, name in enumerate(names):
        needs = draw(st.lists(st.sampled_from(names[:place]), max_size=3, unique=True)) if place else []
        one: dict[str, Any] = {"id": name, "goal": name, "parallel": draw(st.booleans())}
        steps.append(one if silent else {**one, "needs": needs})
    return draw(st.permutations(steps)) if not silent else steps


def apply(tree: PlanTree, steps: list[dict[str, Any]]) -> None:
    for change in revised(tree, read_plan(json.dumps({"steps": steps})), revise=False).changes:
        tree.apply(change)


class Carried:
    """A plan that is carried out by what ``decide`` says; sub-agents and models always do what they should, or fail."""

    def __init__(self, tree: PlanTree, data: st.DataObject, *, failing: bool) -> None:
        self.tree = tree
        self.data = data
        self.failing = failing
        self.done: list[str] = []
        self.failed: set[str] = set()

    def needed_before(self, goal_id: str) -> set[str]:
        found = (stand_in(self.tree, need) for need in self.tree.goals[goal_id].needs or ())
        return {goal.id for goal in found if goal is not None}

    def move_something(self) -> None:
        ids = list(self.tree.goals)
        goal, before = self.data.draw(st.sampled_from(ids)), self.data.draw(st.none() | st.sampled_from(ids))
        try:
            changes = self.tree.plan_move(self.tree.goals[goal], None, before)
        except PlanError as error:
            event("move refused for a need" if "needs goal" in str(error) else "move refused")
            return
        for change in changes:
            event("moved")
            self.tree.apply(change)

    def work_on(self, goal_ids: tuple[str, ...]) -> set[str]:
        """Begin all, then do them one after the other; returns those that failed."""
        for goal_id in goal_ids:
            assert goal_id not in self.done, "done twice"
            assert goal_id not in self.failed, "tried again without a new plan"
            assert self.needed_before(goal_id) <= set(self.done), "before what it needs"
        for change in self.tree.plan_begin([self.tree.goals[goal_id] for goal_id in goal_ids]):
            self.tree.apply(change)
        failed: set[str] = set()
        for goal_id in goal_ids:
            if self.data.draw(st.booleans()):
                self.move_something()
            if self.failing and self.data.draw(st.integers(0, 3)) == 0:
                failed.add(goal_id)
                continue
            for change in self.tree.plan_done("done", self.tree.goals[goal_id]):
                self.tree.apply(change)
            self.done.append(goal_id)
        self.failed |= failed
        return failed

    def happens(self, work: Work) -> Happening:
        if work.kind == "closing":
            return Ran("end_turn")
        if work.kind == "together":
            assert len(work.goal_ids) > 1
            event("together")
            return RanInParallel("end_turn", failed=dict.fromkeys(self.work_on(work.goal_ids), "failed"))
        assert work.kind == "step"
        failed = self.work_on((work.goal_id or "",))
        return Ran("error", "failed") if failed else Ran("end_turn")


def carry_out(carried: Carried, course: TurnProgress) -> Decision:
    tree = carried.tree
    course, decision = decide(course, tree, Began())
    course, decision = decide(course, tree, PlanMade(len(tree.goals)))
    for _ in range(3 * len(NAMES) + 3):
        if not isinstance(decision, Work):
            return decision
        course, decision = decide(course, tree, carried.happens(decision))
    raise AssertionError("kill it if it does not stop")


@settings(deadline=None, max_examples=examples(600))
@given(dags(), st.booleans(), st.data())
def test_each_step_is_done_once_and_never_before_what_it_needs(
    steps: list[dict[str, Any]], parallel: bool, data: st.DataObject
) -> None:
    tree = PlanTree()
    apply(tree, steps)
    carried = Carried(tree, data, failing=False)
    decision = carry_out(carried, TurnProgress("layered", parallel=parallel))
    assert decision == End("end_turn")
    assert sorted(carried.done) == sorted(tree.goals)


@settings(deadline=None, max_examples=examples(400))
@given(dags(), st.booleans(), st.booleans(), st.data())
def test_what_failed_stops_only_what_needs_it(
    steps: list[dict[str, Any]], parallel: bool, replan: bool, data: st.DataObject
) -> None:
    assume(any("needs" in step for step in steps))
    tree = PlanTree()
    apply(tree, steps)
    carried = Carried(tree, data, failing=True)
    decision = carry_out(carried, TurnProgress("layered", replan, parallel=parallel))
    stopped = set(carried.failed)
    while more := {i for i in tree.goals if i not in stopped and carried.needed_before(i) & stopped}:
        stopped |= more
    assert set(carried.done) == set(tree.goals) - stopped
    if not carried.failed:
        assert decision == End("end_turn")
    elif replan:
        assert isinstance(decision, AskForPlan)
        assert decision.failed in carried.failed
    else:
        assert isinstance(decision, End)
        assert "replanning is off" in decision.detail


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(st.tuples(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), max_size=3)), max_size=6))
def test_any_circle_is_refused_with_the_steps_in_it(found: list[tuple[str, list[str]]]) -> None:
    known = dict(found)
    steps = [
        {"id": name, "goal": name, "needs": [need for need in needs if need in known]}
        for name, needs in known.items()
    ]
    left = {name: {need for need in needs if need in known} for name, needs in known.items()}
    while free := [name for name, needs in left.items() if not needs & set(left)]:
        for name in free:
            del left[name]
    tree = PlanTree()
    try:
        apply(tree, steps)
    except BadPlanError as error:
        assert left, f"circle: {error}"
        assert "circle" in str(error) or "itself" in str(error)
        assert not tree.goals
    else:
        assert not left
