"""This version reads traces of older versions, and refuses traces of newer ones.

``formats/{n}`` holds a trace as a version with format n wrote it. They are never rewritten.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from daemon.model.events import SessionUpdated, TurnStarted
from daemon.model.goals import Goal, GoalTree
from daemon.model.traces import FORMAT
from daemon.store.files import FileTraceStore
from daemon.store.migrations import STEPS, Formats, Migration, Record
from daemon.store.replay import read_state, replayed
from daemon.store.trace_store import NewerFormatError, StoreError
from tests.support.scenarios.stores import ID, NOW, added, created, message, started, trace

KEPT = Path(__file__).with_name("formats")
OLD = sorted(folder for version in KEPT.iterdir() for folder in version.iterdir())


def old_store(tmp_path: Path, old: Path) -> FileTraceStore:
    shutil.copytree(old, tmp_path / ".trace" / old.name)
    return FileTraceStore(tmp_path / ".trace")


def test_every_older_format_has_a_migration_and_a_sample() -> None:
    assert sorted(STEPS) == list(range(1, FORMAT))
    assert {int(folder.name) for folder in KEPT.iterdir()} == set(range(1, max(FORMAT, 2)))


@pytest.mark.parametrize("old", OLD, ids=lambda old: f"format {old.parent.name}")
def test_old_format_trace_reads_the_same_from_files_and_log(tmp_path: Path, old: Path) -> None:
    store = old_store(tmp_path, old)
    at_rest = read_state(store, old.name)
    assert (at_rest.trace.title, at_rest.trace.format, len(at_rest.messages)) == ("do it", FORMAT, 11)
    assert [(g.description, g.status) for g in at_rest.plan.snapshot().goals] == [
        ("look", "completed"),
        ("change", "in_progress"),
    ]
    for path in (store.folder(old.name) / name for name in ("meta.json", "goal.json")):
        path.unlink()
    shutil.rmtree(store.folder(old.name) / "messages")
    from_log = replayed(store, old.name)
    assert from_log.messages == at_rest.messages
    assert from_log.plan.snapshot() == at_rest.plan.snapshot()
    assert store.append(started("more", old.name)).event_id == store.last_event_id(old.name) == 36


def renamed(old: str, new: str) -> Migration:
    """A step that calls a field of each kind of record otherwise."""

    def rename(record: Record) -> Record:
        return {new if name == old else name: value for name, value in record.items()}

    return Migration(trace=rename, goal_tree=rename, message=rename, event=rename)


LATER = Formats(3, {1: renamed("subject", "heading"), 2: renamed("heading", "title")})
"""As if the title had had other names in formats 1 and 2: those of the tests are renamed back before they are read."""


def age(path: Path, **names: str) -> None:
    """Rewrite records as an old version would have written them."""
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    raws = [json.loads(line) for line in lines]
    renamed = [{names.get(key, key): value for key, value in raw.items()} for raw in raws]
    path.write_text("".join(json.dumps(raw) + "\n" for raw in renamed))


def test_old_records_are_migrated_in_a_log_of_mixed_formats(tmp_path: Path) -> None:
    first = FileTraceStore(tmp_path)
    first.create(trace(title="old"))
    first.append(created())
    first.append(added(message(1)))
    first.save_snapshot(trace(title="old", last_event_id=2), GoalTree(mission="m"))
    first.close()
    age(first.folder(ID) / "meta.json", title="subject")
    second = FileTraceStore(tmp_path, Formats(2, {1: LATER.steps[1]}))
    second.append(SessionUpdated(trace_id=ID, time=NOW, updates={"title": "x"}))
    second.close()
    lines = (first.folder(ID) / "events.jsonl").read_bytes().splitlines()
    assert [json.loads(line).get("format") for line in lines] == [None, None, 2]

    third = FileTraceStore(tmp_path, LATER)
    assert (third.trace(ID).title, third.trace(ID).format) == ("old", 3)
    assert [t.title for t in third.traces(limit=5)] == ["x"]  # as the log goes on behind the snapshot
    assert third.goal_tree(ID).mission == "m"
    assert third.messages(ID) == [message(1)]
    assert [event.event_id for event in third.events(ID)] == [1, 2, 3]
    third.append(added(message(2)))
    third.append(started())
    third.save_snapshot(
        trace(title="new", last_event_id=5), GoalTree(goals=[Goal(id="1", description="format")])
    )
    folder = third.folder(ID)
    written = [json.loads((folder / name).read_bytes()) for name in ("meta.json", "goal.json")]
    written += [json.loads(path.read_bytes()) for path in (folder / "messages").glob("msg_000002*")]
    written.append(json.loads((folder / "events.jsonl").read_bytes().splitlines()[-1]))
    assert [record["format"] for record in written] == [3, 3, 3, 3]
    assert third.goal_tree(ID).goals[0].description == "format"
    assert [m.sequence for m in third.messages(ID)] == [1, 2]
    assert isinstance(third.events(ID, after=4)[0], TurnStarted)


def test_record_of_a_newer_format_is_refused_by_every_reader(tmp_path: Path) -> None:
    newer = FileTraceStore(tmp_path, LATER)
    newer.create(trace())
    this = FileTraceStore(tmp_path)
    for read in (this.trace, this.goal_tree, this.recover):
        with pytest.raises(NewerFormatError, match="Update Goalwright to open it"):
            read(ID)
    assert this.traces(limit=5) == []
    newer.append(started())
    newer.append(added(message(1)))
    for read in (this.events, this.messages):
        with pytest.raises(NewerFormatError):
            read(ID)


def test_torn_log_of_a_newer_format_is_not_truncated(tmp_path: Path) -> None:
    newer = FileTraceStore(tmp_path, LATER)
    newer.create(trace())
    log = newer.folder(ID) / "events.jsonl"
    log.write_bytes(b'{"event_id":1,"torn')
    with pytest.raises(NewerFormatError):
        FileTraceStore(tmp_path).recover(ID)
    assert log.read_bytes() == b'{"event_id":1,"torn'


@pytest.mark.parametrize("written", [0, -1, "1", None, True, 1.5, [1]])
def test_invalid_format_number_is_reported_as_damage(tmp_path: Path, written: object) -> None:
    store = FileTraceStore(tmp_path)
    store.create(trace())
    path = store.folder(ID) / "meta.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "format": written}))
    with pytest.raises(StoreError, match="damaged"):
        store.trace(ID)
