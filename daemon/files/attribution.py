"""Attribute changes to a command: how files were and are, without what others wrote meanwhile. Blocking."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from daemon.files.blobs import BlobError
from daemon.files.concurrent_writes import UNKNOWN, ChangedSince, ConcurrentWrites, ForeignWrites, Write
from daemon.files.history import KeptChange
from daemon.files.state import FileDelta, FileState
from tools.files.regular_files import sha256
from tools.tool import FileChange
from tools.writing.atomic import read_or_none

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from daemon.files.tree import Tree

MAX_CONTENT = 8 * 1024 * 1024
"""Bytes of a new content that is kept."""


class LaterBases(Struct, frozen=True):
    """How commands that began later, and are still at work, found the files: they will not take that for theirs."""

    began: tuple[float, ...] = ()
    changed: dict[str, dict[float, Write | None]] = field(
        default_factory=dict[str, "dict[float, Write | None]"]
    )
    """For files that changed since: the write by the time each began; None: unknown."""

    @staticmethod
    def of(tree: Tree, others: Sequence[tuple[float, Mapping[str, FileDelta]]]) -> LaterBases:
        """``others``: the start of each, and its changes since."""
        found = LaterBases(tuple(began for began, _ in others))
        for began, deltas in others:
            contents = _old_contents(tree, deltas.values())
            for path, delta in deltas.items():
                data = contents.get(path)
                known = delta.certain and (data is not None or delta.old is None)
                digest = None if data is None else sha256(data)
                write = Write(began, digest, digest, data=data) if known else None
                found.changed.setdefault(path, {})[began] = write
        return found

    def at(self, path: str, now: str | None) -> list[Write]:
        """Return the contents of a file at these moments. ``now``: the hash of its current content."""
        changed = self.changed.get(path, {})
        writes = (changed[began] if began in changed else Write(began, now, now) for began in self.began)
        return [write for write in writes if write is not None and write.after != UNKNOWN]


def changed_by(
    tree: Tree,
    writes: ConcurrentWrites,
    notes: ForeignWrites,
    deltas: Sequence[FileDelta],
    late: bool,
    later_bases: LaterBases,
) -> list[KeptChange]:
    """Return the changes of the command of ``notes``, those of one file in order.

    ``late``: earlier contents are unknown. ``later_bases``: contents that commands which started later have found.
    """
    contents = {} if late else _old_contents(tree, deltas)
    found: list[KeptChange] = []
    for delta in deltas:
        before = contents.get(delta.path)
        is_known = not late and delta.certain and (delta.old is None or before is not None)
        found += _ChangedFile(delta, is_known, before).changes(writes, notes, later_bases)
    return found


def unknown_change(delta: FileDelta) -> KeptChange:
    """A change whose contents are not known."""
    return KeptChange(Path(delta.path), delta.kind, state=delta.new)


def in_turn(found: Sequence[KeptChange]) -> list[list[KeptChange]]:
    """Split the changes so that each part has a file once: several changes of one file are kept one after the other."""
    parts: list[list[KeptChange]] = []
    count: dict[Path, int] = {}
    for item in found:
        number = count[item.path] = count.get(item.path, -1) + 1
        if number == len(parts):
            parts.append([])
        parts[number].append(item)
    return parts


def _old_contents(tree: Tree, deltas: Iterable[FileDelta]) -> dict[str, bytes]:
    states = {delta.path: delta.old for delta in deltas if delta.old is not None}
    return tree.contents({path: old for path, old in states.items() if old.size <= MAX_CONTENT})


class _ChangedFile:
    """One file that has changed since a command began."""

    def __init__(self, delta: FileDelta, is_known: bool, before: bytes | None) -> None:
        """``is_known``: whether its content before, which is ``before``, is known."""
        self._delta = delta
        self._path = Path(delta.path)
        self._contents: dict[str, bytes] = {}
        """By hash."""
        self._is_settled = True
        """It has not changed again since all files were looked at, as far as we know."""
        self._old = self._hashed(before) if is_known else UNKNOWN

    def changes(
        self, writes: ConcurrentWrites, notes: ForeignWrites, later_bases: LaterBases
    ) -> Iterator[KeptChange]:
        """Yield what the command did to it."""

        def between(now: str | None) -> Sequence[Write]:
            # If the file changed again since, it is not what the others found.
            return later_bases.at(self._delta.path, now) if self._is_settled else ()

        delta = self._delta
        told = writes.since(notes, delta.path, self._old, delta.new, self._read, between)
        old_mode = delta.old.mode if delta.old is not None and self._old != UNKNOWN else None
        new_mode = delta.new.mode if delta.new is not None and told.now is not None else None
        own = list(told.own)
        if self._only_mode(told, old_mode, new_mode):
            own.append(Write(writes.now(), told.now, told.now))
        for number, write in enumerate(own):
            try:
                sides = [self._content(digest, told.others) for digest in (write.before, write.after)]
            except BlobError:
                yield KeptChange(self._path, "update", state=delta.new)
                continue
            # Changed permission bits are attributed to the last change of the command, unless a tool set some.
            whole = number == len(own) - 1 and not any(other.changed_mode for other in told.others)
            same = new_mode if new_mode is not None else old_mode
            was, now = (old_mode, new_mode) if whole else (same, same)
            was, now = None if write.before is None else was, None if write.after is None else now
            mode = now if None not in (was, now) and was != now else None
            change = FileChange(self._path, sides[0], sides[1], mode)
            folders = tuple(Path(folder) for folder in delta.new_folders) if number == 0 else ()
            yield KeptChange(self._path, change.kind, change, was, now, folders, write, delta.new)
        if told.rest:
            # A file whose earlier state is unknown may or may not have existed.
            sure = self._old != UNKNOWN or delta.new is None
            yield KeptChange(self._path, delta.kind if sure else "update", state=delta.new)

    def _read(self) -> str | None:
        """Return the hash of its current content."""
        new = self._delta.new
        if new is None:
            return None
        if new.size > MAX_CONTENT:
            return UNKNOWN
        try:
            data = read_or_none(self._path)
        except OSError:
            return UNKNOWN
        with contextlib.suppress(OSError):
            self._is_settled = FileState.of(self._path.lstat()).stamp == new.stamp
        return self._hashed(data)

    def _hashed(self, data: bytes | None) -> str | None:
        if data is None:
            return None
        self._contents[digest := sha256(data)] = data
        return digest

    def _content(self, digest: str | None, others: Sequence[Write]) -> bytes | None:
        """Return a content that the command or one of the ``others`` found or left. Raises BlobError when it is
        unknown."""
        if digest is None:
            return None
        if digest in self._contents:
            return self._contents[digest]
        for write in others:
            if write.data is not None and write.after == digest:
                return write.data
            if write.blobs is not None and digest in (write.before, write.after):
                return write.blobs.get(digest)
        raise BlobError(f"Nobody has {digest[:12]}.")

    def _only_mode(self, told: ChangedSince, old_mode: int | None, new_mode: int | None) -> bool:
        if told.own or told.rest or None in (old_mode, new_mode) or UNKNOWN in (self._old, told.now):
            return False
        return old_mode != new_mode and not any(write.changed_mode for write in told.others)
