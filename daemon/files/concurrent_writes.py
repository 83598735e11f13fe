"""A record of writes by others while commands run, so that each change is kept once, as the work of its author.

For a command, the contents of a file before and after it are known. Writes by others meanwhile (tools, an undo, the
user, commands that ended earlier) are noted one by one: the command made the changes between them.
"""

from __future__ import annotations

import bisect
import math
import threading
from typing import TYPE_CHECKING

from msgspec import Struct, field

from tools.files.regular_files import sha256

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from daemon.files.blobs import Blobs
    from daemon.files.state import FileState
    from daemon.files.versions import FileVersions

UNKNOWN = "?"
"""In place of a content's hash."""


class Write(Struct, eq=False):
    """A change of a file from one content to another (hashes; None: no file), in one step of its author's work."""

    order: float
    """Its place among all writes."""
    before: str | None
    after: str | None
    blobs: Blobs | None = None
    """Where its contents are, once it is kept in a history."""
    data: bytes | None = None
    """The content behind the hash ``after``, where no blob store has it."""
    done: bool = True
    """It is on disk; else it may be, or may come to be."""
    command: float | None = None
    """For a command: when it began."""
    changed_mode: bool = False
    names: dict[int, str] = field(default_factory=dict[int, str])
    """Name of its version in each history, by the history's ``id``."""
    state: FileState | None = None
    """The file afterwards, where the content is not known."""
    later: tuple[Write, ...] = ()
    """Writes that came after it, though they were kept earlier."""

    def ahead_of(self, history: object) -> str | None:
        """The version, in that history, that was kept before this write and made after it."""
        names = (write.names.get(id(history)) for write in self.later)
        return next((name for name in names if name), None)


class ChangedSince(Struct, frozen=True):
    """The changes of one file since a command began."""

    now: str | None
    """Hash of its content."""
    own: tuple[Write, ...]
    """By the command, in order; not kept yet."""
    others: tuple[Write, ...]
    rest: bool = False
    """The command did more that is not known."""


class ForeignWrites(Struct):
    """Writes by others since one command began, in order."""

    began: float = float("inf")
    writes: dict[str, list[Write]] = field(default_factory=dict[str, list[Write]])


