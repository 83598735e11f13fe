"""Plan an undo: three-way merges against the disk, for all files or none.

Nothing is written here. Each change is reversed and applied to the current files, newest first. The user's own edits
stay; where they conflict with the agent's, the whole plan is rejected with both sides shown.
"""

from __future__ import annotations

import difflib
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from daemon.files.blobs import BlobError, Blobs
from tools.diff.merge import Clash, MergeConflictError, merge
from tools.diff.unified_diff import shown_name
from tools.localization import t
from tools.text.lines import lines_with_ends
from tools.text.truncate import head
from tools.tool import FileChange
from tools.writing.atomic import read_or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from daemon.files.versions import FileVersions

MAX_SHOWN = 5
_SIDE_LINES = 12


class RestoreRefusedError(Exception):
    """Raised when nothing was changed; the message says why and what to do."""


class ConflictError(RestoreRefusedError):
    """Raised when the user's edits and the change overlap."""


class _DiskContent(Struct, frozen=True):
    data: bytes | None
    mode: int | None = None


class RestorePlanner(Struct):
    """Applies entries in memory to the files on disk. Blocking: use it in a thread."""

    blobs: Blobs
    display: Callable[[Path], str]
    """Returns the name of a file for the user."""
    check: Callable[[Path], None]
    """Raises RestoreRefusedError for a file that must not be written."""
    _now: dict[Path, _DiskContent] = field(default_factory=dict[Path, _DiskContent])
    _disk: dict[Path, _DiskContent] = field(default_factory=dict[Path, _DiskContent])
    _moved: dict[Path, Path] = field(default_factory=dict[Path, Path])
    _problems: list[str] = field(default_factory=list[str])
    _clashing: set[Path] = field(default_factory=set[Path])
    _folders: set[Path] = field(default_factory=set[Path])
    """Where a folder is now."""
    _blocked: set[Path] = field(default_factory=set[Path])
    """Above which a file is now."""

    def apply(self, groups: Iterable[Sequence[FileVersions]]) -> None:
        """Apply groups of entries, each from its ``before`` to its ``after``; the files of a move belong together.

        Raises RestoreRefusedError when a content is not available or a file must not be touched.
        """
        waiting: dict[Path, FileVersions] = {}
        for group in groups:
            moves = {entry.moved_from: entry for entry in group if entry.moved_from is not None}
            for entry in group:
                if entry.path in moves and entry.after is None:
                    continue  # restored with the file that it became
                source = next((e for e in group if e.path == entry.moved_from and e.after is None), None)
                if source is not None:
                    for path in (entry.path, source.path):
                        if path in waiting:
                            self._change(waiting.pop(path))
                    self._move(source, entry)
                elif (before := waiting.get(entry.path)) is not None and before.after == entry.before:
                    # Restore from first to last in one step, because intermediate contents do not matter.
                    waiting[entry.path] = replace(before, after=entry.after, after_mode=entry.after_mode)
                else:
                    if before is not None:
                        self._change(before)
                    waiting[entry.path] = entry
        for entry in waiting.values():
            self._change(entry)

    def result(self) -> list[FileChange]:
        """Return the changes to write. Raises ConflictError when a file does not fit."""
        if self._problems:
            more = len(self._problems) - MAX_SHOWN
            shown = self._problems[:MAX_SHOWN] + (
                [t("… and {more} more conflicts.", more=more)] if more > 0 else []
            )
            raise ConflictError(
                t("Nothing was changed, because some files have changed since.\n\n") + "\n\n".join(shown)
            )
        changes: list[FileChange] = []
        for path, now in self._now.items():
            disk = self._disk[path]
            mode = now.mode if now.data is not None and now.mode != disk.mode else None
            if now.data == disk.data and mode is None:
                continue
            if now.data is not None:
                self._check_room(path)
            came_from = self._moved.get(path)
            if came_from is not None and (now.data is None or self._now[came_from].data is not None):
                came_from = None
            changes.append(FileChange(path, disk.data, now.data, mode, came_from))
        return changes

    def _change(self, entry: FileVersions) -> None:
        path = entry.path
        now = self._read(path)
        base, target = self._blob(entry.before), self._blob(entry.after)
        problem = ""
        if path in self._clashing:
            return
        if path in self._folders and base is not None and target is not None:
            raise RestoreRefusedError(self._is_folder(path))
        if now.data in (base, target):
            self._now[path] = _DiskContent(target, _mode(entry, now))
            return
        if now.data is None:
            problem = t("was deleted since; restore it first.")
        elif base is None:
            problem = t("exists again, with different content.")
        elif target is None:
            problem = t(
                "was changed since it was created, and undo would delete it. Delete it yourself if that is "
                "what you want."
            )
        if problem:
            self._clash(path, problem)
        elif base is not None and now.data is not None and target is not None:
            data = self._merge(path, base, now.data, target)
            if data is not None:
                self._now[path] = _DiskContent(data, _mode(entry, now))

    def _move(self, source: FileVersions, target: FileVersions) -> None:
        """Move ``source.path`` to ``target.path``, with the user's edits in it."""
        now, there = self._read(source.path), self._read(target.path)
        base, wanted = self._blob(source.before), self._blob(target.after)
        if now.data is None and there.data == wanted:
            return
        if now.data is None:
            self._clash(source.path, t("no longer exists, so it cannot be moved."))
        elif there.data is not None:
            self._clash(target.path, t("exists again, so nothing can be moved to it."))
        elif base is not None and wanted is not None:
            data = wanted if now.data == base else self._merge(source.path, base, now.data, wanted)
            if data is not None:
                self._now[source.path] = _DiskContent(None)
                self._now[target.path] = _DiskContent(
                    data, target.after_mode if now.mode is None else now.mode
                )
                self._moved[target.path] = source.path

    def _merge(self, path: Path, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
        try:
            return merge(base, ours, theirs)
        except MergeConflictError as conflict:
            if not conflict.clashes:
                self._clash(path, t("was changed since, and {reason}.", reason=conflict.reason))
            for clash in conflict.clashes[:MAX_SHOWN]:
                self._clash(path, _both_sides(clash), clash.line)
            return None

    def _clash(self, path: Path, what: str, line: int | None = None) -> None:
        self._clashing.add(path)
        where = "" if line is None else f":{line}"
        self._problems.append(f"{shown_name(self.display(path))}{where} {what}")

    def _read(self, path: Path) -> _DiskContent:
        if path not in self._now:
            self.check(path)
            name = shown_name(self.display(path))
            if Path(os.path.realpath(path)) != path:
                raise RestoreRefusedError(
                    t("{name} now leads somewhere else. Nothing was changed.", name=name)
                )
            try:
                data = read_or_none(path)
                mode = None if data is None else stat.S_IMODE(path.stat().st_mode)
            except IsADirectoryError:
                data, mode = None, None
                self._folders.add(path)
            except NotADirectoryError:
                data, mode = None, None
                self._blocked.add(path)
            except OSError as error:
                raise RestoreRefusedError(
                    t(
                        "{name} cannot be read ({strerror}). Nothing was changed.",
                        name=name,
                        strerror=error.strerror or error,
                    )
                ) from error
            self._now[path] = self._disk[path] = _DiskContent(data, mode)
        return self._now[path]

    def _check_room(self, path: Path) -> None:
        """Check that whatever is in the way of a file will be removed. Raises RestoreRefusedError."""
        if path in self._folders:
            inside = (Path(folder) / name for folder, _, names in os.walk(path) for name in names)
            if not all(self._goes(file) for file in inside):
                raise RestoreRefusedError(self._is_folder(path))
        if path in self._blocked and not any(self._goes(folder) for folder in path.parents):
            above = next((folder for folder in path.parents if folder.is_file()), path.parent)
            raise RestoreRefusedError(
                t(
                    "{path} cannot be restored: {above}, which was a folder, is now a file. Nothing was "
                    "changed: move that file away and try again.",
                    path=shown_name(self.display(path)),
                    above=shown_name(self.display(above)),
                )
            )

    def _goes(self, path: Path) -> bool:
        return path in self._now and self._now[path].data is None and self._disk[path].data is not None

    def _is_folder(self, path: Path) -> str:
        return t(
            "{path}, which was a file, is now a folder. Nothing was changed: move the folder away and try "
            "again, or choose another change (`goalwright history` lists them).",
            path=shown_name(self.display(path)),
        )

    def _blob(self, digest: str | None) -> bytes | None:
        if digest is None:
            return None
        try:
            return self.blobs.get(digest)
        except BlobError as error:
            raise RestoreRefusedError(
                t("{error} Without it nothing can be restored; nothing was changed.", error=error)
            ) from error


def reversed_entry(entry: FileVersions) -> FileVersions:
    """Return the reversed entry. ``reversed_entries`` adds the old path of a move."""
    return replace(
        entry,
        before=entry.after,
        after=entry.before,
        before_mode=entry.after_mode,
        after_mode=entry.before_mode,
        moved_from=None,
        folders=(),
    )


def reversed_entries(entries: Sequence[FileVersions]) -> list[FileVersions]:
    """Return the entries of one change the other way round, last first; a move goes back."""
    went = {entry.moved_from: entry.path for entry in entries if entry.moved_from is not None}
    return [replace(reversed_entry(entry), moved_from=went.get(entry.path)) for entry in reversed(entries)]


def _mode(entry: FileVersions, now: _DiskContent) -> int | None:
    if now.data is None:
        return entry.after_mode
    changed = entry.before_mode is not None and entry.before_mode != entry.after_mode
    # Keep permission bits that the user has set since.
    return entry.after_mode if changed and now.mode == entry.before_mode else now.mode


def _both_sides(clash: Clash) -> str:
    mine, back = _side(clash.base, clash.ours), _side(clash.base, clash.theirs)
    return t(
        "was changed there since, too.\nCurrent text:\n{mine}\nText after the undo:\n{back}",
        mine=mine,
        back=back,
    )


def _side(base: str, other: str) -> str:
    """Return a small diff from the agent's text to one side's."""
    old, new = _shown(base), _shown(other)
    lines = [line for line in difflib.ndiff(old, new) if line[:2] in ("- ", "+ ", "  ")]
    shown = [f"  {line}".rstrip() for line in lines[:_SIDE_LINES]]
    if len(lines) > _SIDE_LINES:
        shown.append(t("  … {count} more lines", count=len(lines) - _SIDE_LINES))
    return "\n".join(shown) or "  (nothing)"


def _shown(text: str) -> list[str]:
    # Show carriage returns, or two sides that differ only in their line ends would look the same.
    lines = lines_with_ends(text)[: 4 * _SIDE_LINES]
    return [head(line.removesuffix("\n").replace("\r", "␍"), 200) for line in lines]
