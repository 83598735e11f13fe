"""Run git so that nothing that a repository names is run, and so that it ends when it is no longer needed.

Blocking: everything here is for threads. Long calls are started through ``die_with_parent``, which has the kernel kill
them when the daemon dies (Linux), so that none continues in a folder that the next daemon is cleaning.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from daemon.copies import die_with_parent
from daemon.copies.working_copy import MOST_BYTES, CopyError
from daemon.files.git import git_command, object_sizes, run
from daemon.files.index_file import BadIndexError
from tools.process.background import finish
from tools.process.environment import git_environment
from tools.text.truncate import tail

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

T = TypeVar("T")

DISK_FULL = "The disk is full: free some space, then try again."
TIMEOUT_S = 300.0
"""Seconds for one call of git. Only a broken disk or file system takes that long."""


class StoppedError(Exception):
    """The work was canceled."""


class GitError(CopyError):
    """A call of git that should have worked did not."""

    def __init__(self, what: str, code: int, errors: str) -> None:
        said = errors.strip() or f"exit code {code}"
        super().__init__(f"git {what} failed: {tail(said, 2000)}")
        self.code = code
        self.errors = errors


class CancelToken:
    """Ends blocking work from another thread: its programs are killed, and ``check`` raises."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped = False
        self._running: set[subprocess.Popen[bytes]] = set()

    def set(self) -> None:
        """Stop the work."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.kill()

    def check(self) -> None:
        """Raise StoppedError if ``set`` was called."""
        if self._stopped:
            raise StoppedError

    def run(
        self, argv: Sequence[str | bytes], *, cwd: Path, env: Mapping[str, str], given: bytes = b""
    ) -> tuple[int, bytes, bytes]:
        """Exit code, output and errors of a program. Raises StoppedError and CopyError."""
        self.check()
        try:
            done = run(argv, cwd=cwd, env=env, given=given, timeout_s=TIMEOUT_S, running=self._killable)
        except OSError as error:
            raise CopyError(f"{os.fsdecode(argv[0])} cannot be started: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise CopyError(
                f"{os.fsdecode(argv[0])} did not end within {TIMEOUT_S:.0f} s. Check the disk."
            ) from error
        self.check()
        return done

    @contextmanager
    def _killable(self, process: subprocess.Popen[bytes]) -> Generator[None]:
        with self._lock:
            self._running.add(process)
            if self._stopped:
                process.kill()
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(process)


async def in_thread(
    pool: Executor, work: Callable[[CancelToken], T], undo: Callable[[T], Awaitable[None]] | None = None
) -> T:
    """Do blocking work in a thread of ``pool``. Canceled, it stops the work and returns when none of it runs.

    ``undo``: releases the result of work that was canceled just when it was done. Raises CopyError, also for failures
    of the disk and damaged indices.
    """
    stop = CancelToken()
    future = pool.submit(_with_copy_errors, work, stop)
    task = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop.set()
        # Do not cancel the task, which would count as canceled while the thread keeps running.
        if not future.cancel():
            await finish(task)
        # How canceled work failed does not matter.
        if not task.cancelled() and task.exception() is None and undo is not None:
            await undo(task.result())
        raise


def _with_copy_errors(work: Callable[[CancelToken], T], stop: CancelToken) -> T:
    try:
        return work(stop)
    except BadIndexError as error:
        raise CopyError(str(error)) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CopyError(DISK_FULL) from error
        raise CopyError(
            f"The working tree cannot be copied: {error.filename or ''} {error.strerror or error}."
        ) from error


class GitProgram:
    """The git program, until ``stop``: asks about the user's repository. ``PrivateIndex`` runs it elsewhere."""

    def __init__(self, program: str, stop: CancelToken) -> None:
        self.program = program
        self.stop = stop
        self.env = git_environment()

    def ask(self, folder: Path, *args: str, given: bytes = b"", fails: bool = False) -> bytes:
        """Ask about the user's repository; only for commands that write nothing and read no file's content.

        The user's own settings count (``safe.directory``). ``fails``: a failure is an empty answer. Raises GitError.
        """
        command = git_command(self.program, *args)
        code, out, errors = self.stop.run(command, cwd=folder, env=self.env, given=given)
        if code != 0:
            if fails:
                return b""
            raise GitError(args[0], code, errors.decode("utf-8", "replace"))
        return out


