"""Working copies where there is no git program: files are copied and compared byte by byte.

Limits: there is no tree hash, only plain names in the top folder's ``.gitignore`` count, and comparing reads every
file.
"""

from __future__ import annotations

import os
import shutil
import stat
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from daemon.copies import dependency_folders, parallel_copy
from daemon.copies.copy_diff import check_size
from daemon.copies.managed_copy import Compare, Filled, ManagedCopies
from daemon.copies.patch_writer import write_patch
from daemon.copies.working_copy import (
    HEAVY,
    MOST_BYTES,
    MOST_FILES,
    Base,
    BranchChange,
    CopyError,
)
from tools.files.regular_files import read_regular
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from daemon.copies.copy_folders import CopyFolder
    from daemon.copies.copy_worker import Plan, Wanted
    from daemon.copies.git_program import CancelToken

_BASE = "base"
_LINK = 0o120000
_PIECE = 1 << 20
_MAX_IGNORE = 1_000_000
"""Bytes of a ``.gitignore``; a larger one is as if it did not exist."""
_TRIES = 10
"""How often a file is copied that changes meanwhile."""


def _plan(
    stop: CancelToken, top: Path, left_out: Sequence[str], links: Sequence[str] = ()
) -> tuple[Plan, list[bytes]]:
    """Return the files to copy and the folders to link, below a folder. Raises CopyError and OSError."""
    plan: Plan = []
    linked_folders: list[bytes] = []
    count = size = 0
    waiting = [b""]
    while waiting:
        folder = waiting.pop()
        stop.check()
        names: list[tuple[bytes, int, int, int]] = []
        for entry in sorted(_scan(top, folder), key=lambda one: one.name):
            path = folder + b"/" + entry.name if folder else entry.name
            name = os.fsdecode(entry.name)
            is_folder = entry.is_dir(follow_symlinks=False)
            if dependency_folders.wanted([path], links, b"") and entry.is_dir():
                linked_folders.append(path)
            elif name == ".git" or _is_left_out(name, is_folder, left_out):
                continue
            elif is_folder:
                waiting.append(path)
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                try:
                    size += entry.stat(follow_symlinks=False).st_size
                except FileNotFoundError:
                    continue  # it was deleted while the folder was read
                names.append((entry.name, -1, -1, -1))
                count += 1
        plan.append((folder, names))
        if count > MOST_FILES or size > MOST_BYTES:
            raise CopyError(
                f"{top} is too large to copy (more than {MOST_FILES} files or {MOST_BYTES >> 30} "
                "GB). Add files that are not needed to .gitignore, or open a smaller folder."
            )
    return plan, linked_folders


def _scan(top: Path, folder: bytes) -> list[os.DirEntry[bytes]]:
    try:
        with os.scandir(os.path.join(os.fsencode(top), folder)) as entries:  # noqa: PTH118  # bytes
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        if not folder:
            raise
        return []  # it was deleted since its parent was read


def ignored_names(workspace: Path) -> tuple[str, ...]:
    """Return what to leave out: plain names in the top folder's ``.gitignore``, with ``!`` exceptions; and large
    folders."""
    try:
        data = read_regular(workspace / ".gitignore", _MAX_IGNORE)
        lines = data.decode("utf-8", "surrogateescape").splitlines()
    except OSError:
        lines = []
    names = (line.strip().removeprefix("/") for line in lines)
    plain = (name for name in names if name and "/" not in name.rstrip("/") and not name.startswith("#"))
    return (*plain, *HEAVY)


def _is_left_out(name: str, is_folder: bool, left_out: Sequence[str]) -> bool:
    for line in reversed(left_out):  # the last line that fits decides
        pattern = line.removeprefix("!")
        if (is_folder or not pattern.endswith("/")) and fnmatchcase(name, pattern.rstrip("/")):
            return pattern == line
    return False


class _PlainBase(Struct, frozen=True):
    top: Path
    links: tuple[bytes, ...]
    left_out: tuple[str, ...]


def outcome(
    stop: CancelToken, place: CopyFolder, root: Path, left_out: Sequence[str]
) -> tuple[list[BranchChange], bytes]:
    """Return the differences between the base copy and the branch's copy, and their patch. Raises OSError and
    CopyError."""
    before = dict(_contents(stop, place.ours / _BASE, left_out))
    after = dict(_contents(stop, root, left_out))
    found: list[BranchChange] = []
    sizes: dict[str, int] = {}
    for name in sorted(before.keys() | after.keys()):
        stop.check()
        old, new = before.get(name), after.get(name)
        if old and new and old[0] == new[0] and _is_same(stop, old, new):
            continue
        shown = os.fsdecode(name)
        sizes[shown] = sum(one[1].lstat().st_size for one in (old, new) if one)
        check_size(sizes)
        sides = _bytes(old), _bytes(new)
        found.append(BranchChange(shown, *sides, old[0] if old else None, new[0] if new else None))
    found.sort(key=lambda change: change.name)
    return found, write_patch(found)


