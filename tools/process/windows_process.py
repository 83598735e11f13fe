"""Programs and their process trees on Windows, where there are no wardens: used like ``supervised_process``."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import uuid
from typing import TYPE_CHECKING, Any, cast

from tools.process.background import finish
from tools.process.supervised_process import MARK
from tools.process.supervisor import LINGER_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tools.process.supervised_process import OnClosed, OnOutput


class WindowsProcess(asyncio.SubprocessProtocol):
    """A program that runs, with the interface of ``SupervisedProcess``. Made by ``start``."""

    def __init__(self, on_output: OnOutput, on_closed: OnClosed | None, outputs: int) -> None:
        self.exited = asyncio.Event()
        self.ended = asyncio.Event()
        self.enough = asyncio.Event()
        self.background = False
        self._on_output = on_output
        self._on_closed = on_closed
        self._open = outputs
        self._transport: Any = None

    @property
    def pid(self) -> int:
        return self._transport.get_pid()

    @property
    def exit_code(self) -> int | None:
        return self._transport.get_returncode()

    @property
    def stdin(self) -> asyncio.WriteTransport | None:
        return cast("asyncio.WriteTransport | None", self._transport.get_pipe_transport(0))

    def pause(self, fd: int) -> None:
        self._transport.get_pipe_transport(fd).pause_reading()

    def resume(self, fd: int) -> None:
        self._transport.get_pipe_transport(fd).resume_reading()

    async def stop(self, grace_s: float) -> None:
        """Ask the process tree to end, and kill it after ``grace_s``."""
        for force in (False, True):
            if not self.exited.is_set():
                await _taskkill(self.pid, force=force)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(grace_s):
                        await self.exited.wait()
        self._transport.close()

    # -- what the event loop calls --

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        if not self.enough.is_set() and self._on_output(fd, cast("bytes", data)) is False:
            self.enough.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 0:
            return  # it does not read its input, or no longer
        if self._on_closed is not None:
            self._on_closed(fd)
        self._open -= 1
        if self._open == 0:
            self.ended.set()

    def process_exited(self) -> None:
        self.exited.set()
        # A background child keeps the pipes open.
        asyncio.get_running_loop().call_later(LINGER_S, self._leave_background)

    def _leave_background(self) -> None:
        if not self.ended.is_set():
            self.background = True
            self._transport.close()


async def start(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    on_output: OnOutput,
    merge_stderr: bool,
    grace_s: float,
    with_stdin: bool = False,
    on_closed: OnClosed | None = None,
) -> WindowsProcess:
    """Start a program; a cancellation stops it again. Raises OSError when that is not possible."""
    starting = asyncio.ensure_future(
        asyncio.get_running_loop().subprocess_exec(
            lambda: WindowsProcess(on_output, on_closed, 1 if merge_stderr else 2),
            *argv,
            stdin=subprocess.PIPE if with_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge_stderr else subprocess.PIPE,
            cwd=cwd,
            env={**env, MARK: uuid.uuid4().hex},
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
    )
    canceled = await finish(starting)
    _, program = starting.result()
    if canceled:
        await finish(asyncio.ensure_future(program.stop(grace_s)))
        raise asyncio.CancelledError
    return program


async def _taskkill(pid: int, *, force: bool) -> None:
    argv = ["taskkill", *(["/F"] if force else []), "/T", "/PID", str(pid)]
    killer = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    await killer.wait()
