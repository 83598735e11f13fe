"""The folders of copies, which only the user can enter, outside the workspace, and their removal.

``<folder>/<key of the workspace>/<session id>/<name of the repository's folder>/``. Beside the copy is ``.copy``: its
own files, and the register (``record.json``; ``ready`` when the copy is complete). A lock that the kernel releases
distinguishes copies in use from those that a crash left.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
import secrets
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from daemon import lock
from daemon.copies.working_copy import CopyError, Keep, OrphanedCopy
from daemon.workspace_key import workspace_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

log = logging.getLogger(__name__)

_ROUNDS = 20
_TICKS = 20
"""Milliseconds: that clock ticks every 1 to 10 on Linux; where it takes longer, that race stays."""
TRIES = 5
"""At so many starts what a crash left is tried to be stored; then it is removed."""
MOST_AGE_S = 30 * 24 * 3600.0
"""Older, it is tried once."""
_DYING_S = 3.0
"""For so long, processes of a killed daemon may hold its locks: some had just been started, some are being killed."""
_PAUSE_S = 0.01


class CopyFolder(Struct, frozen=True):
    """The folder of one session's copy, and that of what belongs to it."""

    folder: Path
    free: Callable[[], None]

    @property
    def ours(self) -> Path:
        """Beside the copy."""
        return self.folder / ".copy"

    def root(self, name: str) -> Path:
        """Return the copy's top folder."""
        return self.folder / (name if name != ".copy" else ".copy_")

    def write_record(self, record: dict[str, Any]) -> None:
        """Any: it is JSON. Raises OSError."""
        (self.ours / "record.json").write_text(json.dumps(record), encoding="ascii")

    def set_ready(self) -> None:
        """The copy is complete; its record is written. Raises OSError.

        Returns when the clock of files is past the times of the copy's files. Else a change at once after, of the same
        size and with its old time put back, would look like the file that was copied.
        """
        ready = self.ours / "ready"
        written_ns = (self.ours / "record.json").stat().st_ctime_ns
        for _ in range(_TICKS):
            ready.touch()
            if ready.stat().st_ctime_ns > written_ns:
                return
            time.sleep(0.001)