_File = tuple[int, Path]


def _contents(stop: CancelToken, top: Path, left_out: Sequence[str]) -> Iterator[tuple[bytes, _File]]:
    plan, _ = _plan(stop, top, left_out)
    for folder, files in plan:
        for name, *_ in files:
            path = folder + b"/" + name if folder else name
            there = top / os.fsdecode(path)
            mode = there.lstat().st_mode
            is_link = stat.S_ISLNK(mode)
            yield path, (_LINK if is_link else 0o100755 if mode & 0o100 else 0o100644, there)


def _is_same(stop: CancelToken, old: _File, new: _File) -> bool:
    """Return whether two files of the same kind hold the same."""
    if old[0] == _LINK:
        return old[1].readlink() == new[1].readlink()
    if old[1].lstat().st_size != new[1].lstat().st_size:
        return False
    with old[1].open("rb") as one, new[1].open("rb") as other:
        while data := one.read(_PIECE):
            stop.check()
            if data != other.read(_PIECE):
                return False
    return True


def _bytes(file: _File | None) -> bytes | None:
    if file is None:
        return None
    return os.fsencode(file[1].readlink()) if file[0] == _LINK else file[1].read_bytes()


class PlainCopies(ManagedCopies[_PlainBase]):
    """Makes copies of a folder without git. ``workspace`` is resolved."""

    def __init__(self, workspace: Path, folder: Path, links: Sequence[str]) -> None:
        # Not in parallel: creating a link to a file makes the file look changed to another copying thread.
        super().__init__(workspace, folder, links, 1)

    def _taken(self, stop: CancelToken, folder: Path) -> tuple[Base, _PlainBase]:
        left_out = ignored_names(self._workspace)
        plan, links = _plan(stop, self._workspace, left_out, self._links)
        names = dict.fromkeys((*left_out, *(os.fsdecode(link.rpartition(b"/")[2]) for link in links)))
        _copy(stop, self._workspace, folder / _BASE, plan)
        # Bases have no name but must not be confused, so each is an object of its own.
        return Base(None, None, b"", t("branches on other machines need git")), _PlainBase(
            folder / _BASE, tuple(links), tuple(names)
        )

    def _filled(self, stop: CancelToken, place: CopyFolder, taken: _PlainBase) -> Filled:
        root = place.root(self._workspace.name or "copy")
        plan, _ = _plan(stop, taken.top, taken.left_out)
        _copy(stop, taken.top, root, plan)
        # Nothing writes to our own copies, so hard links are enough.
        shutil.copytree(taken.top, place.ours / _BASE, symlinks=True, copy_function=os.link)
        for link in taken.links:
            there = root / os.fsdecode(link)
            there.parent.mkdir(parents=True, exist_ok=True)
            there.symlink_to(self._workspace / os.fsdecode(link), target_is_directory=True)
        return self._workspace, root, taken.links, {"leftOut": list(taken.left_out)}

    def _comparing(self, place: CopyFolder, top: Path, record: dict[str, Any]) -> Compare:
        return lambda stop: outcome(stop, place, top, record["leftOut"])


def _copy(stop: CancelToken, source: Path, target: Path, plan: Plan) -> None:
    """Files that vanish meanwhile are left out. Raises CopyError and OSError."""
    target.mkdir(mode=0o700)
    for _ in range(_TRIES):
        _, moved = parallel_copy.copy(stop, source, target, plan)
        left: dict[bytes, list[Wanted]] = {}
        for name in moved:
            there = source / os.fsdecode(name)
            if there.is_file() and not there.is_symlink() and not os.access(there, os.R_OK):
                raise CopyError(f"{there} cannot be read. Make it readable, or add it to .gitignore.")
            if there.is_symlink() or there.is_file():  # it changed while it was copied
                folder, _, inner = name.rpartition(b"/")
                left.setdefault(folder, []).append((inner, -1, -1, -1))
        if not left:
            return
        plan = list(left.items())
    [(folder, [(inner, *_), *_]), *_] = plan
    raise CopyError(
        f"{source / os.fsdecode(folder) / os.fsdecode(inner)} keeps changing while it is copied. Stop the "
        "program that writes it, or add it to .gitignore."
    )
