"""Reads git's index: which content (blob) a tracked file had when git last looked, and its stat at that moment.

Read by ourselves and not by ``git status``, because a repository is untrusted input and comparing files would run the
filters that its configuration names (source: git's own documentation, ``gitformat-index``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_FIXED = struct.Struct(">10I")
_REGULAR = 0o100000


class UnknownIndex(Exception):
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
    """Path (relative to the top folder, with ``/``) and entry of each plain tracked file.

    Left out are conflicts, links, submodules, and files that git was told not to look at. Raises UnknownIndex.
    """
    try:
        yield from _entries(data, hash_size)
    except (struct.error, IndexError, ValueError) as error:
        raise UnknownIndex("the index is damaged") from error


def _entries(data: bytes, hash_size: int) -> Iterator[tuple[bytes, IndexEntry]]:
    signature, version, count = struct.unpack_from(">4sII", data)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise UnknownIndex(f"an index of version {version}")
    at = 12
    path = b""
    for _ in range(count):
        start = at
        ctime, ctime_ns, mtime, mtime_ns, _, inode, mode, _, _, size = _FIXED.unpack_from(data, at)
        at += _FIXED.size
        oid = data[at : at + hash_size]
        at += hash_size
        (flags,) = struct.unpack_from(">H", data, at)
        at += 2
        more = 0
        if version >= 3 and flags & 0x4000:
            (more,) = struct.unpack_from(">H", data, at)
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
        stage, assumed, skipped, intended = flags & 0x3000, flags & 0x8000, more & 0x4000, more & 0x2000
        if mode & 0o170000 == _REGULAR and not (stage or assumed or skipped or intended):
            yield path, IndexEntry(mtime * 10**9 + mtime_ns, ctime * 10**9 + ctime_ns, inode, size, oid)
    while at + 8 <= len(data) - hash_size:
        name, length = struct.unpack_from(">4sI", data, at)
        if name == b"link":
            raise UnknownIndex("a split index")
        at += 8 + length


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends (git's ``varint`` of pack offsets)."""
    byte = data[at]
    value = byte & 0x7F
    at += 1
    while byte & 0x80:
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 0x7F)
        at += 1
    return value, at
