"""One trace as one archive: complete, the same each time, without secrets, and the way back."""

from __future__ import annotations

import io
import json
import os
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daemon.files.blobs import Blobs
from daemon.files.versions import VersionFile
from daemon.model.traces import FORMAT
from daemon.store.archive import MANIFEST, export_trace
from daemon.store.archive_import import import_trace
from daemon.store.files import FileTraceStore
from daemon.store.replay import read_state
from daemon.store.trace_store import StoreError, UnknownTraceError
from tests.support.scenarios.stored_traces import ID, all_files, keep_version, write_children, write_trace
from tools.files.regular_files import sha256

TOKEN = "ghp_" + "a1B2c3D4e5" * 4
NOW = datetime(2026, 2, 1, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> FileTraceStore:
    store = FileTraceStore(tmp_path / "from" / ".trace")
    (tmp_path / "from").mkdir()
    write_trace(store)
    write_children(store)
    folder = store.folder(ID)
    keep_version(folder, b"\xff\x00binary")
    (folder / "output").mkdir()
    (folder / "output" / "bash-call_1.txt").write_text("a long output\n")
    return store


@pytest.fixture
def elsewhere(tmp_path: Path) -> FileTraceStore:
    (tmp_path / "to").mkdir()
    return FileTraceStore(tmp_path / "to" / ".trace")


def members(archive: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with tarfile.open(archive) as opened:
        for member in opened:
            file = opened.extractfile(member)
            assert file is not None, member.name
            found[member.name] = file.read()
    return found


def test_archive_contains_the_whole_trace_and_nothing_else(store: FileTraceStore, tmp_path: Path) -> None:
    folder = store.folder(ID)
    (folder / "tree.txt").write_text("a dump")
    (folder / "messages" / ".msg_1.json.x1").write_text("half written")
    done = export_trace(store, ID, tmp_path / "a.tar.gz")
    found = members(tmp_path / "a.tar.gz")
    assert next(iter(found)) == MANIFEST
    assert json.loads(found.pop(MANIFEST)) == {
        "kind": "goalwright-trace",
        "format": 1,
        "trace_id": ID,
        "trace_format": FORMAT,
        "title": "a title",
    }
    stored = all_files(folder)
    assert found == {name: stored[name.removeprefix("trace/")] for name in found}
    assert "trace/tree.txt" not in found
    assert "trace/messages/.msg_1.json.x1" not in found
    for name in ("events.jsonl", "branches/A/events.jsonl", "branches/A/agents/s1/events.jsonl"):
        assert f"trace/{name}" in found
    for name in ("meta.json", "goal.json", "files/versions.jsonl", "output/bash-call_1.txt"):
        assert f"trace/{name}" in found
    assert sum(name.startswith("trace/messages/") for name in found) == 4
    assert any(name.startswith("trace/files/blobs/") for name in found)
    assert done.files == len(found)
    assert (tmp_path / "a.tar.gz").stat().st_mode & 0o777 == 0o600


def test_the_same_trace_makes_the_same_bytes(store: FileTraceStore, tmp_path: Path) -> None:
    export_trace(store, ID, tmp_path / "a.tar.gz")
    for path in store.folder(ID).rglob("*"):
        os.utime(path, (1, 1))
    export_trace(FileTraceStore(store.root), ID, tmp_path / "b.tar.gz")
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()


def test_imported_session_equals_the_exported_one(
    store: FileTraceStore, elsewhere: FileTraceStore, tmp_path: Path
) -> None:
    export_trace(store, ID, tmp_path / "a.tar.gz")
    done = import_trace(elsewhere, tmp_path / "a.tar.gz", NOW)
    assert (done.trace_id, done.title, done.left_out, done.dropped) == (ID, "a title", (), ())
    assert not any(session.failed for session in done.sessions)
    before, after = all_files(store.folder(ID)), all_files(elsewhere.folder(ID))
    assert json.loads(after.pop("imported.json")) == {"time": NOW.isoformat(), "archive": "a.tar.gz"}
    for name in ("meta.json", "goal.json", "events.jsonl", "files/versions.jsonl", "output/bash-call_1.txt"):
        assert after[name] == before[name]
    for session_id in (ID, f"{ID}:A", f"{ID}:A.s1"):
        assert elsewhere.messages(session_id) == store.messages(session_id)
        assert elsewhere.events(session_id) == store.events(session_id)
        assert elsewhere.trace(session_id) == store.trace(session_id)
    assert read_state(elsewhere, ID).carrying() == read_state(store, ID).carrying()
    assert [path.name for path in elsewhere.root.iterdir() if path.is_dir()] == [ID]
    export_trace(elsewhere, ID, tmp_path / "b.tar.gz")
    assert members(tmp_path / "b.tar.gz") == members(tmp_path / "a.tar.gz")


def test_exported_trace_is_equal_after_import_and_export(
    store: FileTraceStore, elsewhere: FileTraceStore, tmp_path: Path
) -> None:
    state = read_state(store, ID)
    state.calibration = 1.2345678901234567
    store.save_snapshot(state.carrying(), state.plan.snapshot())
    export_trace(store, ID, tmp_path / "a.tar.gz")
    import_trace(elsewhere, tmp_path / "a.tar.gz", NOW)
    export_trace(elsewhere, ID, tmp_path / "b.tar.gz")
    assert members(tmp_path / "b.tar.gz") == members(tmp_path / "a.tar.gz")
    assert store.trace(ID).carried.calibration == 1.2345678901234567


@pytest.mark.parametrize("meta", [b"{", b"[" * 10**5, b"[]", b'{"carried": 7}'])
def test_damaged_branch_metadata_is_exported_unchanged(
    store: FileTraceStore, tmp_path: Path, meta: bytes
) -> None:
    (store.folder(f"{ID}:A") / "meta.json").write_bytes(meta)
    export_trace(store, ID, tmp_path / "a.tar.gz")
    assert members(tmp_path / "a.tar.gz")["trace/branches/A/meta.json"] == meta


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_log_that_is_a_link_or_pipe_is_not_exported(store: FileTraceStore, tmp_path: Path, kind: str) -> None:
    log = store.folder(ID) / "events.jsonl"
    log.rename(tmp_path / "log")
    log.symlink_to(tmp_path / "log") if kind == "link" else os.mkfifo(log)
    with pytest.raises(
        StoreError, match="is a link or not a regular file, and was not written by Goalwright here"
    ):
        export_trace(store, ID, tmp_path / "a.tar.gz")
    assert not (tmp_path / "a.tar.gz").exists()


def test_export_redacts_secrets_and_rehashes_versions(
    store: FileTraceStore, elsewhere: FileTraceStore, tmp_path: Path
) -> None:
    folder = store.folder(ID)
    content = f"TOKEN = '{TOKEN}'\n".encode()
    keep_version(folder, content, "secret.py")
    (folder / "output" / "bash-call_2.txt").write_text(f"echo {TOKEN}\n")
    line = (folder / "events.jsonl").read_text().replace("answer 1", f"answer {TOKEN}")
    (folder / "events.jsonl").write_text(line)
    message = folder / "messages" / "msg_000004_00000004.json"
    message.write_text(message.read_text().replace("answer 1", f"answer {TOKEN}"))
    done = export_trace(store, ID, tmp_path / "a.tar.gz")
    found = members(tmp_path / "a.tar.gz")
    assert not [name for name, data in found.items() if TOKEN.encode() in data]
    assert b"[redacted" in found["trace/events.jsonl"]
    assert b"[redacted" in found["trace/output/bash-call_2.txt"]
    assert done.redacted == 1
    assert sha256(content).encode() not in found["trace/files/versions.jsonl"]
    import_trace(elsewhere, tmp_path / "a.tar.gz", NOW)
    kept = elsewhere.folder(ID) / "files"
    hashes = [line["after"] for line in VersionFile(kept / "versions.jsonl").read() if "path" in line]
    contents = [Blobs(kept / "blobs").get(digest) for digest in hashes]
    assert contents[0] == b"\xff\x00binary"
    assert contents[1].startswith(b"TOKEN = '[redacted")


def test_links_are_not_followed(store: FileTraceStore, tmp_path: Path) -> None:
    (tmp_path / "private.json").write_text('{"not": "yours"}')
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "bash-x.txt").write_text("not yours")
    folder = store.folder(ID)
    (folder / "messages" / "msg_000009_00000009.json").symlink_to(tmp_path / "private.json")
    (folder / "branches" / "B").symlink_to(tmp_path / "private")
    (folder / "output" / "bash-call_9.txt").symlink_to(tmp_path / "private" / "bash-x.txt")
    done = export_trace(store, ID, tmp_path / "a.tar.gz")
    assert done.left_out == ("messages/msg_000009_00000009.json", "output/bash-call_9.txt")
    assert b"not yours" not in b"".join(members(tmp_path / "a.tar.gz").values())


def test_partially_written_event_is_left_out(
    store: FileTraceStore, elsewhere: FileTraceStore, tmp_path: Path
) -> None:
    log = store.folder(ID) / "events.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"event": "turn_')
    export_trace(store, ID, tmp_path / "a.tar.gz")
    assert members(tmp_path / "a.tar.gz")["trace/events.jsonl"] == whole
    assert log.read_bytes() != whole


def test_existing_file_is_replaced_only_with_force(store: FileTraceStore, tmp_path: Path) -> None:
    target = tmp_path / "a.tar.gz"
    target.write_text("mine")
    with pytest.raises(StoreError, match="--force"):
        export_trace(store, ID, target)
    assert target.read_text() == "mine"
    export_trace(store, ID, target, replace=True)
    assert tarfile.is_tarfile(target)
    with pytest.raises(StoreError, match="is a folder"):
        export_trace(store, ID, tmp_path, replace=True)


def test_failed_export_gives_a_reason(store: FileTraceStore, tmp_path: Path) -> None:
    with pytest.raises(UnknownTraceError):
        export_trace(store, "nothing", tmp_path / "a.tar.gz")
    with pytest.raises(
        StoreError, match=r"is a branch or sub-agent\. Export the session it belongs to; that includes it"
    ):
        export_trace(store, f"{ID}:A", tmp_path / "a.tar.gz")
    with pytest.raises(StoreError, match="Nothing was exported"):
        export_trace(store, ID, tmp_path / "no" / "such" / "folder.tar.gz")
    assert not list(tmp_path.glob("*.tar.gz*"))


def test_repacked_archive_can_be_imported(
    store: FileTraceStore, elsewhere: FileTraceStore, tmp_path: Path
) -> None:
    export_trace(store, ID, tmp_path / "a.tar.gz")
    with tarfile.open(tmp_path / "b.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as again:
        for name, data in sorted(members(tmp_path / "a.tar.gz").items(), reverse=True):
            member = tarfile.TarInfo(f"./{name}")
            member.size, member.mtime = len(data), 1_700_000_000.123  # which takes an extended header
            again.addfile(member, io.BytesIO(data))
    done = import_trace(elsewhere, tmp_path / "b.tar.gz", NOW)
    assert (done.trace_id, done.left_out) == (ID, ())
    assert elsewhere.messages(ID) == store.messages(ID)
