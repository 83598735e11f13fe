"""The changes that a working copy reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.copies.plain_copies import PlainCopies
from daemon.copies.working_copy import WorkingCopies
from daemon.explore.copy_manager import copies_for
from tests.support.scenarios.branches import repository, state_of


@pytest.mark.parametrize("with_git", [True, False])
async def test_changes_and_patch_at_once(tmp_path: Path, with_git: bool) -> None:
    workspace = repository(tmp_path)
    before = state_of(workspace)
    folder = tmp_path / "copies"
    copies: WorkingCopies = (
        copies_for(workspace, folder, ()) if with_git else PlainCopies(workspace, folder, ())
    )
    copy = await copies.open("t:A", await copies.base())
    (copy.root / "src/a.py").write_text("a = 2\n")
    (copy.root / "new.txt").unlink()
    (copy.root / "more.bin").write_bytes(b"\0\1\2")
    changes, patch = await copy.outcome()
    assert [change.name for change in changes] == ["more.bin", "new.txt", "src/a.py"]
    assert all(change.name.encode() in patch for change in changes)
    await copy.close()
    assert state_of(workspace) == before
