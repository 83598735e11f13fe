"""Traces stay at hand when the folder in the workspace can no longer be written, and when it can be again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon.store.archive import export_trace
from daemon.store.archive_import import ArchiveError, import_trace
from daemon.store.files import FileTraceStore
from daemon.store.location import open_store, stored
from tests.support.drivers.command_line import WITHOUT_PRIVILEGES
from tests.support.scenarios.stored_traces import ID, NOW, write_children, write_trace
from tests.support.scenarios.stores import started

LATER = "20260101-000001-000000bbbb"
Forbid = Callable[[bool], None]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


@pytest.fixture
def forbid(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Forbid:
    """Whether ``.trace`` is on a file system that is only to be read; root may write whatever modes say."""
    may, now = os.access, {"forbidden": False}

    def access(path: str | Path, mode: int) -> bool:
        writes = bool(mode & os.W_OK) and Path(path) == workspace / ".trace"
        return not (now["forbidden"] and writes) and may(path, mode)

    monkeypatch.setattr(os, "access", access)

    def switch(forbidden: bool) -> None:
        now["forbidden"] = forbidden

    return switch


def test_sessions_stay_at_hand_wherever_they_were_begun(
    tmp_path: Path, workspace: Path, forbid: Forbid
) -> None:
    home = tmp_path / "home"
    first, notice = open_store(workspace, home)
    write_trace(first, ID)
    write_children(first, ID)
    assert not notice
    forbid(True)
    second, notice = open_store(workspace, home)
    assert "is stored in" in notice
    write_trace(second, LATER)
    assert second.folder(LATER).is_relative_to(home)
    forbid(False)
    third, notice = open_store(workspace, home)
    assert not notice
    third.append(started(trace_id=LATER))  # goes on where it is
    third.close()
    assert not (workspace / ".trace" / LATER).exists()
    for forbidden in (False, True):
        forbid(forbidden)
        for store in (stored(workspace, home), open_store(workspace, home)[0]):
            assert store.trace_ids() == [LATER, ID]
            assert [one.trace_id for one in store.traces(limit=9)] == [LATER, ID]
            assert len(store.messages(ID)) == len(store.messages(LATER)) == 4
            assert store.children(ID) == [f"{ID}:A"]
            assert store.children(f"{ID}:A") == [f"{ID}:A.s1"]
            assert len(store.messages(f"{ID}:A.s1")) == 2
    third.delete(LATER)
    assert stored(workspace, home).trace_ids() == [ID]


def test_a_link_in_the_workspaces_place_is_not_followed(tmp_path: Path, workspace: Path) -> None:
    write_trace(FileTraceStore(tmp_path / "other"))
    (workspace / ".trace").symlink_to(tmp_path / "other")
    home = tmp_path / "home"
    store, notice = open_store(workspace, home)
    assert "it is a symbolic link" in notice
    assert store.trace_ids() == stored(workspace, home).trace_ids() == []
    assert store.folder(ID).is_relative_to(home)


def test_one_that_is_kept_elsewhere_is_not_imported_beside(
    tmp_path: Path, workspace: Path, forbid: Forbid
) -> None:
    home = tmp_path / "home"
    write_trace(open_store(workspace, home)[0], ID)
    export_trace(stored(workspace, home), ID, tmp_path / "a.tar.gz")
    forbid(True)
    with pytest.raises(ArchiveError, match="already"):
        import_trace(open_store(workspace, home)[0], tmp_path / "a.tar.gz", NOW)


def test_traces_that_may_not_be_entered_are_stored_elsewhere(tmp_path: Path, workspace: Path) -> None:
    (workspace / ".trace").mkdir(mode=0)
    program = (
        "import sys; from pathlib import Path; from daemon.store.location import open_store, stored\n"
        "from tests.support.scenarios.stored_traces import write_trace\n"
        "places = [Path(name) for name in sys.argv[1:]]\n"
        "store, notice = open_store(*places)\n"
        "write_trace(store)\n"
        "print(notice, stored(*places).trace_ids())"
    )
    command = [*WITHOUT_PRIVILEGES, sys.executable, "-c", program, str(workspace), str(tmp_path / "home")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Permission denied" in done.stdout, done.stderr
    assert f"is stored in {tmp_path / 'home'}" in done.stdout
    assert f"['{ID}']" in done.stdout
