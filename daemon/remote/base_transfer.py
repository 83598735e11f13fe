"""The base of branches on its way to a node: git's objects as a pack, only those that the node lacks, and the patch.

A node keeps the objects of each workspace in a bare repository in its private folder, so a commit travels once. The
tree is built there from commit and patch, and must have the hash that it has here. Blocking, for threads.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from daemon import lock
from daemon.copies.copy_diff import EMPTY_TREE
from daemon.copies.copy_folders import remove
from daemon.copies.git_program import CancelToken, GitError, GitProgram, PrivateIndex
from daemon.copies.repository import Repository, make_git_for_us
from daemon.copies.working_copy import CopyError
from daemon.runtime import state_dir
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from daemon.copies.working_copy import Base

MOST_PACK = 512 << 20
"""Bytes of git objects that are sent to a node at once: they are in memory on their way."""
_KEPT = "refs/goalwright/"
_MOST_TIPS = 200
_OLD_S = 3600.0
"""Seconds after which a pack is not taken in any more, and a folder is not being made any more."""
_NEW = ".new-"


def pack(program: str, stop: CancelToken, workspace: Path, commit: str, have: Sequence[str]) -> bytes:
    """Return a pack of the objects of ``commit`` and its history that those of ``have`` do not bring.

    Raises CopyError when there are too many, or git cannot read them.
    """
    git = GitProgram(program, stop)
    repository = Repository.of(git, workspace)
    if repository is None:
        raise CopyError(t("{workspace} is no longer in a git repository.", workspace=workspace))
    with tempfile.TemporaryDirectory(prefix="goalwright-pack-") as folder:  # 0700, and only our own settings
        git_dir = Path(folder) / "git"
        make_git_for_us(git_dir, repository.object_format, repository.stores())
        private = PrivateIndex(git, git_dir, Path(folder))
        known = private.sizes(one.encode() for one in have)
        wanted = [commit, *(f"^{one.decode()}" for one in known)]
        size = int(private.run("rev-list", "--objects", "--disk-usage", *wanted))
        if size > MOST_PACK:
            raise CopyError(
                t(
                    "the history has {size} MB of objects that the node lacks; the limit is {most} MB",
                    size=size >> 20,
                    most=MOST_PACK >> 20,
                )
            )
        return private.run(
            *("pack-objects", "--revs", "--thin", "--stdout", "-q", "--window=0"),
            given="".join(f"{one}\n" for one in wanted).encode(),
        )


def object_format(base: Base) -> str:
    """Return git's name for the kind of the base's hashes."""
    return "sha256" if len(base.tree or "") == 64 else "sha1"


class NodeCache(Struct, frozen=True):
    """The objects of one workspace on a node. ``folder``: private, for all workspaces; ``key``: of this one."""

    folder: Path
    key: str
    program: str
    """The git program."""

    @property
    def git_dir(self) -> Path:
        """The bare repository."""
        return self.folder / "objects" / f"{self.key}.git"

    def prepare(self, object_format: str) -> None:
        """Make the folders. Raises OSError and CopyError."""
        for path in (self.folder, self.folder / "objects", self.folder / "packs"):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = path.lstat()
            if not stat.S_ISDIR(found.st_mode) or (hasattr(os, "getuid") and found.st_uid != os.getuid()):
                raise CopyError(t("{path} is not a folder of yours; move it away.", path=path))
            path.chmod(0o700)
        if not (self.git_dir / "HEAD").exists():
            make_git_for_us(self.git_dir, object_format, ())

    def has(self, stop: CancelToken, commit: str) -> bool:
        """Return whether everything of this commit is here: its ref is written last."""
        return self._git(stop, "for-each-ref", f"{_KEPT}{commit}") != b""

    def tips(self, stop: CancelToken) -> list[str]:
        """Return the commits that are here, newest first."""
        fixed = ("for-each-ref", "--sort=-creatordate", f"--count={_MOST_TIPS}", "--format=%(objectname)")
        return self._git(stop, *fixed, _KEPT).decode("ascii").split()

    def add(self, stop: CancelToken, file: Path, commit: str) -> None:
        """Take in a pack with everything that ``commit`` needs, and delete it. Raises CopyError and OSError."""
        try:
            data = file.read_bytes()
        finally:
            file.unlink(missing_ok=True)
        self._git(stop, "index-pack", "--stdin", "--fix-thin", given=data)
        self._git(stop, "rev-list", "--objects", "--quiet", commit, "--not", "--glob=refs/*")
        try:
            self._git(stop, "update-ref", f"{_KEPT}{commit}", commit)
        except GitError:
            if not self.has(stop, commit):  # another branch's worker may have written it at this moment
                raise

    def check_out(self, stop: CancelToken, base: Base, top: Path) -> None:
        """Build the base's tree in the new folder ``top``: a repository at its commit, with the rest uncommitted.

        Without a commit it is a plain folder. Raises CopyError when the tree is not the one that was sent.
        """
        top.mkdir(mode=0o700)
        git_dir = top / ".git"
        kind = object_format(base)
        make_git_for_us(git_dir, kind, (), as_they_are=True)
        # Not borrowed: the sandbox of the branch's commands hides the folder of the cache. Packs never change.
        for file in sorted(
            (self.git_dir / "objects" / "pack").iterdir(), key=lambda one: one.suffix == ".idx"
        ):
            _link(file, git_dir / "objects" / "pack" / file.name)
        private = PrivateIndex(GitProgram(self.program, stop), git_dir, top)
        private.run("read-tree", base.commit or EMPTY_TREE[32 if kind == "sha256" else 20])
        if base.patch:
            private.run("apply", "--cached", "--binary", "--whitespace=nowarn", given=base.patch)
        if (tree := private.write_tree()) != base.tree:
            raise CopyError(
                t("the files on the node are not those of this machine ({tree} instead of {base})",
                  tree=tree, base=base.tree)
            )  # fmt: skip
        private.run("checkout-index", "-a", "-f")
        if base.commit is None:
            shutil.rmtree(git_dir)
            return
        (git_dir / "HEAD").write_text(f"{base.commit}\n", "ascii")
        private.run("read-tree", base.commit)
        private.run("update-index", "-q", "--refresh", "--unmerged")

    def _git(self, stop: CancelToken, *args: str, given: bytes = b"") -> bytes:
        return PrivateIndex(GitProgram(self.program, stop), self.git_dir, self.git_dir).run(
            *args, given=given
        )


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def cluster_folder() -> Path:
    """Return the private folder of a node."""
    return state_dir() / "cluster"


def sweep() -> None:
    """Remove what killed workers left on this node. Raises nothing that matters to its callers but OSError."""
    runs, packs = cluster_folder() / "runs", cluster_folder() / "packs"
    for left in list(runs.iterdir()) if runs.is_dir() else ():
        if not left.name.startswith(_NEW) or _is_old(left):
            _sweep(left, runs)
    for file in list(packs.iterdir()) if packs.is_dir() else ():
        with contextlib.suppress(OSError):
            if _is_old(file):
                file.unlink()


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > _OLD_S
    except FileNotFoundError:
        return False


@contextmanager
def run_folder() -> Generator[Path]:
    """Make a new private folder for one branch, and remove it at the end.

    Folders that killed workers left are removed before. Raises OSError.
    """
    folder = cluster_folder() / "runs"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    sweep()
    new = Path(tempfile.mkdtemp(prefix=_NEW, dir=folder))
    free = lock.take(new / "lock")
    # Until it is locked, another worker would take it for one that was left.
    made = new.rename(folder / f"run-{new.name.removeprefix(_NEW)}")
    try:
        yield made
    finally:
        if free is not None:
            free()
        remove(made, folder)


def _sweep(left: Path, folder: Path) -> None:
    try:
        free: Callable[[], None] | None = lock.take(left / "lock")
    except OSError:
        return  # it is being made, or is not ours
    if free is not None:
        free()
        remove(left, folder)
