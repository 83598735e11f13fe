"""Invariants of the goal tree after any sequence of operations, by the model and by the user."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from daemon.model.events import AffectedGoal
from daemon.model.goals import Goal, GoalStats, GoalStatus, GoalTree
from daemon.plan.port import SessionPlan
from daemon.plan.text import MAX_PLAN, plan_to_prompt, progress_lines, progress_text
from daemon.plan.tree import Change, Moved, PlanError, PlanTree, Removed, Updated, extended_preview
from tests.support.examples import examples
from tools.tool import PlanEdit, ToolError

ENDED = ("completed", "abandoned")

words = st.sampled_from(["a", "b c", "方案"]) | st.text(alphabet="abc 方案\n\x07", max_size=6)
numbers = st.lists(st.integers(0, 4), min_size=1, max_size=3).map(lambda steps: ".".join(map(str, steps)))
places = st.none() | st.integers(-12, 11)
"""A goal by its place in the flat list, below zero in that of the open ones; or none."""
some_place = st.integers(-12, 11)


def run(call: Coroutine[Any, Any, str]) -> str:
    """The result of a coroutine that waits for nothing."""
    try:
        call.send(None)
    except StopIteration as stop:
        return str(stop.value)
    raise AssertionError("it waits")


class Plan(RuleBasedStateMachine):
    """A session's plan, with everything that was recorded of it."""

    def __init__(self) -> None:
        super().__init__()
        self.tree = PlanTree(GoalTree(mission="do it"))
        self.log: list[Change | tuple[AffectedGoal, ...]] = []
        self.given: list[str] = []
        self.messages = 0

    def record(self, change: Change) -> None:
        known = set(self.tree.goals)
        ended = {goal.id: goal for goal in self.tree.goals.values() if goal.status in ENDED}
        self.tree.apply(change)
        self.log.append(change)
        self.given += [i for i in self.tree.goals if i not in known]
        if isinstance(change, Moved):
            assert set(self.tree.goals) == known
        if isinstance(change, Removed):
            assert set(self.tree.goals) == known - {change.goal_id}
        for goal in ended.values():
            # What the model was told about a goal that ended is never said otherwise.
            now = self.tree.goals[goal.id]
            assert (now.status, now.description, now.parent_id) == (
                goal.status,
                goal.description,
                goal.parent_id,
            )
            assert now.summary == goal.summary

    def everything(self) -> object:
        tree = self.tree
        return tree.snapshot(), tree.last_id, tree.replaceable, dict(tree.replaced), tree.numbers()

    def try_to(self, plan: Callable[[], list[Change]]) -> None:
        before = self.everything()
        try:
            changes = plan()
        except PlanError as error:
            assert str(error)
            changes = []
        # Planning alone never changes anything, whether it works out or not.
        assert self.everything() == before
        for change in changes:
            self.record(change)

    def at(self, place: int | None) -> Goal | None:
        goals = self.tree.snapshot().goals
        if place is not None and place < 0:
            goals = [goal for goal in goals if goal.status not in ENDED]
        return goals[place % len(goals)] if place is not None and goals else None

    def id_at(self, place: int | None) -> str | None:
        goal = self.at(place)
        return None if goal is None else goal.id

    @initialize(worked=st.lists(st.integers(-12, -1), max_size=4))
    def a_plan_of_three_levels_that_was_worked_on(self, worked: list[int]) -> None:
        for parent in (None, "1", "2", "3", "5") if worked else ():
            self.try_to(lambda here=parent: self.tree.plan_add(["x", "y"], "", parent_id=here))
        for goal in worked:
            self.work_on_a_goal(goal, ["read"])

    @rule(descriptions=st.lists(words, min_size=1, max_size=3), reason=words)
    def add(self, descriptions: list[str], reason: str) -> None:
        self.try_to(lambda: self.tree.plan_add(descriptions, reason))

    @rule(text=words, parent=places, before=places)
    def person_adds(self, text: str, parent: int | None, before: int | None) -> None:
        self.try_to(
            lambda: self.tree.plan_add([text], "", parent_id=self.id_at(parent), before_id=self.id_at(before))
        )

    @rule(number=numbers)
    def focus(self, number: str) -> None:
        self.try_to(lambda: self.tree.plan_focus(self.tree.find(number)))

    @rule(goal=some_place)
    def person_focuses(self, goal: int) -> None:
        if (target := self.at(goal)) is not None:
            self.try_to(lambda: self.tree.plan_focus(target))

    @rule(goal=st.integers(-12, -1), tools=st.lists(st.sampled_from(["read", "edit"]), max_size=3))
    def work_on_a_goal(self, goal: int, tools: list[str]) -> None:
        self.person_focuses(goal)
        if self.tree.current_id is not None:
            self.work(7, 0.25, tools)

    @rule(goal=st.integers(-12, -1))
    def replace_a_goal_that_was_worked_on(self, goal: int) -> None:
        self.work_on_a_goal(goal, ["bash"])
        self.try_to(lambda: self.tree.plan_abandon("no way"))
        self.try_to(lambda: self.tree.plan_add(["another way"], ""))

    @rule(summary=words, goal=places)
    def done(self, summary: str, goal: int | None) -> None:
        self.try_to(lambda: self.tree.plan_done(summary, self.at(goal)))

    @rule(reason=words, goal=places)
    def abandon(self, reason: str, goal: int | None) -> None:
        self.try_to(lambda: self.tree.plan_abandon(reason, self.at(goal)))

    @rule(goal=some_place, description=words)
    def person_renames(self, goal: int, description: str) -> None:
        if (target := self.at(goal)) is not None:
            self.try_to(lambda: self.tree.plan_rename(target, description))

    @rule(goal=some_place, parent=places, before=places)
    def person_moves_anywhere(self, goal: int, parent: int | None, before: int | None) -> None:
        if (target := self.at(goal)) is not None:
            self.try_to(lambda: self.tree.plan_move(target, self.id_at(parent), self.id_at(before)))

    @rule(goal=st.integers(-12, -1), parent=st.none() | st.integers(-12, -1), before=places)
    def person_moves(self, goal: int, parent: int | None, before: int | None) -> None:
        if (target := self.at(goal)) is not None:
            there = self.tree.children(self.id_at(parent))
            behind = there[before % len(there)].id if there and before is not None else None
            self.try_to(lambda: self.tree.plan_move(target, self.id_at(parent), behind))

    @rule(goal=st.integers(-12, -1))
    def person_calls_all_below_a_goal_done(self, goal: int) -> None:
        if (target := self.at(goal)) is not None:
            for below in (target, *self.tree.descendants(target.id)):
                if not self.tree.children(below.id):
                    self.try_to(lambda leaf=below: self.tree.plan_done("reached", leaf))

    @rule(
        add=st.lists(words, max_size=2),
        done=st.none() | words,
        abandon=st.none() | words,
        focus=st.none() | numbers,
        rename=st.none() | words,
    )
    def call(
        self, add: list[str], done: str | None, abandon: str | None, focus: str | None, rename: str | None
    ) -> None:
        self.make(add=add, done=done, abandon=abandon, focus=focus, rename=rename)

    @rule(
        goal=st.integers(-12, -1),
        beside=some_place,
        how=st.sampled_from(["before", "after"]),
        what=st.sampled_from(["add", "move", "rename", "drop", "replace", "below"]),
    )
    def model_edits_by_ids(self, goal: int, beside: int, how: str, what: str) -> None:
        target, other = self.at(goal), self.at(beside)
        if target is None or other is None:
            return
        named, place = f"g{target.id}", f"g{other.id}"
        calls: dict[str, dict[str, Any]] = {
            "add": {"add": ["x", "y"], how: place},
            "move": {"goal": named, how: place},
            "rename": {"goal": named, "rename": "z"},
            "drop": {"goal": named, "abandon": "not needed"},
            "replace": {"goal": named, "abandon": "no way", "add": ["instead"]},
            "below": {"goal": named, "add": ["part"]},
        }
        self.make(**calls[what])

    def make(self, **call: Any) -> None:
        """A call of ``goal`` by a model that saw the plan as it is: all of it happens, or nothing."""
        before, recorded = self.everything(), len(self.log)
        plan = SessionPlan(self.tree, self.record, seen=self.tree.copy())
        try:
            told = run(plan.update(PlanEdit(**call)))
            assert told
            assert "None" not in told
        except ToolError as error:
            assert str(error)
            assert self.everything() == before
            assert len(self.log) == recorded

    @precondition(lambda self: self.tree.current_id is not None)
    @rule(
        tokens=st.integers(0, 5000),
        cost=st.floats(0, 5),
        tools=st.lists(st.sampled_from(["read", "edit", "bash"]), max_size=3),
    )
    def work(self, tokens: int, cost: float, tools: list[str]) -> None:
        affected = self.tree.count(self.tree.current_id, tokens=tokens, cost=cost, tools=tools)
        self.tree.apply_counts(affected)
        self.log.append(affected)
        self.messages += 1

    @invariant()
    def numbers_are_consecutive_and_lead_to_their_goals(self) -> None:
        shown = self.tree.numbers()
        by_parent: dict[str | None, list[str]] = {}
        for goal_id, number in shown.items():
            assert self.tree.find(number).id == goal_id
            assert self.tree.find(f"g{goal_id}").id == goal_id
            assert self.tree.goals[goal_id].status != "abandoned"
            by_parent.setdefault(self.tree.goals[goal_id].parent_id, []).append(number)
        for parent, here in by_parent.items():
            prefix = shown[parent] + "." if parent is not None else ""
            assert here == [f"{prefix}{n + 1}" for n in range(len(here))]
        assert len(set(shown.values())) == len(shown)
        assert {i: self.tree.number_of(i) for i in self.tree.goals} == {
            i: shown.get(i) for i in self.tree.goals
        }

    @invariant()
    def replaying_the_changes_builds_the_same_tree(self) -> None:
        replayed = PlanTree(GoalTree(mission="do it"))
        for entry in self.log:
            if isinstance(entry, tuple):
                replayed.apply_counts(entry)
            else:
                replayed.apply(entry)
        assert replayed.snapshot() == self.tree.snapshot()
        assert replayed.numbers() == self.tree.numbers()
        assert (replayed.replaceable, replayed.replaced) == (self.tree.replaceable, self.tree.replaced)
        assert replayed.plan_add(["x"], "") == self.tree.plan_add(["x"], "")

    @invariant()
    def a_tree_read_from_json_is_the_same(self) -> None:
        tree = self.tree
        again = PlanTree(
            GoalTree.model_validate_json(tree.snapshot().model_dump_json()),
            last_id=tree.last_id,
            replaceable=tree.replaceable,
            replaced=tree.replaced,
        )
        for other in (again, tree.copy()):
            assert other.snapshot() == tree.snapshot()
            assert other.numbers() == tree.numbers()
            assert plan_to_prompt(other) == plan_to_prompt(tree)
            assert [other.children(i) for i in tree.goals] == [tree.children(i) for i in tree.goals]
            assert other.plan_add(["x"], "") == tree.plan_add(["x"], "")

    @invariant()
    def ids_only_rise(self) -> None:
        assert [int(i) for i in self.given] == list(range(1, len(self.given) + 1))

    @invariant()
    def cumulative_numbers_are_the_sum_of_own_ones(self) -> None:
        goals = self.tree.snapshot().goals
        for goal in goals:
            below = [g for g in goals if g.id == goal.id or goal in self.tree.ancestors(g.id)]
            assert len(below) - 1 == len(list(self.tree.descendants(goal.id)))
            total = goal.cumulative_stats
            assert total.message_count == sum(g.self_stats.message_count for g in below)
            assert total.total_tokens == sum(g.self_stats.total_tokens for g in below)
            own = sum(g.self_stats.total_cost for g in below)
            assert math.isclose(total.total_cost, own, rel_tol=1e-9, abs_tol=1e-9)
        assert sum(g.self_stats.message_count for g in goals) == self.messages

    @invariant()
    def a_cumulative_preview_has_the_tools_of_the_own_ones(self) -> None:
        for goal in self.tree.goals.values():
            below = [goal, *self.tree.descendants(goal.id)]
            previews = [goal.cumulative_stats.preview, *(one.self_stats.preview for one in below)]
            if not any("…" in (preview or "") for preview in previews):
                assert tools_of(previews[0]) == sum(map(tools_of, previews[1:]), Counter[str]())

    @invariant()
    def above_open_goals_all_are_open_and_above_begun_ones_all_are_begun(self) -> None:
        for goal in self.tree.snapshot().goals:
            chain = [goal, *self.tree.ancestors(goal.id)]
            ended = [step.id for step in chain if step.status in ENDED]
            assert self.tree.ended_root(goal.id) == (ended[-1] if ended else None)
            if goal.status not in ENDED:
                assert not ended
            if goal.status == "in_progress":
                assert all(step.status == "in_progress" for step in chain)
            if goal.status in ENDED:
                assert goal.summary or any(step.status == "abandoned" for step in chain[1:])

    @invariant()
    def the_focus_is_a_live_goal_that_is_being_worked_on(self) -> None:
        if self.tree.current_id is not None:
            assert self.tree.goals[self.tree.current_id].status == "in_progress"
            assert self.tree.current_id in self.tree.numbers()

    @invariant()
    def a_goal_stands_in_for_abandoned_ones_only(self) -> None:
        for goal_id, before in self.tree.replaced.items():
            chain = self.tree.predecessors(goal_id)
            assert chain[-1].id == before
            assert all(goal.status == "abandoned" and goal.summary for goal in chain)
            assert [int(goal.id) for goal in chain] == sorted(int(goal.id) for goal in chain)

    @invariant()
    def the_plan_is_told_within_its_bounds(self) -> None:
        text = plan_to_prompt(self.tree)
        assert len(text) <= MAX_PLAN
        shown = self.tree.numbers()
        assert len([line for line in progress_lines(self.tree) if "[" in line]) == len(shown)
        assert len(progress_text(self.tree).splitlines()) == max(1, len(self.tree.goals))


