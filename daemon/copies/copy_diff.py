"""Compare the files of a branch's copy with those it started from, both as bytes. Blocking."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from daemon.copies.copy_worker import index_stat
from daemon.copies.git_program import INDEX, GitProgram, PrivateIndex
from daemon.copies.repository import make_git_for_us
from daemon.copies.working_copy import MOST_CHANGED, MOST_PATCH, BranchChange, CopyError
from daemon.files.git import blobs_in
from daemon.files.index_file import GITLINK, read, restat
from tools.writing.disk import leads_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from daemon.copies.git_program import CancelToken

_AT_ONCE = 100
EMPTY_TREE = {
    20: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    32: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
"""By bytes of an object's id; git knows it without having it."""


class CopiedRepository(Struct, frozen=True):
    """One repository of a copy: the outermost one, or one inside it. The register has these fields."""

    prefix: str
    """Where it is in the copy: empty, or with ``/`` at its end."""
    folder: str
    """Our folder for it beside the copy; it holds ``raw.git``."""
    tree: str
    """Id of the tree with the bytes that the branch started from."""
    hash: int
    """Bytes of an object's id."""


class CopyComparison(Struct, frozen=True):
    """Compares one copy.

    Contents are the bytes on disk, in patches too. ``git apply`` converts files before it compares: so it rejects a
    patch of lines with a keyword (attribute ``ident``), or in another encoding (``working-tree-encoding``). Our own
    merging does not use patches.
    """

    program: str
    """The git program."""
    top: Path
    ours: Path
    parts: tuple[CopiedRepository, ...]
    workspace: str
    """Path of the workspace within the top folder: empty, or with ``/`` at its end."""

    def outcome(self, stop: CancelToken) -> tuple[list[BranchChange], bytes]:
        """Both, from one look at the files. Raises CopyError."""
        found: list[BranchChange] = []
        patches: list[bytes] = []
        for part, private, now in self._now(GitProgram(self.program, stop)):
            found += _changes(private, part.tree, now, part.prefix, self._named)
            patches.append(diff(private, part.tree, now, "--no-renames", prefix=part.prefix))
        return sorted(found, key=lambda change: change.name), b"".join(patches)

    def _named(self, path: str) -> str:
        if path.startswith(self.workspace):
            return path[len(self.workspace) :]
        return os.path.relpath(path, self.workspace).replace(os.sep, "/")

    def _now(self, git: GitProgram) -> Iterator[tuple[CopiedRepository, PrivateIndex, str]]:
        known = {part.prefix for part in self.parts}
        waiting = list(self.parts)
        while waiting:
            part = waiting.pop(0)
            git.stop.check()
            work_tree = self.top / part.prefix
            git_dir = self.ours / part.folder / "raw.git"
            if not _is_inside(work_tree):
                private = PrivateIndex(git, git_dir, self.top)
                yield part, private, EMPTY_TREE[part.hash]
                continue
            private = PrivateIndex(git, git_dir, work_tree)
            self._doubt(private, work_tree, part.hash)
            private.add_all("--sparse")
            yield part, private, private.write_tree()
            for name in _repositories(private, part.hash):
                prefix = f"{part.prefix}{os.fsdecode(name)}/"
                inner = self.top / prefix
                if prefix not in known and (inner / ".git").exists() and _is_inside(inner):
                    known.add(prefix)
                    waiting.append(self._new_part(prefix, len(known)))

    def _doubt(self, private: PrivateIndex, work_tree: Path, hash_size: int) -> None:
        """Have git look at files that changed within the second in which they were copied, or looked at last.

        Most builds of git compare whole seconds only. A change of the same size that puts the old time back
        (``cp -p``, unpacking) would be none for them.
        """
        path = private.git_dir / INDEX
        try:
            data, ready_s = path.read_bytes(), int((self.ours / "ready").stat().st_mtime)
        except FileNotFoundError:
            return
        index = read(data, hash_size)
        top = os.fsencode(work_tree) + b"/"
        doubtful: set[bytes] = set()
        for entry in index.entries:
            if entry.kind != GITLINK and entry.stat[0] >= ready_s:
                try:
                    now = index_stat(os.lstat(top + entry.path))
                except OSError:
                    continue  # deleted, which git detects itself
                if now[:4] != entry.stat[:4]:
                    doubtful.add(entry.path)
        if doubtful:
            path.write_bytes(
                restat(data, index, hash_size, lambda one: None if one.path in doubtful else one.stat)
            )

    def _new_part(self, prefix: str, number: int) -> CopiedRepository:
        """Return the part for a repository that the branch created: all its files are new."""
        folder = f"new{number}"
        git_dir = self.ours / folder / "raw.git"
        if not (git_dir / "HEAD").exists():
            make_git_for_us(git_dir, "sha1", (), as_they_are=True)
        return CopiedRepository(prefix, folder, EMPTY_TREE[20], 20)


