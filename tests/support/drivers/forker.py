"""The real program, each time in a process of its own, made by forking one that has done the imports.

``python -I tests/support/drivers/forker.py`` reads one order a line, forks a child that is ``goalwright`` with those
arguments in that environment, and answers with its pid. Forking saves the second of processor time that the imports
take, which a thousand commands and daemons of the tests would pay; all else is the real program. Tests of the start do
without.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

_IMPORTED = (
    "anthropic",
    "daemon.__main__",
    "daemon.core",
    "daemon.planner.driver",
    "daemon.provider.anthropic",
    "daemon.provider.models",
    "daemon.provider.scripted",
    "lsp_bridge.language_client.language_services",
    "lsp_bridge.language_client.diagnostics.service",
    "lsp_bridge.language_client.pool.server_pool",
    "lsp_bridge.server.editor.editor_source",
    "lsp_bridge.server.listen",
    "lsp_bridge.cli.command_line",
    "lsp_bridge.cli.run.turn",
)


class Forker:
    """Starts daemons and commands through the process that forks them. Threads may share one."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # what interrupts the tests is not for it: it ends when its input does
        )
        self._one_at_a_time = threading.Lock()

    def daemon(self, workspace: Path, env: Mapping[str, str], arguments: Sequence[str] = ()) -> int:
        """A daemon on ``workspace`` with exactly this environment. Returns its pid; it cannot be reached yet."""
        arguments = ("serve", "--workspace", str(workspace), *arguments)
        return self._start(arguments, env, workspace, (os.devnull, os.devnull, os.devnull))

    def command(
        self, arguments: Sequence[str], env: Mapping[str, str], cwd: Path, within_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, without input. Raises AssertionError with what it said when it does not end."""
        with tempfile.TemporaryDirectory(prefix="gw-command-") as name:
            out, err, code = (Path(name) / file for file in ("out", "err", "code"))
            pid = self._start(arguments, env, cwd, (str(out), str(err), str(code)))
            deadline = time.monotonic() + within_s
            while not code.exists():
                if time.monotonic() > deadline:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    said = f"{out.read_text('utf-8')}\n{err.read_text('utf-8')}"
                    raise AssertionError(f"goalwright {' '.join(arguments)} did not end\n{said}")
                time.sleep(0.005)
            return subprocess.CompletedProcess(
                arguments, int(code.read_text()), out.read_text("utf-8"), err.read_text("utf-8")
            )

    def _start(
        self, arguments: Sequence[str], env: Mapping[str, str], cwd: Path, files: tuple[str, str, str]
    ) -> int:
        """Fork it. ``files``: for its output, its errors, and at the end its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"arguments": list(arguments), "env": dict(env), "cwd": str(cwd), "files": files}
        with self._one_at_a_time:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
            return int(self._process.stdout.readline())


@cache
def shared_forker() -> Forker:
    """The one of this process, with which it ends."""
    return Forker()


def _be_program(order: dict[str, Any]) -> int:
    """Do what the console script does. Returns its exit code."""
    import daemon.__main__ as program

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    out, err, _ = order["files"]
    for number, file, how in (
        (0, os.devnull, os.O_RDONLY),
        (1, out, os.O_WRONLY | os.O_CREAT),
        (2, err, os.O_WRONLY | os.O_CREAT),
    ):
        opened = os.open(file, how, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    sys.argv = ["goalwright", *order["arguments"]]
    try:
        return program.main()
    except SystemExit as wanted:  # of argparse, which says a number
        return int(wanted.code or 0)


def _child(order: dict[str, Any]) -> None:
    code = 1
    try:
        code = _be_program(order)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        if (file := order["files"][2]) != os.devnull:
            Path(f"{file}.new").write_text(str(code))
            Path(f"{file}.new").rename(file)
        os._exit(code)


def _main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the killed are not to stay as zombies
    from lsp_bridge.server.lazy_lsprotocol import quick_imports

    with quick_imports():  # as the daemon itself does
        for name in _IMPORTED:
            importlib.import_module(name)
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _child(order)
        print(pid, flush=True)


if __name__ == "__main__":
    _main()
