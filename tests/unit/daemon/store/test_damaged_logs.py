"""One damaged byte costs one event at most, and never the user's later actions."""

from __future__ import annotations

import re
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.model.encoding import json_bytes
from daemon.model.events import TurnStarted
from daemon.model.messages import TextPart
from daemon.store import event_log
from daemon.store.event_log import MAX_ID
from daemon.store.files import FileTraceStore
from daemon.store.rebuild import rebuild
from daemon.store.replay import read_state, replayed
from daemon.store.trace_store import StoreError
from tests.support.examples import examples
from tests.support.scenarios import stores
from tests.support.scenarios.stored_traces import ID, all_files, write_trace


def started(prompt: str = "p") -> TurnStarted:
    return stores.started(prompt, ID)


@pytest.fixture
def store(tmp_path: Path) -> FileTraceStore:
    store = FileTraceStore(tmp_path / ".trace")
    write_trace(store, turns=6)
    return store


def log_of(store: FileTraceStore) -> Path:
    return store.folder(ID) / "events.jsonl"


def change_line(store: FileTraceStore, number: int, old: bytes, new: bytes) -> None:
    lines = log_of(store).read_bytes().split(b"\n")
    assert old in lines[number - 1]
    lines[number - 1] = lines[number - 1].replace(old, new, 1)
    log_of(store).write_bytes(b"\n".join(lines))


def message_line(store: FileTraceStore) -> tuple[int, str]:
    """Line number and id of a message in the middle."""
    lines = log_of(store).read_bytes().split(b"\n")
    found = [number for number, line in enumerate(lines, 1) if b'"event":"message_added"' in line][4]
    name = re.search(rb'"message_id":"([^"]+)"', lines[found - 1])
    assert name
    return found, name[1].decode()


@given(
    st.integers(1, 40),
    st.one_of(st.integers(0, 60), st.sampled_from([9007, MAX_ID, MAX_ID + 1, 10**40])),
    st.integers(0, 45),
    st.integers(1, 300),
)
@settings(max_examples=examples(100), deadline=None)
def test_wrong_event_id_hides_only_its_event_from_any_offset(
    tmp_path_factory: pytest.TempPathFactory, wrong: int, said: int, after: int, block: int
) -> None:
    store = FileTraceStore(tmp_path_factory.mktemp("d") / ".trace")
    ids = [said if number == wrong else number for number in range(1, 41)]
    store.prepare()
    (store.root / ID / "messages").mkdir(parents=True)
    lines = [f'{{"event_id":{i},"event":"turn_started","trace_id":"{ID}",' for i in ids]
    lines = [f'{line}"time":"2026-01-01T00:00:00Z","prompt_id":"p{n}"}}\n' for n, line in enumerate(lines, 1)]
    log_of(store).write_text("".join(lines))
    with mock.patch.object(event_log, "_BLOCK", block):
        found = [event.event_id for event in store.events(ID, after=after)]
        assert found == sorted(set(found))
        lost = {wrong, wrong + 1, wrong - 1} if abs(said - wrong) == 1 else {wrong}
        assert set(range(after + 1, 41)) - lost <= set(found)
        assert all(number <= 40 or wrong == 40 for number in found)
        paged = store.events(ID, after=after, limit=3)
        assert [event.event_id for event in paged] == found[:3]
        store.recover(ID)
        new = store.append(started("new"))
        assert new.event_id > max(found, default=0)
        assert store.events(ID, after=after)[-1:] == [new] or new.event_id <= after
        store.close()


def test_forged_log_still_accepts_and_returns_appended_events(store: FileTraceStore) -> None:
    with log_of(store).open("ab") as log:
        for number in (9000, 9001, 9002, 9003, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59):
            log.write(started("x").model_copy(update={"event_id": number}).model_dump_json().encode() + b"\n")
    again = FileTraceStore(store.root)
    again.recover(ID)
    new = again.append(started("mine"))
    for after in (0, 30, 60, 9000, 9003):
        assert again.events(ID, after=after)[-1] == new
    assert again.last_event_id(ID) == new.event_id


