"""Totals beside events match the session: live, from the log, and by the fold of steps."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.model.events import Event, GoalRemoved, PermissionAsked, PermissionReplied, TurnEnded, TurnStarted
from daemon.model.permissions import PermissionRequest
from daemon.model.traces import Trace
from daemon.plan.tree import Change, PlanError, PlanTree
from daemon.state.goal_events import goal_event
from daemon.state.projection import Projection
from daemon.state.session_state import SessionState
from daemon.steps.fold import StepFold
from tests.support.fakes.models import Call, FakeModels
from tests.support.scenarios.branches import explore, exploring, ran
from tests.support.scenarios.subagents import task

NOW = datetime(2026, 1, 2, tzinfo=UTC)
Operations = list[tuple[str, int, int]]


def state() -> SessionState:
    return SessionState(Trace(trace_id="t", workspace="/w", created_at=NOW, updated_at=NOW))


def planned(tree: PlanTree, operation: str, one: int, other: int) -> list[Change]:
    goals = [None, *tree.goals.values()]
    which, beside = goals[one % len(goals)], goals[other % len(goals)]
    parent = None if beside is None else beside.id
    if operation == "add" or which is None:
        before = beside.id if beside is not None and one % 3 == 0 else None
        return list(tree.plan_add(["x"], "", parent_id=beside.parent_id if before and beside else parent))
    if operation == "move":
        if one % 2 or beside is None:
            return list(tree.plan_move(which, parent))
        return list(tree.plan_move(which, beside.parent_id, beside.id))
    if operation == "focus":
        return list(tree.plan_focus(which))
    if operation == "done":
        return list(tree.plan_done("ok", which))
    return list(tree.plan_abandon("no", which))


def merged(shown: dict[str, Any], update: dict[str, Any]) -> None:
    """As a client does it."""
    numbers: dict[str, str | None] = update.pop("goal_numbers", {})
    known: dict[str, str] = shown.setdefault("numbers", {})
    for goal_id, number in numbers.items():
        if number is None:
            known.pop(goal_id, None)
        else:
            known[goal_id] = number
    shown.update(update)


def test_goals_below_a_removed_one_are_renumbered() -> None:
    session, shown = state(), dict[str, Any]()
    projection = Projection(session, session.plan)

    def follow(events: Iterable[Event]) -> None:
        for event in events:
            session.apply(event)
            if (update := projection.changes(event)) is not None:
                merged(shown, update.model_dump(exclude_unset=True))

    plan = session.plan
    for operation in (
        lambda: plan.plan_add(["a", "b"], "", parent_id=None),
        lambda: plan.plan_add(["below"], "", parent_id="1"),
        lambda: plan.plan_abandon("no", plan.goals["1"]),
    ):
        follow(goal_event(change, "t", NOW) for change in operation())
    # Only a damaged log removes a goal that has others below it.
    follow([GoalRemoved(trace_id="t", time=NOW, goal_id="1")])
    assert shown["numbers"] == plan.numbers()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "move", "focus", "done", "abandon"]), st.integers(0, 9), st.integers(0, 9)
        )
    )
)
def test_numbers_that_are_told_add_up_to_those_of_the_plan(operations: Operations) -> None:
    session, shown = state(), dict[str, Any]()
    projection = Projection(session, session.plan)
    for operation, one, other in operations:
        try:
            changes = planned(session.plan, operation, one, other)
        except PlanError:
            continue
        for change in changes:
            event = goal_event(change, "t", NOW)
            session.apply(event)
            if (update := projection.changes(event)) is not None:
                merged(shown, update.model_dump(exclude_unset=True))
    assert shown.get("numbers", {}) == session.plan.numbers()


def test_last_goal_is_sent_alone_and_earlier_one_renumbers() -> None:
    session = state()
    projection = Projection(session, session.plan)

    def told(change: Change) -> dict[str, str | None] | None:
        event = goal_event(change, "t", NOW)
        session.apply(event)
        update = projection.changes(event)
        return None if update is None else update.goal_numbers

    first, second, third = session.plan.plan_add(["a", "b", "c"], "", parent_id=None)
    assert [told(change) for change in (first, second, third)] == [{"1": "1"}, {"2": "2"}, {"3": "3"}]
    goals = session.plan.goals
    focus = session.plan.plan_focus(goals["2"])
    assert {told(change) is None for change in focus} == {True}
    [moved] = session.plan.plan_move(goals["3"], None, "1")
    assert told(moved) == {"3": "1", "1": "2", "2": "3"}
    abandoned = session.plan.plan_abandon("no", goals["3"])
    assert told(abandoned[0]) == {"3": None, "1": "1", "2": "2"}


def test_the_status_is_told_when_it_changes() -> None:
    session = state()
    projection = Projection(session, session.plan)
    assert projection.whole().status == "idle"
    request = PermissionRequest.model_construct(request_id="r", tool_call_id="c", permission="bash")
    events = (
        TurnStarted(trace_id="t", time=NOW, prompt_id="p"),
        PermissionAsked.model_construct(
            event="permission_asked", event_id=0, trace_id="t", time=NOW, request=request
        ),
        PermissionReplied(trace_id="t", time=NOW, request_id="r", reply="once"),
        TurnEnded(trace_id="t", time=NOW, prompt_id="p", stop_reason="permission_denied"),
    )
    told: list[str | None] = []
    for event in events:
        session.apply(event)
        update = projection.changes(event)
        told.append(update and update.status)
    assert told == ["running", "waiting", "running", "canceled"]


@pytest.mark.parametrize("priced", [True, False])
async def test_totals_of_branches_and_subagents_reach_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, priced: bool
) -> None:
    if not priced:
        monkeypatch.setattr(FakeModels, "cost", lambda *_: None)
    write = Call("write", {"file_path": "x.py", "content": "x = 1\n"})
    main = [[task("Look.", "explore")], explore("one", "two"), "Done."]
    branches = {
        "s1": ["Nothing there."],
        "A": [[task("Think.", "explore")], [write], "A is done."],
        "A.s1": [[Call("ls", {})], "Thought."],
        "B": [[write], "B is done."],
    }
    async with exploring(tmp_path, main, branches) as bench:
        session = await ran(bench)
        trace, events = session.state.trace, bench.core.store.events(session.session_id)
        replayed, fold = state(), StepFold(session.session_id)
        shown = [dict[str, Any](), dict[str, Any]()]
        projections = [Projection(replayed, replayed.plan), Projection(fold.head, fold.plan)]
        for event in events:
            replayed.apply(event)
            fold.apply(event)
            for told, projection in zip(shown, projections, strict=True):
                if (update := projection.changes(event)) is not None:
                    merged(told, update.model_dump(exclude_unset=True))
        assert shown[0] == shown[1]
        assert shown[0]["numbers"] == session.state.plan.numbers()
        assert shown[0]["status"] == session.state.status == "completed"
        assert shown[0]["usage"] == trace.usage.model_dump()
        assert shown[0].get("total_cost", 0) == trace.total_cost
        assert (
            shown[0].get("unpriced_tokens", 0) == trace.usage.unpriced == (0 if priced else trace.usage.total)
        )
        assert fold.head.trace.usage == trace.usage
        of_branches = [branch.score for branch in session.state.children.branches.values() if branch.score]
        assert [score.unpriced_tokens for score in of_branches] == [
            0 if priced else score.tokens for score in of_branches
        ]
        goals = sum(step.unpriced_tokens or 0 for step in fold.tree.children(None)) + fold.unshown.unpriced
        assert goals == trace.usage.unpriced
        assert set(shown[0]["branches"]) <= {"A", "B"}
        own = sum(m.usage.total for m in session.state.messages if m.usage is not None)
        assert own < trace.usage.total
