"""The real ``goalwright`` program in processes of its own, as a fresh user account would run it."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from daemon.runtime import Address, RuntimePaths
from lsp_bridge.cli.launch import passed_on
from tests.support.drivers.forker import Forker
from tests.support.drivers.waiting import pause
from tools.process.environment import daemon_environment

PROGRAM = (sys.executable, "-I", "-m", "goalwright")
WITHOUT_PRIVILEGES = ("bwrap", "--dev-bind", "/", "/", "--cap-drop", "ALL", "--")
"""Before a command: modes of files and folders hold, also if root runs the tests."""
CLOSED_PORT = "http://127.0.0.1:9"
"""The discard port: nobody listens there, so no local Ollama is found by chance."""
DEADLINE_S = 60.0
_END_S = 5.0
_NEED_A_DAEMON = frozenset(
    {"run", "connect", "sessions", "goals", "goal", "undo", "redo", "restore", "history"}
)
"""Commands that start a daemon when there is none."""


def wait_until(condition: Callable[[], object], what: str, within_s: float = DEADLINE_S) -> None:
    """Return when ``condition()`` is true; fail the test after ``within_s`` seconds."""
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < within_s, f"{what} did not come within {within_s:g} s"
        time.sleep(pause(waited))


def end_daemon(paths: RuntimePaths) -> bool:
    """End the daemon by a signal, which spares a test the start of another Python for ``goalwright stop``.

    Returns whether it is gone: one that hangs needs ``goalwright stop --force``.
    """
    pid = paths.read_pid()
    if paths.is_locked() and pid is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _END_S
    while paths.is_locked():
        if pid is None or time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def configure(paths: RuntimePaths, settings: Mapping[str, Any]) -> Path:
    """Write settings into the user's ``config.json``, beside those that are there. Returns the file."""
    file = paths.folder.parent.parent / "config.json"
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    known = json.loads(file.read_text()) if file.is_file() else {}
    file.write_text(json.dumps({**known, **settings}))
    return file


def have_daemon(
    forker: Forker | None, paths: RuntimePaths, env: Mapping[str, str], arguments: Sequence[str]
) -> None:
    """Have the daemon run that a command would start in the environment ``env``. Without a forker the command does."""
    if forker is None or not arguments or arguments[0] not in _NEED_A_DAEMON or paths.is_locked():
        return
    stale = paths.read_address()  # of one that was killed: else the command, too, would start a daemon
    forker.daemon(paths.workspace, daemon_environment(env, passed_on(paths.folder.parent.parent)))
    wait_until(lambda: paths.read_address() not in (None, stale), "the daemon")