def tools_of(preview: str | None) -> Counter[str]:
    """How often a preview names each tool."""
    found: Counter[str] = Counter()
    for segment in preview.split(" → ") if preview else ():
        name, _, times = segment.partition(" × ")
        found[name] += int(times or 1)
    return found


Plan.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=35, deadline=None)
test_any_sequence_of_operations = Plan.TestCase


@given(st.lists(st.lists(st.sampled_from(["read", "edit", "bash"]), max_size=4), max_size=12))
def test_a_preview_grown_in_pieces_equals_one_grown_at_once(batches: list[list[str]]) -> None:
    preview = None
    for tools in batches:
        preview = extended_preview(preview, tools)
    whole = extended_preview(None, [tool for tools in batches for tool in tools])
    assert preview == whole
    assert preview is None or len(preview.split(" → ")) <= 8


@given(st.lists(st.text(alphabet="ab →×…1\n", max_size=60), max_size=20), st.none() | st.text(max_size=30))
def test_a_preview_takes_tools_of_any_name(tools: list[str], before: str | None) -> None:
    preview = extended_preview(before, tools)
    assert preview is None or len(preview.split(" → ")) <= max(8, len((before or "").split(" → ")))


@st.composite
def strange_trees(draw: st.DrawFn) -> GoalTree:
    """Generate damaged or untrusted files: lost parents, cycles, the same id twice, a focus anywhere."""
    ids = st.sampled_from(["1", "2", "3", "4", "x", "9" * 6000])
    statuses: list[GoalStatus] = ["pending", "in_progress", "completed", "abandoned"]
    status = st.sampled_from(statuses)
    goals = [
        Goal(id=draw(ids), parent_id=draw(st.none() | ids), description="d", status=draw(status))
        for _ in range(draw(st.integers(0, 7)))
    ]
    return GoalTree(goals=goals, current_id=draw(st.none() | ids))


