"""A file at one moment: its stat, the source of its content, and git's entry for it. Pure."""

from __future__ import annotations

import stat
import struct
from typing import TYPE_CHECKING

from msgspec import Struct

from tools.tool import kind_of_change

if TYPE_CHECKING:
    import os

    from daemon.files.index_file import IndexLine
    from tools.tool import ChangeKind

_STAMP = struct.Struct("<qqqQI")


class FileState(Struct, frozen=True):
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

    def is_in(self, entry: IndexLine) -> bool:
        """Return whether this is the file as git saw it when it wrote its index."""
        mtime, ctime, size, inode, _ = _STAMP.unpack(self.stamp)
        ctime_s, ctime_ns, _, _, _, known_inode, _, _, known_size = entry.stat
        # git stores only 32 bits.
        return (
            mtime == entry.mtime_ns
            and ctime == ctime_s * 10**9 + ctime_ns
            and size & 0xFFFFFFFF == known_size
            and inode & 0xFFFFFFFF == known_inode
        )


class FileDelta(Struct, frozen=True):
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
