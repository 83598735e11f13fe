"""Run programs without remains: own session, no stdin (or ours), all processes killed at the end.

On POSIX a program runs beneath a warden (``supervisor``): its child processes are stopped with it, and with the daemon,
even if they try to hide. On Windows its process tree is killed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from tools.process.background import despite_cancel
from tools.process.environment import scrubbed_environment as scrubbed_environment

KILL_GRACE_S = 3.0
"""Seconds between TERM and KILL."""

Feed = Callable[[asyncio.WriteTransport], None]


class Ended(Struct, frozen=True):
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
        from tools.process.windows_process import start
    else:
        from tools.process.supervised_process import start

    program = await start(
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
            # Its background processes are stopped meanwhile.
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
