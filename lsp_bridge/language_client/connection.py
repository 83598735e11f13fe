"""JSON-RPC with a child process on its stdin and stdout, hardened against bad servers.

Data between messages (log lines that a server prints to stdout) is skipped; a message with a wrong ``Content-Length``
is one bad message, and reading continues at the next header, even if that begins in the middle of a line. Only endless
data is an error: a giant line, or too much that is no message. Large messages are not parsed on the event loop. Sending
is bounded, too, for a server that does not read.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
from typing import TYPE_CHECKING, Any

from lsp_bridge.framing import frame
from tools.json_access import mapping
from tools.process.server_process import ServerProcess, ended

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

MAX_MESSAGE_BYTES = 64_000_000
MAX_LINE_BYTES = 1 << 16
_MAX_JUNK_BYTES = 1 << 20
"""Between two messages."""
_THREAD_BYTES = 128_000
_LINES_A_TURN = 96
"""Lines before other tasks get a turn on the event loop: reading does not wait while the buffer has data."""
# Match at the end of the line, because a length that was too small leaves the rest of a body before it.
_LENGTH = re.compile(rb"content-length[ \t]*:[ \t]*([0-9]{1,12})[ \t]*\r?\n", re.IGNORECASE)
_MAX_BAD_MESSAGES = 20
"""In a row."""
_MAX_UNSENT_BYTES = 16_000_000
_METHOD_NOT_FOUND = -32601

_logger = logging.getLogger("goalwright.lsp_client")


class MethodNotFoundError(Exception):
    """The server asked for something that this client does not do."""


class ServerGoneError(Exception):
    """The server's process has ended, or it stopped speaking JSON-RPC."""


