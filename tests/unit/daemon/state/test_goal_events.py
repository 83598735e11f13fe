"""A change of the plan, stored as an event and replayed, makes the same tree."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from daemon.model.events import AffectedGoal, GoalUpdated
from daemon.model.goals import Goal, GoalStats
from daemon.model.traces import Trace
from daemon.plan.tree import Added, Change, Moved, PlanTree, Removed, Updated
from daemon.state.goal_events import goal_event
from daemon.state.session_state import SessionState

NOW = datetime(2026, 1, 2, tzinfo=UTC)
CHANGES: list[Change] = [
    Added(Goal(id="1", description="one"), None),
    Added(Goal(id="2", description="two"), None),
    Added(Goal(id="3", parent_id="1", description="three"), 1),
    Updated(
        "3",
        {"status": "in_progress"},
        current_id="3",
        affected_goals=(AffectedGoal(goal_id="1", status="in_progress"),),
    ),
    Moved(
        "3",
        "2",
        None,
        affected_goals=(AffectedGoal(goal_id="2", cumulative_stats=GoalStats(message_count=4)),),
    ),
    Removed("1", current_id="3"),
]


@pytest.mark.parametrize("by", ["", "VS Code"])
def test_replayed_goal_events_rebuild_the_same_tree(by: str) -> None:
    live = PlanTree()
    state = SessionState(Trace(trace_id="t", workspace="/w", created_at=NOW, updated_at=NOW))
    for number, change in enumerate(CHANGES, 1):
        live.apply(change)
        event = goal_event(change, "t", NOW, by)
        assert event.by == by
        state.apply(event.model_copy(update={"event_id": number}))
    assert state.plan.snapshot() == live.snapshot()
    assert state.plan.current_id == "3"


def test_goal_event_carries_the_stats_of_affected_goals() -> None:
    plan = PlanTree()
    for change in CHANGES[:4]:
        plan.apply(change)
    plan.apply_counts(plan.count("3", tokens=5, cost=0.1, tools=["read"]))
    (done,) = plan.plan_done("found it")
    event = goal_event(done, "t", NOW, plan=plan)
    assert isinstance(event, GoalUpdated)
    assert event.updates == {"status": "completed", "summary": "found it"}
    numbers = GoalStats(message_count=1, total_tokens=5, total_cost=0.1, preview="read")
    assert [(item.goal_id, item.status, item.cumulative_stats) for item in event.affected_goals] == [
        ("3", None, numbers),
        ("1", "completed", numbers),
    ]


def test_changed_goal_is_always_listed_among_affected_goals() -> None:
    plan = PlanTree()
    for change in CHANGES[:4]:
        plan.apply(change)
    new = GoalStats(message_count=7, total_tokens=9)
    brought = Updated(
        "3",
        {"cumulative_stats": new.model_dump()},
        "3",
        affected_goals=(AffectedGoal(goal_id="1", cumulative_stats=new),),
    )
    event = goal_event(brought, "t", NOW, plan=plan)
    assert isinstance(event, GoalUpdated)
    assert [(item.goal_id, item.cumulative_stats) for item in event.affected_goals] == [
        ("3", new),
        ("1", new),
    ]
    plan.apply(event)
    assert plan.goals["3"].cumulative_stats == plan.goals["1"].cumulative_stats == new
