from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from daemon.files.git import git_command, run
from tools.process.environment import git_environment

GIT = shutil.which("git") or "git"


def python(folder: Path, code: str, given: bytes = b"", timeout_s: float = 60.0) -> tuple[int, bytes, bytes]:
    argv = [sys.executable, "-c", code]
    return run(argv, cwd=folder, env=os.environ, given=given, timeout_s=timeout_s)


def test_output_errors_and_exit_code_are_returned_whole(tmp_path: Path) -> None:
    code = "import sys; d = sys.stdin.buffer.read(); sys.stdout.buffer.write(d); sys.stderr.write('no'); sys.exit(3)"
    given = b"x" * 300_000
    assert python(tmp_path, code, given) == (3, given, b"no")
    assert python(tmp_path, code) == (3, b"", b"no")


def test_program_that_is_missing_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nothing-like-it"):
        run(["/nothing-like-it"], cwd=tmp_path, env={}, timeout_s=1)


def test_program_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    begun: list[subprocess.Popen[bytes]] = []

    @contextlib.contextmanager
    def running(process: subprocess.Popen[bytes]) -> Generator[None]:
        begun.append(process)
        yield

    argv = [sys.executable, "-c", "import time; time.sleep(1000)"]
    with pytest.raises(subprocess.TimeoutExpired):
        run(argv, cwd=tmp_path, env={}, timeout_s=0.05, running=running)
    assert begun[0].returncode is not None


def test_program_can_be_killed_while_it_runs(tmp_path: Path) -> None:
    @contextlib.contextmanager
    def running(process: subprocess.Popen[bytes]) -> Generator[None]:
        process.kill()
        yield

    argv = [sys.executable, "-c", "import time; time.sleep(1000)"]
    code, _, _ = run(argv, cwd=tmp_path, env={}, timeout_s=60, running=running)
    assert code != 0


def test_programs_that_a_repository_names_are_not_run(tmp_path: Path) -> None:
    evil = f"touch {tmp_path}/PWNED; false"
    subprocess.run([GIT, "init", "-q", tmp_path], check=True)
    (tmp_path / "file").write_text("x")
    subprocess.run([GIT, "-C", tmp_path, "add", "file"], check=True)
    subprocess.run([GIT, "-C", tmp_path, "config", "core.fsmonitor", evil], check=True)
    hook = tmp_path / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{evil}\n")
    hook.chmod(0o755)
    for args in (("status", "--short"), ("update-index", "--refresh"), ("ls-files", "--modified")):
        command = git_command(GIT, *args)
        assert run(command, cwd=tmp_path, env=git_environment(), timeout_s=60)[0] == 0
    assert not (tmp_path / "PWNED").exists()
    subprocess.run([GIT, "-C", tmp_path, "status", "--short"], check=True, capture_output=True)
    assert (tmp_path / "PWNED").exists(), "the attack does not work any more: mend the test"


def test_settings_come_before_the_command() -> None:
    command = git_command("git", "add", b"\xff", settings=("a.b=1", "c.d=2"))
    assert command[-6:] == ["-c", "a.b=1", "-c", "c.d=2", "add", b"\xff"]
