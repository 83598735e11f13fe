"""Run git to its end, so that nothing that a repository names is run. Blocking: for threads."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

from tools.process.environment import GIT_ASKED
from tools.search.ripgrep import SLOW_S, endless

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path


def git_command(program: str, *args: str | bytes, settings: Iterable[str] = ()) -> list[str | bytes]:
    """Return a command line for ``run``, with ``git_environment`` as its environment."""
    return [program, *GIT_ASKED, *(part for setting in settings for part in ("-c", setting)), *args]


def run(
    argv: Sequence[str | bytes],
    *,
    cwd: Path,
    env: Mapping[str, str],
    given: bytes = b"",
    timeout_s: float,
    reads_ignores: bool = False,
    running: Callable[[subprocess.Popen[bytes]], AbstractContextManager[object]] = contextlib.nullcontext,
) -> tuple[int, bytes, bytes]:
    """Return the exit code, output and errors of a program. It has ended whatever happens.

    ``reads_ignores``: it reads ignore files below ``cwd``; it is ended early if one of them is endless. ``running`` is
    entered while it runs, e.g. to let another thread kill it. Raises OSError when it cannot be started, and
    TimeoutExpired.
    """
    with subprocess.Popen(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE if given else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            with running(process):
                try:
                    out, errors = process.communicate(given or None, SLOW_S if reads_ignores else timeout_s)
                except subprocess.TimeoutExpired:
                    if not reads_ignores or endless(cwd, stopped=lambda: process.poll() is not None):
                        raise
                    out, errors = process.communicate(timeout=timeout_s)
        except BaseException:
            process.kill()
            raise
        return process.returncode, out, errors
