from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import filelock

from daemon import lock

HOLDER = """
import sys
from pathlib import Path
from daemon import lock
assert lock.take(Path(sys.argv[1])) is not None
print("held", flush=True)
sys.stdin.read()
"""


def test_nobody_else_has_it_until_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    free = lock.take(path)
    assert free is not None
    assert lock.take(path) is None
    free()
    again = lock.take(path)
    assert again is not None
    again()
    assert path.stat().st_mode & 0o777 == 0o600


def test_it_is_free_when_its_holder_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert lock.take(path) is None
        holder.kill()
        holder.wait()
        free = lock.take(path)
    assert free is not None
    free()


def test_a_child_does_not_keep_it(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    free = lock.take(path)
    assert free is not None
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False):
        free()
        again = lock.take(path)
    assert again is not None
    again()


def test_it_is_the_lock_of_filelock(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with filelock.FileLock(path):
        assert lock.take(path) is None
    free = lock.take(path)
    assert free is not None
    other = filelock.FileLock(path)
    try:
        other.acquire(timeout=0)
        raise AssertionError("both have it")
    except filelock.Timeout:
        pass
    free()
    other.acquire(timeout=0)
    other.release()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a.lock").symlink_to(tmp_path / "elsewhere")
    try:
        lock.take(tmp_path / "a.lock")
        raise AssertionError("it was followed")
    except OSError:
        assert not os.path.lexists(tmp_path / "elsewhere")