def _is_inside(path: Path) -> bool:
    """Return whether it is a folder that no symbolic link leads to: the branch may have made one, to files outside."""
    return path.is_dir() and leads_here(path)


def _repositories(private: PrivateIndex, hash_size: int) -> Iterable[bytes]:
    path = private.git_dir / INDEX
    index = read(path.read_bytes() if path.exists() else b"", hash_size)
    return sorted({entry.path for entry in index.entries if entry.kind == GITLINK} | private.unborn)


def diff(private: PrivateIndex, before: str, after: str, *options: str, prefix: str = "") -> bytes:
    """Return a binary patch between two trees. Raises GitError."""
    if before == after:
        return b""
    prefixes = (f"--src-prefix=a/{prefix}", f"--dst-prefix=b/{prefix}")
    fixed = ("--binary", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color")
    return private.run("diff", *fixed, "--ignore-submodules=all", *options, *prefixes, before, after, "--")


def small_patch(private: PrivateIndex, before: str, after: str) -> bytes | None:
    """Return the patch, or None when its files exceed ``MOST_PATCH`` because they would be in memory. Raises
    CopyError."""
    if before == after:
        return b""
    _, sizes = _differences(private, before, after)
    return None if sum(sizes.values()) > MOST_PATCH else diff(private, before, after)


class _Difference(Struct, frozen=True):
    name: bytes
    modes: tuple[int | None, int | None]
    oids: tuple[bytes, bytes]

    @property
    def contents(self) -> set[bytes]:
        """Return the ids of existing contents."""
        return {oid for oid, mode in zip(self.oids, self.modes, strict=True) if mode is not None}


def _differences(
    private: PrivateIndex, before: str, after: str
) -> tuple[list[_Difference], dict[bytes, int]]:
    """Return the files that differ, and the sizes of their contents by id; one that is missing is left out."""
    if before == after:
        return [], {}
    # This takes little time: it reads only trees and the headers of objects.
    fields = private.run("diff-tree", "-r", "-z", "--no-renames", before, after, long=False).split(b"\0")
    found: list[_Difference] = []
    for head, name in zip(fields[0::2], fields[1::2], strict=False):
        old_mode, new_mode, old, new, _ = head.lstrip(b":").split(b" ")
        modes = _mode(old_mode), _mode(new_mode)
        if modes != (None, None):
            found.append(_Difference(name, modes, (old, new)))
    return found, private.sizes({oid for one in found for oid in one.contents})


def _changes(
    private: PrivateIndex, before: str, after: str, prefix: str, named: Callable[[str], str]
) -> Iterator[BranchChange]:
    found, sizes = _differences(private, before, after)
    check_size(
        {prefix + os.fsdecode(one.name): sum(sizes.get(oid, 0) for oid in one.contents) for one in found}
    )
    for start in range(0, len(found), _AT_ONCE):
        some = found[start : start + _AT_ONCE]
        contents = blobs(private, {oid for one in some for oid in one.contents})
        for one in some:
            sides = [
                None if mode is None else contents[oid] for oid, mode in zip(one.oids, one.modes, strict=True)
            ]
            yield BranchChange(named(prefix + os.fsdecode(one.name)), sides[0], sides[1], *one.modes)


def check_size(changed: Mapping[str, int]) -> None:
    """Bytes of the changed files by name. Raises CopyError when they are too much to be kept in memory and stored."""
    if sum(changed.values()) <= MOST_CHANGED:
        return
    largest = sorted(changed, key=lambda name: changed[name], reverse=True)[:3]
    raise CopyError(
        f"The files changed by the branch are larger than {MOST_CHANGED >> 20} MB in total, too much to "
        f"store. The largest are {', '.join(f'{name} ({changed[name] >> 20} MB)' for name in largest)}. "
        "Add such files to .gitignore, or create them outside the working tree."
    )


def _mode(raw: bytes) -> int | None:
    mode = int(raw, 8)
    return None if mode in (0, GITLINK) else mode


def blobs(private: PrivateIndex, oids: Iterable[bytes]) -> dict[bytes, bytes]:
    """Contents by id in hex. Raises CopyError when one is missing."""
    ordered: Sequence[bytes] = sorted(oids)
    data = (
        private.run("cat-file", "--batch", given=b"".join(oid + b"\n" for oid in ordered)) if ordered else b""
    )
    found = dict(blobs_in(data, ordered))
    if missing := next((oid for oid in ordered if oid not in found), None):
        raise CopyError(
            f"The content {missing.decode()} is not in the repository (a partial clone?). "
            "Fetch what is missing, or start the exploration again."
        )
    return found
