"""What holds for the goal tree after any sequence of operations."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from daemon.model.goals import GoalStats
from daemon.plan.text import plan_to_prompt
from daemon.plan.tree import Change, PlanError, PlanTree, Updated, extended_preview

words = st.text(alphabet="abc 方案\n", max_size=6)
numbers = st.lists(st.integers(0, 4), min_size=1, max_size=3).map(lambda steps: ".".join(map(str, steps)))


class Plan(RuleBasedStateMachine):
    """A session's plan, with everything that was recorded of it."""

    def __init__(self) -> None:
        super().__init__()
        self.tree = PlanTree()
        self.log: list[Change | tuple[object, ...]] = []
        self.given: list[str] = []
        self.messages = 0

    def try_to(self, operation: str, *args: object) -> None:
        before = self.tree.snapshot()
        upcoming = self.tree.copy()
        try:
            if operation == "plan_focus":
                args = (self.tree.find(str(args[0])),)
            changes = getattr(self.tree, operation)(*args)
        except PlanError as error:
            assert str(error)
            changes = []
        # Planning alone never changes anything, whether it works out or not.
        assert self.tree.snapshot() == before
        assert self.tree.plan_add(["x"], "") == upcoming.plan_add(["x"], "")
        for change in changes:
            known = set(self.tree.goals)
            self.tree.apply(change)
            self.log.append(change)
            self.given += [i for i in self.tree.goals if i not in known]

    @rule(descriptions=st.lists(words, min_size=1, max_size=3), reason=words)
    def add(self, descriptions: list[str], reason: str) -> None:
        self.try_to("plan_add", descriptions, reason)

    @rule(number=numbers)
    def focus(self, number: str) -> None:
        self.try_to("plan_focus", number)

    @rule(summary=words)
    def done(self, summary: str) -> None:
        self.try_to("plan_done", summary)

    @rule(reason=words)
    def abandon(self, reason: str) -> None:
        self.try_to("plan_abandon", reason)

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
            assert self.tree.goals[goal_id].status != "abandoned"
            by_parent.setdefault(self.tree.goals[goal_id].parent_id, []).append(number)
        for parent, here in by_parent.items():
            prefix = shown[parent] + "." if parent is not None else ""
            assert here == [f"{prefix}{n + 1}" for n in range(len(here))]
        assert len(set(shown.values())) == len(shown)

    @invariant()
    def replaying_the_changes_builds_the_same_tree(self) -> None:
        replayed = PlanTree()
        for entry in self.log:
            if isinstance(entry, tuple):
                replayed.apply_counts(entry)  # type: ignore[arg-type]  # only counts are tuples
            else:
                replayed.apply(entry)
        assert replayed.snapshot() == self.tree.snapshot()
        assert replayed.numbers() == self.tree.numbers()
        assert replayed.plan_add(["x"], "") == self.tree.plan_add(["x"], "")

    @invariant()
    def a_snapshot_shows_the_same_plan(self) -> None:
        again = PlanTree(self.tree.snapshot())
        assert again.numbers() == self.tree.numbers()
        assert plan_to_prompt(again) == plan_to_prompt(self.tree)
        assert again.snapshot() == self.tree.snapshot()

    @invariant()
    def ids_only_rise(self) -> None:
        assert [int(i) for i in self.given] == list(range(1, len(self.given) + 1))

    @invariant()
    def cumulative_numbers_are_the_sum_of_own_ones(self) -> None:
        goals = self.tree.snapshot().goals
        for goal in goals:
            below = [g for g in goals if g.id == goal.id or goal in self.tree.ancestors(g.id)]
            total = goal.cumulative_stats
            assert total.message_count == sum(g.self_stats.message_count for g in below)
            assert total.total_tokens == sum(g.self_stats.total_tokens for g in below)
            own = sum(g.self_stats.total_cost for g in below)
            assert math.isclose(total.total_cost, own, rel_tol=1e-9, abs_tol=1e-9)
        assert sum(g.self_stats.message_count for g in goals) == self.messages

    @invariant()
    def the_focus_is_a_live_goal_that_is_being_worked_on(self) -> None:
        if self.tree.current_id is not None:
            assert self.tree.goals[self.tree.current_id].status == "in_progress"
            assert self.tree.current_id in self.tree.numbers()

    @invariant()
    def finished_goals_have_a_summary_and_nothing_open_below(self) -> None:
        for goal in self.tree.snapshot().goals:
            if goal.status == "completed":
                assert goal.summary
                assert all(c.status in ("completed", "abandoned") for c in self.tree.children(goal.id))
            if goal.status == "abandoned":
                assert all(c.status in ("completed", "abandoned") for c in self.tree.children(goal.id))


Plan.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
test_any_sequence_of_operations = Plan.TestCase


@given(st.lists(st.lists(st.sampled_from(["read", "edit", "bash"]), max_size=4), max_size=12))
def test_a_preview_grown_in_pieces_equals_one_grown_at_once(batches: list[list[str]]) -> None:
    preview = None
    for tools in batches:
        preview = extended_preview(preview, tools)
    whole = extended_preview(None, [tool for tools in batches for tool in tools])
    assert preview == whole
    assert preview is None or len(preview.split(" → ")) <= 8


def test_stats_survive_a_trip_through_json() -> None:
    tree = PlanTree()
    for change in tree.plan_add(["a"], ""):
        tree.apply(change)
    raw = GoalStats(message_count=1, preview="read").stored()
    tree.apply(Updated("1", {"self_stats": raw}, current_id=None))
    assert tree.goals["1"].self_stats == GoalStats(message_count=1, preview="read")
