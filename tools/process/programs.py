"""Run programs without remains: own session, no stdin (or ours), all processes killed at the end.

On POSIX a program runs beneath a warden (``supervisor``): its child processes are stopped with it, and with the daemon,
even if they try to hide. On Windows its process tree is killed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from tools.process.background import despite_cancel, finish
from tools.process.environment import scrubbed_environment as scrubbed_environment
from tools.process.process_tree import MARK as MARK

KILL_GRACE_S = 3.0
"""Seconds between TERM and KILL."""

Feed = Callable[[asyncio.WriteTransport], None]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended. ``exit_code`` is negative for a signal (POSIX)."""

    exit_code: int
    timed_out: bool = False
    stopped_background: bool = False
    """Children outlived the program and were stopped."""


def find_program(name: str, workspace: Path, origin: Path | None = None) -> str | None:
    """Return a program on PATH outside the workspace, whose files are untrusted, and outside ``origin``, the one of
    which it is a copy."""
    found = shutil.which(name)
    if found is None:
        return None
    real = Path(os.path.realpath(found))
    inside = any(
        path.is_relative_to(folder)
        for folder in (workspace, origin)
        if folder is not None
        for path in (real, Path(found).absolute())
    )
    return None if inside else str(Path(found).absolute())


def shell_argv(command: str, workspace: Path, origin: Path | None = None) -> tuple[str, ...] | None:
    """Return the arguments that run a command line, or None when PATH has no shell.

    A shell in ``workspace`` or ``origin`` is not used, see ``find_program``.
    """
    if shell := find_program("bash", workspace, origin):
        # Skip start-up files: they are the user's own, and could give any command another meaning.
        return (shell, "--noprofile", "--norc", "-c", command)
    shell = find_program("sh", workspace, origin)
    return None if shell is None else (shell, "-c", command)


async def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    on_output: Callable[[int, bytes], bool | None],
    timeout_s: float | None,
    merge_stderr: bool = False,
    grace_s: float = KILL_GRACE_S,
    feed: Feed | None = None,
    on_start: Callable[[], None] = lambda: None,
) -> Ended:
    """Run a program to its end, or until ``timeout_s``, ``on_output`` returning False, or cancellation.

    ``on_start`` is called when it runs; ``on_output(fd, data)`` gets stdout (1) and stderr (2) as they come. ``feed``
    receives its stdin as soon as it runs, to write to and to close; unread data is dropped. Without ``feed`` there is
    no stdin. When this returns or raises, the program and all processes that it started are dead (see the module).
    Raises OSError when it cannot be started.
    """
    if sys.platform == "win32":
        return await _run_on_windows(argv, cwd, env, on_output, timeout_s, merge_stderr, feed, on_start)
    from tools.process import supervised_process

    program = await supervised_process.start(
        argv,
        cwd=cwd,
        env=env,
        on_output=on_output,
        merge_stderr=merge_stderr,
        grace_s=grace_s,
        with_stdin=feed is not None,
    )
    timed_out = False
    try:
        on_start()
        if feed is not None and program.stdin is not None:
            feed(program.stdin)
        timed_out = not await _first([program.exited, program.enough], timeout_s)
        if program.exited.is_set():
            # The warden stops its background processes.
            await _first([program.ended, program.enough], None)
    finally:
        # A second cancellation must not stop the killing half-way.
        await despite_cancel(program.stop(grace_s))
    code = program.exit_code
    return Ended(-signal.SIGTERM if code is None else code, timed_out, program.background)


async def _first(events: Sequence[asyncio.Event], timeout_s: float | None) -> bool:
    """Return whether one of the events came in time."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        done, _ = await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        for wait in waits:
            wait.cancel()


# -- Windows --


class _Protocol(asyncio.SubprocessProtocol):
    """Tells the end of the process from the end of its pipes: a background child keeps the pipes open."""

    def __init__(self, on_output: Callable[[int, bytes], bool | None], pipes: int) -> None:
        self._on_output = on_output
        self._open = pipes
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()
        self.enough = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        if not self.enough.is_set() and self._on_output(fd, cast("bytes", data)) is False:
            self.enough.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 0:
            return  # it does not read its input, or no longer
        self._open -= 1
        if self._open == 0:
            self.closed.set()

    def process_exited(self) -> None:
        self.exited.set()


async def _run_on_windows(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    on_output: Callable[[int, bytes], bool | None],
    timeout_s: float | None,
    merge_stderr: bool,
    feed: Feed | None,
    on_start: Callable[[], None],
) -> Ended:
    loop = asyncio.get_running_loop()
    starting = asyncio.ensure_future(
        loop.subprocess_exec(
            lambda: _Protocol(on_output, 1 if merge_stderr else 2),
            *argv,
            stdin=subprocess.DEVNULL if feed is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge_stderr else subprocess.PIPE,
            cwd=cwd,
            env={**env, MARK: uuid.uuid4().hex},
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
    )
    canceled = await finish(starting)
    transport, protocol = starting.result()
    background = timed_out = False
    try:
        if canceled:
            raise asyncio.CancelledError
        on_start()
        if feed is not None:
            feed(cast("asyncio.WriteTransport", transport.get_pipe_transport(0)))
        timed_out = not await _first([protocol.exited, protocol.enough], timeout_s)
        if protocol.exited.is_set():
            background = not await _first([protocol.closed, protocol.enough], 0.3)
    finally:
        if not (protocol.exited.is_set() and protocol.closed.is_set()):
            await finish(asyncio.ensure_future(taskkill(transport.get_pid())))
        transport.close()
    code = transport.get_returncode()
    return Ended(-signal.SIGTERM if code is None else code, timed_out, background)


async def taskkill(pid: int, *, force: bool = True) -> None:
    """Stop a process of Windows with its child processes; without ``force``, ask it to end."""
    argv = ["taskkill", *(["/F"] if force else []), "/T", "/PID", str(pid)]
    killer = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    await killer.wait()
