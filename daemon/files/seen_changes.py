"""What a command did to files, from how they were and are, and from what others wrote meanwhile. Blocking."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.files.blobs import BlobError
from daemon.files.history import SeenChange, SessionHistory
from daemon.files.meanwhile import Meanwhile, Notes, content
from daemon.files.overlaps import UNKNOWN, Gap, KnownChange, Write
from daemon.files.state import FileDelta, FileState
from tools.files.regular_files import sha256
from tools.tool import ChangeKind, FileChange
from tools.writing.atomic import read_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from daemon.files.tree import Tree

MAX_CONTENT = 8 * 1024 * 1024
"""Bytes of a new content that is kept."""


@dataclass(frozen=True, slots=True)
class CommandEdit:
    """A change by a command. Without ``gap`` it is not known what it was."""

    seen: SeenChange
    state: FileState | None
    gap: Gap | None = None

    def seen_in(self, history: SessionHistory) -> SeenChange:
        """The change as it is to be kept there: ahead of what came later, though that was kept before."""
        later = self.gap.later if self.gap is not None else ()
        names = (write.names.get(id(history)) for write in later)
        return replace(self.seen, ahead_of=next((name for name in names if name), None))


def kind_of(delta: FileDelta) -> ChangeKind:
    """Whether a file is there now, and was before."""
    if delta.new is None:
        return "delete"
    return "create" if delta.old is None else "update"


def in_turn(found: Sequence[CommandEdit]) -> list[list[CommandEdit]]:
    """The same, so that each part has a file once: several changes of one file are kept one after the other."""
    parts: list[list[CommandEdit]] = []
    count: dict[Path, int] = {}
    for item in found:
        number = count[item.seen.path] = count.get(item.seen.path, -1) + 1
        if number == len(parts):
            parts.append([])
        parts[number].append(item)
    return parts


@dataclass(frozen=True, slots=True)
class LaterBases:
    """How commands that began later, and are still at work, found the files: they will not take that for theirs."""

    began: tuple[float, ...] = ()
    changed: dict[str, dict[float, Write | None]] = field(
        default_factory=dict[str, "dict[float, Write | None]"]
    )
    """Of files that changed since, by when each began; None: not known."""

    @staticmethod
    def of(tree: Tree, others: Sequence[tuple[float, Mapping[str, FileDelta]]]) -> LaterBases:
        """``others``: when each began, and what changed since."""
        found = LaterBases(tuple(began for began, _ in others))
        for began, deltas in others:
            old = {path: delta.old for path, delta in deltas.items()}
            states = {p: state for p, state in old.items() if state is not None and state.size <= MAX_CONTENT}
            contents = tree.contents(states)
            for path, delta in deltas.items():
                data = contents.get(path)
                known = delta.certain and (data is not None or delta.old is None)
                digest = None if data is None else sha256(data)
                write = Write(began, digest, digest, data=data) if known else None
                found.changed.setdefault(path, {})[began] = write
        return found

    def at(self, path: str, now: str | None) -> list[Write]:
        """What stood in a file at these moments, which has the content ``now`` (a hash)."""
        changed = self.changed.get(path, {})
        writes = (changed[began] if began in changed else Write(began, now, now) for began in self.began)
        return [write for write in writes if write is not None and write.after != UNKNOWN]


def seen_changes(
    tree: Tree,
    meanwhile: Meanwhile,
    notes: Notes,
    deltas: Sequence[FileDelta],
    late: bool,
    found_by: LaterBases,
) -> list[CommandEdit]:
    """The changes of one command, those of one file in order. ``late``: what was before it is not known; ``found_by``:
    what others that began later found, and will not take for theirs."""
    states: dict[str, FileState] = {
        delta.path: delta.old for delta in deltas if delta.old is not None and delta.old.size <= MAX_CONTENT
    }
    contents = {} if late else tree.contents(states)
    return [
        found for delta in deltas for found in _changes(meanwhile, notes, delta, contents, late, found_by)
    ]


def _changes(
    meanwhile: Meanwhile,
    notes: Notes,
    delta: FileDelta,
    contents: dict[str, bytes],
    late: bool,
    found_by: LaterBases,
) -> Iterator[CommandEdit]:
    path = Path(delta.path)
    before = contents.get(delta.path)
    known: dict[str, bytes] = {}
    settled: list[bool] = []

    def between(now: str | None) -> list[Write]:
        # Changed again since all files were looked at: then it is not what the others found.
        return found_by.at(delta.path, now) if all(settled) else []

    def hashed(data: bytes) -> str:
        known[digest := sha256(data)] = data
        return digest

    def read() -> str | None:
        if delta.new is None:
            return None
        if delta.new.size > MAX_CONTENT:
            return UNKNOWN
        try:
            data = read_or_none(path)
        except OSError:
            return UNKNOWN
        with contextlib.suppress(OSError):
            settled.append(FileState.of(path.lstat()).stamp == delta.new.stamp)
        return None if data is None else hashed(data)

    if late or not delta.certain or (delta.old is not None and before is None):
        old = UNKNOWN
    else:
        old = None if before is None else hashed(before)
    new, told = meanwhile.told(notes, delta.path, old, delta.new, read, between)
    old_mode = delta.old.mode if delta.old is not None and old != UNKNOWN else None
    new_mode = delta.new.mode if delta.new is not None and new is not None else None
    gaps = list(told.gaps)
    if _only_mode(old, new, old_mode, new_mode, told):
        gaps.append(Gap(new, new, meanwhile.now()))
    for number, gap in enumerate(gaps):
        try:
            sides = [content(digest, known, told.writes) for digest in (gap.before, gap.after)]
        except BlobError:
            yield CommandEdit(SeenChange(path, "update"), delta.new)
            continue
        # Bits that are not as they were are taken for set by its last change, but when a tool set some.
        whole = number == len(gaps) - 1 and not any(write.changed_mode for write in told.writes)
        same = new_mode if new_mode is not None else old_mode
        was, now = (old_mode, new_mode) if whole else (same, same)
        was, now = None if gap.before is None else was, None if gap.after is None else now
        mode = now if None not in (was, now) and was != now else None
        change = FileChange(path, sides[0], sides[1], mode)
        folders = tuple(Path(folder) for folder in delta.new_folders) if number == 0 else ()
        yield CommandEdit(SeenChange(path, change.kind, change, was, now, folders), delta.new, gap)
    if told.rest:
        # What was not known before may have been there or not.
        sure = (delta.certain and not late) or delta.new is None
        yield CommandEdit(SeenChange(path, kind_of(delta) if sure else "update"), delta.new)


def _only_mode(
    old: str | None, new: str | None, old_mode: int | None, new_mode: int | None, told: KnownChange
) -> bool:
    if told.gaps or told.rest or None in (old_mode, new_mode) or UNKNOWN in (old, new):
        return False
    return old_mode != new_mode and not any(write.changed_mode for write in told.writes)
