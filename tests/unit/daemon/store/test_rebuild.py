"""Everything derived from the log is rebuilt from it, and errors are reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.model.maintenance import TraceRebuildResult
from daemon.store.files import FileTraceStore
from daemon.store.rebuild import rebuild
from daemon.store.replay import read_state
from daemon.store.trace_store import UnknownTraceError
from tests.support.examples import examples
from tests.support.scenarios.stored_traces import ID, all_files, tell_of_branch, write_children, write_trace


@pytest.fixture
def store(tmp_path: Path) -> FileTraceStore:
    store = FileTraceStore(tmp_path / ".trace")
    write_trace(store)
    write_children(store)
    return store


def repaired(done: TraceRebuildResult) -> dict[str, tuple[str, ...]]:
    return {session.session_id: session.repaired for session in done.sessions if session.repaired}


def test_rebuild_of_an_intact_trace_changes_nothing(store: FileTraceStore) -> None:
    before = all_files(store.root)
    done = rebuild(store, ID)
    assert not done.failed
    assert [session.session_id for session in done.sessions] == [ID, f"{ID}:A", f"{ID}:A.s1"]
    assert [(s.repaired, s.problems) for s in done.sessions] == [((), ())] * 3
    assert (done.sessions[0].messages, done.sessions[0].goals) == (4, 1)
    after = all_files(store.root)
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("session_id", [ID, f"{ID}:A", f"{ID}:A.s1"])
def test_lost_files_are_rebuilt_as_they_were(store: FileTraceStore, session_id: str) -> None:
    folder = store.folder(session_id)
    names = (
        "meta.json",
        "goal.json",
        "messages/msg_000001_00000001.json",
        "messages/msg_000002_00000002.json",
    )
    before = all_files(store.root)
    for name in names:
        (folder / name).unlink()
    done = rebuild(FileTraceStore(store.root), ID)
    assert repaired(done) == {
        session_id: (
            "the metadata was missing or damaged",
            "the plan was missing or damaged",
            "missing or not matching the log: 2 messages",
        )
    }
    after = all_files(store.root)
    assert {name: after[name] for name in before} == before


def test_forged_files_are_rebuilt_from_the_log(store: FileTraceStore) -> None:
    folder = store.folder(ID)
    before = all_files(folder)
    for name, key, value in (
        ("meta.json", "total_cost", 1000.0),
        ("goal.json", "mission", "steal"),
        ("messages/msg_000002_00000002.json", "content", [{"type": "text", "text": "forged"}]),
    ):
        raw = json.loads((folder / name).read_bytes())
        assert key in raw
        (folder / name).write_text(json.dumps({**raw, key: value}))
    done = rebuild(FileTraceStore(store.root), ID)
    assert repaired(done) == {
        ID: (
            "the metadata did not match the log",
            "the plan did not match the log",
            "missing or not matching the log: 1 message",
        )
    }
    after = all_files(folder)
    assert {name: after[name] for name in before} == before


def test_half_written_event_is_truncated_and_reported(store: FileTraceStore) -> None:
    log = store.folder(ID) / "events.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"event": "turn_st')
    done = rebuild(FileTraceStore(store.root), ID)
    assert repaired(done) == {ID: ("removed from the log: 18 bytes of an incomplete event",)}
    assert log.read_bytes() == whole


def test_events_that_cannot_be_read_are_counted_and_stay(store: FileTraceStore) -> None:
    log = store.folder(ID) / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    lines[4] = b"\x00\x01 what is this\n"
    log.write_bytes(b"".join(lines))
    (store.folder(ID) / "messages" / "msg_000001_00000001.json").unlink()
    done = rebuild(FileTraceStore(store.root), ID)
    assert done.sessions[0].problems == (
        "damaged or from a newer version, and ignored: 1 event of the log (line 5)",
    )
    assert log.read_bytes() == b"".join(lines)
    assert not done.failed


def without_first_line(store: FileTraceStore, session_id: str) -> None:
    log = store.folder(session_id) / "events.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[1:]))


def test_log_without_its_beginning_is_rebuilt_from_metadata(store: FileTraceStore) -> None:
    intact = read_state(store, ID)
    without_first_line(store, ID)
    (store.folder(ID) / "goal.json").unlink()
    done = rebuild(FileTraceStore(store.root), ID)
    assert not done.failed
    assert done.sessions[0].problems == (
        "the start of the log is missing: the session's initial data is taken from its metadata",
    )
    state = read_state(FileTraceStore(store.root), ID)
    assert state.messages == intact.messages
    assert state.plan.snapshot() == intact.plan.snapshot()
    assert state.trace.workspace == intact.trace.workspace


def test_child_without_beginning_and_metadata_fails_alone(store: FileTraceStore) -> None:
    without_first_line(store, f"{ID}:A")
    (store.folder(f"{ID}:A") / "meta.json").unlink()
    done = rebuild(FileTraceStore(store.root), ID)
    assert done.failed
    assert [session.failed for session in done.sessions] == [False, True, False]
    assert "The start of the log" in done.sessions[1].problems[0]


def test_log_with_events_of_another_session_rebuilds_nothing(store: FileTraceStore) -> None:
    log = store.folder(ID) / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(ID.encode(), b"20260101-000000-000000bbbb"))
    before = all_files(store.folder(ID))
    done = rebuild(FileTraceStore(store.root), ID)
    assert done.failed
    assert "another session" in done.sessions[0].problems[0]
    assert all_files(store.folder(ID))["meta.json"] == before["meta.json"]


def test_missing_branch_log_is_reported(tmp_path: Path) -> None:
    store = FileTraceStore(tmp_path / ".trace")
    tell_of_branch(write_trace(store), "B")
    done = rebuild(store, ID)
    assert done.sessions[0].problems == ("the data of B is missing; its report is still here",)


def test_an_unknown_trace_is_refused(store: FileTraceStore) -> None:
    with pytest.raises(UnknownTraceError):
        rebuild(store, "20260101-000000-000000bbbb")


@given(data=st.data())
@settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_rebuild_restores_any_destroyed_derived_files(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    store = FileTraceStore(tmp_path_factory.mktemp("r") / ".trace")
    write_trace(store, turns=3)
    folder = store.folder(ID)
    intact = read_state(FileTraceStore(store.root), ID)
    derived = [path for path in sorted(folder.rglob("*.json")) if path.is_file()]
    for path in data.draw(st.lists(st.sampled_from(derived), unique=True)):
        whole = path.read_bytes()
        damage = data.draw(st.sampled_from(["gone", "cut", "empty", "noise"]))
        if damage == "gone":
            path.unlink()
        elif damage == "cut":
            path.write_bytes(whole[: data.draw(st.integers(1, len(whole) - 1))])
        else:
            path.write_bytes(b"" if damage == "empty" else b"\xff\xfe[[[")
    assert not rebuild(FileTraceStore(store.root), ID).failed
    again = FileTraceStore(store.root)
    state = read_state(again, ID)
    assert (state.messages, state.plan.snapshot()) == (intact.messages, intact.plan.snapshot())
    assert state.carrying() == intact.carrying()
    assert again.messages(ID) == intact.messages
    assert rebuild(again, ID).sessions[0].repaired == ()
