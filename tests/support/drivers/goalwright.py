"""Goalwright as users have it: the installed command, real processes, and a home of its own."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from daemon.runtime import RuntimePaths
from tests.support.drivers.command_line import configure, end_daemon, have_daemon
from tests.support.drivers.forker import Forker

KEY = "sk-ant-not-a-real-key"
CLOSED_PORT = "http://127.0.0.1:9"
"""The discard port: nobody listens there, so no local Ollama is found by chance."""
_KEPT = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "SSL_CERT_FILE", "SSL_CERT_DIR")
_RUN_TIMEOUT_S = 90.0


@dataclass(frozen=True, slots=True)
class Finished:
    """A process that has ended. Times are seconds of ``time.monotonic()``."""

    code: int
    stdout: str
    stderr: str
    started_at: float
    """Just before it was spawned."""
    ended_at: float

    def check(self) -> Finished:
        """Raises AssertionError with its output when the exit code is not 0."""
        assert self.code == 0, f"exit code {self.code}\n{self.stdout}\n{self.stderr}"
        return self


@dataclass(frozen=True, slots=True)
class Goalwright:
    """The command over one workspace, with nothing of the developer's own settings, keys or daemons."""

    workspace: Path
    home: Path
    """HOME and, in it, GOALWRIGHT_HOME."""
    provider: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables like ``ANTHROPIC_BASE_URL``."""
    forker: Forker | None = None
    """Starts daemons and commands for less. None: all of them are started as users start them."""

    @property
    def env(self) -> dict[str, str]:
        """The whole environment of its processes."""
        env = {name: os.environ[name] for name in _KEPT if name in os.environ}
        env |= {"HOME": str(self.home), "GOALWRIGHT_HOME": str(self.home / "gw"), "OLLAMA_HOST": CLOSED_PORT}
        return env | dict(self.provider)

    @property
    def paths(self) -> RuntimePaths:
        """Where its daemon is found."""
        return RuntimePaths.for_workspace(self.workspace, self.home / "gw")

    def argv(self, command: str, *args: str) -> list[str]:
        """The command line of ``goalwright command``."""
        program = shutil.which("goalwright", path=str(Path(sys.executable).parent))
        assert program is not None, "goalwright is not installed beside this Python: run `make venv`"
        return [program, command, *args, "--workspace", str(self.workspace)]

    async def run(self, task: str, *args: str) -> Finished:
        """``goalwright run``, to its end."""
        return await self.command("run", task, *args)

    async def command(self, command: str, *args: str) -> Finished:
        """Any command, to its end. One that does not end in time is killed, and an error raised."""
        argv = self.argv(command, *args)
        if self.forker is None:
            return await finished(argv, self.env, self.workspace)
        await asyncio.to_thread(have_daemon, self.forker, self.paths, self.env, argv[1:])
        started_at = time.monotonic()
        done = await asyncio.to_thread(
            self.forker.command, argv[1:], self.env, self.workspace, _RUN_TIMEOUT_S
        )
        return Finished(done.returncode, done.stdout, done.stderr, started_at, time.monotonic())

    def configure(self, **settings: Any) -> Path:
        """Write settings into the user's ``config.json``, beside those that are there. Returns the file."""
        return configure(self.paths, settings)

    async def stop(self) -> None:
        """Run ``goalwright stop --force``."""
        await self.command("stop", "--force")

    async def end(self) -> None:
        """Clean up after a test."""
        if not await asyncio.to_thread(end_daemon, self.paths):
            await self.stop()


async def finished(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> Finished:
    """Run a program to its end."""
    started_at = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=dict(env),
    )
    try:
        async with asyncio.timeout(_RUN_TIMEOUT_S):
            out, err = await process.communicate()
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    ended_at = time.monotonic()
    return Finished(process.returncode or 0, out.decode(), err.decode(), started_at, ended_at)


@asynccontextmanager
async def installed(
    workspace: Path | None = None, url: str | None = None, forker: Forker | None = None
) -> AsyncGenerator[Goalwright]:
    """A home (and an empty workspace when none is given) for as long as the block lasts; the daemon ends with it.

    ``url``: where the Anthropic API is. ``forker``: starts the daemon for less, and language servers are off: for tests
    that are about neither. Socket paths below pytest's own folders would be too long.
    """
    folder = Path(tempfile.mkdtemp(prefix="gw-")).resolve()
    provider = {} if url is None else {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url}
    home = folder / "home"
    home.mkdir(mode=0o700)
    if workspace is None:
        workspace = folder / "workspace"
        workspace.mkdir()
    goalwright = Goalwright(workspace, home, provider, forker)
    goalwright.configure(preload=False, **({} if forker is None else {"diagnostics": False}))
    try:
        yield goalwright
    finally:
        try:
            await goalwright.end()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