class ServerError(Exception):
    """The server refused a request. ``code`` is JSON-RPC's or LSP's, ``data`` the server's own (JSON)."""

    def __init__(self, message: str, code: int = 0, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    @property
    def ask_again(self) -> bool:
        """The server was busy with something newer (LSP's ServerCancelled and ContentModified)."""
        return self.code in (-32802, -32801) and mapping(self.data).get("retriggerRequest") is not False

    @classmethod
    def from_wire(cls, error: object) -> ServerError:
        """Make an error from the ``error`` member of a response, which may be anything."""
        body: Mapping[str, Any] = mapping(error)
        code = body.get("code")
        return cls(str(body.get("message", error)), code if isinstance(code, int) else 0, body.get("data"))


class RpcClient:
    """One server process and the connection to it."""

    def __init__(
        self,
        on_request: Callable[[str, Mapping[str, Any]], object],
        on_notification: Callable[[str, Mapping[str, Any]], None],
        on_closed: Callable[[str], None],
    ) -> None:
        """The functions are called on the event loop, and must be quick.

        ``on_request`` returns the result (JSON) of a request by the server; raises MethodNotFoundError. ``on_closed``
        is called once with the reason when the server is gone, or will be: its process ended, or it stopped speaking
        JSON-RPC.
        """
        self._on_request, self._on_notification = on_request, on_notification
        self._on_closed = on_closed
        self._process: ServerProcess | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._ids = itertools.count(1)
        self._pending: dict[str | int, asyncio.Future[Any]] = {}
        """The requests under way, by id."""
        self._closed = False
        self._bad_messages = 0

    @property
    def pid(self) -> int | None:
        """Process id of the server while it runs, also the id of its process group."""
        process = self._process
        return None if process is None or process.exited.is_set() else process.pid

    @property
    def stderr_tail(self) -> str:
        """The end of what the server wrote to stderr, for the log."""
        return self._process.stderr_tail if self._process is not None else ""

    async def start(
        self, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], grace_s: float
    ) -> None:
        """Start the server; ``grace_s`` between TERM and KILL when it has to end. Raises OSError."""
        process = await ServerProcess.start(argv, cwd=cwd, environment=environment, grace_s=grace_s)
        self._process = process
        self._tasks = [asyncio.create_task(self._read(process)), asyncio.create_task(self._watch(process))]

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification. Nothing happens when the server is gone."""
        self._send({"method": method, "params": params})

    async def request(self, method: str, params: Mapping[str, Any] | None, timeout: float) -> Any:
        """Send a request and wait up to ``timeout`` seconds for its result (JSON).

        Raises ServerError (the server rejected it), ServerGoneError, TimeoutError. The server is notified when the
        request is cancelled or times out.
        """
        if self._closed:
            raise ServerGoneError("the language server is not running")
        identity = str(next(self._ids))
        reply = self._pending[identity] = asyncio.get_running_loop().create_future()
        try:
            self._send({"id": identity, "method": method, "params": params})
            async with asyncio.timeout(timeout):
                return await reply
        except (TimeoutError, asyncio.CancelledError):
            self.notify("$/cancelRequest", {"id": identity})
            raise
        finally:
            del self._pending[identity]

    async def end(self, *, exit_s: float, terminate_s: float) -> None:
        """Make sure that the server and its children have ended. Never raises; safe to call twice.

        Waits ``exit_s`` seconds for it to end, then TERM, ``terminate_s``, KILL; to its child processes too, since many
        servers are a wrapper around another process.
        """
        process = self._process
        if process is None:
            return
        if exit_s:
            await ended(process, exit_s)
        await process.end(terminate_s)
        self._close("stopped")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    def _send(self, message: dict[str, Any]) -> None:
        if self._closed or self._process is None:
            return
        if self._process.unsent > _MAX_UNSENT_BYTES:
            self._close("it does not read what it is sent")
            return
        body = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode("utf-8", errors="replace")
        self._process.write(frame(body))

    def _close(self, reason: str) -> None:
        if not self._closed:
            self._closed = True
            for reply in self._pending.values():
                if not reply.done():
                    reply.set_exception(ServerGoneError(reason))
            self._on_closed(reason)

    async def _watch(self, process: ServerProcess) -> None:
        await process.exited.wait()
        self._close(f"exited with {process.exit_code}")

    async def _read(self, process: ServerProcess) -> None:
        try:
            async for message in messages(process.stdout):
                if self._closed:
                    return
                self._take(message)
            reason = "it closed its output"
        except BadStreamError as error:
            reason = str(error)
        except OSError as error:
            reason = f"its output ended badly: {error}"
        # The end of the process is more informative than the end of its output, so let that be reported first.
        await ended(process, 0.2)
        await asyncio.sleep(0)
        self._close(reason)

    def _take(self, message: dict[str, Any] | BadMessage) -> None:
        try:
            if not isinstance(message, BadMessage):
                self._dispatch(message)
                self._bad_messages = 0
                return
            why = message.why
        except Exception as error:  # a server may send anything; whatever cannot be handled is a bad message
            why = f"{type(error).__name__}: {error}"
        self._bad_messages += 1
        _logger.debug("bad message %d from a language server: %s", self._bad_messages, why)
        if self._bad_messages >= _MAX_BAD_MESSAGES:
            self._close("it does not speak JSON-RPC")

    def _dispatch(self, message: dict[str, Any]) -> None:
        method, identity = message.get("method"), message.get("id")
        params = mapping(message.get("params"))
        if not isinstance(method, str):
            if method is not None or not isinstance(identity, str | int):
                raise ValueError("neither a request nor a response")
            self._answered(identity, message)
        elif isinstance(identity, str | int):
            self._answer(identity, method, params)
        else:
            self._on_notification(method, params)

    def _answer(self, identity: str | int, method: str, params: dict[str, Any]) -> None:
        try:
            answer = {"result": self._on_request(method, params)}
        except MethodNotFoundError:
            answer = {"error": {"code": _METHOD_NOT_FOUND, "message": f"{method} is not supported"}}
        self._send({"id": identity, **answer})

    def _answered(self, identity: str | int, message: dict[str, Any]) -> None:
        reply = self._pending.get(identity)
        if reply is None or reply.done():
            return
        if (error := message.get("error")) is None:
            reply.set_result(message.get("result"))
        else:
            reply.set_exception(ServerError.from_wire(error))


class BadStreamError(Exception):
    """The stream cannot be read as messages. The text says why."""


class BadMessage:
    """A placeholder for a message that could not be read."""

    def __init__(self, why: str) -> None:
        self.why = why


async def messages(stream: asyncio.StreamReader) -> AsyncIterator[dict[str, Any] | BadMessage]:
    """Yield the messages until the end of the stream. Raises BadStreamError."""
    junk = lines = 0
    length: int | None = None
    while line := await _line(stream):
        lines += 1
        if lines % _LINES_A_TURN == 0:
            await asyncio.sleep(0)
        if not line.strip():
            if length is None:
                continue
            if not 0 < length <= MAX_MESSAGE_BYTES:
                raise BadStreamError(f"it announced a message of {length} bytes")
            try:
                body = await stream.readexactly(length)
            except asyncio.IncompleteReadError:
                raise BadStreamError("it ended in the middle of a message") from None
            message = await _parse(body)
            yield message
            junk, length = junk + len(body) if isinstance(message, BadMessage) else 0, None
        elif found := _LENGTH.search(line):
            length = int(found[1])
            junk += found.start()
        elif b":" not in line or length is None:
            junk += len(line)
        else:
            junk += len(line) if len(line) > 1000 else 0  # another header, e.g. Content-Type
        if junk > _MAX_JUNK_BYTES:
            raise BadStreamError("it writes what is no JSON-RPC")


def _as_it_is(value: dict[str, Any]) -> dict[str, Any]:
    return value


async def _line(stream: asyncio.StreamReader) -> bytes:
    try:
        line = await stream.readline()
    except ValueError:  # asyncio: the line is longer than its buffer
        raise BadStreamError("it wrote a line without end") from None
    if len(line) > MAX_LINE_BYTES:
        raise BadStreamError(f"it wrote a line of {len(line)} bytes")
    return line


async def _parse(body: bytes) -> dict[str, Any] | BadMessage:
    try:
        if len(body) > _THREAD_BYTES:
            # With a hook in Python: the C parser would hold the interpreter's lock, and so block the event loop, until
            # it has read everything.
            value: object = await asyncio.to_thread(json.loads, body, object_hook=_as_it_is)
        else:
            value = json.loads(body)
    except (ValueError, RecursionError) as error:
        return BadMessage(f"{error or type(error).__name__}")
    if not isinstance(value, dict):
        return BadMessage("not an object")
    return value  # pyright: ignore[reportUnknownVariableType]  # JSON
