"""Open, replace and create files safely where others may write: no links, devices or pipes, no excessive sizes."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from typing import TYPE_CHECKING, BinaryIO

from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

MAX_FILE = 64 * 1024 * 1024
"""Bytes of a snapshot or a message: a larger one was not written here, and would fill the memory."""
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)  # a pipe would wait for its other end
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


def open_regular(path: Path, *, follow: bool = False) -> BinaryIO:
    """Open a file for reading. Raises OSError: FileNotFoundError when it does not exist, ELOOP when it is a link.

    ``follow``: a link may lead to the file, as users keep their settings elsewhere.
    """
    kind = path.stat(follow_symlinks=follow).st_mode  # opening a device can have effects
    if stat.S_ISLNK(kind):
        raise OSError(errno.ELOOP, t("it is a symbolic link"), str(path))
    if not stat.S_ISREG(kind):
        raise OSError(errno.EINVAL, t("it is not a regular file"), str(path))
    descriptor = os.open(path, _FLAGS if follow else _FLAGS | getattr(os, "O_NOFOLLOW", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, t("it is not a regular file"), str(path))
        return os.fdopen(descriptor, "rb", buffering=0)
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, most: int = MAX_FILE, *, follow: bool = False) -> bytes:
    """Return the whole content. Raises OSError as ``open_regular`` does, and EFBIG for more than ``most`` bytes."""
    with open_regular(path, follow=follow) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, t("it is larger than {most} bytes", most=most), str(path))
        data = bytearray()
        while len(data) <= size and (block := file.read(size + 1 - len(data))):
            data += block
        return bytes(data)


Stamp = tuple[int, int, int, int]


def stamp_of(path: Path) -> Stamp | None:
    """Return a value that is another one when the file has changed, also its permissions; None: there is no file."""
    try:
        info = os.stat(path)  # noqa: PTH116 - half as slow as pathlib, and asked several times a second
    except OSError:
        return None
    return info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino


def write_private(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Write ``path`` as ``private_file`` does, and make its folder where there is none. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with private_file(path, durable=durable) as file:
        file.write(data)


@contextlib.contextmanager
def private_file(path: Path, *, durable: bool = False) -> Generator[BinaryIO]:
    """Give a file to write that replaces ``path`` when the block ends, with mode 0600. Raises OSError.

    A reader sees the old file or the new one, never half of it. ``durable``: it also survives a loss of power.
    """
    # The name is one that nobody can have taken: the folder may be another's, and links in it lead anywhere.
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def is_real_folder(path: Path) -> bool:
    """Return whether there is a folder, not a link to one. False where the user may not look."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


TRACES = ".trace"
"""The folder of a workspace that holds the records of its sessions."""


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Create a folder and those above it. Raises OSError.

    The folder of traces itself is not created: a user who deleted or renamed the workspace does not want it back.
    """
    above = next((parent for parent in (folder, *folder.parents) if parent.name == TRACES), None)
    if above is not None and not above.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(above))
    folder.mkdir(mode=mode, parents=True, exist_ok=True)


def sha256(data: bytes) -> str:
    """Hash of a file's content in hex."""
    return hashlib.sha256(data).hexdigest()


@contextlib.contextmanager
def os_errors(kind: Callable[[str], Exception], words: str, **values: object) -> Generator[None]:
    """Raise an OSError as another error. ``words``: a text from ``noted`` with ``{strerror}`` and the ``values``."""
    try:
        yield
    except OSError as error:
        raise kind(t(words, strerror=error.strerror or error, **values)) from error
