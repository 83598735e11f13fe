"""Events, messages, goals and metadata in every trace store."""

from __future__ import annotations

import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.model.events import MessageAdded, Notice, SessionCreated, TurnStarted
from daemon.model.goals import Goal, GoalTree
from daemon.store.trace_store import StoreError, TraceStore, UnknownTraceError
from tests.support.drivers.postgres import give_back
from tests.support.examples import examples
from tests.support.scenarios.stores import BACKENDS, DURABLE, ID, NOW, TEARS, added, message, started, trace

OTHER = "20260101-000001-bbbbbb"


def test_new_trace_is_empty_and_is_read_as_created(store: TraceStore) -> None:
    assert store.trace(ID) == trace()
    assert store.goal_tree(ID) == GoalTree()
    assert store.messages(ID) == []
    assert list(store.events(ID)) == []
    assert store.last_event_id(ID) == 0


def test_events_get_rising_ids_from_one(store: TraceStore) -> None:
    assert [store.append(started()).event_id for _ in range(3)] == [1, 2, 3]
    assert store.last_event_id(ID) == 3


def test_events_are_read_as_they_were_appended(store: TraceStore) -> None:
    written = [
        store.append(SessionCreated(trace_id=ID, time=NOW, trace=trace())),
        store.append(MessageAdded(trace_id=ID, time=NOW, message=message(1, "日本 \n\u2028 \x00 ü"))),
        store.append(Notice(trace_id=ID, time=NOW, level="info", text="x", code="y")),
    ]
    assert list(store.events(ID)) == written


def test_events_after_an_id_are_those_above_it(store: TraceStore) -> None:
    for number in range(5):
        store.append(started(f"p{number}"))
    assert [event.event_id for event in store.events(ID, after=3)] == [4, 5]
    assert list(store.events(ID, after=5)) == []
    assert list(store.events(ID, after=99)) == []
    assert len(store.events(ID, after=0)) == 5


def test_the_events_of_two_traces_do_not_mix(store: TraceStore) -> None:
    store.create(trace(OTHER))
    store.append(started())
    assert store.append(started(trace_id=OTHER)).event_id == 1
    assert len(store.events(ID)) == 1


def test_event_ids_continue_after_the_log_was_closed(store: TraceStore) -> None:
    store.append(started())
    store.close(ID)
    assert store.append(started()).event_id == 2
    store.close()
    assert store.append(started()).event_id == 3


def test_the_newest_messages_come_oldest_first(store: TraceStore) -> None:
    for number in (1, 2, 3, 4):
        store.append(added(message(number)))
    assert [m.sequence for m in store.messages(ID)] == [1, 2, 3, 4]
    assert [m.sequence for m in store.messages(ID, limit=2)] == [3, 4]
    assert [m.sequence for m in store.messages(ID, limit=2, before=3)] == [1, 2]
    assert [m.sequence for m in store.messages(ID, before=2)] == [1]
    assert store.messages(ID, limit=0) == []
    assert store.messages(ID, before=1) == []
    assert [m.sequence for m in store.messages(ID, limit=99)] == [1, 2, 3, 4]


def test_message_added_twice_is_stored_once(store: TraceStore) -> None:
    store.append(added(message(1, "old")))
    store.append(added(message(1, "new")))
    assert [m.text() for m in store.messages(ID)] == ["new"]


def test_a_snapshot_replaces_metadata_and_goals(store: TraceStore) -> None:
    changed = trace(title="shop", last_event_id=7, running=True)
    tree = GoalTree(mission="m", current_id="1", goals=[Goal(id="1", description="a", status="in_progress")])
    store.save_snapshot(changed, tree)
    assert store.trace(ID) == changed
    assert store.goal_tree(ID) == tree


@pytest.mark.parametrize(
    "trace_id",
    [
        "nobody",
        "",
        ".",
        "..",
        "../x",
        "a/../b",
        "/etc",
        "..\\x",
        "a\\b",
        ".hidden",
        "a\0b",
        "x" * 5000,
        "\ud800",
    ],
)
def test_invalid_id_is_unknown_to_every_method(store: TraceStore, trace_id: str) -> None:
    for read in (store.trace, store.goal_tree, store.messages, store.events, store.last_event_id):
        with pytest.raises(UnknownTraceError):
            read(trace_id)
    with pytest.raises(UnknownTraceError):
        store.append(started(trace_id=trace_id))


