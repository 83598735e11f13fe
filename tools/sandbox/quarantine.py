"""Move away new entries of a sandboxed command that would make other programs run something. Blocking.

Mounts protect existing files from change, but cannot forbid new names everywhere: a repository with settings of its
own, a start-up file, tasks of an editor. When the command has ended, and none of its processes runs any more, these are
moved to a private folder. The walk skips nothing, because anything that it misses would stay.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import uuid
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct

from tools.files.protected_names import is_protected_name
from tools.sandbox.git_files import KEPT_OF_GIT, STOPPED, WORKTREES, is_bare, would_run
from tools.sandbox.mounts import KnownEntries, identity, identity_if_there, stamp_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_PATH = getattr(os, "O_PATH", 0) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_LINK = f":{stat.S_IFLNK:o}:"
TAKEN = ".goalwright-taken-"
"""Prefix of entries that could not be moved away but only renamed."""


class Quarantined(Struct, frozen=True):
    """Something that is not in its place any more. ``place``: where it is; None when it could not be taken away."""

    name: str
    place: Path | None


def take_away(
    workspace: Path,
    known: KnownEntries,
    place: Path,
    *,
    denied: Callable[[str], bool] = lambda name: False,
    spare: Sequence[Path] = (),
    until: float | None = None,
    late: bool = False,
) -> list[Quarantined]:
    """Move entries that are new against ``known`` to ``place``. ``denied``: names that rules forbid to edit; ``spare``:
    folders of our own. ``late``: the command ended some time ago, so others may have created entries since: known names
    stay, and so do entries that changed last after ``until`` (seconds since the epoch). Never raises."""
    opened: list[tuple[Path, int]] = []
    found = dict(_candidates(workspace, known, denied, opened))
    # Compare the name as well, because inode numbers are reused: a mounted entry keeps its name, but its folder may
    # move.
    seen = {(it, name.rpartition("/")[2]) for name, it in found.items()}
    idents = set(known.things.values())
    taken: list[Quarantined] = []
    gone: set[str] = set()
    for name, it in found.items():
        path = workspace / name
        if any(parent.as_posix() in gone for parent in PurePosixPath(name).parents):
            continue  # with its folder
        if it in idents or any(folder.is_relative_to(path) for folder in spare):
            continue
        before = known.things.get(name)
        # Existing files cannot be removed in the sandbox, but links can, so the user has put this file in its place.
        if before is not None and _LINK not in before + it and (late or (before, path.name) not in seen):
            continue
        if until is not None and _changed_after(path, until):
            continue
        taken.append(_take(workspace, name, it, place))
        if taken[-1].place is not None:
            gone.add(name)
    for folder, mode in reversed(opened):
        with contextlib.suppress(OSError):  # it was moved away
            if not folder.is_symlink():
                folder.chmod(mode)
    return taken


def _changed_after(path: Path, when: float) -> bool:
    try:
        return path.lstat().st_ctime > when
    except OSError:
        return False


def _candidates(
    workspace: Path, known: KnownEntries, denied: Callable[[str], bool], opened: list[tuple[Path, int]]
) -> Iterator[tuple[str, str]]:
    """Yield name and identity of everything that could make other programs run something."""
    for name in known.named:
        yield from _identified(workspace, name)
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        below = f"{folder}/" if folder else ""
        seen = known.folders.get(folder)
        if seen is not None and seen.stamp is not None and seen.stamp == stamp_of(workspace / folder):
            # No entry was added or removed, but the paths in the folder may lead elsewhere now.
            yield from _unchanged(workspace, folder, known, waiting)
            continue
        listed = _listed(workspace / folder, opened)
        if listed is None:
            if folder:
                yield from _identified(workspace, folder)
            continue
        if is_bare({entry.name for entry in listed}):
            if identity_if_there(workspace / folder) in known.bare:
                yield from _of_repository(workspace, folder, known)
            else:
                yield from _identified(workspace, f"{below}HEAD")
        for entry in listed:
            name = below + entry.name
            protected = is_protected_name(name)
            is_folder = entry.is_dir(follow_symlinks=False)
            if protected or (not is_folder and denied(name)):
                yield from _identified(workspace, name)
            if not is_folder:
                continue
            if entry.name.lower() == ".git":
                yield from _of_repository(workspace, name, known)
            elif not known.closed or identity_if_there(workspace / name) not in known.closed:
                waiting.append(name)


def _unchanged(
    workspace: Path, name: str, known: KnownEntries, waiting: list[str]
) -> Iterator[tuple[str, str]]:
    """Yield the candidates of a folder whose entries are the same as before the command."""
    folder = known.folders[name]
    below = f"{name}/" if name else ""
    if folder.bare:
        yield from _of_repository(workspace, name, known)
    for entry in folder.things:
        yield from _identified(workspace, below + entry)
    for entry in folder.repositories:
        yield from _of_repository(workspace, below + entry, known)
    waiting += [below + entry for entry in folder.folders]


def _of_repository(workspace: Path, name: str, known: KnownEntries) -> Iterator[tuple[str, str]]:
    below = f"{name}/" if name else ""
    for inner in (*KEPT_OF_GIT, WORKTREES):
        yield from _identified(workspace, below + inner)
    for inner in STOPPED:
        # A rebase that waits for resolved conflicts stays, unless it would now run more than before.
        for one, it in _identified(workspace, below + inner):
            if would_run(workspace / one) - known.stopped.get(it, frozenset()):
                yield one, it


def _identified(workspace: Path, name: str) -> Iterator[tuple[str, str]]:
    if it := identity_if_there(workspace / name):
        yield name, it


def _listed(path: Path, opened: list[tuple[Path, int]]) -> list[os.DirEntry[str]] | None:
    """Return the entries of a folder, also when a command has removed our permission to list it: its mode then goes
    into ``opened``. None: it cannot be looked at.

    A folder that may be entered but not listed would hide a repository from us and not from git.
    """
    try:
        if not os.access(path, os.R_OK | os.X_OK):
            info = path.lstat()
            if info.st_uid != os.getuid() or not stat.S_ISDIR(info.st_mode):
                return []
            path.chmod(0o700)
            opened.append((path, stat.S_IMODE(info.st_mode)))
        with os.scandir(path) as entries:
            return list(entries)
    except OSError as error:
        return None if error.errno == errno.ENAMETOOLONG else []


def _take(workspace: Path, name: str, it: str, place: Path) -> Quarantined:
    """Never by a path: another command may put a link in the place of a folder just now."""
    *folders, last = name.split("/")
    opened: list[int] = []
    try:
        opened.append(os.open(workspace, _PATH))
        for folder in folders:
            opened.append(_entered(folder, opened[-1]))
        parent = f"/proc/self/fd/{opened[-1]}"
        if identity(f"{parent}/{last}") != it:
            return Quarantined(name, None)
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        target = place / f"{uuid.uuid4().hex[:8]}-{last.lstrip('.')}"
        try:
            _rename(f"{parent}/{last}", target, parent)
            return Quarantined(name, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        # On another disk, first rename it at once; then there is time to copy it.
        aside = f"{parent}/{TAKEN}{uuid.uuid4().hex}"
        _rename(f"{parent}/{last}", Path(aside), parent)
        try:
            shutil.move(aside, target)
            return Quarantined(name, target)
        except (OSError, shutil.Error):
            return Quarantined(name, workspace.joinpath(*folders, Path(aside).name))
    except OSError:
        return Quarantined(name, None)
    finally:
        for fd in opened:
            os.close(fd)


def _entered(folder: str, parent: int) -> int:
    try:
        return os.open(folder, _PATH, dir_fd=parent)
    except PermissionError:
        _open_up(f"/proc/self/fd/{parent}")
        return os.open(folder, _PATH, dir_fd=parent)


def _rename(source: str, target: Path, parent: str) -> None:
    try:
        os.rename(source, target)  # noqa: PTH104
    except PermissionError:
        # A folder without write permission can neither lose entries nor be moved itself.
        _open_up(parent)
        if stat.S_ISDIR(os.lstat(source).st_mode):
            _open_up(source)
        os.rename(source, target)  # noqa: PTH104


def _open_up(folder: str) -> None:
    mode = stat.S_IMODE(os.stat(folder).st_mode)  # noqa: PTH116
    os.chmod(folder, mode | stat.S_IRWXU)  # noqa: PTH101
