"""A file at one moment: its stat, the source of its content, and git's entry for it. Pure."""

from __future__ import annotations

import stat
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from daemon.files import index_file
from daemon.files.index_file import FILE, BadIndexError, extensions
from tools.tool import kind_of_change

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from tools.tool import ChangeKind

_STAMP = struct.Struct("<qqqQI")


@dataclass(frozen=True, slots=True)
class FileState:
    """A file at one moment. ``source`` locates its content: ``g`` + git's id, ``b`` + hash of our copy."""

    stamp: bytes
    source: bytes = b""

    @staticmethod
    def of(found: os.stat_result) -> FileState:
        """Return the state that a stat shows."""
        return FileState(
            _STAMP.pack(found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_mode)
        )

    @property
    def size(self) -> int:
        """Bytes."""
        return _STAMP.unpack(self.stamp)[2]

    @property
    def mode(self) -> int:
        """Permission bits."""
        return stat.S_IMODE(_STAMP.unpack(self.stamp)[4])

    def is_in(self, entry: IndexEntry) -> bool:
        """Return whether this is the file as git saw it when it wrote its index."""
        mtime, ctime, size, inode, _ = _STAMP.unpack(self.stamp)
        # git stores only 32 bits.
        return (
            mtime == entry.mtime_ns
            and ctime == entry.ctime_ns
            and size & 0xFFFFFFFF == entry.size
            and inode & 0xFFFFFFFF == entry.inode
        )


@dataclass(frozen=True, slots=True)
class FileDelta:
    """A file that has changed. ``certain`` is False when its earlier state is unknown."""

    path: str
    old: FileState | None
    new: FileState | None
    certain: bool = True
    new_folders: tuple[str, ...] = ()

    @property
    def kind(self) -> ChangeKind:
        """Whether the file is created, updated or deleted."""
        return kind_of_change(self.old, self.new) if self.new is not None else "delete"

    def then(self, later: FileDelta) -> FileDelta:
        """Both, as one change of the file."""
        folders = self.new_folders or later.new_folders
        return FileDelta(self.path, self.old, later.new, self.certain, folders)


class UnknownIndexError(Exception):
    """This index is of a kind that is not understood (or damaged); nothing in it is used."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A tracked regular file: times in nanoseconds, size in bytes, ``inode`` cut to 32 bits."""

    mtime_ns: int
    ctime_ns: int
    inode: int
    size: int
    oid: bytes


def entries(data: bytes, hash_size: int = 20) -> Iterator[tuple[bytes, IndexEntry]]:
    """Yield the path (relative to the top folder, with ``/``) and entry of each plain tracked file.

    Conflicts, links, submodules, and files that git was told not to look at are left out. Raises UnknownIndexError.
    """
    end = 12
    try:
        for entry, end in index_file.entries(data, hash_size):  # noqa: B007 - the last end counts
            if entry.kind == FILE and not (entry.stage or entry.assumed or entry.skipped or entry.intended):
                ctime, ctime_ns, mtime, mtime_ns, _, inode, _, _, size = entry.stat
                times = mtime * 10**9 + mtime_ns, ctime * 10**9 + ctime_ns
                yield entry.path, IndexEntry(*times, inode, size, entry.oid)
    except BadIndexError as error:
        raise UnknownIndexError(str(error)) from error
    if any(name == b"link" for name, _ in extensions(data, end, hash_size)):
        raise UnknownIndexError("a split index")
