"""The calls to the operating system of which a write consists, and nothing else.

One module, so that tests can let the world end between any two of them. All are blocking.
"""
# ruff: noqa: PTH101, PTH102, PTH103, PTH104, PTH105, PTH106, PTH108, PTH116, PTH208
# The rules above are off because each line here is one system call, and should look like one.

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

MAX_READ = 100 * 1024 * 1024
"""Most bytes of a file that the model can have read."""
_ACL = "system.posix_acl_access"
_HAS_XATTRS = hasattr(os, "listxattr")
_CHMOD_TAKES_HANDLES = os.chmod in os.supports_fd
_WORTH_THREADS = 16
_FLUSHERS = 8


class Stamp(NamedTuple):
    """Tells whether a file is still the one that was looked at."""

    device: int
    inode: int
    size: int
    mtime_ns: int

    @staticmethod
    def of(found: os.stat_result) -> Stamp:
        """Return the stamp of a ``stat``."""
        return Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def read_stamped(path: Path, *, follow: bool = True) -> tuple[bytes, Stamp] | None:
    """Return the bytes and the stamp of a regular file; None when nothing is there. Raises OSError otherwise.

    ``follow``: a symlink at ``path`` is followed; else it is no regular file.
    """
    try:
        kind = os.stat(path, follow_symlinks=follow).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
        if not stat.S_ISREG(kind):
            # Opening a pipe or a device could wait forever.
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return _read(path, 0 if follow else getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None


def read_resolved(path: Path) -> bytes | None:
    """Return the bytes of a regular file whose path was resolved; None when it does not exist. Raises OSError
    otherwise.

    If a part of the path has become a link since, its target is not read.
    """
    for again in (True, True, False):
        found = read_stamped(path, follow=False)
        if found is None:
            return None
        now = look(path)
        same = now is not None and (now.st_dev, now.st_ino) == (found[1].device, found[1].inode)
        if same and leads_here(path):
            return found[0]
        if not again or not leads_here(path):
            break  # otherwise it was saved just now
    raise OSError(errno.ELOOP, "it leads somewhere else now", str(path))


def leads_here(path: Path) -> bool:
    """Return whether no part of an absolute path is a link."""
    return os.path.realpath(path) == str(path)


def digest(path: Path) -> str | None:
    """Return the hex sha256 of a regular file, None when it does not exist, empty if it is no regular file.

    A symlink is none: we never write through one. Raises OSError.
    """
    found = look(path)
    if found is None:
        return None
    if not stat.S_ISREG(found.st_mode):
        return ""
    return hashlib.sha256(_read(path, getattr(os, "O_NOFOLLOW", 0))[0]).hexdigest()


def look(path: Path) -> os.stat_result | None:
    """Return the stat of ``path`` itself, without following symlinks; None when it does not exist. Raises OSError."""
    try:
        return os.stat(path, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def same_file(one: Path, other: Path) -> bool:
    """Return whether both names exist and are one file. Raises OSError."""
    a, b = look(one), look(other)
    return a is not None and b is not None and (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)


def write_new(path: Path, data: bytes, mode: int | None, like: Path | None) -> None:
    """A new file, flushed to disk. Raises like ``begin_new``."""
    flush([begin_new(path, data, mode, like)])


def begin_new(path: Path, data: bytes, mode: int | None, like: Path | None) -> int:
    """Create a file; returns its descriptor, for ``flush``. Raises OSError; the caller removes the remains.

    ``mode``: its permission bits; None: those of ``like``, or the system's. ``like`` is a file whose owner and extended
    attributes (access lists among them) it gets as far as the system permits.
    """
    old = None if like is None else os.stat(like)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    # The replacement of a private file must never be readable by others.
    descriptor = os.open(path, flags, 0o666 if old is None else 0o600)
    try:
        keep_bits = 0o7777
        if old is not None and like is not None:
            if not _keep_owner(descriptor, old):
                keep_bits = 0o777  # set-user-id must not work for another owner
            _keep_attributes(descriptor, like)
        bits = mode if mode is not None else None if old is None else stat.S_IMODE(old.st_mode)
        if bits is not None:
            os.chmod(descriptor if _CHMOD_TAKES_HANDLES else path, bits & keep_bits)
        _write(descriptor, data)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def flush(descriptors: Sequence[int]) -> None:
    """Flush written files to disk, and close all of them. Raises OSError when one fails."""
    try:
        if len(descriptors) < _WORTH_THREADS:
            for descriptor in descriptors:
                os.fsync(descriptor)
        else:
            # The system flushes concurrent requests together.
            with ThreadPoolExecutor(_FLUSHERS, "flush") as pool:
                list(pool.map(os.fsync, descriptors))
    finally:
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def second_name(path: Path, other: Path) -> bool:
    """Give the file at ``path`` a second name. False: a copy, as the file system has no hard links. Raises OSError."""
    try:
        os.link(path, other, follow_symlinks=False)
    except FileExistsError:
        raise
    except (OSError, NotImplementedError):
        write_new(other, _read(path, getattr(os, "O_NOFOLLOW", 0))[0], None, path)
        return False
    return True


def move_new(source: Path, target: Path) -> None:
    """Rename, but raise FileExistsError instead of replacing an existing ``target``."""
    if os.name == "nt":
        os.rename(source, target)
        return
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        raise
    except (OSError, NotImplementedError):
        if look(target) is not None:
            raise FileExistsError(errno.EEXIST, "File exists", str(target)) from None
        os.rename(source, target)
    else:
        os.unlink(source)


def replace(source: Path, target: Path) -> None:
    """Rename over whatever file is at ``target``, in one step. Raises OSError."""
    os.replace(source, target)


def move(source: Path, target: Path) -> None:
    """Rename to a name that no other program can know. Raises OSError."""
    os.rename(source, target)


def remove(path: Path) -> None:
    """Remove a file or symlink; nothing when it is gone already. Raises OSError."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(path)


def make_folder(path: Path) -> None:
    """Nothing when it is there already. Raises OSError."""
    try:
        os.mkdir(path)
    except FileExistsError:
        if not stat.S_ISDIR(os.stat(path).st_mode):
            raise


def remove_folder(path: Path) -> bool:
    """Remove an empty folder; nothing when it is none (any more). False: it holds something. Raises OSError."""
    try:
        os.rmdir(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise
        return False
    return True


def make_again(path: Path, mode: int) -> None:
    """A folder that was removed; nothing where something is now, or nothing is above it. Raises OSError."""
    with contextlib.suppress(FileExistsError, FileNotFoundError, NotADirectoryError):
        os.mkdir(path)
        os.chmod(path, mode)


def is_folder(path: Path) -> bool:
    """Return whether a folder, and no link to one, is there. Raises OSError."""
    found = look(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def sync_folder(folder: Path) -> None:
    """Make renames durable. Not possible on Windows, and not on every file system."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def open_record(path: Path, *, create: bool) -> int:
    """Return a private file to be appended to: its descriptor. Raises OSError."""
    flags = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    return os.open(path, flags | (os.O_CREAT | os.O_EXCL if create else 0), 0o600)


def lock(descriptor: int) -> bool:
    """Lock a file until it is closed or its process dies. False when another has it. Raises OSError."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks
    return True


def append(descriptor: int, data: bytes, *, sync: bool) -> None:
    """Add to a record. Raises OSError."""
    _write(descriptor, data)
    if sync:
        os.fsync(descriptor)


def read_record(descriptor: int) -> bytes:
    """Return all of a record. Raises OSError."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    chunks: list[bytes] = []
    while chunk := os.read(descriptor, 1 << 20):
        chunks.append(chunk)
    return b"".join(chunks)


def close(descriptor: int) -> None:
    """Raises OSError."""
    os.close(descriptor)


def make_private_folder(path: Path) -> None:
    """Folder and parents, for this user only. Raises OSError."""
    os.makedirs(path.parent, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)


def names_in(folder: Path) -> list[str]:
    """Raises OSError."""
    return os.listdir(folder)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _read(path: Path, flags: int) -> tuple[bytes, Stamp]:
    # Do not wait forever when a pipe has taken the file's place.
    flags |= getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        chunks: list[bytes] = []
        wanted = found.st_size + 1
        while chunk := os.read(descriptor, wanted):
            chunks.append(chunk)
            if len(chunk) < wanted:
                break  # a regular file ends here, so no further read is needed
        return b"".join(chunks), Stamp.of(found)
    finally:
        os.close(descriptor)


def _keep_owner(descriptor: int, old: os.stat_result) -> bool:
    """Keep the owner; only root can change it, for others the new owner is the price of the atomic rename."""
    if os.name == "nt":
        return True
    new = os.fstat(descriptor)
    if (old.st_uid, old.st_gid) == (new.st_uid, new.st_gid):
        return True
    for uid in (old.st_uid, -1):
        with contextlib.suppress(OSError):
            os.chown(descriptor, uid, old.st_gid)
            return uid == old.st_uid or old.st_uid == new.st_uid
    return False


def _keep_attributes(descriptor: int, like: Path) -> None:
    if not _HAS_XATTRS:
        return
    # Best effort: not every file system supports them, and only the system may set some.
    with contextlib.suppress(OSError):
        wanted = os.listxattr(like)
        for name in wanted:
            with contextlib.suppress(OSError):
                os.setxattr(descriptor, name, os.getxattr(like, name))
        if _ACL not in wanted and _ACL in os.listxattr(descriptor):
            os.removexattr(descriptor, _ACL)  # inherited from the folder
