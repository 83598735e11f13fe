"""Landlock's rules for one command, and the pool of folders and files that get their rules before they are placed.

Runs before every command in a process of its own, so only few modules are imported.
"""

# ruff: noqa: PTH102, PTH106, PTH110, PTH208
# The rules above are off because pathlib would double the start-up time.

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

libc = ctypes.CDLL(None, use_errno=True)
_OPENAT2, _CREATE_RULESET, _ADD_RULE = 437, 444, 445
_NO_SYMLINKS = 0x04
_NO_REPLACE = 1
_NO_FOLLOW, _BIRTH = 0x100, 0x800
_FILE_RIGHTS = 0b1100_0000_0000_0111
"""Rights that a rule on a file may have: execute, write, read, truncate, device control."""
_WRITE_FILE = 1 << 1
HERE = -100
"""AT_FDCWD."""
POOL = ".goalwright-new-"
"""Beginning of the name of a pool in an edge; the number of its process follows."""
Identity = tuple[int, int]


def identity(info: os.stat_result) -> Identity:
    """Disk and number of a file."""
    return info.st_dev, info.st_ino


def birth(path: str) -> int:
    """Return when a file was created, in ns; 0 where the disk does not store it. Raises OSError.

    It distinguishes a file from a later one with the same name and number.
    """
    found = ctypes.create_string_buffer(256)
    checked(libc.statx(HERE, os.fsencode(path), _NO_FOLLOW, _BIRTH, found))
    mask, seconds, rest = struct.unpack_from("=I76xqI", found)
    return seconds * 1_000_000_000 + rest if mask & _BIRTH else 0


def call(number: int, *arguments: Any) -> int:
    """Do a system call that Python has no function for. Raises OSError."""
    return checked(libc.syscall(number, *arguments))