class CommandLine:
    """Runs ``goalwright`` on ``workspace`` with a home of its own, and stops its daemon at the end."""

    def __init__(
        self, folder: Path, env: Mapping[str, str] | None = None, forker: Forker | None = None
    ) -> None:
        """``forker``: starts daemons and commands for less. None: all of them are started as users start them."""
        self.folder = folder
        self.forker = forker
        self.workspace = folder / "work"
        self.workspace.mkdir()
        self.home = folder / "home"
        self.home.mkdir(mode=0o700)
        self.paths = RuntimePaths.for_workspace(self.workspace, self.home / ".goalwright")
        keep = ("PATH", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR")
        self.env = {name: os.environ[name] for name in keep if name in os.environ}
        self.env |= {"HOME": str(self.home), "OLLAMA_HOST": CLOSED_PORT, **(env or {})}

    def script(self, *turns: list[dict[str, Any]], repeat: bool = False) -> str:
        """A model that plays these turns (see ``daemon.provider.scripted``), for ``--model``."""
        path = self.folder / f"script{len(list(self.folder.glob('script*')))}.json"
        path.write_text(json.dumps({"name": "test", "turns": turns, "repeat_last_turn": repeat}))
        return f"scripted/{path}"

    def popen(
        self, *arguments: str, program: tuple[str, ...] = PROGRAM, cwd: Path | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        """Start it in the workspace."""
        options = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            **options,
        }
        env = options.pop("env", self.env)
        have_daemon(self.forker, self.paths, env, arguments)
        return subprocess.Popen(
            [*program, *arguments],
            cwd=cwd or self.workspace,
            env=env,
            text=True,
            encoding="utf-8",
            **options,
        )

    def configure(self, **settings: Any) -> Path:
        """Write settings into the user's ``config.json``, beside those that are there. Returns the file."""
        return configure(self.paths, settings)

    def run(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        if self.forker is not None and options.keys() <= {"env", "cwd"}:
            env = options.get("env", self.env)
            have_daemon(self.forker, self.paths, env, arguments)
            return self.forker.command(arguments, env, options.get("cwd") or self.workspace, DEADLINE_S)
        process = self.popen(*arguments, **options)
        try:
            out, err = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"goalwright {' '.join(arguments)} did not end\n{out}\n{err}") from None
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def have_daemon(self) -> None:
        """Have the daemon run, for a client that is started by other means."""
        have_daemon(self.forker, self.paths, self.env, ("connect",))

    def start(self, *arguments: str) -> Address:
        """``goalwright start --json``, which must work."""
        result = self.run("start", "--json", *arguments)
        assert result.returncode == 0, result.stdout + result.stderr
        return Address.from_json(json.loads(result.stdout))

    def stop(self) -> None:
        """Run ``goalwright stop --force`` when there is a daemon, whatever state it is in."""
        if self.paths.is_locked():
            self.run("stop", "--force")
        assert not self.paths.is_locked()

    def end(self) -> None:
        """Clean up after a test."""
        if not end_daemon(self.paths):
            self.stop()

    def log(self) -> str:
        """Return the daemon's log."""
        return self.paths.log_file.read_text("utf-8") if self.paths.log_file.exists() else ""

    def wait_until_gone(self) -> None:
        """Wait until no daemon holds the lock."""
        wait_until(lambda: not self.paths.is_locked(), "the end of the daemon")


@contextmanager
def fresh_account(forker: Forker | None = None) -> Generator[CommandLine]:
    """A user account and a workspace of their own, for one test."""
    # Not pytest's folder: a socket's path must be short.
    folder = Path(tempfile.mkdtemp(prefix="gw-")).resolve()
    command_line = CommandLine(folder, forker=forker)
    command_line.configure(diagnostics=False, preload=False)
    yield command_line
    command_line.end()
    shutil.rmtree(folder)


class AtTerminal:
    """``goalwright`` at a terminal of its own, with somebody who reads and types."""

    def __init__(self, command_line: CommandLine, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        self.process = command_line.popen(
            *arguments,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**command_line.env, "TERM": "xterm-256color"},
        )
        os.close(slave)
        os.set_blocking(self.master, False)
        self.screen = ""

    def read(self) -> str:
        """All that was printed so far."""
        while True:
            try:
                data = os.read(self.master, 65536)
            except BlockingIOError:
                return self.screen
            except OSError:  # the other side has been closed
                return self.screen
            if not data:
                return self.screen
            self.screen += data.decode("utf-8", "replace")

    def expect(self, text: str) -> None:
        """Wait until ``text`` is on the screen."""
        wait_until(lambda: text in self.read() or self.process.poll() is not None, repr(text))
        assert text in self.read(), self.screen

    def type(self, text: str) -> None:
        """Type it."""
        os.write(self.master, text.encode())

    def interrupt(self) -> None:
        """Send the signals that the terminal sends for Ctrl-C."""
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> int:
        """Wait for the end and return the exit code."""

        def ended() -> bool:
            self.read()  # a terminal that nobody reads holds the program up
            return self.process.poll() is not None

        wait_until(ended, "the end of the run")
        self.read()
        os.close(self.master)
        return self.process.returncode
