"""Reads git's index: which content (blob) a tracked file had when git last looked, and its stat at that moment.

Read by ourselves and not by ``git status``, because a repository is untrusted input and comparing files would run the
filters that its configuration names (source: git's own documentation, ``gitformat-index``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from daemon.files import index_file
from daemon.files.index_file import FILE, BadIndex, extensions


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
    end = 12
    try:
        for entry, end in index_file.entries(data, hash_size):  # noqa: B007 - the last end counts
            if entry.kind == FILE and not (entry.stage or entry.assumed or entry.skipped or entry.intended):
                ctime, ctime_ns, mtime, mtime_ns, _, inode, _, _, size = entry.stat
                times = mtime * 10**9 + mtime_ns, ctime * 10**9 + ctime_ns
                yield entry.path, IndexEntry(*times, inode, size, entry.oid)
    except BadIndex as error:
        raise UnknownIndex(str(error)) from error
    if any(name == b"link" for name, _ in extensions(data, end, hash_size)):
        raise UnknownIndex("a split index")
