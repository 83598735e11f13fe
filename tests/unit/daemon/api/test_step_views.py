from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from daemon.api.hub import ClientLimits
from daemon.api.reader import TraceReader
from daemon.api.step_views import CUT, NodeQuery, StepViews
from daemon.model.events import Event
from daemon.steps.dumps import head_fields
from daemon.steps.fold import StepFold
from daemon.store.files import FileTraceStore
from tests.support.drivers.watched import TRACE, Watched
from tests.support.fakes.memory_store import MemoryTraceStore
from tests.support.scenarios.step_events import configuration_change


@pytest.fixture
def bench() -> Watched:
    found = Watched(MemoryTraceStore(), ClientLimits())
    found.begin()
    found.work(25)
    found.emit(found.goal("sub", "1"), found.focus("sub"))
    return found


def steps_of(fold: StepFold) -> list[object]:
    return [(depth, step.stored()) for depth, step in fold.tree.walk()]


def test_copied_fold_continues_without_changing_the_original(bench: Watched) -> None:
    events = bench.store.events(TRACE)
    whole = StepFold(TRACE)
    for event in events:
        whole.apply(event)
    for cut in range(0, len(events), 7):
        fold = StepFold(TRACE)
        for event in events[:cut]:
            fold.apply(event)
        before, twin = steps_of(fold), fold.copy()
        for event in events:
            twin.apply(event)
        assert steps_of(twin) == steps_of(whole)
        assert head_fields(twin.head) == head_fields(whole.head)
        assert steps_of(fold) == before
        for event in events[cut:]:
            fold.apply(event)
        assert steps_of(fold) == steps_of(whole)


def test_fold_at_returns_the_requested_event_unless_already_past(bench: Watched) -> None:
    views = StepViews(bench.store)
    last = bench.store.last_event_id(TRACE)
    early = views.fold_at(TRACE, 10)
    assert early is not None
    assert early.last_event_id == 10
    now = views.fold_at(TRACE, last)
    assert now is not None
    whole = StepFold(TRACE, cut=CUT)
    for event in bench.store.events(TRACE):
        whole.apply(event)
    assert steps_of(now) == steps_of(whole)
    assert early.last_event_id == 10
    assert views.fold_at(TRACE, 10) is None


def test_the_log_is_folded_once_for_all_who_want_its_steps(bench: Watched) -> None:
    read: list[int] = []

    class Noting(MemoryTraceStore):
        def events(self, trace_id: str, *, after: int = 0, limit: int | None = None) -> Sequence[Event]:
            read.append(after)
            return bench.store.events(trace_id, after=after, limit=limit)

        def last_event_id(self, trace_id: str) -> int:
            return bench.store.last_event_id(trace_id)

    views = StepViews(Noting())
    last = bench.store.last_event_id(TRACE)
    assert views.fold_at(TRACE, last) is not None
    read.clear()
    views.node(TRACE, None, NodeQuery(limit=100))
    assert views.fold_at(TRACE, last) is not None
    assert set(read) == {last}


async def test_calls_of_a_dead_daemon_count_as_failed(tmp_path: Path) -> None:
    store = FileTraceStore(tmp_path)
    log = configuration_change()
    log.trace = log.trace.model_copy(update={"running": True})
    log.say("", ("c8", "bash", '{"command": "sleep 30"}'))
    log.into(store)
    reader = TraceReader(store, lambda _: None)
    (goal,) = [
        node for node in (await reader.tree(log.trace_id))["root_nodes"] if node["step_id"] == "goal_2"
    ]
    statuses = {node["step_id"]: node["status"] for node in goal["children"]}
    assert statuses == {"call_c3": "completed", "call_c8": "failed"}
    below = await reader.node(log.trace_id, "goal_2")
    assert [node["status"] for node in below["children"]] == ["completed", "failed"]
    # A daemon that opens the session continues from where it stands, not from what was shown.
    opened = reader.steps.fold_at(log.trace_id, store.last_event_id(log.trace_id))
    assert opened is not None
    assert opened.head.status == "running"
    log.answer("c8", "bash", "it went on")
    log.append_to(store)
    below = await reader.node(log.trace_id, "goal_2")
    assert [node["status"] for node in below["children"]] == ["completed", "completed"]
