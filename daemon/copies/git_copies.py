"""Working copies of a repository (or, with git's help, of a plain folder). Each is filled from a snapshot.

Files are copied as they are on disk (not what a checkout would make of them), with their times, by processes of their
own. A file that has changed since the snapshot is written from the snapshot's own objects instead, so that all branches
of an exploration start from the same bytes.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins

from daemon.copies import dependency_folders, parallel_copy, snapshot
from daemon.copies.copy_diff import EMPTY_TREE, CopiedRepository, CopyComparison, blobs, small_patch
from daemon.copies.copy_worker import Stat, index_stat
from daemon.copies.git_program import INDEX, CancelToken, GitProgram, PrivateIndex, ignore_line
from daemon.copies.managed_copy import Compare, Filled, ManagedCopies
from daemon.copies.repository import Repository, make_git_for_agent, write_stores
from daemon.copies.snapshot import KEPT, Snapshot
from daemon.copies.working_copy import HEAVY, Base, CopyError
from daemon.files import index_file
from daemon.files.index_file import LINK, IndexLine
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from daemon.copies.copy_folders import CopyFolder


class _GitBase(Struct, frozen=True):
    snapshot: Snapshot
    links: tuple[bytes, ...]


def _stays(taken: Snapshot, patch: bytes | None) -> str:
    """Return why only this machine has the files; see ``Base``."""
    if taken.parts or taken.folders:
        return t("other repositories (submodules) are in the workspace")
    if taken.tree != taken.raw_tree:
        return t("git converts files of the workspace (line ends, encodings, filters), or leaves some out")
    if taken.state is not None and "shallow" in taken.state.files:
        return t("the clone is shallow")
    return t("the uncommitted changes are too large") if patch is None else ""


class GitCopies(ManagedCopies[_GitBase]):
    """Makes copies of one workspace with the help of git.

    ``workspace`` and ``folder`` are resolved; ``repository`` is False for a folder that is in none.
    """

    def __init__(
        self, workspace: Path, folder: Path, links: Sequence[str], program: str, repository: bool = True
    ) -> None:
        super().__init__(workspace, folder, links, max(2, os.cpu_count() or 1))
        self._program = program
        self._in_repository = repository

    # -- in threads --

    def _taken(self, stop: CancelToken, folder: Path) -> tuple[Base, _GitBase]:
        git, repository = GitProgram(self._program, stop), None
        if self._in_repository:
            repository = Repository.of(git, self._workspace)
            if repository is None:
                raise CopyError(f"{self._workspace} is no longer in a git repository; start again.")
        source = repository.top if repository else self._workspace
        exclude = b"" if repository else _heavy(self._links)
        taken = snapshot.take(git, repository, source, folder / "base", exclude)
        links = _links_of(git, taken, self._links, self._workspace)
        commit = taken.state.commit if taken.state else None
        private = PrivateIndex(git, taken.git_dir, source)
        patch = small_patch(private, commit or EMPTY_TREE[taken.hash_size], taken.tree)
        return Base(commit, taken.tree, patch, _stays(taken, patch)), _GitBase(taken, tuple(links))

    def _filled(self, stop: CancelToken, place: CopyFolder, taken: _GitBase) -> Filled:
        there = taken.snapshot
        top = place.root(there.source.name or "copy")
        parts = _fill(GitProgram(self._program, stop), there, top, place.ours, taken.links)
        inner = self._workspace.relative_to(there.source).as_posix()
        workspace = "" if inner == "." else f"{inner}/"
        (top / workspace).mkdir(parents=True, exist_ok=True)
        record = {"workspace": workspace, "parts": to_builtins(parts)}
        return there.source, top, taken.links, record

    def _comparing(self, place: CopyFolder, top: Path, record: dict[str, Any]) -> Compare:
        for stale in place.ours.glob("*/*.git/*.lock"):  # git was killed with the daemon
            stale.unlink()
        parts = tuple(CopiedRepository(**part) for part in record["parts"])
        return CopyComparison(self._program, top, place.ours, parts, record["workspace"]).outcome


_AT_ONCE = 200


def _heavy(links: Sequence[str]) -> bytes:
    """Return exclude lines for heavy and linked folders."""
    names = [*HEAVY, *(link.strip("/") for link in links if "/" not in link.strip("/"))]
    return b"".join(os.fsencode(f"{name}\n") for name in dict.fromkeys(names))


def _links_of(git: GitProgram, taken: Snapshot, patterns: Sequence[str], workspace: Path) -> list[bytes]:
    """Return the ignored folders that are to be links in copies, relative to the top."""
    if not patterns:
        return []
    private = PrivateIndex(git, taken.git_dir, taken.source)
    listing = private.run("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    inner = b""
    if workspace != taken.source:
        inner = os.fsencode(workspace.relative_to(taken.source).as_posix()) + b"/"
    found = dependency_folders.wanted(filter(None, listing.split(b"\0")), patterns, inner)
    return sorted(name for name in found if (taken.source / os.fsdecode(name)).is_dir())


def _fill(
    git: GitProgram, snapshot: Snapshot, top: Path, ours: Path, links: Sequence[bytes]
) -> list[CopiedRepository]:
    """Make the copy in ``top`` (new), and what belongs to it in ``ours``. Raises CopyError and OSError."""
    top.mkdir(mode=0o700)
    parts: list[CopiedRepository] = []
    for taken in snapshot.all():
        git.stop.check()
        folder = f"part{len(parts)}"
        prefix = os.fsdecode(taken.prefix)
        exclude = b"" if taken.prefix else b"".join(ignore_line(link) for link in links)
        _fill_one(git, taken, top / prefix, ours / folder, exclude)
        parts.append(CopiedRepository(prefix, folder, taken.raw_tree, taken.hash_size))
    for link in links:
        there = top / os.fsdecode(link)
        there.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(there):
            there.symlink_to(snapshot.source / os.fsdecode(link), target_is_directory=True)
    return parts


def _fill_one(git: GitProgram, taken: Snapshot, top: Path, ours: Path, exclude: bytes) -> None:
    entries = {entry.path: entry for entry in taken.files}
    top.mkdir(parents=True, exist_ok=True)
    stats, moved = parallel_copy.copy(git.stop, taken.source, top, parallel_copy.plan_of(entries.values()))
    if moved:
        raw = PrivateIndex(git, taken.raw_dir, taken.source)
        for start in range(0, len(moved), _AT_ONCE):
            some = [entries[name] for name in moved[start : start + _AT_ONCE]]
            stats.update(_from_objects(raw, some, top))
    for name in taken.folders:
        (top / os.fsdecode(name)).mkdir(parents=True, exist_ok=True)
    stores = taken.repository.stores() if taken.repository else []
    _clone(taken, ours / "raw.git", stores, exclude)
    if taken.raw_data:
        data = index_file.restat(
            taken.raw_data, taken.raw, taken.hash_size, lambda entry: stats.get(entry.path)
        )
        (ours / "raw.git" / INDEX).write_bytes(data)
    if taken.repository and taken.state:
        make_git_for_agent(top / ".git", taken.repository, taken.state, stores, exclude)
        if (kept := taken.git_dir.parent / KEPT).is_dir():
            # Copy instead of linking: changes of the agent's files must not affect those that we compare with.
            shutil.copytree(
                kept, top / ".git/objects/pack", dirs_exist_ok=True, copy_function=shutil.copyfile
            )
        if taken.user_data:
            (top / ".git" / INDEX).write_bytes(_users_index(taken, entries, stats))


def _users_index(taken: Snapshot, entries: dict[bytes, IndexLine], stats: dict[bytes, Stat]) -> bytes:
    """Return the user's index for the copy: files that git knew to be unchanged, it knows in the copy, too."""

    def stat_of(entry: IndexLine) -> Stat | None:
        now = entries.get(entry.path)
        if now is None or now.stat != entry.stat:
            return entry.stat  # it differs here as it differed there
        # An equal stat from the same moment as the index itself proves nothing ("racily clean").
        racy = entry.mtime_ns >= taken.user_mtime_ns
        return None if racy else stats.get(entry.path)

    return index_file.restat(taken.user_data, taken.user, taken.hash_size, stat_of)


