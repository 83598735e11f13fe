"""Run git so that nothing that a repository names is run, and so that it ends when it is no longer needed.

Blocking: everything here is for threads. Long calls are started through ``die_with_parent``, which has the kernel kill
them when the daemon dies (Linux), so that none continues in a folder that the next daemon is cleaning.
"""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, TypeVar

from daemon.copies import die_with_parent
from daemon.copies.working_copy import MOST_BYTES, CopyError
from daemon.files.index_file import BadIndexError
from tools.process.background import finish
from tools.process.environment import GIT_ASKED, git_environment
from tools.text.truncate import tail

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
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
        with self._lock:
            self.check()
            try:
                process = subprocess.Popen(
                    argv,
                    cwd=cwd,
                    env=env,
                    stdin=subprocess.PIPE if given else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
            except OSError as error:
                raise CopyError(f"{os.fsdecode(argv[0])} cannot be started: {error.strerror}") from error
            self._running.add(process)
        try:
            out, errors = process.communicate(given or None, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise CopyError(
                f"{os.fsdecode(argv[0])} did not end within {TIMEOUT_S:.0f} s. Check the disk."
            ) from error
        finally:
            with self._lock:
                self._running.discard(process)
            if process.poll() is None:
                process.kill()
                process.communicate()
        self.check()
        return process.returncode, out, errors


async def in_thread(
    pool: Executor, work: Callable[[CancelToken], T], undo: Callable[[T], Awaitable[None]] | None = None
) -> T:
    """Do blocking work in a thread of ``pool``. Canceled, it stops the work and returns when none of it runs.

    ``undo``: lets go of the result of work that was canceled just when it was done.
    """
    stop = CancelToken()
    future = pool.submit(work, stop)
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


def with_copy_errors(work: Callable[[CancelToken], T]) -> Callable[[CancelToken], T]:
    """Wrap ``work`` so that failures of the disk and damaged indices raise CopyError."""

    def safely(stop: CancelToken) -> T:
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

    return safely


class GitProgram:
    """The git program, until ``stop``. Its calls are about the user's repository, or with a private git folder."""

    def __init__(self, program: str, stop: CancelToken) -> None:
        self._program = program
        self.stop = stop
        self._env = git_environment()

    def ask(self, folder: Path, *args: str, given: bytes = b"", fails: bool = False) -> bytes:
        """Ask about the user's repository; only for commands that write nothing and read no file's content.

        The user's own settings count (``safe.directory``). ``fails``: a failure is an empty answer. Raises GitError.
        """
        code, out, errors = self.stop.run(
            [self._program, *GIT_ASKED, *args], cwd=folder, env=self._env, given=given
        )
        if code != 0:
            if fails:
                return b""
            raise GitError(args[0], code, errors.decode("utf-8", "replace"))
        return out

    def private(
        self,
        git_dir: Path,
        work_tree: Path,
        index: str,
        *args: str | bytes,
        given: bytes = b"",
        config: Sequence[str] = (),
        long: bool = True,
    ) -> bytes:
        """Run git on any files with our own git folder, using only that folder's configuration. Raises GitError.

        ``index`` is a file in ``git_dir``. ``long``: the call may take a while, see the module.
        """
        env = self._env | {
            "GIT_DIR": str(git_dir),
            "GIT_WORK_TREE": str(work_tree),
            "GIT_INDEX_FILE": str(git_dir / index),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        settings = [part for setting in config for part in ("-c", setting)]
        argv: list[str | bytes] = [self._program, *GIT_ASKED, *settings, *args]
        if long and sys.platform.startswith("linux"):
            argv = [
                sys.executable,
                "-I",
                "-S",
                die_with_parent.__file__,
                str(os.getpid()),
                str(MOST_BYTES),
                *argv,
            ]
        code, out, errors = self.stop.run(argv, cwd=work_tree, env=env, given=given)
        if code != 0:
            raise GitError(os.fsdecode(args[0]), code, errors.decode("utf-8", "replace"))
        return out
