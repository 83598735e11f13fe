"""A workspace for commands under Landlock, with things around it that they must not reach."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from tools.sandbox import landlock
from tools.sandbox.landlock import Fence, landlock_prefix

CANARY = "canary-5f1c"


_NOBODY = 65534


_PLAIN_PYTHON = Path("/usr/bin/python3")


def _another_user_can_run() -> bool:
    """Whether root can run all of this as another user: the code and a Python must be open to it."""
    if os.getuid() != 0 or not _PLAIN_PYTHON.exists():
        return False
    check = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    code = Path(landlock.__file__)
    command = [str(_PLAIN_PYTHON), "-I", "-S", "-c", f"open({str(code)!r}).close(); {check}"]
    return subprocess.run(command, user=_NOBODY, capture_output=True, check=False).returncode == 0


USERS = [os.getuid(), *([_NOBODY] if _another_user_can_run() else [])]


@dataclass(frozen=True, slots=True)
class Place:
    """A workspace as people have it, and things around it."""

    base: Path
    uid: int

    @property
    def work(self) -> Path:
        return self.base / "work"

    def fence(self, *, network: bool = False) -> Fence:
        git = self.work / ".git"
        kept = [git / name for name in ("hooks", "config", "config.worktree", "info", "modules", "commondir")]
        return Fence(
            writable=(self.work, self.base / "tmp"),
            read_only=(*kept, self.work / ".vscode", self.work / ".husky"),
            hidden=(self.work / ".env", self.work / "secrets", self.base / "state"),
            network=network,
            tmp=self.base / "tmp",
        )

    def prefix(self, fence: Fence | None = None) -> list[str]:
        plan = self.base / f"private/{uuid.uuid4().hex}"
        words = list(landlock_prefix(fence or self.fence(), plan))
        if self.uid != os.getuid():
            os.chown(plan, self.uid, self.uid)
            words[0] = str(_PLAIN_PYTHON)
        return words

    def run(self, *command: str, fence: Fence | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.prefix(fence), *command], cwd=self.work, env=self.environment, user=self.uid, group=self.uid,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def shell(self, line: str, fence: Fence | None = None) -> subprocess.CompletedProcess[str]:
        return self.run("/bin/sh", "-c", line, fence=fence)

    @property
    def python(self) -> str:
        return sys.executable if self.uid == os.getuid() else str(_PLAIN_PYTHON)

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.base / "home"), "LC_ALL": "C.UTF-8"}

    def attempts(
        self, table: dict[str, str], names: dict[str, object] | None = None, fence: Fence | None = None
    ) -> dict[str, str]:
        """Run each snippet in one process of the sandbox: ``done``, or the error's name."""
        names = {**(names or {}), "renameat2": _NUMBERS[0], "openat": _NUMBERS[1]}
        script = _HARNESS.replace("TABLE", repr(table)).replace("NAMES", repr(names))
        done = self.run(self.python, "-I", "-c", script, fence=fence)
        assert done.returncode == 0, done.stderr
        found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
        return found


_NUMBERS = (316, 257) if os.uname().machine == "x86_64" else (276, 56)


_HARNESS = """
import ctypes, errno, json, os, shutil, signal, socket, stat, subprocess, sys, tempfile, threading, time
libc = ctypes.CDLL(None, use_errno=True)
names = dict(NAMES)
def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result
def call(number, *arguments):
    return checked(libc.syscall(number, *arguments))
def write(path, text="x", mode="w"):
    with open(path, mode) as file:
        file.write(text)
def read(path):
    with open(path) as file:
        return file.read()
results = {}
for name, code in TABLE.items():
    try:
        exec(code, {**globals(), **names})
        results[name] = "done"
    except OSError as error:
        results[name] = errno.errorcode.get(error.errno, str(error))
    except Exception as error:
        results[name] = f"{type(error).__name__}: {error}"
print(json.dumps(results))
"""


@contextlib.contextmanager
def made_place(uid: int) -> Generator[Place]:
    base = Path(os.path.realpath(tempfile.mkdtemp(prefix="goalwright-landlock-test-")))
    base.chmod(0o755)
    made = Place(base, uid)
    for name in ("work", "private", "tmp", "state", "home", "outside"):
        (base / name).mkdir()
    work = made.work
    for name in (".vscode", "src", "secrets", "tests"):
        (work / name).mkdir()
    git(work, "init", "-q", "-b", "main")
    git(work, "config", "user.email", "a@example.org")
    git(work, "config", "user.name", "A")
    (work / ".git/hooks/present").write_text("before")
    for name in (".env", "secrets/key"):
        (work / name).write_text(CANARY)
    for name in (".vscode/tasks.json", "src/a.txt", "README", "../outside/file", "../home/.profile"):
        (work / name).write_text("before")
    (work / ".gitignore").write_text(".env\nsecrets\n")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "first")
    subprocess.run(
        ["chown", "-R", f"{made.uid}:{made.uid}", base], check=True
    ) if made.uid != os.getuid() else None
    yield made
    shutil.rmtree(base)


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True).stdout


def snapshot(place: Place) -> dict[str, tuple[str, int]]:
    """Content and mode of everything that must stay as it is."""
    roots = [place.base / "outside", place.base / "home", place.work / ".vscode", place.work / "secrets"]
    roots += [place.work / ".git/hooks", place.work / ".git/info"]
    files = [path for root in roots for path in root.rglob("*") if path.is_file()]
    files += [place.work / ".env", place.work / ".git/config", *roots]
    return {str(path): (path.read_text() if path.is_file() else "", path.stat().st_mode) for path in files}
