"""The process of a server on pipes, of which nothing stays: not after it ended, and not after the daemon was killed.

On POSIX it runs beneath a warden (``supervised_process``), which also ends what the server starts, and everything
when the daemon is gone (``kill -9`` included). Servers are asked to watch ``processId`` and the
end of their stdin too, but wrappers, and servers that hang, do neither. Elsewhere (Windows) it is an own process tree.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from asyncio.subprocess import SubprocessStreamProtocol
from typing import TYPE_CHECKING, Any, Protocol, cast

from tools.text.truncate import tail

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tools.process.supervised_process import SupervisedProcess


_MAX_UNREAD_BYTES = 1 << 18
"""Half of the data that is read ahead of a server that writes faster than its messages are handled."""
_STDERR_BYTES = 8_000


class ServerProcess(Protocol):
    """A running server."""

    @property
    def stdout(self) -> asyncio.StreamReader:
        """Output of the process."""
        ...

    @property
    def exited(self) -> asyncio.Event:
        """The server itself has ended; its children perhaps not yet."""
        ...

    @property
    def pid(self) -> int:
        """Process id, which is also that of its group (and on POSIX of its session)."""
        ...

    @property
    def exit_code(self) -> int | None:
        """Negative: the signal that ended it."""
        ...

    @property
    def stderr_tail(self) -> str:
        """The end of its stderr output."""
        ...

    @property
    def unsent(self) -> int:
        """Bytes that it has not read yet, beyond what its pipe holds."""
        ...

    def write(self, data: bytes) -> None:
        """Send to its stdin. Waits for nothing; nothing happens when it has closed it."""
        ...

    async def end(self, grace_s: float) -> None:
        """TERM, after ``grace_s`` KILL, to all that belongs to it. Never raises; returns when nothing runs any more."""
        ...


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


class _StderrTail:
    """The last bytes of something long."""

    def __init__(self, heard: Callable[[bytes], None]) -> None:
        """``heard`` gets all of it."""
        self._data = bytearray()
        self._heard = heard

    def add(self, data: bytes) -> None:
        self._heard(data)
        self._data += data[-_STDERR_BYTES:]
        del self._data[:-_STDERR_BYTES]

    @property
    def text(self) -> str:
        return tail(self._data.decode("utf-8", errors="replace").strip(), 2000)


class _SupervisedServer:
    """Implements ServerProcess beneath a warden."""

    def __init__(self, on_stderr: Callable[[bytes], None]) -> None:
        self.stdout = asyncio.StreamReader(limit=_MAX_UNREAD_BYTES)
        # A StreamReader uses its transport only to pause it.
        self.stdout.set_transport(cast("Any", self))
        self._stderr = _StderrTail(on_stderr)
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
        process._program = await supervised_process.start(
            argv,
            cwd=cwd,
            env=environment,
            on_output=process._on_output,
            on_closed=process._on_closed,
            merge_stderr=False,
            grace_s=grace_s,
            with_stdin=True,
        )
        return process

    @property
    def _running(self) -> SupervisedProcess:
        assert self._program is not None, "made by start()"
        return self._program

    @property
    def pid(self) -> int:
        return self._running.family.session

    @property
    def exited(self) -> asyncio.Event:
        return self._running.exited

    @property
    def exit_code(self) -> int | None:
        return self._running.exit_code

    @property
    def stderr_tail(self) -> str:
        return self._stderr.text

    @property
    def unsent(self) -> int:
        stdin = self._running.stdin
        return stdin.get_write_buffer_size() if stdin is not None else 0

    def write(self, data: bytes) -> None:
        stdin = self._running.stdin
        if stdin is not None and not stdin.is_closing():
            stdin.write(data)

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
            self._stderr.add(data)
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


class _OwnProcess:
    """Implements ServerProcess where there are no wardens."""

    def __init__(
        self, transport: asyncio.SubprocessTransport, pipes: _Pipes, on_stderr: Callable[[bytes], None]
    ) -> None:
        assert pipes.stdin is not None and pipes.stdout is not None and pipes.stderr is not None
        self.stdout = pipes.stdout
        self.exited = pipes.exited
        self._stdin = pipes.stdin
        self._transport = transport
        self._stderr = _StderrTail(on_stderr)
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
    def stderr_tail(self) -> str:
        return self._stderr.text

    @property
    def unsent(self) -> int:
        return self._stdin.transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        if not self._stdin.is_closing():
            self._stdin.write(data)

    async def end(self, grace_s: float) -> None:
        await asyncio.to_thread(self._kill_tree, force=False)
        if not await ended(self, grace_s):
            await asyncio.to_thread(self._kill_tree, force=True)
            await ended(self, grace_s)
        self._transport.close()
        self._draining.cancel()
        await asyncio.wait({self._draining})

    def _kill_tree(self, *, force: bool) -> None:
        subprocess.run(
            ["taskkill", "/T", *(["/F"] if force else []), "/PID", str(self.pid)],
            capture_output=True,
            check=False,
        )

    async def _drain(self, stream: asyncio.StreamReader) -> None:
        try:
            while chunk := await stream.read(4096):
                self._stderr.add(chunk)
        except (OSError, ValueError):
            return  # the stream has ended, so the stored part is complete
