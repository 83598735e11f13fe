"""A file at one moment: what the system says of it, and where its content can be had from. Pure."""

from __future__ import annotations

import os
import stat
import struct
from dataclasses import dataclass

from daemon.files.git_index import IndexEntry

_STAMP = struct.Struct("<qqqQI")


@dataclass(frozen=True, slots=True)
class State:
    """A file at one moment. ``source`` says where its content is: ``g`` + git's id, ``b`` + hash of our copy."""

    stamp: bytes
    source: bytes = b""

    @staticmethod
    def of(found: os.stat_result) -> State:
        """The state that a stat shows."""
        return State(
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
        """Whether this is the file as git saw it when it wrote its index."""
        mtime, ctime, size, inode, _ = _STAMP.unpack(self.stamp)
        # What git stores is cut to 32 bits.
        return (
            mtime == entry.mtime_ns
            and ctime == entry.ctime_ns
            and size & 0xFFFFFFFF == entry.size
            and inode & 0xFFFFFFFF == entry.inode
        )


@dataclass(frozen=True, slots=True)
class Delta:
    """A file that is not as it was. ``certain`` is False when it is not known whether and how it was there before."""

    path: str
    old: State | None
    new: State | None
    certain: bool = True
    new_folders: tuple[str, ...] = ()
