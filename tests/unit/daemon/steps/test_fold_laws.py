"""Invariants of every log: random sessions, and forged logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.model.branches import SubagentMeta
from daemon.model.events import (
    Event,
    GoalAdded,
    GoalMoved,
    GoalUpdated,
    MessageAdded,
    SubagentCompleted,
    SubagentStarted,
)
from daemon.model.goals import Goal
from daemon.model.messages import Usage
from daemon.model.steps import Step
from daemon.plan.tree import PlanError
from daemon.state.children import Children
from daemon.state.spending import Spending
from daemon.steps.dumps import dump_json, dump_markdown, dump_tree
from daemon.steps.fold import StepAdded, StepChange, StepFold
from daemon.steps.texts import to_history_string, to_todo_string
from tests.support.examples import examples
from tests.support.scenarios.step_events import BEGIN, Recorded
from tests.support.scenarios.step_sums import check_sums

PLANNING = ["add", "below", "focus", "done", "abandon"]
PLAIN = [*PLANNING, "move", "say", "call", "fail", "end"]
MIXED = ["goal", "nothing", "task", "mixed", "worded", "late", "person"]
"""Answers that plan, that say nothing, that do both plan and work, and calls that run for another goal than asked."""


def operations_of(*kinds: str) -> st.SearchStrategy[list[tuple[str, int, int]]]:
    return st.lists(
        st.tuples(st.sampled_from(kinds), st.integers(0, 7), st.integers(0, 7)),
        max_size=40,
    )


OPERATIONS = operations_of(*PLAIN, *MIXED)


def played(operations: Sequence[tuple[str, int, int]]) -> Recorded:
    log = Recorded()
    log.begin()
    for number, (kind, one, other) in enumerate(operations):
        goals = list(log.plan.goals)
        first, second = (goals[at % len(goals)] if goals else "1" for at in (one, other))
        try:
            _play(log, kind, number, first, second if other % 3 else None)
        except PlanError:
            continue
    return log


def _play(log: Recorded, kind: str, number: int, first: str, second: str | None) -> None:
    match kind:
        case "add":
            log.add(f"Goal {number}")
        case "below":
            log.add(f"Goal {number}", under=first)
        case "focus":
            log.focus(first)
        case "done":
            log.done(f"Summary {number}")
        case "abandon":
            log.abandon(f"Reason {number}")
        case "move":
            log.change(lambda plan: plan.plan_move(plan.goal(first), second), by="person")
        case "say":
            log.say(f"Word {number}.")
        case "call" | "fail":
            log.say("", (f"c{number}", "read", f'{{"path": "{number}"}}'), (f"d{number}", "ls", "{}"))
            log.answer(f"c{number}", "read", "output", is_error=kind == "fail")
            log.answer(f"d{number}", "ls", "output")
        case "goal":
            log.say("", (f"g{number}", "goal", "{}"))
            log.answer(f"g{number}", "goal", "told")
        case "nothing":
            log.say("")
        case "task":
            log.say("", (f"t{number}", "task", "{}"))
            _subagent(log, f"t{number}")
            log.answer(f"t{number}", "task", "found")
        case "mixed" | "worded" | "late":
            _mixed(log, kind, number, first, second)
        case "person":
            log.say("", (f"c{number}", "read", "{}"), tokens=number)
            log.change(lambda plan: plan.plan_focus(plan.goal(first)), by="person")
            log.answer(f"c{number}", "read", "output")
        case _:
            log.end()
            log.begin()


def _subagent(log: Recorded, call_id: str) -> None:
    meta = SubagentMeta(
        id=call_id,
        agent="explore",
        prompt="look",
        tool_call_id=call_id,
        goal_id=log.plan.current_id or "",
        started_at=BEGIN,
    )
    log.emit(SubagentStarted(trace_id=log.trace_id, time=log.now(), subagent=meta))
    ended = meta.model_copy(update={"usage": Usage(input=1000, output=500), "cost": 0.02})
    log.emit(SubagentCompleted(trace_id=log.trace_id, time=log.now(), subagent=ended))


def _mixed(log: Recorded, kind: str, number: int, first: str, second: str | None) -> None:
    """An answer that plans, once or twice, and calls tools: they run for the goal that then has the focus."""
    calls = [(f"g{number}", "goal", "{}"), (f"c{number}", "read", "{}"), (f"d{number}", "ls", "{}")]
    if kind == "late":
        calls = [calls[1], calls[0], calls[2], (f"h{number}", "goal", "{}")]
    log.say("Words." if kind == "worded" else "", *calls, tokens=number)
    for at, (call_id, name, _) in enumerate(calls):
        if name != "goal":
            log.answer(call_id, name, "output")
            continue
        failed = False
        try:
            _play(log, PLANNING[(number + at + len(first)) % len(PLANNING)], number, first, second)
        except PlanError:
            failed = True
        log.answer(call_id, name, "told", is_error=failed)


class Mirror:
    """A client: it knows the frames and nothing else."""

    def __init__(self) -> None:
        self.steps: dict[str, dict[str, Any]] = {}
        self.children: dict[str | None, list[str]] = {}

    def take(self, change: StepChange) -> None:
        if isinstance(change, StepAdded):
            step = change.step.stored()
            assert step["step_id"] not in self.steps
            self.steps[step["step_id"]] = step
            self.put(step["step_id"], change.before_id)
            return
        updates = dict(change.updates)
        moved, before = "parent_id" in updates, updates.pop("before_id", None)
        if moved:
            self.children[self.steps[change.step_id]["parent_id"]].remove(change.step_id)
        self.steps[change.step_id] |= updates
        if moved:
            self.put(change.step_id, before)

    def put(self, step_id: str, before: str | None) -> None:
        siblings = self.children.setdefault(self.steps[step_id]["parent_id"], [])
        siblings.insert(siblings.index(before) if before else len(siblings), step_id)

    def walked(self, parent: str | None = None) -> list[dict[str, Any]]:
        return [
            step
            for step_id in self.children.get(parent, [])
            for step in (self.steps[step_id], *self.walked(step_id))
        ]


@settings(max_examples=examples(150), deadline=None)
@given(OPERATIONS)
def test_step_changes_reproduce_the_tree(operations: list[tuple[str, int, int]]) -> None:
    log = played(operations)
    fold, mirror = StepFold(log.trace_id), Mirror()
    for event in log.events:
        for change in fold.apply(event):
            mirror.take(change)
    assert mirror.walked() == [step.stored() for step in fold.tree.filter()]


@settings(max_examples=examples(150), deadline=None)
@given(OPERATIONS)
def test_step_tree_is_consistent_with_the_plan(
    operations: list[tuple[str, int, int]],
) -> None:
    log = played(operations)
    fold = StepFold(log.trace_id)
    changes = [change for event in log.events for change in fold.apply(event)]
    steps = fold.tree.filter()
    assert len({step.step_id for step in steps}) == len(steps) == fold.tree.total_steps
    numbers = [change.step.sequence for change in changes if isinstance(change, StepAdded)]
    assert numbers == list(range(1, len(steps) + 1))
    for step in steps:
        _check_parent(step, fold)
    live = [step for step in fold.tree.filter("goal") if step.step_id[5:] in log.plan.goals]
    assert [step.step_id[5:] for step in live] == [
        goal.id for top in log.plan.children(None) for goal in (top, *log.plan.descendants(top.id))
    ]
    for step in live:
        goal = log.plan.goals[step.step_id[5:]]
        assert step.description == goal.description
        assert (step.status == "completed") == (goal.status == "completed")
        assert (step.status == "in_progress") == (goal.status == "in_progress")


@settings(max_examples=examples(300), deadline=None)
@given(OPERATIONS)
def test_usage_of_steps_equals_usage_of_the_trace(operations: list[tuple[str, int, int]]) -> None:
    log = played(operations)
    log.end()
    fold = StepFold(log.trace_id)
    for event in log.events:
        fold.apply(event)
    check_sums(fold)


@settings(max_examples=examples(100), deadline=None)
@given(OPERATIONS)
def test_usage_of_goal_steps_equals_the_spending(operations: list[tuple[str, int, int]]) -> None:
    log = played(operations)
    fold, children = StepFold(log.trace_id), Children()
    for event in log.events:
        fold.apply(event)
        children.apply(event)
    spending = Spending()
    messages = [event.message for event in log.events if isinstance(event, MessageAdded)]
    spending.recount(messages, log.plan, children)
    for step in fold.tree.filter("goal"):
        assert (step.tokens or 0) == spending.usage(step.step_id[5:]).total


def _check_parent(step: Step, fold: StepFold) -> None:
    parent = fold.tree.get(step.parent_id or "")
    wanted = {"result": ("action",), "evaluation": ("goal",)}.get(step.step_type, ("goal", None))
    assert (parent.step_type if parent else None) in wanted
    assert (step.summary is not None) == (step.step_type == "evaluation")


@settings(max_examples=examples(100), deadline=None)
@given(OPERATIONS)
def test_duration_of_a_goal_is_the_sum_over_its_subtree(
    operations: list[tuple[str, int, int]],
) -> None:
    log = played(operations)
    fold = StepFold(log.trace_id)
    spent: dict[str, int] = {}
    for event in log.events:
        fold.apply(event)
        message = getattr(event, "message", None)
        if message is not None and message.duration_ms and message.goal_id:
            spent[message.goal_id] = spent.get(message.goal_id, 0) + message.duration_ms
    for goal in log.plan.goals.values():
        step = fold.tree.get(f"goal_{goal.id}")
        below = [goal.id, *(child.id for child in log.plan.descendants(goal.id))]
        assert step is not None
        worked = sum(spent.get(goal_id, 0) for goal_id in below)
        assert goal.cumulative_stats.duration_ms == worked
        assert goal.self_stats.duration_ms == spent.get(goal.id, 0)
        assert (step.duration_ms or 0) == worked


GOAL_IDS = st.sampled_from(["1", "2", "3", "4", ""])
STATUSES = ["pending", "completed", "abandoned", "nonsense", 7]


@st.composite
def made_up(draw: st.DrawFn) -> Event:
    """An event of the plan that no session of ours would write."""
    goal_id, other = draw(GOAL_IDS), draw(st.none() | GOAL_IDS)
    kind, status = draw(st.sampled_from(["added", "moved", "updated"])), draw(st.sampled_from(STATUSES))
    if kind == "added":
        goal = Goal(id=goal_id, parent_id=other, description="\x1b[31m```")
        return GoalAdded(trace_id="t", time=BEGIN, goal=goal)
    if kind == "moved":
        before = draw(st.none() | GOAL_IDS)
        return GoalMoved(trace_id="t", time=BEGIN, goal_id=goal_id, parent_id=other, before_id=before)
    updates = {"status": status, "summary": "s"}
    return GoalUpdated(trace_id="t", time=BEGIN, goal_id=goal_id, updates=updates)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(made_up(), max_size=25))
def test_any_log_folds_and_dumps_without_an_error(events: list[Event]) -> None:
    fold, mirror = StepFold("t"), Mirror()
    for number, event in enumerate(events, 1):
        for change in fold.apply(event.model_copy(update={"event_id": number})):
            mirror.take(change)
    assert mirror.walked() == [step.stored() for step in fold.tree.filter()]
    assert len(fold.tree.filter()) == fold.tree.total_steps
    for dump in (dump_tree, dump_markdown, dump_json):
        assert "\x1b" not in dump(fold.head, fold.tree, now=BEGIN)
    assert to_todo_string(fold.tree).count("\n") <= fold.tree.total_steps
    to_history_string(fold.tree)


def test_next_sibling_is_never_a_step_with_another_parent() -> None:
    # Goal 1 came before its parent did, so its step is at the top.
    early = Goal(id="1", parent_id="3", description="early")
    events: list[Event] = [GoalAdded(trace_id="t", time=BEGIN, goal=early)]
    events += [GoalAdded(trace_id="t", time=BEGIN, goal=Goal(id=name, description=name)) for name in "32"]
    events.append(GoalMoved(trace_id="t", time=BEGIN, goal_id="2", parent_id="3", before_id="1"))
    fold, mirror = StepFold("t"), Mirror()
    for number, event in enumerate(events, 1):
        for change in fold.apply(event.model_copy(update={"event_id": number})):
            mirror.take(change)
    assert mirror.walked() == [step.stored() for step in fold.tree.filter()]
