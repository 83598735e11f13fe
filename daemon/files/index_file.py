"""Git's index, read and given other stats. Pure (source: git's own documentation, ``gitformat-index``)."""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Stat = tuple[int, int, int, int, int, int, int, int, int]
"""ctime s, ns, mtime s, ns, device, inode, uid, gid, size; each cut to 32 bits."""
_FIXED = struct.Struct(">10I")
_STAT = struct.Struct(">6I")
FILE, LINK, GITLINK = 0o100000, 0o120000, 0o160000
_KIND = 0o170000
_CUT = 0xFFFFFFFF


class BadIndexError(Exception):
    """Raised for an index that is damaged, or of an unknown kind; the message is for the user."""


class IndexLine(NamedTuple):
    """One line of the index; ``at`` is where it begins in the file."""

    at: int
    path: bytes
    mode: int
    oid: bytes
    stage: int
    assumed: bool
    """``assume-unchanged``."""
    skipped: bool
    """``skip-worktree``."""
    intended: bool
    """``add --intent-to-add``."""
    stat: Stat

    @property
    def kind(self) -> int:
        """FILE, LINK or GITLINK (a folder of a sparse index: 0o040000)."""
        return self.mode & _KIND

    @property
    def mtime_ns(self) -> int:
        """When the file was changed, at git's check."""
        return self.stat[2] * 10**9 + self.stat[3]

    def has_size(self, sizes: Mapping[bytes, int]) -> bool:
        """Return whether the file is as long as its blob. ``sizes``: of blobs, by their ids in hex."""
        size = sizes.get(self.oid.hex().encode())
        return size is not None and size & _CUT == self.stat[8]


class GitIndex(NamedTuple):
    """The contents of an index file."""

    entries: list[IndexLine]
    end: int
    """Where the entries end."""
    extensions: list[tuple[bytes, bytes]]

    @property
    def is_split(self) -> bool:
        """Most entries are in another file (``sharedindex.…``)."""
        return any(name == b"link" for name, _ in self.extensions)


def read(data: bytes, hash_size: int) -> GitIndex:
    """Return the index in ``data``; empty for no data. Raises BadIndexError."""
    if not data:
        return GitIndex([], 0, [])
    found: list[IndexLine] = []
    end = 12
    for entry, end in entries(data, hash_size):  # noqa: B007 - the last end counts
        found.append(entry)
    return GitIndex(found, end, list(extensions(data, end, hash_size)))


def entries(data: bytes, hash_size: int) -> Iterator[tuple[IndexLine, int]]:
    """Yield each entry, and where it ends in the file. Raises BadIndexError."""
    try:
        yield from _entries(data, hash_size)
    except (struct.error, IndexError, ValueError) as error:
        raise BadIndexError("The repository's index is damaged. Run `git status` for details.") from error


def _entries(data: bytes, hash_size: int) -> Iterator[tuple[IndexLine, int]]:
    signature, version, count = struct.unpack_from(">4sII", data)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise BadIndexError(f"The repository's index has the unknown version {version}.")
    at, path = 12, b""
    for _ in range(count):
        start = at
        c_s, c_ns, m_s, m_ns, dev, inode, mode, uid, gid, size = _FIXED.unpack_from(data, at)
        at += 40 + hash_size
        oid = data[start + 40 : at]
        flags = data[at] << 8 | data[at + 1]
        at += 2
        more = 0
        if version >= 3 and flags & 0x4000:
            more = data[at] << 8 | data[at + 1]
            at += 2
        if version == 4:
            cut, at = _number(data, at)
            end = data.index(b"\0", at)
            path = path[: len(path) - cut] + data[at:end]
            at = end + 1
        else:
            end = data.index(b"\0", at)
            path = data[at:end]
            # Entries are padded with one to eight NULs to a multiple of eight bytes.
            at = start + ((end - start) // 8 + 1) * 8
        stat = (c_s, c_ns, m_s, m_ns, dev, inode, uid, gid, size)
        assumed, skipped, intended = bool(flags & 0x8000), bool(more & 0x4000), bool(more & 0x2000)
        yield IndexLine(start, path, mode, oid, flags >> 12 & 3, assumed, skipped, intended, stat), at


def extensions(data: bytes, at: int, hash_size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the name and content of each extension; they follow the entries."""
    while at + 8 <= len(data) - hash_size:
        name, length = struct.unpack_from(">4sI", data, at)
        yield name, data[at + 8 : at + 8 + length]
        at += 8 + length


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and where it ends (git's ``varint`` of pack offsets)."""
    byte = data[at]
    value = byte & 0x7F
    at += 1
    while byte & 0x80:
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 0x7F)
        at += 1
    return value, at


_KEPT = (b"TREE", b"REUC", b"sdir")
"""Extensions that hold in any folder. The others depend on folders, times or offsets."""


def restat(
    data: bytes, index: GitIndex, hash_size: int, stat_of: Callable[[IndexLine], Stat | None]
) -> bytes:
    """Return the index with other stats. None: unknown, git has to compare the content."""
    if not data:
        return data
    out = bytearray(data[: index.end])
    for entry in index.entries:
        stat = stat_of(entry)
        c_s, c_ns, m_s, m_ns, dev, inode, uid, gid, size = (0,) * 9 if stat is None else stat
        _STAT.pack_into(out, entry.at, c_s, c_ns, m_s, m_ns, dev, inode)
        struct.pack_into(">3I", out, entry.at + 28, uid, gid, size)
    for name, content in index.extensions:
        if name in _KEPT:
            out += name + struct.pack(">I", len(content)) + content
    # git's own checksum; it protects nothing
    return bytes(out) + (hashlib.sha256 if hash_size == 32 else hashlib.sha1)(out).digest()
