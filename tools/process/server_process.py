"""The process of a server on pipes, of which nothing stays: not after it ended, and not after the daemon was killed.

On POSIX it runs beneath a warden (``supervised_process``), which also ends what the server starts, and everything
when the daemon is gone (``kill -9`` included). Servers are asked to watch ``processId`` and the
end of their stdin too, but wrappers, and servers that hang, do neither. Elsewhere (Windows) it is an own process tree.
"""

from __future__ import annotations

import abc
import asyncio
import subprocess
import sys
from asyncio.subprocess import SubprocessStreamProtocol
from typing import TYPE_CHECKING, Any, cast

from tools.process.programs import taskkill
from tools.text.truncate import tail

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tools.process.supervised_process import SupervisedProcess


_MAX_UNREAD_BYTES = 1 << 18
"""Half of the data that is read ahead of a server that writes faster than its messages are handled."""
_STDERR_BYTES = 8_000


class ServerProcess(abc.ABC):
    """A running server."""

    stdout: asyncio.StreamReader
    exited: asyncio.Event
    """The server itself has ended; its children perhaps not yet."""

    def __init__(self, on_stderr: Callable[[bytes], None]) -> None:
        self._on_stderr = on_stderr
        self._stderr = bytearray()

    @property
    @abc.abstractmethod
    def pid(self) -> int:
        """Process id, which is also that of its group (and on POSIX of its session)."""

    @property
    @abc.abstractmethod
    def exit_code(self) -> int | None:
        """Negative: the signal that ended it."""

    @property
    def stderr_tail(self) -> str:
        """The end of its stderr output."""
        return tail(self._stderr.decode("utf-8", errors="replace").strip(), 2000)

    @property
    def unsent(self) -> int:
        """Bytes that it has not read yet, beyond what its pipe holds."""
        return 0 if self._stdin is None else self._stdin.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Send to its stdin. Waits for nothing; nothing happens when it has closed it."""
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(data)

    @abc.abstractmethod
    async def end(self, grace_s: float) -> None:
        """TERM, after ``grace_s`` KILL, to all that belongs to it. Never raises; returns when nothing runs any more."""

    @property
    @abc.abstractmethod
    def _stdin(self) -> asyncio.WriteTransport | None: ...

    def _complained(self, data: bytes) -> None:
        self._on_stderr(data)
        self._stderr += data[-_STDERR_BYTES:]
        del self._stderr[:-_STDERR_BYTES]


async def start_server(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    grace_s: float,
    on_stderr: Callable[[bytes], None] = lambda data: None,
) -> ServerProcess:
    """Start a server; ``grace_s`` as in ``end``. Raises OSError when it cannot be executed.

    ``on_stderr`` gets what it writes to stderr, and must be quick.
    """
    if sys.platform == "win32":
        return await _OwnProcess.start(argv, cwd, environment, on_stderr)
    return await _SupervisedServer.start(argv, cwd, environment, grace_s, on_stderr)


async def ended(process: ServerProcess, seconds: float) -> bool:
    """Wait at most ``seconds`` for the end of the server itself."""
    try:
        await asyncio.wait_for(process.exited.wait(), seconds)
    except TimeoutError:
        return False
    return True


class _SupervisedServer(ServerProcess):
    """Beneath a warden."""

    def __init__(self, on_stderr: Callable[[bytes], None]) -> None:
        super().__init__(on_stderr)
        self.stdout = asyncio.StreamReader(limit=_MAX_UNREAD_BYTES)
        # A StreamReader uses its transport only to pause it.
        self.stdout.set_transport(cast("Any", self))
        self._program: SupervisedProcess | None = None

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        grace_s: float,
        on_stderr: Callable[[bytes], None],
    ) -> _SupervisedServer:
        from tools.process import supervised_process

        process = cls(on_stderr)
        program = process._program = await supervised_process.start(
            argv,
            cwd=cwd,
            env=environment,
            on_output=process._on_output,
            on_closed=process._on_closed,
            merge_stderr=False,
            grace_s=grace_s,
            with_stdin=True,
        )
        process.exited = program.exited
        return process

    @property
    def _running(self) -> SupervisedProcess:
        assert self._program is not None, "made by start()"
        return self._program

    @property
    def pid(self) -> int:
        return self._running.family.session

    @property
    def exit_code(self) -> int | None:
        return self._running.exit_code

    @property
    def _stdin(self) -> asyncio.WriteTransport | None:
        return self._running.stdin

    async def end(self, grace_s: float) -> None:
        await self._running.stop(grace_s)

    def pause_reading(self) -> None:
        if self._program is not None:
            self._program.pause(1)

    def resume_reading(self) -> None:
        if self._program is not None:
            self._program.resume(1)

    def _on_output(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._complained(data)
        else:
            self.stdout.feed_data(data)

    def _on_closed(self, fd: int) -> None:
        if fd == 1:
            self.stdout.feed_eof()


class _Pipes(SubprocessStreamProtocol):
    """The pipes to a server, and a sign when its process ends.

    asyncio's own ``Process.wait()`` also waits for the end of its output, which a child of the server may keep open
    forever.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=_MAX_UNREAD_BYTES, loop=loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class _OwnProcess(ServerProcess):
    """Where there are no wardens."""

    def __init__(
        self, transport: asyncio.SubprocessTransport, pipes: _Pipes, on_stderr: Callable[[bytes], None]
    ) -> None:
        super().__init__(on_stderr)
        assert pipes.stdout is not None and pipes.stderr is not None
        self.stdout = pipes.stdout
        self.exited = pipes.exited
        self._transport = transport
        self._draining = asyncio.create_task(self._drain(pipes.stderr))

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        on_stderr: Callable[[bytes], None],
    ) -> _OwnProcess:
        loop = asyncio.get_running_loop()
        transport, pipes = await loop.subprocess_exec(
            lambda: _Pipes(loop),
            *argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=dict(environment),
        )
        return cls(transport, pipes, on_stderr)

    @property
    def pid(self) -> int:
        return self._transport.get_pid()

    @property
    def exit_code(self) -> int | None:
        return self._transport.get_returncode()

    @property
    def _stdin(self) -> asyncio.WriteTransport | None:
        return cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))

    async def end(self, grace_s: float) -> None:
        await taskkill(self.pid, force=False)
        if not await ended(self, grace_s):
            await taskkill(self.pid)
            await ended(self, grace_s)
        self._transport.close()
        self._draining.cancel()
        await asyncio.wait({self._draining})

    async def _drain(self, stream: asyncio.StreamReader) -> None:
        try:
            while chunk := await stream.read(4096):
                self._complained(chunk)
        except (OSError, ValueError):
            return  # the stream has ended, so the stored part is complete