class ConcurrentWrites:
    """Hears of every write that is kept in a history, and of the user's. Quick, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clock = 0.0
        self._pending: dict[str, Write] = {}
        """By path: about to be written, by one at a time (see the locks of ``tools.change``)."""
        self._open: list[ForeignWrites] = []

    # -- commands --

    def open(self) -> ForeignWrites:
        """Start notes for a command that is about to run."""
        notes = ForeignWrites()
        with self._lock:
            notes.writes = {path: [write] for path, write in self._pending.items()}
            self._open.append(notes)
        return notes

    def begin(self, notes: ForeignWrites) -> None:
        """It begins: how the files are by now is known."""
        with self._lock:
            notes.began = self._tick()

    def close(self, notes: ForeignWrites) -> None:
        """End the notes of a command whose changes are claimed."""
        with self._lock:
            if notes in self._open:
                self._open.remove(notes)

    def paths(self, notes: ForeignWrites) -> set[str]:
        """Return the files that others wrote since it began."""
        with self._lock:
            return set(notes.writes)

    def since(
        self,
        notes: ForeignWrites,
        path: str,
        old: str | None,
        state: FileState | None,
        read: Callable[[], str | None],
        between: Callable[[str | None], Sequence[Write]] = lambda new: (),
    ) -> ChangedSince:
        """Return how a file changed since the command of ``notes`` began, when its content was ``old`` (a hash).

        ``state``: of the current file. ``read``: returns its current content. ``between``: known contents at some
        moments, given the current one.
        """
        with self._lock:
            done = frozenset(write for write in notes.writes.get(path, ()) if write.done)
        new = read()
        with self._lock:
            # Include writes noted while the file was read: they may be in it or not.
            writes = list(notes.writes.get(path, ()))
            if done.issuperset(writes):
                # Otherwise the order of the writes is unknown.
                for each in between(new):
                    _put(writes, each)
                done = frozenset(writes)
            others, behind = happened(writes, done, new)
            own, rest = between_writes(notes.began, old, new, state, others, behind, self._tick())
            return ChangedSince(new, own, tuple(others), rest)

    def claim(self, notes: ForeignWrites, path: str, write: Write) -> None:
        """Record a write as the work of this command; for the other running commands it is a write by someone else."""
        write.command, write.later = notes.began, ()
        with self._lock:
            for other in self._open:
                if other is notes:
                    continue
                writes = other.writes.setdefault(path, [])
                # Writes before everything that the other command knows are part of its first content.
                if write.order > min([other.began, *(each.order for each in writes[:1])]):
                    _put(writes, write)

    def now(self) -> float:
        """Return a position after everything noted so far."""
        with self._lock:
            return self._tick()

    # -- writes by others --

    def keeping(self, history: object, blobs: Blobs, kept: Sequence[tuple[str, FileVersions]]) -> None:
        """These are about to be written; with the names of their versions."""
        with self._lock:
            for name, entry in kept:
                path = entry.path.as_posix()
                write = self._pending.get(path)
                # The parent session's history has the same write, too.
                if write is None or (write.before, write.after) != (entry.before, entry.after):
                    write = Write(self._tick(), entry.before, entry.after, blobs, done=False)
                    write.changed_mode = entry.before_mode != entry.after_mode
                    self._pending[path] = write
                    for notes in self._open:
                        notes.writes.setdefault(path, []).append(write)
                write.names[id(history)] = name

    def written(self, entries: Sequence[FileVersions]) -> None:
        """They are on disk now."""
        with self._lock:
            for entry in entries:
                path = entry.path.as_posix()
                write = self._pending.get(path)
                if write is not None and write.before == entry.before:
                    del self._pending[path]
                    write.after = entry.after  # an editor may have formatted it
                    write.done = True

    def failed(self, entries: Sequence[FileVersions]) -> None:
        """They were not written."""
        with self._lock:
            for entry in entries:
                path = entry.path.as_posix()
                write = self._pending.get(path)
                if write is not None and (write.before, write.after) == (entry.before, entry.after):
                    del self._pending[path]

    def found(self, path: Path, data: bytes | None) -> None:
        """Somebody whose work is kept nowhere wrote a file, and this is in it."""
        name, after = path.as_posix(), None if data is None else sha256(data)
        with self._lock:
            if name in self._pending:
                return  # a tool writes the file through an editor
            write = Write(self._tick(), UNKNOWN, after, data=data)
            for notes in self._open:
                known = notes.writes.get(name)
                if not known or known[-1].after != after:
                    notes.writes.setdefault(name, []).append(write)

    def _tick(self) -> float:
        self._clock += 1.0
        return self._clock


def happened(
    writes: Sequence[Write], done: frozenset[Write], new: str | None
) -> tuple[list[Write], list[Write]]:
    """Return the writes that led to the content ``new``, and those that come after it. Pure.

    ``done``: those that were on disk before it was read. Of the others, the one that made this content counts; those
    that were overtaken by others have failed.
    """
    known = max((number + 1 for number, write in enumerate(writes) if write in done), default=0)
    did = [write for write in writes[:known] if write in done]
    rest = list(writes[known:])
    for count in range(len(rest), 0, -1):
        if new != UNKNOWN and rest[count - 1].after == new:
            return did + rest[count - 1 : count], rest[count:]
    return did, rest


def between_writes(
    began: float,
    old: str | None,
    new: str | None,
    state: FileState | None,
    writes: Sequence[Write],
    behind: Sequence[Write],
    now: float,
) -> tuple[tuple[Write, ...], bool]:
    """Return what a command that ``began`` then did while ``writes`` happened and ``behind`` came later; and whether
    it did more that is not known. Pure.

    ``old``, ``new``: hashes of the content before and after; ``state``: of the file after; ``now``: a place behind
    all that happened.
    """
    found: list[Write] = []
    current, last, opaque = old, began, None
    for number, write in enumerate(writes):
        # An earlier command explains the content at the start of this one; a write that was pending then may also have
        # happened before.
        early = write.command is not None and write.command < began
        early = early or (write.command is None and write.order < began and current == write.after)
        unknown = UNKNOWN in (current, write.before)
        if not early and not unknown and current != write.before:
            later = (*writes[number:], *behind)
            found.append(Write(_ahead_of(write, last), current, write.before, later=later))
        current, last = write.after, max(last, write.order)
        opaque = write if current == UNKNOWN else None
    if UNKNOWN in (current, new):
        same = opaque is not None and _stamp(opaque.state) == _stamp(state)
        return tuple(found), not same
    if current != new:
        order = _ahead_of(behind[0], last) if behind else now
        found.append(Write(order, current, new, later=tuple(behind)))
    return tuple(found), False


def _put(writes: list[Write], write: Write) -> None:
    bisect.insort(writes, write, key=lambda each: each.order)


def _ahead_of(write: Write, last: float) -> float:
    """Return a place directly ahead of a write: behind the beginnings of all commands (whole numbers) that came before
    it."""
    return (max(last, math.ceil(write.order) - 1) + write.order) / 2


def _stamp(state: FileState | None) -> bytes | None:
    return None if state is None else state.stamp
