"""Writing files so that each is wholly old or wholly new, and several together all or none.

Used by ``tools/change.py`` only. Blocking: call it in a thread.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.base import FileChange


class Moved(Exception):
    """The file on disk is not the one the change was planned on."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path}: {what}")
        self.path = path
        self.what = what


@dataclass(slots=True)
class _Staged:
    change: FileChange
    temp: Path | None = None
    mode: int | None = None
    done: bool = False


@dataclass(slots=True)
class _Batch:
    staged: list[_Staged] = field(default_factory=list[_Staged])
    made_dirs: list[Path] = field(default_factory=list[Path])


def read_or_none(path: Path) -> bytes | None:
    """The bytes of a regular file, or None when nothing is there. Raises OSError otherwise."""
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(21, "Is a directory", str(path))
        if not stat.S_ISREG(kind):
            # Opening a pipe or a device could wait for ever.
            raise OSError(22, "not a regular file", str(path))
        return path.read_bytes()
    except FileNotFoundError:
        return None


def verify(changes: Sequence[FileChange]) -> None:
    """Compare the disk with each ``before``. Raises Moved if one differs, OSError if it is unreadable."""
    for change in changes:
        # A folder of the path may have been swapped for a symlink since the path was resolved.
        if Path(os.path.realpath(change.path)) != change.path:
            raise Moved(change.path, "leads somewhere else now")
        if read_or_none(change.path) != change.before:
            raise Moved(change.path, "changed")


def write_all(changes: Sequence[FileChange], replace: Callable[[Path, Path], None] = os.replace) -> None:
    """Write all changes or none of them.

    Every new content is staged beside its target and flushed to disk first; then the disk is compared with
    ``before`` once more and the targets are replaced. On an error all is put back and the error raised:
    OSError, or Moved. ``replace`` is a seam for tests of that.
    """
    batch = _Batch()
    try:
        for change in changes:
            batch.staged.append(_stage(change, batch))
        verify(changes)
        for item in batch.staged:
            if item.temp is not None:
                replace(item.temp, item.change.path)
            else:
                item.change.path.unlink()
            item.done = True
    except BaseException:
        _roll_back(batch)
        raise
    for folder in {change.path.parent for change in changes}:
        _sync_folder(folder)


def _stage(change: FileChange, batch: _Batch) -> _Staged:
    item = _Staged(change)
    if change.before is not None:
        item.mode = stat.S_IMODE(change.path.stat().st_mode)
        if not item.mode & 0o222:
            raise PermissionError(13, "the file is read-only")
    if change.after is None:
        return item
    _make_dirs(change.path.parent, batch)
    item.temp = _write_temp(change.path, change.after, item.mode)
    return item


def _make_dirs(folder: Path, batch: _Batch) -> None:
    missing: list[Path] = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    if not folder.is_dir():
        raise NotADirectoryError(20, "Not a directory", str(folder))
    for path in reversed(missing):
        path.mkdir()
        batch.made_dirs.append(path)


def _write_temp(path: Path, data: bytes, mode: int | None) -> Path:
    """A new file beside ``path``: same file system, so that the rename is atomic."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    # The name stays short enough for a target whose own name is as long as the file system permits.
    temp = path.with_name(f".{path.name[:80]}.{os.urandom(6).hex()}.goalwright-tmp")
    descriptor = os.open(temp, flags, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            temp.chmod(mode)
            _keep_owner(path, temp)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
    return temp


def _keep_owner(path: Path, temp: Path) -> None:
    if os.name == "nt":
        return
    old, new = path.stat(), temp.stat()
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        # Only root may give files away; for others the new owner is the price of the atomic rename.
        with contextlib.suppress(OSError):
            os.chown(temp, old.st_uid, old.st_gid)
            temp.chmod(stat.S_IMODE(old.st_mode))


def _roll_back(batch: _Batch) -> None:
    for item in reversed(batch.staged):
        with contextlib.suppress(OSError):
            if item.temp is not None and not item.done:
                item.temp.unlink(missing_ok=True)
        if not item.done:
            continue
        change = item.change
        # Best effort: the disk has just failed, and the first error is the one to report.
        with contextlib.suppress(OSError):
            if change.before is None:
                change.path.unlink(missing_ok=True)
            else:
                _write_temp(change.path, change.before, item.mode).replace(change.path)
    for folder in reversed(batch.made_dirs):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _sync_folder(folder: Path) -> None:
    """Make the renames durable. Not possible on Windows, and not on every file system."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
