from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from daemon.files.git import Git


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="of POSIX")
@pytest.mark.parametrize("where", [".gitignore", "a/b/.gitignore", ".git/info/exclude"])
def test_git_is_not_waited_for_when_an_ignore_file_has_no_end(
    tmp_path: Path, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("x")
    caplog.set_level("INFO")
    git = Git.of(tmp_path)
    assert git is not None
    (tmp_path / where).unlink(missing_ok=True)
    os.mkfifo(tmp_path / where)
    assert git.ignored() == set()
    # Without a look at what it waits for, git has half a minute.
    assert "timed out after 0.5 seconds" in caplog.text
