"""``git add -A`` with a separate index, also where git fails: with repositories without a commit, and with pipes."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from daemon.copies import private_git
from daemon.copies.git_program import DISK_FULL, GitError, GitProgram
from daemon.copies.working_copy import MOST_BYTES, CopyError
from daemon.files.git import object_sizes
from tools.text.truncate import tail

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

INDEX = "index"
_TRIES = 8
_ONE_PACK = ("core.bigFileThreshold=1",)
"""Many new contents become one pack instead of a file each."""


class PrivateIndex:
    """A private git folder over some files."""

    def __init__(self, git: GitProgram, git_dir: Path, work_tree: Path) -> None:
        self._git = git
        self.git_dir = git_dir
        self._work_tree = work_tree
        self.unborn: set[bytes] = set()
        """Repositories without a commit that ``add_all`` left out."""

    def run(
        self, *args: str | bytes, given: bytes = b"", config: Sequence[str] = (), long: bool = True
    ) -> bytes:
        """Call git and return its output. Raises GitError."""
        return self._git.private(
            self.git_dir, self._work_tree, INDEX, *args, given=given, config=config, long=long
        )

    def add_all(self, *more: str) -> None:
        """Take all files that are not ignored into the index, with their contents. Raises CopyError."""
        for attempt in range(_TRIES):
            try:
                if attempt:
                    self._add_listed()
                else:
                    self.run("add", "-A", *more, config=_ONE_PACK)
                return
            except GitError as error:
                left_out = self._leave_out(list(self._obstacles()))
                if attempt == _TRIES - 1 or (not left_out and "Permission denied" in error.errors):
                    raise _explained(error) from error

    def _add_listed(self) -> None:
        """Add the listed files in two calls: ``add`` fails when a file vanishes while it runs, ``update-index`` does
        not."""
        listing = self.run("ls-files", "-z", "--others", "--modified", "--exclude-standard")
        # A nested repository is listed with a trailing slash, which no name in an index has.
        names = dict.fromkeys(name.rstrip(b"/") for name in listing.split(b"\0") if name)
        given = b"".join(name + b"\0" for name in names)
        self.run(
            "update-index", "--add", "--remove", "--replace", "-z", "--stdin", given=given, config=_ONE_PACK
        )

    def sizes(self, oids: Iterable[bytes]) -> dict[bytes, int]:
        """Return the sizes of objects by their ids in hex, without those that are not there. Raises GitError."""
        given = b"".join(oid + b"\n" for oid in sorted(oids))
        listing = self.run("cat-file", "--batch-check", given=given, long=False) if given else b""
        return dict(object_sizes(listing))

    def write_tree(self) -> str:
        """Return the tree of the index. Raises GitError."""
        # In a partial clone, objects may be missing on purpose, and must not be fetched.
        return self.run("write-tree", "--missing-ok").decode("ascii").strip()

    def _obstacles(self) -> Iterable[bytes]:
        listing = self.run("ls-files", "-z", "--others", "--exclude-standard")
        yield from (name for name in listing.split(b"\0") if name.endswith(b"/") and self._is_unborn(name))
        for name in self.run("ls-files", "-z", "--modified").split(b"\0"):
            try:
                mode = (self._work_tree / os.fsdecode(name)).lstat().st_mode if name else stat.S_IFREG
            except OSError:
                continue
            if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)):
                yield name

    def _leave_out(self, names: Sequence[bytes]) -> bool:
        self.unborn |= {name.rstrip(b"/") for name in names if name.endswith(b"/")}
        with (self.git_dir / "info" / "exclude").open("ab") as file:
            file.write(b"".join(private_git.ignore_line(name.rstrip(b"/")) for name in names))
        gone = b"".join(name + b"\0" for name in names if not name.endswith(b"/"))
        if gone:
            self.run("update-index", "-z", "--force-remove", "--stdin", given=gone)
        return bool(names)

    def _is_unborn(self, name: bytes) -> bool:
        folder = self._work_tree / os.fsdecode(name)
        return not self._git.ask(folder, "rev-parse", "-q", "--verify", "HEAD^{commit}", fails=True)


def _explained(error: GitError) -> CopyError:
    lines = [line.removeprefix("error: ") for line in error.errors.splitlines() if line.startswith("error: ")]
    if any("Permission denied" in line for line in lines):
        what = "; ".join(line for line in lines if "Permission denied" in line)
        return CopyError(
            f"The working tree cannot be copied: {what}. Make the file readable, or add it to .gitignore."
        )
    if "File too large" in error.errors:
        return CopyError(
            f"An uncommitted file is too large to copy: for git ({MOST_BYTES >> 30} GB in total), for a "
            "limit of your account (ulimit -f), or for the file system of Goalwright's folder. Add files "
            "that are not needed to .gitignore."
        )
    if any(words in error.errors for words in ("No space left", "Out of diskspace", "quota exceeded")):
        return CopyError(DISK_FULL)
    said = "; ".join(lines) or tail(error.errors.strip(), 500)
    return CopyError(
        f"The working tree changed while it was copied, or git cannot read it: {said}. Try again."
    )
