"""Frames as clients read them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from daemon.api.frames import (
    Subscription,
    connected_frame,
    delta_entry,
    event_entry,
    event_text,
)
from daemon.api.hub import ClientLimits
from daemon.model.branches import child_id
from daemon.model.encoding import json_bytes
from daemon.model.events import AffectedGoal, Delta, Event, GoalUpdated, Notice, TraceCompleted
from daemon.model.goals import GoalStats
from daemon.model.messages import TextPart, ToolCallPart
from daemon.model.steps import Step
from daemon.steps.fold import StepAdded, StepUpdated
from daemon.store.files import FileTraceStore
from tests.support.drivers.watched import TRACE, Watched
from tests.support.fakes.memory_store import MemoryTraceStore

NOW = datetime(2026, 1, 2, tzinfo=UTC)
KEY = "sk-ant-abcdefgh12345678ABCDEFGH"


def notice(text: str = "so", event_id: int = 7) -> Notice:
    return Notice(trace_id="t", time=NOW, event_id=event_id, level="info", text=text)


def said(*frames: str) -> list[dict[str, object]]:
    return [json.loads(text) for text in frames]


def test_goal_update_frame_omits_unchanged_fields() -> None:
    numbers = GoalStats(message_count=2)
    event = GoalUpdated(
        trace_id="t",
        time=NOW,
        event_id=3,
        goal_id="2",
        updates={"status": "completed"},
        affected_goals=(
            AffectedGoal(goal_id="2", cumulative_stats=numbers),
            AffectedGoal(goal_id="1", status="completed"),
        ),
    )
    (frame,) = said(event_entry(event).event)
    assert frame["affected_goals"] == [
        {"goal_id": "2", "cumulative_stats": numbers.stored()},
        {"goal_id": "1", "status": "completed"},
    ]
    assert frame["updates"] == {"status": "completed", "cumulative_stats": numbers.stored()}
    assert (frame["event"], frame["event_id"], frame["trace_id"]) == ("goal_updated", 3, "t")


def test_step_frames_precede_their_event_and_the_last_has_the_id() -> None:
    step = Step(
        step_id="goal_1",
        trace_id="t",
        step_type="goal",
        status="planned",
        sequence=1,
        description="d",
        created_at=NOW,
    )
    entry = event_entry(notice(), [StepAdded(step, before_id="goal_0"), StepUpdated("goal_1", {"tokens": 1})])
    added, updated, event = said(*entry.of(Subscription()))
    assert added == {
        "event": "step_added", "trace_id": "t", "of_event_id": 7, "step": step.stored(), "before_id": "goal_0",
    }  # fmt: skip
    assert updated == {
        "event": "step_updated", "trace_id": "t", "of_event_id": 7, "step_id": "goal_1", "updates": {"tokens": 1},
    }  # fmt: skip
    assert event["event_id"] == 7
    assert said(*entry.of(Subscription("steps"))) == [added, {**updated, "event_id": 7}]
    assert said(*entry.of(Subscription("goals"))) == []


def test_step_clients_receive_trace_completed() -> None:
    event: Event = TraceCompleted(trace_id="t", time=NOW, event_id=9, status="completed")
    (frame,) = said(*event_entry(event).of(Subscription("steps")))
    assert (frame["event"], frame["trace_id"], frame["event_id"]) == ("trace_completed", "t", 9)


def test_deltas_are_sent_only_to_clients_that_asked_for_them() -> None:
    entry = delta_entry(Delta(trace_id="t", kind="text", message_id="m", text="hi"))
    (frame,) = said(*entry.of(Subscription()))
    assert (frame["event"], frame["text"]) == ("delta", "hi")
    assert "event_id" not in frame
    assert (
        entry.of(Subscription("all", deltas=False))
        == entry.of(Subscription("goals"))
        == entry.of(Subscription("steps"))
        == ()
    )


def test_frames_of_a_branch_have_the_id_of_the_trace() -> None:
    event = notice().model_copy(update={"trace_id": child_id("t", "A")})
    (frame,) = said(event_entry(event).event)
    assert frame["trace_id"] == "t"
    first = json.loads(connected_frame(child_id("t", "A"), 4, {"goal_tree": {}}))
    assert (first["trace_id"], first["branch_id"], first["current_event_id"]) == ("t", "A", 4)


def test_no_secret_leaves_in_any_frame() -> None:
    step = Step(
        step_id="m",
        trace_id="t",
        step_type="thought",
        status="completed",
        sequence=1,
        description=KEY,
        created_at=NOW,
    )
    entry = event_entry(
        notice(f"the key is {KEY}"), [StepAdded(step), StepUpdated("m", {"description": KEY})]
    )
    data = "".join((entry.event, *entry.steps, *entry.steps_alone))
    data += connected_frame("t", 1, {"trace": {"title": KEY}})
    data += delta_entry(Delta(trace_id="t", kind="text", message_id="m", text=KEY)).event
    assert KEY not in data
    assert data.count("[redacted") >= 7


NASTY = (
    "plain",
    f"the key is {KEY}",
    ',"affected_goals":[]}',
    '{"event_id":1,"trace_id":"x",',
    '\ud800 \u2028 \x00 "quoted" \\',
)


@pytest.mark.parametrize("session_id", [TRACE, child_id(TRACE, "A"), child_id(TRACE, "A.s1")])
def test_frame_from_the_stored_line_equals_frame_from_the_event(tmp_path: Path, session_id: str) -> None:
    store = FileTraceStore(tmp_path / ".trace")
    bench = Watched(store, ClientLimits())
    for opened in dict.fromkeys((TRACE, child_id(TRACE, "A"), session_id)):
        bench.begin(opened)
    seen: list[Event] = []

    def check(event: Event) -> None:
        line = store.line(event)
        assert line is not None
        assert event_text(event, line) == event_text(event)
        frame = json.loads(event_text(event))
        expected: dict[str, Any] = {**json.loads(json_bytes(event.stored())), "trace_id": TRACE}
        if getattr(event, "affected_goals", ()):
            expected["affected_goals"] = [
                {name: value for name, value in goal.items() if value is not None}
                for goal in expected["affected_goals"]
            ]
        assert {**frame, "updates": None} == {**expected, "updates": None}
        assert KEY.encode() not in event_text(event, line)
        seen.append(event)

    def happens(event: Event) -> None:
        check(bench.happens(event))

    happens(bench.goal("1", session_id=session_id))
    happens(bench.goal("2", "1", session_id=session_id))
    happens(bench.focus("2", session_id))
    for text in NASTY:
        call = ToolCallPart(id="c", name="read", input=json.dumps({"path": text}))
        for goal_id in (None, "1", "2"):
            happens(bench.message(TextPart(text=text), call, goal_id=goal_id, session_id=session_id))
        happens(Notice(trace_id=session_id, time=NOW, level="info", text=text, code=',"affected_goals":[1]'))
    assert any(event.event == "message_added" and len(event.affected_goals) == 2 for event in seen)


def test_store_offers_the_stored_line_only_for_the_last_event(tmp_path: Path) -> None:
    store = FileTraceStore(tmp_path / ".trace")
    bench = Watched(store, ClientLimits())
    bench.begin()
    first, last = bench.notices(2)
    assert store.line(first) is None
    assert store.line(last.model_copy()) is None
    line = store.line(last)
    assert line is not None
    assert line + b"\n" == (tmp_path / ".trace" / TRACE / "events.jsonl").read_bytes().splitlines(True)[-1]
    assert MemoryTraceStore().line(last) is None