# -- ``git add -A`` with a separate index, also where git fails: repositories without a commit, and pipes --

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
        """Run git on any files with our own git folder, using only that folder's configuration. Raises GitError.

        ``long``: the call may take a while, see the module.
        """
        git = self._git
        env = git.env | {
            "GIT_DIR": str(self.git_dir),
            "GIT_WORK_TREE": str(self._work_tree),
            "GIT_INDEX_FILE": str(self.git_dir / INDEX),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        argv = git_command(git.program, *args, settings=config)
        if long and sys.platform.startswith("linux"):
            begin = (sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid()), str(MOST_BYTES))
            argv = [*begin, *argv]
        code, out, errors = git.stop.run(argv, cwd=self._work_tree, env=env, given=given)
        if code != 0:
            raise GitError(os.fsdecode(args[0]), code, errors.decode("utf-8", "replace"))
        return out

    def add_all(self, *more: str) -> None:
        """Take all files that are not ignored into the index, with their contents. Raises CopyError."""
        for attempt in range(_TRIES):
            try:
                if attempt:
                    self._add_listed()
                else:
                    self._add_found(*more)
                return
            except GitError as error:
                left_out = self._leave_out(list(self._obstacles()))
                if attempt == _TRIES - 1 or (not left_out and "Permission denied" in error.errors):
                    raise _explained(error) from error

    def _add_found(self, *more: str) -> None:
        """``git add -A`` without the insides of repositories in the index.

        In each, git would run ``git status`` without our options, and so the programs that the settings there name.
        ``update-index`` only takes their commits.
        """
        listing = self.run("ls-files", "-z", "--stage")
        links = [line.partition(b"\t")[2] for line in listing.split(b"\0") if line.startswith(b"160000 ")]
        inner = [name for name in links if self._has_inside(PurePosixPath(os.fsdecode(name)))]
        if not inner:
            self.run("add", "-A", *more, config=_ONE_PACK)
            return
        given = b".\0" + b"".join(b":(top,literal,exclude)%s\0" % name for name in inner)
        by_list = ("--pathspec-from-file=-", "--pathspec-file-nul")
        self.run("add", "-A", *more, *by_list, given=given, config=_ONE_PACK)
        given = b"".join(name + b"\0" for name in inner)
        self.run("update-index", "--add", "--remove", "-z", "--stdin", given=given)

    def _has_inside(self, link: PurePosixPath) -> bool:
        # A repository behind a symlink is gone for git, which must not be given its name.
        behind = any((self._work_tree / folder).is_symlink() for folder in link.parents[:-1])
        return not behind and os.path.lexists(self._work_tree / link / ".git")

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
            file.write(b"".join(ignore_line(name.rstrip(b"/")) for name in names))
        gone = b"".join(name + b"\0" for name in names if not name.endswith(b"/"))
        if gone:
            self.run("update-index", "-z", "--force-remove", "--stdin", given=gone)
        return bool(names)

    def _is_unborn(self, name: bytes) -> bool:
        folder = self._work_tree / os.fsdecode(name)
        return not self._git.ask(folder, "rev-parse", "-q", "--verify", "HEAD^{commit}", fails=True)


def ignore_line(path: bytes) -> bytes:
    """Return the line for ``info/exclude`` that names just this file, relative to the top."""
    # A pattern line cannot contain a line end, so match any character instead.
    path = path.replace(b"\n", b"?")
    escaped = b"".join(b"\\" + bytes([char]) if char in b"\\*[]!# " else bytes([char]) for char in path)
    return b"/" + escaped + b"\n"


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
