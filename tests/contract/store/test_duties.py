"""The duties of every trace store that the beginning of ``daemon.store.trace_store`` lists."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon.model.events import MessageAdded, SessionUpdated, TurnStarted
from daemon.model.goals import Goal, GoalTree
from daemon.store.files import FileTraceStore
from daemon.store.trace_store import StoreError, TraceStore, UnknownTraceError
from tests.support.scenarios.stores import (
    BACKENDS,
    DAMAGES,
    DURABLE,
    ID,
    NOW,
    added,
    kept,
    message,
    started,
    trace,
)

TOKEN = "ghp_" + "a1B2c3D4e5" * 4
OTHER = "20260101-000001-bbbbbb"


@pytest.mark.parametrize("backend", DURABLE)
def test_persistent_records_hold_no_secret(backend: str, tmp_path: Path) -> None:
    store = BACKENDS[backend](tmp_path)
    told = f"the token is {TOKEN}"
    store.create(trace(title=told))
    store.append(SessionUpdated(trace_id=ID, time=NOW, updates={"title": told}))
    store.append(added(message(1, told)))
    if isinstance(store, FileTraceStore):
        store.restore_messages(ID, [message(1, f"{told} again")])
    goal = Goal(id="1", description=told, reason=told)
    store.save_snapshot(trace(title=told, last_event_id=2), GoalTree(mission=told, goals=[goal]))
    store.close()
    written = kept(backend, tmp_path)
    assert b"redacted" in written
    assert TOKEN.encode() not in written
    again = BACKENDS[backend](tmp_path)
    assert "redacted" in again.trace(ID).title
    assert "redacted" in again.goal_tree(ID).mission
    assert "redacted" in again.messages(ID)[0].text()
    again.close()


def test_negative_or_zero_after_reads_from_the_first_event(store: TraceStore) -> None:
    store.append(started())
    store.append(started())
    for after in (-1, -(2**60), 0):
        assert [event.event_id for event in store.events(ID, after=after)] == [1, 2]
    assert [event.event_id for event in store.events(ID, after=-1, limit=1)] == [1]
    assert list(store.events(ID, limit=0)) == []


@pytest.mark.parametrize("backend", DURABLE)
def test_damaged_record_costs_only_itself(backend: str, tmp_path: Path) -> None:
    store = BACKENDS[backend](tmp_path)
    store.create(trace())
    store.create(trace(OTHER))
    for number in range(1, 5):
        store.append(started(f"p{number}"))
    store.close()
    DAMAGES[backend](tmp_path, OTHER, 0)
    DAMAGES[backend](tmp_path, ID, 2)
    again = BACKENDS[backend](tmp_path)
    assert [known.trace_id for known in again.traces(limit=9)] == [ID]
    with pytest.raises(StoreError):
        again.trace(OTHER)
    assert [event.event_id for event in again.events(ID)] == [1, 3, 4]
    assert [event.event_id for event in again.events(ID, limit=2)] == [1, 3]
    assert [event.event_id for event in again.events(ID, after=1, limit=1)] == [3]
    assert again.append(started()).event_id == 5
    again.close()


@pytest.mark.parametrize(
    "child", ["a", "1", "A1", "s", "s1x", "A.", ".A", "A..s1", "A:B", "A\n", "A ", "*", "%"]
)
def test_alternative_spelling_of_a_child_id_is_unknown(store: TraceStore, child: str) -> None:
    with pytest.raises(UnknownTraceError):
        store.events(f"{ID}:{child}")
    with pytest.raises(UnknownTraceError):
        store.create(trace(f"{ID}:{child}"))
    assert store.children(ID) == []


def test_ids_are_case_sensitive_and_not_patterns(store: TraceStore) -> None:
    store.append(started())
    for other in (ID.upper(), ID.replace("-", "_"), ID.replace("-", "%"), f"{ID}\n", f" {ID}"):
        with pytest.raises(UnknownTraceError):
            store.events(other)


def test_concurrent_readers_never_see_partial_records(
    store: TraceStore, backend: str, open_store: Callable[[str], TraceStore]
) -> None:
    readers = [store] if backend not in DURABLE else [store, open_store("store")]
    done = threading.Event()
    wrong: list[object] = []

    def read(reader: TraceStore) -> None:
        seen = 0
        while not done.is_set():
            try:
                ids = [event.event_id for event in reader.events(ID)]
                texts = [one.text() for one in reader.messages(ID)]
                mission, title = reader.goal_tree(ID).mission, reader.trace(ID).title
                reader.last_event_id(ID)
                reader.traces(limit=3)
            except Exception as error:
                wrong.append(error)
                return
            if ids != list(range(1, len(ids) + 1)) or len(ids) < seen:
                wrong.append(ids)
            if any(len(text) != 5000 for text in texts) or len(mission) not in (0, 5000) or len(title) > 5000:
                wrong.append(texts)
            seen = len(ids)

    threads = [threading.Thread(target=read, args=(reader,)) for reader in readers]
    for thread in threads:
        thread.start()
    for number in range(1, 40):
        event = store.append(added(message(number, "x" * 5000)))
        snapshot = trace(title="y" * 5000, last_event_id=event.event_id)
        store.save_snapshot(snapshot, GoalTree(mission="z" * 5000))
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert [event.event_id for event in readers[-1].events(ID)] == list(range(1, 40))


@pytest.mark.parametrize("backend", BACKENDS)
def test_appending_an_event_needs_memory_for_the_event_only(backend: str, tmp_path: Path) -> None:
    store = BACKENDS[backend](tmp_path)
    store.create(trace())
    for number in range(1, 300):
        store.append(MessageAdded(trace_id=ID, time=NOW, message=message(number, "x" * 10_000)))
    tracemalloc.start()
    try:
        store.append(TurnStarted(trace_id=ID, time=NOW, prompt_id="p"))
        store.append(added(message(300, "x" * 10_000)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 500_000  # the log has 3 MB
    store.close()