class CopyFolders:
    """The places of one workspace."""

    def __init__(self, folder: Path, workspace: Path) -> None:
        key = workspace_key(workspace)
        self.folder = Path(os.path.realpath(folder)) / key

    def new(self, session_id: str) -> CopyFolder:
        """Create a folder for a session. Raises CopyError when it has one, and OSError."""
        final = self.folder / _safe(session_id)
        made = self.scratch()
        try:
            if os.path.lexists(final):
                if (left := self._take(final)) is None:
                    raise CopyError(f"A copy for {session_id} already exists; close it first.")
                self.discard(left)
            (made.ours / "private").mkdir(mode=0o700)
            # Create it under another name: ext4 places files by it, and avoids blocks that were just freed.
            made.folder.rename(final)
        except BaseException:
            self.discard(made)
            raise
        return CopyFolder(final, made.free)

    def scratch(self) -> CopyFolder:
        """Create a folder that nothing removes until it is discarded. Raises CopyError and OSError."""
        self._prepare()
        made = self.folder / f".new-{secrets.token_hex(8)}"
        made.mkdir(mode=0o700)
        (made / ".copy").mkdir(mode=0o700)
        free = lock.take(made / ".copy" / "lock")
        if free is None:
            raise CopyError("A new folder is locked by another process; try again.")
        return CopyFolder(made, free)

    def discard(self, place: CopyFolder) -> None:
        """Release a folder and remove it as far as possible, then the folders around it if they are empty. Never
        raises."""
        try:
            with contextlib.suppress(OSError):
                # It is still locked; from now on no daemon takes it for work to be stored.
                (place.ours / "ready").unlink()
            place.free()
            remove(place.folder, self.folder)
        except OSError as error:
            log.warning("%s was not removed completely: %s", place.folder, error)
        self._tidy()

    def _tidy(self) -> None:
        for path in (self.folder, self.folder.parent):
            try:
                path.rmdir()
            except OSError:
                return

    def recover(self, read: Callable[[CopyFolder], OrphanedCopy], keep: Keep) -> None:
        """Remove unused folders; a complete copy only after its work is read and stored. Never raises."""
        for place in self._left_behind():
            if self._kept(place, read, keep):
                self.discard(place)
            else:
                place.free()
        self._tidy()

    def _kept(self, place: CopyFolder, read: Callable[[CopyFolder], OrphanedCopy], keep: Keep) -> bool:
        """Return whether it may go now: it is stored, or has been tried often enough."""
        tries = place.ours / "tries"
        try:
            # Count first: if reading it kills the daemon, that must not repeat at each start forever.
            with tries.open("ab") as file:
                file.write(b".")
            count = tries.stat().st_size
            age_s = time.time() - (place.ours / "ready").stat().st_mtime
        except OSError as error:
            log.warning("the disk does not take anything now, so %s stays: %s", place.folder, error)
            return False
        if count > TRIES:
            log.error(
                "what was done in %s could not be stored in %d tries: it is removed", place.folder, TRIES
            )
            return True
        try:
            keep(read(place))
            return True
        except Exception as error:  # one branch's record must not prevent the recovery of others
            last = age_s > MOST_AGE_S or count == TRIES
            log.warning(
                "what a branch did before the crash cannot be stored (%s); its copy %s %s (try %d of %d)",
                error,
                place.folder,
                "is removed" if last else "stays for the next start",
                count,
                TRIES,
            )
            return last

    def _left_behind(self) -> Iterator[CopyFolder]:
        """Yield complete copies that are unused, and lock them. All other unused folders are removed."""
        deadline = time.monotonic() + _DYING_S
        try:
            with os.scandir(self.folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            return
        for entry in found:
            path = self.folder / entry.name
            if not entry.is_dir(follow_symlinks=False):
                continue
            while (place := self._take(path)) is None and time.monotonic() < deadline:
                time.sleep(_PAUSE_S)
            if place is None:
                continue
            if (place.ours / "ready").exists():
                yield place
            else:
                self.discard(place)

    def _take(self, path: Path) -> CopyFolder | None:
        """Lock a folder; None when it is in use."""
        file = path / ".copy" / "lock"
        try:
            # Without this folder the daemon died before it stored anything.
            free = lock.take(file) if file.parent.is_dir() else lambda: None
        except OSError:
            return None
        return None if free is None else CopyFolder(path, free)

    def _prepare(self) -> None:
        for path in (self.folder.parent, self.folder):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = path.lstat()
            mine = not hasattr(os, "getuid") or found.st_uid == os.getuid()
            if not stat.S_ISDIR(found.st_mode) or not mine:
                raise CopyError(f"{path} is not a folder of yours; move it away.")
            if found.st_mode & 0o077 and os.name == "posix":
                path.chmod(0o700)
        _spread(self.folder)


def remove(folder: Path, below: Path) -> None:
    """Remove a folder with everything in it, never following a link.

    Does nothing unless it is directly in ``below``. Removes as much as possible, also read-only folders; the rest stays
    for the next time.
    """
    if folder.parent != below or folder.is_symlink():
        return
    (folder / ".copy" / "ready").unlink(missing_ok=True)
    try:
        device = folder.lstat().st_dev
    except OSError:
        return
    for _ in range(_ROUNDS):
        # A program that is being killed may still create a file.
        if _removed(os.fsencode(folder), device):
            return


def _removed(folder: bytes, device: int) -> bool:
    try:
        os.rmdir(folder)  # noqa: PTH106  # bytes
        return True
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EACCES, errno.EPERM):
            return False
    try:
        if os.lstat(folder).st_dev != device:
            return False  # something is mounted there: not ours
        entries = _listed(folder)
    except OSError:
        return False
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                _removed(entry.path, device)
            else:
                _unlink(entry.path, folder)
        except OSError:
            continue
    try:
        os.rmdir(folder)  # noqa: PTH106  # bytes
    except OSError:
        return False
    return True


def _listed(folder: bytes) -> list[os.DirEntry[bytes]]:
    if os.lstat(folder).st_mode & 0o700 != 0o700:
        os.chmod(folder, 0o700)  # noqa: PTH101  # bytes
    with os.scandir(folder) as entries:
        return list(entries)


def _unlink(path: bytes, folder: bytes) -> None:
    try:
        os.unlink(path)  # noqa: PTH108  # bytes
    except PermissionError:
        os.chmod(path if os.name == "nt" else folder, 0o700)  # noqa: PTH101  # bytes
        os.unlink(path)  # noqa: PTH108  # bytes


def _safe(session_id: str) -> str:
    name = re.sub(
        r"[^A-Za-z0-9._-]", lambda match: f"%{ord(match[0]):x}" if match[0] != ":" else "+", session_id
    )
    if not name or name.startswith("."):
        name = f"%{name}"
    return name[:200]


def _spread(folder: Path) -> None:
    """Ask ext4 to put each copy into another part of the disk.

    Otherwise a copy that is made after a removal takes ten times as long: its files compete for blocks that were just
    freed, which ext4 does not reuse for some minutes but checks each time. Like ``chattr +T``; no effect elsewhere.
    """
    try:
        import fcntl
        import struct

        descriptor = os.open(folder, os.O_RDONLY)
        try:
            (flags,) = struct.unpack("l", fcntl.ioctl(descriptor, 0x80086601, struct.pack("l", 0)))
            if not flags & 0x20000:
                fcntl.ioctl(descriptor, 0x40086602, struct.pack("l", flags | 0x20000))
        finally:
            os.close(descriptor)
    except (ImportError, OSError):
        return
