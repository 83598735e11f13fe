"""Files that a branch wrote, from its own file history, where a comparison of its copy with the base does not show
them.

The comparison leaves out what git ignores, and it may fail. These files exist nowhere else. All functions block.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.copies.working_copy import HEAVY, BranchChange
from daemon.explore.results import name_problem
from daemon.files.blobs import BlobError
from daemon.files.git import Git
from tools.diff.unified_diff import shown_name
from tools.files.regular_files import open_regular
from tools.localization import t
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from daemon.files.history import SessionHistory
    from daemon.files.versions import FileVersions, Version

MOST_FILES = 1_000
MOST_BYTES = 64 << 20
"""More is not kept: it was made by a program, and can be made again."""
_NAMED = 10
_GENERATED = frozenset((*HEAVY, "build", ".git"))


def short_names(files: Sequence[BranchChange]) -> str:
    """Return the first of them, and how many more there are."""
    shown = ", ".join(head(shown_name(change.name), 120) for change in files[:_NAMED])
    more = len(files) - _NAMED
    return t("{shown} and {more} more", shown=shown, more=more) if more > 0 else shown


def ignored_changes(
    history: SessionHistory, root: Path, origin: Path, changes: Collection[BranchChange]
) -> tuple[tuple[BranchChange, ...], str]:
    """Return the branch's files that the comparison has left out, with their current content, and a note for those who
    compare the branches, which is empty when there are none.

    ``before`` of the files is None because their content before is unknown. Raises OSError.
    """
    git = Git.of(root, origin)
    known = {change.name for change in changes}
    names = [name for name in _wrote(history, root) if name not in known]
    if git is None:
        wanted = [name for name in names if not set(HEAVY).isdisjoint(name.split("/"))]
    else:
        # The history lacks files written by commands, but a new copy contains no ignored files.
        ignored = git.are_ignored(str(root / name) for name in names)
        made = [name for path in sorted(git.ignored()) for name in _below(path, root)]
        wanted = [name for name in names if str(root / name) in ignored] + made
    files = tuple(_current(root, sorted(set(wanted) - known)))
    if not files:
        return (), ""
    why = (
        t("folders with this name are skipped in folders without git")
        if git is None
        else t("git ignores them")
    )
    return files, left_out_note(why, files)


def left_out_note(why: str, files: Sequence[BranchChange]) -> str:
    """Return a note for those who compare the branches about files that are not among the changes."""
    named = short_names(files)
    return t("Not included in its changes, because {with_git}: {files}.", with_git=why, files=named)


def recorded_changes(history: SessionHistory, root: Path) -> tuple[BranchChange, ...]:
    """Return the files that the branch's tools and commands wrote, for a copy that cannot be compared. Raises
    OSError."""
    there = root.is_dir()
    found: list[BranchChange] = []
    for name, versions in _wrote(history, root).items():
        first, last = versions[0].entry, versions[-1].entry
        before = _blob(history, first.before if first is not None else None)
        before_mode = None if first is None or before is None else _mode(first.before_mode)
        now = _now(root, name) if there else _stored(history, last)
        after, after_mode = now if now is not None else (None, None)
        if before != after:
            found.append(BranchChange(name, before, after, before_mode, after_mode))
    return tuple(_bounded(sorted(found, key=lambda change: change.name)))


def _wrote(history: SessionHistory, root: Path) -> dict[str, list[Version]]:
    """Return all versions of each file in the copy, by name; what belongs to the repository or to us is left out."""
    found: dict[str, list[Version]] = {}
    for version in history.record().versions():
        if not version.path.is_relative_to(root):
            continue
        name = version.path.relative_to(root).as_posix()
        parts = name.split("/")
        if name_problem(name) or parts[0] == ".trace" or any(part.casefold() == ".git" for part in parts):
            continue
        found.setdefault(name, []).append(version)
    return found


def _below(path: str, root: Path) -> Iterator[str]:
    """Yield files at or below what git ignores, but for what programs make for themselves."""
    found = 0
    top = Path(path)
    if not _GENERATED.isdisjoint(top.relative_to(root).parts) or top.is_symlink():
        return
    if not top.is_dir():
        yield top.relative_to(root).as_posix()
        return
    for where, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if name not in _GENERATED)
        for name in sorted(files):
            found += 1
            if found > MOST_FILES:
                return
            yield (Path(where) / name).relative_to(root).as_posix()


def _current(root: Path, names: Sequence[str]) -> Iterator[BranchChange]:
    """Yield files as they are now. What does not fit is not read."""
    size, found = 0, 0
    for name in names:
        if found < MOST_FILES and (now := _now(root, name, MOST_BYTES - size)) is not None:
            size, found = size + len(now[0]), found + 1
            yield BranchChange(name, None, now[0], None, now[1])


def _now(root: Path, name: str, most: int = MOST_BYTES) -> tuple[bytes, int] | None:
    """Return a file of the copy itself; None: it does not exist, is behind a link, or has no content or too much."""
    path = root / name
    try:
        if Path(os.path.realpath(path.parent)) != path.parent:
            return None
        with open_regular(path) as file:
            found = os.fstat(file.fileno())
            return None if found.st_size > most else (file.read(most), _mode(found.st_mode) or 0o100644)
    except OSError:
        return None


def _stored(history: SessionHistory, entry: FileVersions | None) -> tuple[bytes, int | None] | None:
    data = _blob(history, entry.after if entry is not None else None)
    return None if data is None or entry is None else (data, _mode(entry.after_mode))


def _blob(history: SessionHistory, digest: str | None) -> bytes | None:
    try:
        return None if digest is None else history.blobs.get(digest)
    except (BlobError, OSError):
        return None


def _mode(bits: int | None) -> int | None:
    return None if bits is None else 0o100755 if bits & 0o100 else 0o100644


def _bounded(found: Sequence[BranchChange]) -> Iterator[BranchChange]:
    size = 0
    for change in found[:MOST_FILES]:
        more = len(change.before or b"") + len(change.after or b"")
        if size + more <= MOST_BYTES:
            size += more
            yield change