def checked(result: int) -> int:
    """Return the result of a C function. Raises OSError when it failed."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def open_path(path: str) -> int:
    """Open something by a path without links in it, without any right to its content. Raises OSError."""
    how = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, _NO_SYMLINKS)
    return call(_OPENAT2, HERE, os.fsencode(path), how, ctypes.c_size_t(len(how)))


class Ruleset:
    """The rights that a command will have. It remembers the files that have a rule."""

    def __init__(self, files: int, net: int, scoped: int) -> None:
        raw = struct.pack("=QQQ", files, net, scoped)
        # Older kernels know fewer fields, and accept more only when they are zero.
        self.fd = call(_CREATE_RULESET, raw, ctypes.c_size_t(len(raw)), 0)
        self._handled = files
        self.ruled: set[Identity] = set()
        self.writable: set[Identity] = set()
        """Files that may be written, and folders in which and below which files may be."""

    def allow(self, path: str, rights: int) -> None:
        """Allow rights beneath a path; a path that is gone needs no rule."""
        try:
            fd = open_path(path)
        except OSError:
            return
        self.allow_opened(fd, rights)
        os.close(fd)

    def allow_opened(self, fd: int, rights: int) -> None:
        """Allow beneath what ``fd`` is."""
        info = os.fstat(fd)
        is_folder = stat.S_ISDIR(info.st_mode)
        rights &= self._handled if is_folder else self._handled & _FILE_RIGHTS
        if not rights:
            return
        call(_ADD_RULE, self.fd, 1, struct.pack("=Qi", rights, fd), 0)
        self.ruled.add(identity(info))
        if rights & _WRITE_FILE and (is_folder or stat.S_ISREG(info.st_mode)):
            self.writable.add(identity(info))


class Edge:
    """A folder whose own entries only the broker makes and removes."""

    def __init__(self, row: dict[str, Any]) -> None:
        """Raises OSError."""
        self.path: str = row["path"]
        self.fd = open_path(self.path)
        self.disk = os.fstat(self.fd).st_dev
        self.kept: set[str] = set(row["kept"])
        """Names, folded, that lead to something protected."""
        self.writable: bool = row["writable"]
        self.fresh: bool = row["fresh"]
        """Shared with others: only entries of this and earlier commands may be touched."""
        self.pooled: bool = row["pooled"]
        """New folders and files get rules."""
        self.readable: bool = row["readable"]
        """The command may read new files in it without a rule of their own."""


class Pool:
    """Empty folders and files, on the disk of an edge, that have rules and become new entries of edges.

    ``private`` is kept between commands, because making hundreds of files takes time. Where it is on another disk, the
    pool is in the edge: then files have no name at all, and the rest is removed after the command.
    """

    def __init__(self, edge: Edge, private: str, folders: int, files: int) -> None:
        self._lasting = os.stat(private).st_dev == edge.disk  # noqa: PTH116
        if self._lasting:
            self._place = f"{private}/pool"
            if not os.path.isdir(self._place):  # noqa: PTH112
                os.mkdir(self._place, 0o700)
        else:
            _sweep(edge.path)
            name = f"{POOL}{os.getpid()}"
            edge.kept.add(name)
            self._place = f"{edge.path}/{name}"
            os.mkdir(self._place, 0o700)
        self._fd = open_path(self._place)
        there = os.listdir(self._place)
        self._folders = [name for name in there if name.startswith("d")]
        self._files = [name for name in there if name.startswith("f")]
        self._nameless: list[int] = []
        for _ in range(folders - len(self._folders)):
            # Unguessable names, because a folder with rules could be opened by its name.
            self._folders.append(name := f"d{os.urandom(12).hex()}")
            os.mkdir(name, 0o700, dir_fd=self._fd)
        try:
            self._make_files(files)
        except OSError:
            pass  # not every disk has files without names; new files get no rule then

    def _make_files(self, count: int) -> None:
        if not self._lasting:
            for _ in range(count):
                self._nameless.append(os.open(self._place, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600))
            return
        for _ in range(count - len(self._files)):
            name = f"f{os.urandom(12).hex()}"
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=self._fd))
            self._files.append(name)

    def allow(self, rules: Ruleset, rights: int) -> None:
        """Give all of them their rules."""
        for name in (*self._folders, *self._files):
            fd = self._taken(name, os.O_PATH)
            if fd >= 0:
                rules.allow_opened(fd, rights)
                os.close(fd)
        for fd in self._nameless:
            rules.allow_opened(fd, rights)

    def give_folder(self, edge: Edge, name: str, mode: int) -> Identity:
        """Make a folder in an edge. Raises OSError."""
        while self._folders:
            ours = self._folders.pop()
            fd = self._taken(ours, os.O_RDONLY | os.O_DIRECTORY)
            if fd < 0:
                continue
            try:
                if os.listdir(fd):
                    continue
                self._put(ours, edge, name)
                os.fchmod(fd, mode)
                return identity(os.fstat(fd))
            except FileNotFoundError:
                continue  # the broker of another command was faster
            finally:
                os.close(fd)
        raise OSError(errno.EACCES, "no folder is left")

    def give_file(self, edge: Edge, name: str) -> int:
        """Make a file in an edge: a descriptor for reading and writing, -1 when none is left. Raises OSError."""
        while self._files:
            ours = self._files.pop()
            fd = self._taken(ours, os.O_RDWR)
            if fd < 0:
                continue
            info = os.fstat(fd)
            if info.st_size or info.st_nlink != 1:
                os.close(fd)
                continue
            try:
                self._put(ours, edge, name)
                return fd
            except FileNotFoundError:
                os.close(fd)  # the broker of another command was faster
            except OSError:
                os.close(fd)
                raise
        if not self._nameless:
            return -1
        fd = self._nameless.pop()
        os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=edge.fd, follow_symlinks=True)
        return fd

    def _taken(self, name: str, flags: int) -> int:
        """Open one of ours, -1 if the broker of another command was faster."""
        try:
            return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._fd)
        except OSError:
            return -1

    def _put(self, ours: str, edge: Edge, name: str) -> None:
        rename(self._fd, ours, edge.fd, name, _NO_REPLACE)

    def clear(self) -> None:
        """Remove the rest of a pool in an edge."""
        if self._lasting:
            return
        try:
            for name in self._folders:
                os.rmdir(name, dir_fd=self._fd)
            os.rmdir(self._place)
        except OSError:
            pass  # the next start removes it


def rename(source: int, old: str, target: int, new: str, flags: int) -> None:
    """Rename by descriptors of folders. Raises OSError."""
    checked(libc.renameat2(source, os.fsencode(old), target, os.fsencode(new), flags))


def _sweep(place: str) -> None:
    """Remove pools whose brokers were killed."""
    for name in os.listdir(place):
        number = name.removeprefix(POOL)
        if number == name or not number.isdigit() or os.path.exists(f"/proc/{number}"):
            continue
        try:
            for inner in os.listdir(f"{place}/{name}"):
                os.rmdir(f"{place}/{name}/{inner}")
            os.rmdir(f"{place}/{name}")
        except OSError:
            continue
