"""A ``.trace`` that came with a repository: links, pipes, huge and forged files. Nothing of it is followed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest import mock

import pytest

from daemon.model.encoding import json_bytes
from daemon.store.files import FileTraceStore
from daemon.store.trace_store import StoreError, UnknownTraceError
from tests.support.scenarios.stores import ID, NOW, added, branch_trace, created, message, started, trace
from tools.files import regular_files


@pytest.fixture
def store(tmp_path: Path) -> FileTraceStore:
    store = FileTraceStore(tmp_path / ".trace")
    store.create(trace())
    store.append(created())
    store.append(added(message(1, "mine")))
    store.close()
    return FileTraceStore(tmp_path / ".trace")


@pytest.fixture
def folder(store: FileTraceStore) -> Path:
    return store.folder(ID)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Return a file outside the store, in the form that the store would accept."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "events.jsonl").write_bytes(
        json_bytes(started("secret").model_copy(update={"event_id": 9}).stored()) + b"\n"
    )
    (elsewhere / "meta.json").write_bytes(json_bytes(trace(title="secret").stored()))
    (elsewhere / "goal.json").write_bytes(b'{"mission":"secret","goals":[]}')
    (elsewhere / "message.json").write_bytes(json_bytes(message(2, "secret").stored()))
    return elsewhere


@pytest.mark.parametrize("name", ["events.jsonl", "meta.json", "goal.json"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "dangling", "loop"])
def test_link_or_pipe_in_place_of_a_file_is_not_opened(
    store: FileTraceStore, folder: Path, secret: Path, name: str, kind: str
) -> None:
    path = folder / name
    path.unlink()
    match kind:
        case "link":
            path.symlink_to(secret / name)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "dangling":
            path.symlink_to(secret / "nothing")
        case _:
            path.symlink_to(path)
    read = {"events.jsonl": store.events, "meta.json": store.trace, "goal.json": store.goal_tree}[name]
    with pytest.raises(StoreError):
        read(ID)
    for also in (store.messages, store.last_event_id, store.children, store.size):
        try:
            assert "secret" not in repr(also(ID))
        except StoreError:
            pass
    assert "secret" not in repr(store.traces(limit=5))
    if kind != "folder":
        with pytest.raises(StoreError, match="links"):
            store.refuse_links(ID)


def test_a_message_that_is_a_link_is_not_read(store: FileTraceStore, folder: Path, secret: Path) -> None:
    (folder / "messages" / "msg_000002_0.json").symlink_to(secret / "message.json")
    assert [m.text() for m in store.messages(ID)] == ["mine"]
    (folder / "events.jsonl").write_bytes(b"")
    assert store.messages(ID) == []


def test_linked_messages_folder_is_not_read(store: FileTraceStore, folder: Path, secret: Path) -> None:
    (folder / "messages" / "msg_000001_00001eef.json").unlink()
    (folder / "messages").rmdir()
    (folder / "messages").symlink_to(secret)
    assert [m.text() for m in store.messages(ID)] == ["mine"]


def test_linked_trace_folders_hold_no_traces(store: FileTraceStore, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(store.root)
    linked = FileTraceStore(tmp_path / "linked")
    assert linked.trace_ids() == []
    assert linked.traces(limit=5) == []
    with pytest.raises(UnknownTraceError):
        linked.events(ID)
    (store.root / "20260101-000009-aaaaaa").symlink_to(store.folder(ID))
    assert store.trace_ids() == [ID]
    with pytest.raises(UnknownTraceError):
        store.trace("20260101-000009-aaaaaa")


def test_invalid_folder_names_are_no_traces_or_children(store: FileTraceStore, folder: Path) -> None:
    for name in (".hidden", "a b", "ä", "x" * 150, "a:b"):
        (store.root / name).mkdir()
    for name in ("branches/a", "branches/s1", "agents/A", "agents/s1x", "branches/A.B", "agents/.s1"):
        (folder / name).mkdir(parents=True)
    (folder / "branches" / "C").write_text("")
    store.create(branch_trace(f"{ID}:B"))
    assert store.trace_ids() == [ID]
    assert store.children(ID) == [f"{ID}:B"]


def test_a_snapshot_that_is_too_large_is_damaged_and_not_read(store: FileTraceStore, folder: Path) -> None:
    with (folder / "meta.json").open("r+b") as file:
        file.truncate(regular_files.MAX_FILE + 1)  # a hole: takes no room
    with pytest.raises(StoreError, match=r"meta\.json"):
        store.trace(ID)
    assert [t.trace_id for t in store.traces(limit=5)] == [ID]


@pytest.mark.parametrize(
    "message_id", ["../../../../elsewhere/message", "/etc/passwd", "a/b", "", "x" * 300, "\0"]
)
def test_message_id_that_is_a_path_writes_nothing_outside(
    store: FileTraceStore, folder: Path, secret: Path, message_id: str
) -> None:
    forged = message(2, "forged").model_copy(update={"message_id": message_id})
    raw = added(forged).model_copy(update={"event_id": 3}).stored()
    with (folder / "events.jsonl").open("ab") as file:
        file.write(json_bytes(raw) + b"\n")
        raw["event_id"], raw["message"]["content"] = 4, "damaged"
        raw["message"]["message_id"] += "2"
        file.write(json_bytes(raw) + b"\n")
    before = sorted(secret.parent.rglob("*"))
    assert [m.text() for m in store.messages(ID, limit=1, before=2)] == ["mine"]
    assert [m.text() for m in store.messages(ID)] == ["mine", "forged"]
    store.append(added(forged))
    store.close()
    assert FileTraceStore(store.root).recover(ID) == 0
    assert store.restore_messages(ID, [forged]) == 0
    assert sorted(secret.parent.rglob("*")) == before


def test_events_with_non_increasing_ids_are_skipped_and_paged(store: FileTraceStore, folder: Path) -> None:
    with (folder / "events.jsonl").open("ab") as file:
        for number in (3, 3, 2, 7, 5, 8, 10**30, 9):
            file.write(json.dumps({**started(f"p{number}").stored(), "event_id": number}).encode() + b"\n")
    whole = [event.event_id for event in store.events(ID)]
    paged: list[int] = []
    while page := store.events(ID, after=paged[-1] if paged else 0, limit=1):
        paged += [event.event_id for event in page]
    assert paged == whole
    assert whole[:5] == [1, 2, 3, 7, 8]


def test_deeply_nested_json_costs_only_itself(store: FileTraceStore, folder: Path) -> None:
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b'{"event_id":3,"x":' + b"[" * 200_000 + b"\n")
        file.write(json_bytes(started("p").model_copy(update={"event_id": 4}).stored()) + b"\n")
    assert [event.event_id for event in store.events(ID)] == [1, 2, 4]
    assert store.last_event_id(ID) == 4
    (folder / "meta.json").write_bytes(b"[" * 200_000)
    (folder / "goal.json").write_bytes(b"[" * 200_000)
    for read in (store.trace, store.goal_tree):
        with pytest.raises(StoreError):
            read(ID)


def test_deletion_does_not_follow_links(store: FileTraceStore, folder: Path, secret: Path) -> None:
    (folder / "files").symlink_to(secret)
    (folder / "branches").mkdir()
    (folder / "branches" / "A").symlink_to(secret)
    kept = sorted(p.name for p in secret.iterdir())
    store.delete(ID)
    assert sorted(p.name for p in secret.iterdir()) == kept
    assert [entry.name for entry in store.root.iterdir()] == [".gitignore"]


def test_leftovers_of_a_killed_deletion_are_removed(store: FileTraceStore, folder: Path) -> None:
    left = store.root / ".deleted-0a0b0c0d"
    (left / "messages").mkdir(parents=True)
    (left / "events.jsonl").write_text("{}")
    assert store.trace_ids() == [ID]
    store.delete(ID)
    assert not left.exists()


def test_append_to_a_deleted_session_is_an_error(store: FileTraceStore, tmp_path: Path) -> None:
    store.append(started("open"))
    FileTraceStore(tmp_path / ".trace").delete(ID)
    with pytest.raises(StoreError, match="was deleted"):
        store.append(started("more"))


def test_unreadable_event_is_refused_and_the_log_continues(store: FileTraceStore) -> None:
    with (
        mock.patch("daemon.store.files.MAX_LINE", 10_000),
        pytest.raises(StoreError, match="cannot be stored"),
    ):
        store.append(started("x" * 20_000))
    assert store.append(started("y")).event_id == 3
    assert len(store.events(ID)) == 3
    assert store.trace(ID).created_at == NOW
