"""Lists of traces, and what becomes of traces, in every store."""

from __future__ import annotations

import pytest

from daemon.model.goals import GoalTree
from daemon.store.trace_store import TraceStore, UnknownTraceError
from tests.support.scenarios.stores import ID, added, branch_trace, message, started, trace

IDS = [f"20260101-00000{second}-aaaaaa" for second in (3, 2, 1, 0)]


def filled(store: TraceStore) -> TraceStore:
    for trace_id in (IDS[2], IDS[0], IDS[3], IDS[1]):
        store.create(trace(trace_id, title=f"of {trace_id[14]}"))
    return store


def test_traces_are_listed_newest_first_in_pages(empty: TraceStore) -> None:
    assert empty.traces(limit=5) == []
    store = filled(empty)
    assert [t.trace_id for t in store.traces(limit=2)] == IDS[:2]
    assert [t.trace_id for t in store.traces(limit=2, before=IDS[1])] == IDS[2:]
    assert store.traces(limit=2, before=IDS[3]) == []
    assert store.traces(limit=0) == []
    assert [t.trace_id for t in store.traces(limit=9)] == IDS


def test_sessions_begun_in_a_row_are_listed_in_that_order(empty: TraceStore) -> None:
    for number in range(3):
        empty.create(trace(f"20260101-000000-{number:06d}"))
    assert [t.trace_id[-1] for t in empty.traces(limit=9)] == ["2", "1", "0"]


def test_filter_is_applied_before_the_limit(empty: TraceStore) -> None:
    store = filled(empty)
    asked: list[str] = []

    def odd(known: object) -> bool:
        title = getattr(known, "title", "")
        asked.append(title)
        return title in ("of 3", "of 1")

    assert [t.title for t in store.traces(limit=1, matches=odd)] == ["of 3"]
    assert [t.title for t in store.traces(limit=9, matches=odd)] == ["of 3", "of 1"]
    assert [t.title for t in store.traces(limit=1, before=IDS[0], matches=odd)] == ["of 1"]
    assert set(asked) == {"of 3", "of 2", "of 1", "of 0"}
    assert store.traces(limit=9, matches=lambda _: False) == []


def test_a_list_shows_the_newest_snapshot(store: TraceStore) -> None:
    assert [t.title for t in store.traces(limit=1)] == [""]
    store.save_snapshot(trace(title="first", last_event_id=1), GoalTree())
    assert [t.title for t in store.traces(limit=1)] == ["first"]
    store.save_snapshot(trace(title="again", last_event_id=1), GoalTree())
    assert [t.title for t in store.traces(limit=1)] == ["again"]


def test_children_are_not_listed(store: TraceStore) -> None:
    store.create(branch_trace(f"{ID}:A"))
    assert [t.trace_id for t in store.traces(limit=9)] == [ID]


def test_deleted_trace_and_its_branches_are_unknown(empty: TraceStore) -> None:
    store = filled(empty)
    store.create(branch_trace(f"{IDS[1]}:A"))
    store.append(started(trace_id=IDS[1]))
    store.append(started(trace_id=f"{IDS[1]}:A"))
    store.delete(IDS[1])
    assert [t.trace_id for t in store.traces(limit=9)] == [IDS[0], *IDS[2:]]
    for gone in (IDS[1], f"{IDS[1]}:A"):
        for read in (store.trace, store.messages, store.events, store.last_event_id, store.size):
            with pytest.raises(UnknownTraceError):
                read(gone)
        with pytest.raises(UnknownTraceError):
            store.append(started(trace_id=gone))
        with pytest.raises(UnknownTraceError):
            store.delete(gone)
    store.create(trace(IDS[1]))
    assert store.messages(IDS[1]) == []
    assert store.append(started(trace_id=IDS[1])).event_id == 1


def test_size_grows_with_content_and_includes_children(store: TraceStore) -> None:
    empty = store.size(ID)
    store.append(added(message(1, "x" * 10_000)))
    alone = store.size(ID)
    assert alone - empty > 10_000
    store.create(branch_trace(f"{ID}:A"))
    store.append(started("y" * 10_000, f"{ID}:A"))
    assert store.size(ID) - alone > 10_000
    assert 10_000 < store.size(f"{ID}:A") < store.size(ID)
