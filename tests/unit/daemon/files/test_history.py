"""Versions of the files that a session changes."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daemon.files.history import SessionHistory
from daemon.files.seen import SessionFiles
from tools.base import FileChange, ToolError

NOW = datetime(2025, 1, 1, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "files"


@pytest.fixture
def history(folder: Path) -> SessionHistory:
    return SessionHistory(folder, lambda: NOW)


A = Path("/w/a.py")


async def test_both_sides_of_a_change_are_kept(history: SessionHistory) -> None:
    assert await history.keep([FileChange(A, b"old", b"new")], "call_1") == ["v1"]
    (version,) = history.versions()
    assert version == {
        "version": "v1",
        "path": str(A),
        "before": hashlib.sha256(b"old").hexdigest(),
        "after": hashlib.sha256(b"new").hexdigest(),
        "tool_call_id": "call_1",
        "time": NOW.isoformat(),
    }
    assert history.content(version["before"] or "") == b"old"
    assert history.content(version["after"] or "") == b"new"


async def test_a_new_and_a_deleted_file_have_one_side(history: SessionHistory) -> None:
    await history.keep([FileChange(A, None, b"x")], "c")
    await history.keep([FileChange(A, b"x", None)], "c")
    assert [(v["before"] is None, v["after"] is None) for v in history.versions()] == [
        (True, False),
        (False, True),
    ]


async def test_equal_contents_are_stored_once(history: SessionHistory, folder: Path) -> None:
    for number in range(5):
        await history.keep([FileChange(Path(f"/w/{number}"), b"same", b"other")], "c")
    assert len([p for p in (folder / "blobs").rglob("*") if p.is_file()]) == 2


async def test_numbers_go_on_after_a_restart(history: SessionHistory, folder: Path) -> None:
    await history.keep([FileChange(A, b"1", b"2")], "c")
    again = SessionHistory(folder, lambda: NOW)
    assert await again.keep([FileChange(A, b"2", b"3")], "c") == ["v2"]
    assert [v["version"] for v in again.versions()] == ["v1", "v2"]


async def test_a_torn_line_of_a_crash_costs_only_itself(history: SessionHistory, folder: Path) -> None:
    await history.keep([FileChange(A, b"1", b"2")], "c")
    log = folder / "versions.jsonl"
    log.write_bytes(log.read_bytes() + b'{"version": "v2", "pa')
    again = SessionHistory(folder, lambda: NOW)
    (version,) = await again.keep([FileChange(A, b"2", b"3")], "c")
    assert version not in ("v1",)
    assert [v["version"] for v in again.versions()] == ["v1", version]
    assert [v["version"] for v in SessionHistory(folder, lambda: NOW).versions()] == ["v1", version]


async def test_without_versions_there_is_nothing_to_list(history: SessionHistory) -> None:
    assert history.versions() == []


async def test_a_version_that_cannot_be_kept_stops_the_change(tmp_path: Path) -> None:
    (tmp_path / "files").write_text("a file where the folder should be")
    history = SessionHistory(tmp_path / "files", lambda: NOW)
    with pytest.raises(ToolError, match="Nothing was changed"):
        await history.keep([FileChange(A, b"1", b"2")], "c")


async def test_a_content_is_written_again_when_a_crash_left_it_short(
    history: SessionHistory, folder: Path
) -> None:
    sha256 = hashlib.sha256(b"whole").hexdigest()
    path = folder / "blobs" / sha256[:2] / sha256
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    await history.keep([FileChange(A, b"whole", b"x")], "c")
    assert history.content(sha256) == b"whole"


def test_what_the_model_saw_is_remembered_in_place() -> None:
    seen: dict[str, str] = {}
    read: list[Path] = []
    files = SessionFiles(seen, {A: "typed"}.get, read.append)
    assert files.last_read(A) is None
    files.note_read(A, "hash")
    assert files.last_read(A) == "hash"
    assert seen == {str(A): "hash"}
    assert read == [A]
    assert files.unsaved(A) == "typed"
    assert files.unsaved(Path("/w/b.py")) is None