def _from_objects(raw: PrivateIndex, entries: Iterable[IndexLine], top: Path) -> dict[bytes, Stat]:
    """Write files as they were when the snapshot was taken."""
    listed = list(entries)
    contents = blobs(raw, {entry.oid.hex().encode() for entry in listed})
    stats: dict[bytes, Stat] = {}
    for entry in listed:
        path = top / os.fsdecode(entry.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = contents[entry.oid.hex().encode()]
        if entry.kind == LINK:
            path.symlink_to(os.fsdecode(content))
        else:
            path.write_bytes(content)
            path.chmod(0o755 if entry.mode & 0o100 else 0o644)
        stats[entry.path] = index_stat(path.lstat())
    return stats


def _clone(taken: Snapshot, target: Path, stores: Sequence[Path], exclude: bytes) -> None:
    """A private git folder to compare a copy with, which has all objects of the snapshot. They never change, so they
    may be links of one file."""
    for source in (taken.git_dir, taken.raw_dir):
        shutil.copytree(source / "objects", target / "objects", copy_function=_link, dirs_exist_ok=True)
    source = taken.raw_dir
    shutil.copytree(source / "refs", target / "refs")
    shutil.copytree(source / "info", target / "info")
    with (target / "info" / "exclude").open("ab") as file:
        file.write(exclude)
    for name in ("config", "shallow", "HEAD"):
        if (source / name).exists():
            shutil.copyfile(source / name, target / name)
    write_stores(target, stores)


def _link(source: str, target: str) -> str:
    if source.endswith("alternates"):
        return target
    try:
        os.link(source, target)
    except FileExistsError:
        pass  # an object has the content that its name says
    except OSError:
        shutil.copyfile(source, target)
    return target
