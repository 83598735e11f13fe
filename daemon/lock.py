"""A lock on a file that the kernel releases, whatever happens to its holder.

``filelock`` makes the same call, and supports other systems. But importing it takes 30 ms and 3 MB (of sqlite and
asyncio parts), at the start of each daemon and of each client that looks for one, so it is used only where needed.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def take(path: Path, *, shared: bool = False) -> Callable[[], None] | None:
    """Lock the file without waiting, and return a function that releases it; None when it is locked. Raises OSError.

    ``shared``: only to see whether it is free. Needs a file that is there, and may be read; writes nothing.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return _take_elsewhere(path)
    flags = os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, flags | os.O_NOFOLLOW, 0o600)
    try:
        # On NFS, an exclusive lock needs a file that is open for writing.
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        # The file may have been removed between the two: another process would lock another file.
        gone = os.fstat(descriptor).st_nlink == 0
    except OSError as error:
        os.close(descriptor)
        if error.errno == errno.ENOSYS:
            return _take_elsewhere(path)
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return None
        raise
    if gone:
        os.close(descriptor)
        return None

    def free() -> None:
        # Closing is not enough: a child that is just starting has the descriptor for a moment, too.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)

    return free


def _take_elsewhere(path: Path) -> Callable[[], None] | None:
    import filelock

    lock = filelock.FileLock(path, mode=0o600)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        return None
    return lock.release