@pytest.mark.parametrize("text", ["\ud83d\ude00", "half \ud83d", "\ude00\ud83d", "\udcff"], ids=ascii)
def test_half_a_character_from_a_model_is_stored_and_read(store: TraceStore, text: str) -> None:
    # Servers cut streams inside of a surrogate pair; json.loads then makes lone surrogates of the halves.
    appended = store.append(MessageAdded(trace_id=ID, time=NOW, message=message(1, text)))
    store.save_snapshot(trace(title=text), GoalTree(mission=text))
    assert store.events(ID)[0].event_id == appended.event_id
    (read,) = store.messages(ID)
    assert len(read.text()) <= len(text)
    assert store.trace(ID).trace_id == ID
    assert store.goal_tree(ID).goals == []


@pytest.mark.parametrize("backend", DURABLE)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=50), max_size=8), st.integers(0, 9))
@settings(max_examples=examples(25), deadline=None)
def test_any_text_survives(backend: str, texts: list[str], after: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = BACKENDS[backend](Path(folder))
        store.create(trace())
        for number, text in enumerate(texts, 1):
            store.append(started(text))
            store.append(added(message(number, text)))
        store.close()
        again = BACKENDS[backend](Path(folder))
        kept = [event.prompt_id for event in again.events(ID, after=after) if isinstance(event, TurnStarted)]
        assert kept == texts[(after + 1) // 2 :]
        assert [m.text() for m in again.messages(ID)] == texts
        assert again.last_event_id(ID) == 2 * len(texts)
        again.close()
        give_back(Path(folder))


def test_events_come_in_pages(store: TraceStore) -> None:
    for number in range(1, 8):
        store.append(started(f"p{number}"))
    pages: list[list[int]] = []
    after = 0
    while page := store.events(ID, after=after, limit=3):
        pages.append([event.event_id for event in page])
        after = page[-1].event_id
    assert pages == [[1, 2, 3], [4, 5, 6], [7]]
    assert list(store.events(ID, limit=0)) == []
    assert len(store.events(ID, after=-5, limit=99)) == 7


def test_page_of_events_needs_memory_for_the_page_not_the_log(store: TraceStore) -> None:
    for number in range(1, 2001):
        store.append(started(f"{number} {'x' * 1000}"))
    for after in (5, 1000, 1990):
        tracemalloc.start()
        try:
            page = store.events(ID, after=after, limit=5)
            _, held = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert [event.event_id for event in page] == list(range(after + 1, after + 6))
        assert held < store.size(ID) // 4


@pytest.mark.parametrize("backend", sorted(TEARS))
def test_recover_truncates_torn_record_before_next_append(
    open_store: Callable[[str], TraceStore], backend: str, tmp_path: Path
) -> None:
    store = open_store("store")
    store.create(trace())
    store.append(added(message(1)))
    store.close()
    size = TEARS[backend](tmp_path / "store")
    again = open_store("store")
    assert again.recover(ID) == size
    assert again.recover(ID) == 0
    assert again.append(started()).event_id == 2
    assert [event.event_id for event in open_store("store").events(ID)] == [1, 2]


def test_a_session_is_created_once(store: TraceStore) -> None:
    store.append(started("kept"))
    with pytest.raises(StoreError):
        store.create(trace())
    assert len(store.events(ID)) == 1


def test_an_older_snapshot_that_comes_late_changes_nothing(store: TraceStore) -> None:
    newer = trace(title="new", last_event_id=9)
    store.save_snapshot(newer, GoalTree(mission="new"))
    store.save_snapshot(trace(title="old", last_event_id=3), GoalTree(mission="old"))
    assert store.trace(ID) == newer
    assert store.goal_tree(ID).mission == "new"


@pytest.mark.parametrize("backend", DURABLE)
def test_reopened_store_contains_everything(open_store: Callable[[str], TraceStore]) -> None:
    store = open_store("store")
    store.create(trace())
    event = store.append(added(message(1, goal_id="4")))
    store.save_snapshot(trace(last_event_id=1), GoalTree(mission="m"))
    store.close()
    again = open_store("store")
    assert list(again.events(ID)) == [event]
    assert again.messages(ID, goal_ids=frozenset(["4"])) == [message(1, goal_id="4")]
    assert (again.trace(ID).last_event_id, again.goal_tree(ID).mission) == (1, "m")
    assert again.append(started()).event_id == 2


def test_recovering_an_intact_log_removes_nothing(store: TraceStore) -> None:
    store.append(started())
    assert store.recover(ID) == 0
    store.close()
    assert store.recover(ID) == 0
    assert store.append(started()).event_id == 2
