"""Versions of the files that a session changes."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from daemon.files.blobs import BlobError
from daemon.files.changes import changes_of
from daemon.files.history import SessionHistory
from daemon.files.versions import FileVersions, RestoreStep, Version
from daemon.loop.tool_context import SessionFiles
from tests.support.fakes.tool_context import FakeFiles
from tools.tool import FileChange, ToolError

NOW = datetime(2025, 1, 1, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "files"


@pytest.fixture
def history(folder: Path) -> SessionHistory:
    return SessionHistory(folder, lambda: NOW)


A = Path("/w/a.py")
B = Path("/w/b.py")


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "versions.jsonl").read_text().splitlines()]


def reopened(folder: Path) -> SessionHistory:
    return SessionHistory(folder, lambda: NOW)


def names(history: SessionHistory) -> list[str | None]:
    return [version.version for version in history.record().versions()]


async def test_both_sides_of_a_change_are_kept_before_it_is_written(
    history: SessionHistory, folder: Path
) -> None:
    assert await history.keep([FileChange(A, b"old", b"new")], "call_1") == ["v1"]
    assert names(history) == []
    (line,) = lines(folder)
    assert line == {
        "version": "v1",
        "path": str(A),
        "before": hashlib.sha256(b"old").hexdigest(),
        "after": hashlib.sha256(b"new").hexdigest(),
        "tool_call_id": "call_1",
        "time": NOW.isoformat(),
        "added": 1,
        "removed": 1,
    }
    assert history.blobs.get(line["before"]) == b"old"
    assert history.blobs.get(line["after"]) == b"new"


async def test_written_versions_are_announced_once(folder: Path) -> None:
    told: list[Version] = []
    history = SessionHistory(folder, lambda: NOW, on_written=told.extend)
    versions = await history.keep([FileChange(A, b"1\n", b"2\n"), FileChange(B, None, b"x\ny\n")], "c")
    assert told == []
    history.written(versions)
    history.written(versions)
    assert [(v.version, v.path, v.kind, v.added, v.removed) for v in told] == [
        ("v1", A, "update", 1, 1),
        ("v2", B, "create", 2, 0),
    ]
    assert names(reopened(folder)) == ["v1", "v2"]


async def test_created_and_deleted_files_have_one_version_only(history: SessionHistory, folder: Path) -> None:
    await history.keep([FileChange(A, None, b"x")], "c")
    await history.keep([FileChange(A, b"x", None)], "c")
    assert [(v["before"] is None, v["after"] is None) for v in lines(folder)] == [
        (True, False),
        (False, True),
    ]


async def test_many_changes_are_one_append(history: SessionHistory, folder: Path) -> None:
    changes = [FileChange(Path(f"/w/{number}"), None, b"%d" % number) for number in range(50)]
    assert await history.keep(changes, "c") == [f"v{number}" for number in range(1, 51)]
    assert len(lines(folder)) == 50


async def test_equal_contents_are_stored_once(history: SessionHistory, folder: Path) -> None:
    for number in range(5):
        await history.keep([FileChange(Path(f"/w/{number}"), b"same", b"other")], "c")
    assert len([p for p in (folder / "blobs").rglob("*") if p.is_file()]) == 2


async def test_version_numbers_continue_after_a_restart(history: SessionHistory, folder: Path) -> None:
    history.written(await history.keep([FileChange(A, b"1", b"2")], "c"))
    again = reopened(folder)
    again.written(await again.keep([FileChange(A, b"2", b"3")], "c"))
    assert names(again) == names(reopened(folder)) == ["v1", "v2"]


async def test_torn_version_line_costs_only_itself(history: SessionHistory, folder: Path) -> None:
    history.written(await history.keep([FileChange(A, b"1", b"2")], "c"))
    log = folder / "versions.jsonl"
    log.write_bytes(log.read_bytes() + b'{"version": "v2", "pa')
    again = reopened(folder)
    (version,) = await again.keep([FileChange(A, b"2", b"3")], "c")
    again.written([version])
    assert version != "v1"
    assert names(again) == names(reopened(folder)) == ["v1", version]


@pytest.mark.parametrize(
    "line",
    [
        *(
            "[]",
            "{}",
            "7",
            '{"version": 1, "path": "/w"}',
            '{"step": "s1"}',
            '{"written": "v1"}',
            '{"void": [1]}',
        ),
        '{"step": "s1", "action": "undo", "changes": [], "files": ["/w/a.py"], "time": "now"}',
    ],
)
async def test_invalid_lines_are_skipped(folder: Path, line: str) -> None:
    folder.mkdir()
    (folder / "versions.jsonl").write_text(line + "\n")
    history = reopened(folder)
    history.written(await history.keep([FileChange(A, b"1", b"2")], "c"))
    assert names(reopened(folder)) == ["v1"]


async def test_all_that_was_stored_is_read_again(folder: Path) -> None:
    (folder / "versions.jsonl").parent.mkdir()
    old, new = "a" * 64, "b" * 64
    about = {"tool_call_id": "c", "time": "2025", "added": 1, "removed": 2}
    stored: list[dict[str, Any]] = [
        {
            "version": "v1",
            "path": "/w/\udcff.py",
            "before": old,
            "after": new,
            "mode": [0o644, 0o755],
            **about,
        },
        {"version": "v2", "path": "/w/d/e/b", "before": None, "after": new, "mode": [None, 0o600], **about}
        | {"folders": ["/w/d", "/w/d/e"], "moved_from": "/w/b", "ahead_of": "v1"},
        {"version": None, "path": "/w/c", "kind": "delete", **about},
        {"step": "s1", "action": "redo", "changes": ["c"], "time": "2025"}
        | {"files": [{"path": "/w/a", "before": old, "after": None, "mode": [0o777, "x"]}]},
        {"settled": ["v1"], "after": {"/w/\udcff.py": old}},
        {"written": ["v1", "v2"]},
        {"done": ["s1"]},
    ]
    (folder / "versions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in stored))
    record = reopened(folder).record()
    v1 = FileVersions(Path("/w/\udcff.py"), old, old, 0o644, 0o755)
    moved = (Path("/w/b"), (Path("/w/d"), Path("/w/d/e")))
    v2 = FileVersions(Path("/w/d/e/b"), None, new, None, 0o600, *moved)
    assert record.versions() == [
        Version("v2", "c", "2025", v2.path, "create", v2, 1, 2, "v1"),
        Version("v1", "c", "2025", v1.path, "update", v1, 1, 2),
        Version(None, "c", "2025", Path("/w/c"), "delete", None, 1, 2),
    ]
    file = FileVersions(Path("/w/a"), old, None, 0o777)
    assert record.steps() == [RestoreStep("s1", "redo", ("c",), (file,), "2025")]


async def test_empty_history_has_no_items(history: SessionHistory) -> None:
    assert history.record().items == []


async def test_unstorable_version_prevents_the_change(tmp_path: Path) -> None:
    (tmp_path / "files").write_text("a file where the folder should be")
    history = SessionHistory(tmp_path / "files", lambda: NOW)
    with pytest.raises(ToolError, match="Nothing was changed"):
        await history.keep([FileChange(A, b"1", b"2")], "c")


@pytest.mark.parametrize("older", [False, True])
async def test_content_truncated_by_a_crash_is_rewritten(
    history: SessionHistory, folder: Path, older: bool
) -> None:
    sha256 = hashlib.sha256(b"whole").hexdigest()
    path = folder / "blobs" / (sha256[:2] if older else "") / sha256
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    await history.keep([FileChange(A, b"whole", b"x")], "c")
    assert history.blobs.get(sha256) == path.read_bytes() == b"whole"


@pytest.mark.parametrize("damage", [b"", b"other", None])
async def test_damaged_content_is_never_returned(
    history: SessionHistory, folder: Path, damage: bytes | None
) -> None:
    await history.keep([FileChange(A, b"whole", b"x")], "c")
    sha256 = hashlib.sha256(b"whole").hexdigest()
    path = folder / "blobs" / sha256
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    with pytest.raises(BlobError):
        history.blobs.get(sha256)
    with pytest.raises(BlobError):
        history.blobs.get("../../../etc/passwd")


@pytest.mark.parametrize(("on_disk", "written"), [(b"1", False), (b"2", True), (b"person", True)])
async def test_crash_between_keep_and_write_is_resolved_by_content(
    folder: Path, tmp_path: Path, on_disk: bytes, written: bool
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"1")
    await SessionHistory(folder, lambda: NOW).keep([FileChange(path, b"1", b"2")], "c")
    path.write_bytes(on_disk)
    assert names(reopened(folder)) == (["v1"] if written else [])
    path.write_bytes(b"1")  # it is decided once
    assert names(reopened(folder)) == (["v1"] if written else [])


@pytest.mark.parametrize(("on_disk", "done"), [(b"2", False), (b"1", True), (b"person", True)])
async def test_after_a_crash_in_an_undo_the_content_decides(
    folder: Path, tmp_path: Path, on_disk: bytes, done: bool
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"2")
    history = SessionHistory(folder, lambda: NOW)
    history.written(await history.keep([FileChange(path, b"1", b"2")], "c"))
    history.keep_step("undo", ["c"], [FileChange(path, b"2", b"1")])
    path.write_bytes(on_disk)
    (change,) = changes_of(reopened(folder).record())
    assert change.undone == done


async def test_an_undo_that_was_not_written_does_not_count(folder: Path) -> None:
    history = SessionHistory(folder, lambda: NOW)
    history.written(await history.keep([FileChange(A, b"1", b"2")], "c"))
    history.step_failed(history.keep_step("undo", ["c"], [FileChange(A, b"2", b"1")]))
    for found in (history, reopened(folder)):
        (change,) = changes_of(found.record())
        assert not change.undone


async def test_a_change_that_was_not_written_does_not_count(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"by the user")
    history = SessionHistory(folder, lambda: NOW)
    history.failed(await history.keep([FileChange(path, b"1", b"2")], "c"))
    assert names(reopened(folder)) == []


async def test_repeated_failed_write_counts_once(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"2")
    history = SessionHistory(folder, lambda: NOW)
    await history.keep([FileChange(path, b"1", b"2")], "c")
    history.written(await history.keep([FileChange(path, b"1", b"2")], "d"))
    assert names(reopened(folder)) == ["v2"]


def test_session_files_record_what_the_model_has_read() -> None:
    seen: dict[str, str] = {}
    read: list[Path] = []
    files = SessionFiles(seen, FakeFiles({A: "typed"}), read.append)
    assert files.last_read(A) is None
    files.note_read(A, "hash")
    assert files.last_read(A) == "hash"
    assert seen == {str(A): "hash"}
    assert read == [A]
    assert files.editors.unsaved(A) == "typed"
    assert files.editors.unsaved(Path("/w/b.py")) is None