@pytest.mark.parametrize("forged", [[MAX_ID], [MAX_ID - 1, MAX_ID], [2**41] * 3])
def test_forged_last_id_does_not_affect_later_ids(store: FileTraceStore, forged: list[int]) -> None:
    before = store.last_event_id(ID)
    with log_of(store).open("ab") as log:
        for number in forged:
            log.write(started("x").model_copy(update={"event_id": number}).model_dump_json().encode() + b"\n")
    again = FileTraceStore(store.root)
    assert again.last_event_id(ID) == before
    again.recover(ID)
    new = again.append(started())
    assert new.event_id == before + 1
    assert again.events(ID)[-1] == new
    assert FileTraceStore(store.root).last_event_id(ID) == new.event_id


def test_the_numbers_for_events_are_exact_in_every_client(
    store: FileTraceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.store.files.MAX_ID", store.last_event_id(ID))
    with pytest.raises(StoreError, match="This session has reached its maximum number of events"):
        store.append(started())


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_damaged_byte_costs_one_message_in_every_reader(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    store = FileTraceStore(tmp_path_factory.mktemp("d") / ".trace")
    write_trace(store, turns=3)
    lines = log_of(store).read_bytes().splitlines(keepends=True)
    number = data.draw(
        st.sampled_from([n for n, line in enumerate(lines) if b'"event":"message_added"' in line])
    )
    line = bytearray(lines[number])
    # Digits stay out: another id or number is no damage that a reader could see.
    places = [at for at, byte in enumerate(line) if not chr(byte).isdigit()]
    line[data.draw(st.sampled_from(places))] = data.draw(st.sampled_from(b"\x00#"))
    lines[number] = bytes(line)
    log_of(store).write_bytes(b"".join(lines))
    left = [one.sequence for one in FileTraceStore(store.root).messages(ID)]
    assert len(left) >= 4  # a newline parts two events
    again = FileTraceStore(store.root)
    assert [one.sequence for one in read_state(again, ID).messages] == left
    assert rebuild(again, ID).sessions[0].messages == len(left)
    again.recover(ID)
    new = again.append(stores.added(stores.message(7, trace_id=ID)))
    again.close()
    assert [one.sequence for one in FileTraceStore(store.root).messages(ID, limit=100)] == [*left, 7]
    assert again.events(ID)[-1] == new


def test_message_damaged_in_the_log_is_dropped_and_its_file_kept(store: FileTraceStore) -> None:
    number, name = message_line(store)
    change_line(store, number, b'"created_at"', b'"created\x00at"')
    again = FileTraceStore(store.root)
    assert len(again.messages(ID)) == 11
    assert len(again.messages(ID, limit=11)) == len(FileTraceStore(store.root).messages(ID, limit=11)) == 11
    assert again.recover(ID) == 0
    state = read_state(again, ID)
    assert len(state.messages) == 11
    done = rebuild(again, ID)
    assert not done.failed
    assert f"line {number}" in done.sessions[0].problems[0]
    assert (store.folder(ID) / "aside" / "1" / f"{name}.json").is_file()


def test_rebuild_sets_aside_a_snapshot_newer_than_the_log(store: FileTraceStore) -> None:
    number, name = message_line(store)
    change_line(store, number + 1, b'"message_added"', b'"message_adde\x00"')
    lines = log_of(store).read_bytes().splitlines(keepends=True)
    log_of(store).write_bytes(b"".join((*lines[: number - 1], *lines[number:])))  # and a line is gone
    before = all_files(store.folder(ID))
    done = rebuild(FileTraceStore(store.root), ID).sessions[0]
    assert done.messages == 10
    assert any(
        "a copy of them is kept as aside/1/meta.json, aside/1/goal.json" in one for one in done.repaired
    )
    assert any(
        f"set aside because the log does not have 2 messages: aside/1/{name}.json" in one
        for one in done.repaired
    )
    after = all_files(store.folder(ID))
    for kept, once in (("meta.json", "meta.json"), (f"{name}.json", f"messages/{name}.json")):
        assert after[f"aside/1/{kept}"] == before[once]
    again = rebuild(FileTraceStore(store.root), ID).sessions[0]
    assert again.repaired == ()


def test_message_files_missing_from_the_log_are_ignored(store: FileTraceStore) -> None:
    forged = store.messages(ID)[-1].model_copy(
        update={"message_id": "msg_000099_abcdef", "sequence": 99, "content": (TextPart(text="forged"),)}
    )
    named = store.folder(ID) / "messages" / f"{forged.message_id}.json"
    named.write_bytes(json_bytes(forged.stored(), indent=1))
    whole = FileTraceStore(store.root)
    assert [m.sequence for m in whole.messages(ID)] == list(range(1, 13))
    assert whole.messages(ID, limit=1)[0].sequence == 12
    assert len(read_state(whole, ID).messages) == 12
    done = rebuild(whole, ID).sessions[0]
    assert done.repaired == (
        "set aside because the log does not have 1 message: aside/1/msg_000099_abcdef.json",
    )


def test_lost_log_end_removes_its_messages(store: FileTraceStore) -> None:
    lines = log_of(store).read_bytes().splitlines(keepends=True)
    log_of(store).write_bytes(b"".join(lines[:-6]))
    again = FileTraceStore(store.root)
    left = len(again.messages(ID))
    assert left < 12
    assert len(read_state(again, ID).messages) == left
    assert again.traces(limit=1)[0].message_count == left
    done = rebuild(again, ID).sessions[0]
    assert any("metadata and plan had more than the log" in one for one in done.repaired)
    assert len(list((store.folder(ID) / "messages").iterdir())) == left


def test_session_without_metadata_is_read_from_its_log(store: FileTraceStore) -> None:
    intact = read_state(store, ID)
    listed = store.traces(limit=1)
    (store.folder(ID) / "meta.json").unlink()
    again = FileTraceStore(store.root)
    (found,) = again.traces(limit=1)
    assert (found.trace_id, found.title, found.message_count, found.updated_at) == (
        ID,
        listed[0].title,
        12,
        listed[0].updated_at,
    )
    with pytest.raises(
        StoreError,
        match=r"meta\.json is missing\. Run `goalwright trace rebuild`",
    ):
        again.trace(ID)
    assert read_state(again, ID).messages == intact.messages


def test_metadata_with_another_id_is_refused_and_rebuilt(store: FileTraceStore) -> None:
    meta = store.folder(ID) / "meta.json"
    for forged in ("zzzz", "0", "../../../etc", "20260101-000000-000000bbbb"):
        meta.write_text(meta.read_text().replace(store.folder(ID).name, forged))
        again = FileTraceStore(store.root)
        assert [trace.trace_id for trace in again.traces(limit=5)] == [ID]
        with pytest.raises(StoreError):
            again.trace(ID)
        rebuild(again, ID)
        assert again.trace(ID).trace_id == ID


def test_trace_list_includes_events_after_the_snapshot(store: FileTraceStore) -> None:
    meta = (store.folder(ID) / "meta.json").read_bytes()
    log = log_of(store).read_bytes()
    written = write_trace(FileTraceStore(store.root.parent / "longer"), turns=8)
    longer = written.store.folder(ID)
    assert (longer / "events.jsonl").read_bytes().startswith(log)
    (longer / "meta.json").write_bytes(meta)
    (found,) = FileTraceStore(written.store.root).traces(limit=1)
    state = replayed(written.store, ID)
    for name in ("message_count", "last_event_id", "updated_at", "running", "last_stop_reason", "usage"):
        assert getattr(found, name) == getattr(state.trace, name)


def test_log_without_its_beginning_uses_the_metadata(store: FileTraceStore) -> None:
    intact = read_state(store, ID)
    change_line(store, 1, b'"event"', b'"ev\x00nt"')
    again = FileTraceStore(store.root)
    state = replayed(again, ID)
    assert state.messages == intact.messages
    assert state.carrying() == intact.carrying()
    (store.folder(ID) / "meta.json").unlink()
    with pytest.raises(StoreError, match="The start of the log"):
        replayed(FileTraceStore(store.root), ID)
