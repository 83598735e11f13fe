"""What others wrote while commands ran: noted for each command that is at work, see ``daemon.files.overlaps``."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from daemon.files.blobs import BlobError, Blobs
from daemon.files.overlaps import UNKNOWN, KnownChange, Write, gaps_between, happened, put
from tools.files.regular_files import sha256

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from daemon.files.state import FileState
    from daemon.files.versions import FileVersions


@dataclass(slots=True)
class Notes:
    """Of one command: what others wrote since it began, in order."""

    began: float = float("inf")
    writes: dict[str, list[Write]] = field(default_factory=dict[str, list[Write]])


class Meanwhile:
    """Hears of what is kept in a history and written. Quick, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clock = 0.0
        self._pending: dict[str, Write] = {}
        """By path: about to be written, by one at a time (see the locks of ``tools.change``)."""
        self._open: list[Notes] = []

    # -- commands --

    def open(self) -> Notes:
        """A command is going to begin."""
        notes = Notes()
        with self._lock:
            notes.writes = {path: [write] for path, write in self._pending.items()}
            self._open.append(notes)
        return notes

    def begin(self, notes: Notes) -> None:
        """It begins: how the files are by now is known."""
        with self._lock:
            notes.began = self._tick()

    def close(self, notes: Notes) -> None:
        """It has ended, and what it did is claimed."""
        with self._lock:
            if notes in self._open:
                self._open.remove(notes)

    def paths(self, notes: Notes) -> set[str]:
        """The files that others wrote since it began."""
        with self._lock:
            return set(notes.writes)

    def told(
        self,
        notes: Notes,
        path: str,
        old: str | None,
        state: FileState | None,
        read: Callable[[], str | None],
        between: Callable[[str | None], Sequence[Write]] = lambda new: (),
    ) -> tuple[str | None, KnownChange]:
        """What ``read`` (the hash of the content there now) returned, and what the command did to the file.

        ``between``: what is known to have stood there at some moments, given the content there now.
        """
        with self._lock:
            done = frozenset(write for write in notes.writes.get(path, ()) if write.done)
        new = read()
        with self._lock:
            # Also those that were noted while the file was read: they may be in it or not.
            writes = list(notes.writes.get(path, ()))
            if done.issuperset(writes):
                # Else what came before what is not known.
                for each in between(new):
                    put(writes, each)
                done = frozenset(writes)
            did, behind = happened(writes, done, new)
            return new, gaps_between(notes.began, old, new, state, did, behind, self._tick())

    def claim(self, notes: Notes, path: str, write: Write) -> None:
        """What a command did is kept as its work: for the others it is somebody else's."""
        write.command = notes.began
        with self._lock:
            for other in self._open:
                if other is notes:
                    continue
                writes = other.writes.setdefault(path, [])
                # What was before all that the other one knows of is in what it found.
                if write.order > min([other.began, *(each.order for each in writes[:1])]):
                    put(writes, write)

    def now(self) -> float:
        """A place behind all that is noted so far."""
        with self._lock:
            return self._tick()

    # -- all others --

    def keeping(self, history: object, blobs: Blobs, kept: Sequence[tuple[str, FileVersions]]) -> None:
        """These are about to be written; with the names of their versions."""
        with self._lock:
            for name, entry in kept:
                path = entry.path.as_posix()
                write = self._pending.get(path)
                # The same write is kept in the history of the session above, too.
                if write is None or (write.before, write.after) != (entry.before, entry.after):
                    modes = entry.before_mode != entry.after_mode
                    write = Write(
                        self._tick(), entry.before, entry.after, blobs, done=False, changed_mode=modes
                    )
                    self._pending[path] = write
                    self._note(path, write)
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

    def found(self, path: Path, data: bytes | None) -> None:
        """Somebody whose work is kept nowhere wrote a file, and this is in it."""
        name, after = path.as_posix(), None if data is None else sha256(data)
        with self._lock:
            if name in self._pending:
                return  # a tool writes it through an editor
            write = Write(self._tick(), UNKNOWN, after, data=data)
            for notes in self._open:
                known = notes.writes.get(name)
                if not known or known[-1].after != after:
                    notes.writes.setdefault(name, []).append(write)

    def _note(self, path: str, write: Write) -> None:
        for notes in self._open:
            notes.writes.setdefault(path, []).append(write)

    def _tick(self) -> float:
        self._clock += 1.0
        return self._clock


def content(digest: str | None, known: dict[str, bytes], writes: Sequence[Write]) -> bytes | None:
    """A content of a chain of writes, by its hash. Raises BlobError when nobody has it."""
    if digest is None:
        return None
    if digest in known:
        return known[digest]
    for write in writes:
        if write.data is not None and write.after == digest:
            return write.data
        if write.blobs is not None and digest in (write.before, write.after):
            return write.blobs.get(digest)
    raise BlobError(f"Nobody has {digest[:12]}.")
