"""The real program, each time in a process of its own, forked by the product's own preloader.

Forking saves the second of processor time that the imports take, which a thousand commands and daemons of the tests
would pay. All else is the real program. Tests of the start do without.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from lsp_bridge.cli.preloaded import Forked, fork, preloader_environment, preloader_paths

_DEADLINE_S = 120.0
_IDLE_S = "1800"


class Forker:
    """Starts daemons and commands through a preloader, which ends with this process. Threads may share one."""

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="gw-fork-")).resolve()
        self._paths = preloader_paths(self._home)
        self._one_at_a_time = threading.Lock()
        atexit.register(self._end)

    def daemon(self, workspace: Path, env: Mapping[str, str], arguments: Sequence[str] = ()) -> int:
        """A daemon on ``workspace`` with exactly this environment. Returns its pid; it cannot be reached yet."""
        with Path(os.devnull).open("r+b", buffering=0) as nothing:
            streams = (nothing.fileno(), nothing.fileno(), nothing.fileno())
            return self._fork(
                ("serve", "--workspace", str(workspace), *arguments), env, workspace, streams
            ).pid

    def command(
        self, arguments: Sequence[str], env: Mapping[str, str], cwd: Path, within_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, without input. Raises AssertionError with what it said when it does not end."""
        with (
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
            Path(os.devnull).open("rb") as nothing,
        ):

            def said() -> tuple[str, str]:
                return (
                    os.pread(out.fileno(), os.fstat(out.fileno()).st_size, 0).decode("utf-8"),
                    os.pread(err.fileno(), os.fstat(err.fileno()).st_size, 0).decode("utf-8"),
                )

            streams = (nothing.fileno(), out.fileno(), err.fileno())
            forked = self._fork(arguments, env, cwd, streams)
            deadline = time.monotonic() + within_s
            while (code := forked.poll()) is None:
                if time.monotonic() > deadline:
                    with suppress(ProcessLookupError):
                        os.kill(forked.pid, signal.SIGKILL)
                    raise AssertionError(
                        "\n".join((f"goalwright {' '.join(arguments)} did not end", *said()))
                    )
                time.sleep(0.005)
            return subprocess.CompletedProcess(arguments, code, *said())

    def _fork(
        self, arguments: Sequence[str], env: Mapping[str, str], cwd: Path, streams: tuple[int, int, int]
    ) -> Forked:
        deadline = time.monotonic() + _DEADLINE_S
        while True:
            forked = fork(arguments, env, cwd, streams, self._home, answer_s=_DEADLINE_S)
            if forked is not None:
                return forked
            assert time.monotonic() < deadline, self._paths.log_file.read_text("utf-8")
            with self._one_at_a_time:
                # Also when there was one for another locale.
                if not self._paths.is_locked():
                    own = {**preloader_environment(env, []), "GOALWRIGHT_HOME": str(self._home)}
                    command = [sys.executable, "-I", "-m", "goalwright", "preload", "--idle-timeout", _IDLE_S]
                    subprocess.run(command, env=own, check=True)
            time.sleep(0.02)

    def _end(self) -> None:
        pid = self._paths.read_pid()
        if pid is not None and self._paths.is_locked():
            os.kill(pid, signal.SIGTERM)
        shutil.rmtree(self._home, ignore_errors=True)


@cache
def shared_forker() -> Forker:
    """The one of this process, with which it ends."""
    return Forker()
