"""The process of a server on pipes, of which nothing stays: not after it ended, and not after the daemon was killed.

On POSIX it runs beneath a warden (``supervised_process``), which also ends what the server starts, and everything
when the daemon is gone (``kill -9`` included). Servers are asked to watch ``processId`` and the
end of their stdin too, but wrappers, and servers that hang, do neither. On Windows it is a process tree of its own.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, cast

from tools.text.truncate import tail

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tools.process.supervised_process import SupervisedProcess
    from tools.process.windows_process import WindowsProcess

_MAX_UNREAD_BYTES = 1 << 18
"""Half of the data that is read ahead of a server that writes faster than its messages are handled."""
_STDERR_BYTES = 8_000


class ServerProcess:
    """A running server. Made by ``start``."""

    exited: asyncio.Event
    """The server itself has ended; its children perhaps not yet."""

    def __init__(self, on_stderr: Callable[[bytes], None]) -> None:
        self.stdout = asyncio.StreamReader(limit=_MAX_UNREAD_BYTES)
        # A StreamReader uses its transport only to pause it.
        self.stdout.set_transport(cast("Any", self))
        self._on_stderr = on_stderr
        self._stderr = bytearray()
        self._started: SupervisedProcess | WindowsProcess | None = None

    @classmethod
    async def start(
        cls,
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
            from tools.process.windows_process import start
        else:
            from tools.process.supervised_process import start

        server = cls(on_stderr)
        program = server._started = await start(
            argv,
            cwd=cwd,
            env=environment,
            on_output=server._take,
            on_closed=server._end_of,
            merge_stderr=False,
            grace_s=grace_s,
            with_stdin=True,
        )
        server.exited = program.exited
        return server

    @property
    def _program(self) -> SupervisedProcess | WindowsProcess:
        assert self._started is not None, "made by start()"
        return self._started

    @property
    def pid(self) -> int:
        """Process id, which is also that of its group (and on POSIX of its session)."""
        return self._program.pid

    @property
    def exit_code(self) -> int | None:
        """Negative: the signal that ended it."""
        return self._program.exit_code

    @property
    def stderr_tail(self) -> str:
        """The end of its stderr output."""
        return tail(self._stderr.decode("utf-8", errors="replace").strip(), 2000)

    @property
    def unsent(self) -> int:
        """Bytes that it has not read yet, beyond what its pipe holds."""
        stdin = self._program.stdin
        return 0 if stdin is None else stdin.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Send to its stdin. Waits for nothing; nothing happens when it has closed it."""
        stdin = self._program.stdin
        if stdin is not None and not stdin.is_closing():
            stdin.write(data)

    async def end(self, grace_s: float) -> None:
        """TERM, after ``grace_s`` KILL, to all that belongs to it. Never raises; returns when nothing runs any more."""
        await self._program.stop(grace_s)

    def pause_reading(self) -> None:
        if self._started is not None:
            self._started.pause(1)

    def resume_reading(self) -> None:
        if self._started is not None:
            self._started.resume(1)

    def _take(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self.stdout.feed_data(data)
            return
        self._on_stderr(data)
        self._stderr += data[-_STDERR_BYTES:]
        del self._stderr[:-_STDERR_BYTES]

    def _end_of(self, fd: int) -> None:
        if fd == 1:
            self.stdout.feed_eof()


async def ended(process: ServerProcess, seconds: float) -> bool:
    """Wait at most ``seconds`` for the end of the server itself."""
    try:
        async with asyncio.timeout(seconds):
            await process.exited.wait()
    except TimeoutError:
        return False
    return True
