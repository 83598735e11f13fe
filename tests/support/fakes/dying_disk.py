"""The system calls of ``tools.writing.disk``, counted, and the world ending (or one failing) at a chosen one."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tools.tool import FileChange
from tools.writing import disk

CHANGING = frozenset(
    ["open", "write", "chmod", "chown", "link", "rename", "replace", "unlink", "mkdir", "makedirs", "rmdir"]
)
"""Between two of these, what is on disk stays the same, wherever the process is killed."""
CALLS = CHANGING | {"read", "lseek", "fsync", "close", "stat", "fstat", "listdir", "listxattr"}


class Killed(BaseException):
    """kill -9: nothing of the process runs after it."""


@dataclass
class DyingOs:
    """Stands for the module ``os``. Counts calls from 1 and stops at number ``at``.

    ``how``: ``kill`` before the call; ``torn``: a write is half done, then killed; ``fail``: the call raises ``error``,
    later ones work again; ``broken``: it and all later ones that change something raise.
    """

    at: int = 0
    how: Literal["kill", "torn", "fail", "broken"] = "kill"
    counted: frozenset[str] = CALLS
    error: int = errno.ENOSPC
    power_cut: bool = False
    """Whether unflushed data is lost too, so that files end up empty."""
    count: int = 0
    dead: bool = False
    names: list[str] = field(default_factory=list[str])
    _open: set[int] = field(default_factory=set[int])
    _unflushed: dict[int, int] = field(default_factory=dict[int, int])

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in CALLS:
            return real

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.dead:
                raise Killed
            if name in self.counted and (name != "open" or self.counted is CALLS or args[1] & os.O_CREAT):
                self.count += 1
                self.names.append(name)
                if self.count == self.at or (
                    self.how == "broken" and 0 < self.at < self.count and name in CHANGING
                ):
                    self._stop(name, args)
            result = real(*args, **kwargs)
            self._note(name, args, result)
            return result

        return call

    def _stop(self, name: str, args: tuple[Any, ...]) -> None:
        if self.how in ("fail", "broken"):
            raise OSError(self.error, os.strerror(self.error))
        if self.how == "torn" and name == "write":
            os.write(args[0], bytes(args[1])[: len(args[1]) // 2])
        self.die()
        raise Killed

    def die(self) -> None:
        """Do what the kernel does with a killed process: its handles are closed, and its locks go with them."""
        self.dead = True
        for descriptor in self._open:
            if self.power_cut and descriptor in self._unflushed:
                os.ftruncate(descriptor, self._unflushed[descriptor])
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._open.clear()

    def _note(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        if name == "open":
            self._open.add(result)
        elif name == "close":
            self._open.discard(args[0])
            self._unflushed.pop(args[0], None)
        elif name == "write":
            self._unflushed.setdefault(args[0], os.fstat(args[0]).st_size - result)
        elif name == "fsync":
            self._unflushed.pop(args[0], None)


@contextlib.contextmanager
def dying(system: DyingOs) -> Generator[DyingOs]:
    """``tools.writing.disk`` runs on ``system``; Killed ends the block."""
    real = disk.os
    disk.os = system  # type: ignore[assignment]  # a module's place is taken
    try:
        with contextlib.suppress(Killed):
            yield system
    finally:
        system.die()
        disk.os = real


@contextlib.contextmanager
def quick_folder(otherwise: Path) -> Generator[Path]:
    """A folder in memory where there is one: thousands of files are going to be made, flushed and removed."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield otherwise.resolve()
        return
    folder = Path(tempfile.mkdtemp(prefix="goalwright-test-", dir=memory))
    try:
        yield folder.resolve()
    finally:
        shutil.rmtree(folder)


Tree = dict[str, tuple[str, int] | None]


def tree(root: Path) -> Tree:
    """Everything below ``root``: hash and permission bits of files, None for folders."""
    found: Tree = {}
    for path in root.rglob("*"):
        found[path.relative_to(root).as_posix()] = (
            None
            if path.is_dir()
            else (hashlib.sha256(path.read_bytes()).hexdigest(), stat.S_IMODE(path.stat().st_mode))
        )
    return found


def old_tree(root: Path, size: int) -> list[FileChange]:
    """Files for a plan of ``size`` changes of every kind, and the plan. The tree is the same each time."""
    plan: list[FileChange] = []
    folders = max(1, size // 10)
    for number in range(folders):
        (root / f"part{number}").mkdir(parents=True)
    number = 0
    while len(plan) < size:
        kind = number % 7
        path = root / f"part{number % folders}" / f"file{number}.py"
        old, new = f"old {number}\n".encode() * 9, f"new {number}\n".encode() * 7
        number += 1
        if kind == 1:
            fresh = path.with_name("new") / f"deep{number % 3}" / path.name
            plan.append(FileChange(fresh, None, new, mode=0o755 if number % 2 else None))
            continue
        path.write_bytes(old)
        path.chmod(0o755 if number % 3 == 0 else 0o640)
        if kind == 2:
            plan.append(FileChange(path, old, None))
        elif kind == 3:
            plan.append(FileChange(path, old, old, mode=0o700))
        elif kind == 4:
            plan.append(FileChange(path, old, new, mode=0o600))
        elif kind == 5 and len(plan) + 2 <= size:
            target = root / "moved" / path.name
            plan += [FileChange(target, None, new, moved_from=path), FileChange(path, old, None)]
        else:
            plan.append(FileChange(path, old, new))
    (root / "untouched.txt").write_bytes(b"as it is\n")
    return plan


def turning(root: Path) -> list[FileChange]:
    """Files that become folders, and folders that become files, in an order in which they cannot be written."""
    (root / "deep/er").mkdir(parents=True)
    (root / "private").mkdir(mode=0o700)
    for name in ("plain", "deep/a", "deep/er/b", "private/c", "kept"):
        (root / name).write_bytes(name.encode())
    (root / "deep/a").chmod(0o755)
    return [
        FileChange(root / "deep", None, b"now a file"),
        FileChange(root / "plain/in/side", None, b"below", mode=0o755),
        FileChange(root / "deep/er/b", b"deep/er/b", None),
        FileChange(root / "plain/beside", None, b"beside"),
        FileChange(root / "plain", b"plain", None),
        FileChange(root / "private", None, b"too"),
        FileChange(root / "deep/a", b"deep/a", None),
        FileChange(root / "kept", b"kept", b"changed"),
        FileChange(root / "private/c", b"private/c", None),
    ]


def bits(path: Path) -> int:
    """The permission bits of a file."""
    return stat.S_IMODE(path.stat().st_mode)