@given(strange_trees(), st.data())
def test_a_damaged_tree_neither_loops_nor_raises(data: GoalTree, draw: st.DataObject) -> None:
    tree = PlanTree(data)
    assert PlanTree(tree.snapshot()).snapshot() == tree.snapshot()
    plan_to_prompt(tree)
    progress_text(tree)
    for goal in list(tree.goals.values()):
        assert tree.number_of(goal.id) == tree.numbers().get(goal.id)
        list(tree.descendants(goal.id))
        tree.ended_root(goal.id)
        tree.count(goal.id, tokens=1, cost=0, tools=["read"])
        for operation in _operations(tree, goal, draw.draw(st.none() | st.sampled_from(list(tree.goals)))):
            try:
                changes = operation()
            except PlanError:
                continue
            trial = tree.copy()
            for change in changes:
                trial.apply(change)
            assert trial.current_id is None or trial.ended_root(trial.current_id) is None


def _operations(tree: PlanTree, goal: Goal, other: str | None) -> Sequence[Callable[[], list[Change]]]:
    return (
        lambda: tree.plan_add(["x"], "", parent_id=goal.id, before_id=other),
        lambda: tree.plan_add(["x"], ""),
        lambda: tree.plan_focus(goal),
        lambda: tree.plan_done("x", goal),
        lambda: tree.plan_abandon("x", goal),
        lambda: tree.plan_rename(goal, "y"),
        lambda: tree.plan_move(goal, other),
        lambda: tree.plan_move(goal, goal.parent_id, other),
    )


def test_stats_survive_a_trip_through_json() -> None:
    tree = PlanTree()
    for change in tree.plan_add(["a"], ""):
        tree.apply(change)
    raw = GoalStats(message_count=1, preview="read").stored()
    tree.apply(Updated("1", {"self_stats": raw}, current_id=None))
    assert tree.goals["1"].self_stats == GoalStats(message_count=1, preview="read")
