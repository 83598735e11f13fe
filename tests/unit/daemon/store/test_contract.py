"""What every trace store does, over all of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.model.events import Event, MessageAdded, Notice, SessionCreated, TurnStarted
from daemon.model.goals import Goal, GoalTree
from daemon.model.messages import Message, TextPart
from daemon.model.traces import Trace
from daemon.store.base import TraceStore, UnknownTrace
from daemon.store.files import FileTraceStore
from daemon.store.memory import MemoryTraceStore

NOW = datetime(2025, 1, 1, tzinfo=UTC)


def trace(trace_id: str = "20250101-000000-aaaaaa", **fields: object) -> Trace:
    values = {"trace_id": trace_id, "workspace": "/w", "created_at": NOW, "updated_at": NOW, **fields}
    return Trace.model_validate(values)


def started(trace_id: str = "20250101-000000-aaaaaa", prompt: str = "p") -> Event:
    return TurnStarted(trace_id=trace_id, time=NOW, prompt_id=prompt)


def message(sequence: int, text: str = "hello", trace_id: str = "20250101-000000-aaaaaa") -> Message:
    return Message(
        message_id=f"msg_{sequence:06d}_{sequence * 7919 % 65536:08x}",
        trace_id=trace_id,
        role="user",
        sequence=sequence,
        content=(TextPart(text=text),),
        created_at=NOW + timedelta(seconds=sequence),
    )


@pytest.fixture(params=["files", "memory"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], TraceStore]]:
    stores: list[TraceStore] = []

    def make() -> TraceStore:
        folder = tmp_path / f"store{len(stores)}"
        stores.append(FileTraceStore(folder) if request.param == "files" else MemoryTraceStore())
        return stores[-1]

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def store(make_store: Callable[[], TraceStore]) -> TraceStore:
    store = make_store()
    store.create(trace())
    return store


ID = "20250101-000000-aaaaaa"


def test_a_new_trace_is_empty_and_is_read_as_it_was_made(store: TraceStore) -> None:
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
        store.append(started(prompt=f"p{number}"))
    assert [event.event_id for event in store.events(ID, after=3)] == [4, 5]
    assert list(store.events(ID, after=5)) == []
    assert list(store.events(ID, after=99)) == []
    assert len(store.events(ID, after=0)) == 5


def test_the_events_of_two_traces_do_not_mix(store: TraceStore) -> None:
    store.create(trace("20250101-000001-bbbbbb"))
    store.append(started())
    assert store.append(started("20250101-000001-bbbbbb")).event_id == 1
    assert len(store.events(ID)) == 1


def test_ids_go_on_after_the_log_was_closed(store: TraceStore) -> None:
    store.append(started())
    store.close(ID)
    assert store.append(started()).event_id == 2
    store.close()
    assert store.append(started()).event_id == 3


def test_the_newest_messages_come_oldest_first(store: TraceStore) -> None:
    for number in (1, 2, 3, 4):
        store.save_message(message(number))
    assert [m.sequence for m in store.messages(ID)] == [1, 2, 3, 4]
    assert [m.sequence for m in store.messages(ID, limit=2)] == [3, 4]
    assert [m.sequence for m in store.messages(ID, limit=2, before=3)] == [1, 2]
    assert [m.sequence for m in store.messages(ID, before=2)] == [1]
    assert store.messages(ID, limit=0) == []
    assert store.messages(ID, before=1) == []
    assert [m.sequence for m in store.messages(ID, limit=99)] == [1, 2, 3, 4]


def test_a_message_saved_twice_is_there_once(store: TraceStore) -> None:
    store.save_message(message(1, "old"))
    store.save_message(message(1, "new"))
    assert [m.text() for m in store.messages(ID)] == ["new"]


def test_a_snapshot_replaces_metadata_and_goals(store: TraceStore) -> None:
    changed = trace(title="shop", last_event_id=7, running=True)
    tree = GoalTree(mission="m", current_id="1", goals=[Goal(id="1", description="a", status="in_progress")])
    store.save_snapshot(changed, tree)
    assert store.trace(ID) == changed
    assert store.goal_tree(ID) == tree


def test_traces_are_listed_newest_first_in_pages(make_store: Callable[[], TraceStore]) -> None:
    store = make_store()
    assert store.traces(limit=5) == []
    for second in (3, 1, 2):
        store.create(trace(f"20250101-00000{second}-aaaaaa"))
    ids = [t.trace_id for t in store.traces(limit=2)]
    assert ids == ["20250101-000003-aaaaaa", "20250101-000002-aaaaaa"]
    assert [t.trace_id for t in store.traces(limit=2, before=ids[-1])] == ["20250101-000001-aaaaaa"]
    assert store.traces(limit=2, before="20250101-000001-aaaaaa") == []


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
def test_an_id_that_is_none_is_unknown(store: TraceStore, trace_id: str) -> None:
    for read in (store.trace, store.goal_tree, store.messages, store.events, store.last_event_id):
        with pytest.raises(UnknownTrace):
            read(trace_id)
    with pytest.raises(UnknownTrace):
        store.append(started(trace_id))
    with pytest.raises(UnknownTrace):
        store.save_message(message(1, trace_id=trace_id))


@pytest.mark.parametrize("text", ["\ud83d\ude00", "half \ud83d", "\ude00\ud83d", "\udcff"], ids=ascii)
def test_half_a_character_from_a_model_is_stored_and_read(store: TraceStore, text: str) -> None:
    # Servers cut streams inside of a surrogate pair; json.loads then makes lone surrogates of the halves.
    appended = store.append(MessageAdded(trace_id=ID, time=NOW, message=message(1, text)))
    store.save_message(message(1, text))
    store.save_snapshot(trace(title=text), GoalTree(mission=text))
    assert store.events(ID)[0].event_id == appended.event_id
    (read,) = store.messages(ID)
    assert len(read.text()) <= len(text)
    assert store.trace(ID).trace_id == ID
    assert store.goal_tree(ID).goals == []


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=50), max_size=8), st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_any_text_survives(texts: list[str], after: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        store = FileTraceStore(Path(folder) / "t")
        store.create(trace())
        for number, text in enumerate(texts, 1):
            store.append(started(prompt=text))
            store.save_message(message(number, text))
        store.close()
        again = FileTraceStore(Path(folder) / "t")
        kept = [event.prompt_id for event in again.events(ID, after=after) if isinstance(event, TurnStarted)]
        assert kept == texts[after:]
        assert [m.text() for m in again.messages(ID)] == texts
        assert again.last_event_id(ID) == len(texts)


def test_sessions_begun_in_a_row_are_listed_in_that_order(make_store: Callable[[], TraceStore]) -> None:
    store = make_store()
    for number in itertools.islice(itertools.count(), 3):
        store.create(trace(f"20250101-000000-{number:06d}"))
    assert [t.trace_id[-1] for t in store.traces(limit=9)] == ["2", "1", "0"]
