"""JSON-RPC with a child process on its stdin and stdout: pygls' client, hardened against bad servers.

Imported where the first server is started, because pygls and lsprotocol take a while to import. What is
different from plain pygls (checked against 2.1):

- Messages stay plain dicts. Structured by pygls they would be namedtuples with mangled keys, slow for
  thousands of diagnostics, and a nested dict with a ``jsonrpc`` key would break them.
- A reply that comes after its request was given up is dropped; pygls raises.
- Message size is bounded, garbage on stdout ends the connection after a while, stderr is drained.
- The server is a process group of its own, and ended as one: TERM, then KILL. pygls waits forever.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import uuid
from asyncio.subprocess import SubprocessStreamProtocol
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import cattrs
from lsprotocol.types import ResponseError
from pygls.client import JsonRPCClient
from pygls.io_ import run_async
from pygls.protocol import JsonRPCProtocol

from lsp_bridge.language.rpc_errors import MethodNotFound, ServerError, ServerGone

_MAX_MESSAGE_BYTES = 64_000_000
_MAX_LINE_BYTES = 1 << 16
_MAX_BAD_MESSAGES = 20
_MAX_UNSENT_BYTES = 16_000_000
_METHOD_NOT_FOUND = -32601

_logger = logging.getLogger("goalwright.lsp_client")
# pygls logs every bad message with a traceback. They come back to us through report_server_error, so this
# logger, which is connected to no other, drops them.
_nowhere = logging.Logger("nowhere", level=logging.CRITICAL)


class Handler(Protocol):
    """Who gets what the server sends. Called on the event loop; must be quick."""

    def on_request(self, method: str, params: Mapping[str, Any]) -> object:
        """The result (JSON) of a request by the server. Raises MethodNotFound."""
        ...

    def on_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """A notification by the server."""
        ...

    def on_closed(self, reason: str) -> None:
        """The server is gone, or will be: its process ended, or it stopped speaking JSON-RPC. Called once."""
        ...


class _BoundedReader:
    """The server's stdout; a message larger than any sensible one ends the connection, not the memory."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream

    async def readline(self) -> bytes:
        return await self._stream.readline()

    async def readexactly(self, n: int) -> bytes:
        if n > _MAX_MESSAGE_BYTES:
            raise ValueError(f"a message of {n} bytes")
        return await self._stream.readexactly(n)


class _Wire(JsonRPCProtocol):
    """pygls' framing, ids and futures; dispatch to a Handler instead of pygls features."""

    handler: Handler

    def structure_message(self, data: dict[str, Any]) -> dict[str, Any]:
        return data

    def handle_message(self, message: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        if not isinstance(message, dict):
            raise ValueError("not a JSON-RPC message")
        body = cast("dict[str, Any]", message)
        method, identity = body.get("method"), body.get("id")
        given = body.get("params")
        params = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        if not isinstance(method, str):
            if isinstance(identity, (str, int)):
                self._handle_response(identity, body.get("result"), body.get("error"))
        elif isinstance(identity, (str, int)):
            self._answer(identity, method, params)
        else:
            self.handler.on_notification(method, params)

    def _answer(self, identity: str | int, method: str, params: dict[str, Any]) -> None:
        try:
            self._send_response(identity, self.handler.on_request(method, params))
        except MethodNotFound:
            error = ResponseError(code=_METHOD_NOT_FOUND, message=f"{method} is not supported")
            self._send_response(identity, None, error)

    def _handle_response(self, msg_id: str | int, result: Any = None, error: Any = None) -> None:
        future = self._request_futures.pop(msg_id, None)
        self._result_types.pop(msg_id, None)
        if future is None or future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(ServerError.from_wire(error))

    def _send_data(self, data: Any) -> None:
        # pygls logs the whole body, source code included, and escapes what is not ASCII.
        body = json.dumps(data, default=self._serialize_message, ensure_ascii=False).encode(
            "utf-8", errors="replace"
        )
        if self.writer is not None:
            self.writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def fail_all(self, error: Exception) -> None:
        """Nobody will answer any more."""
        for future in self._request_futures.values():
            if not future.done():
                future.set_exception(error)

    def give_up(self, msg_id: str) -> None:
        """Forget a request nobody waits for any more; pygls would remember it for ever."""
        self._request_futures.pop(msg_id, None)
        self._result_types.pop(msg_id, None)


class _Pipes(SubprocessStreamProtocol):
    """The pipes to the server, and a sign when its process ends.

    asyncio's own ``Process.wait()`` also waits for the end of its output, which a child of the server may
    hold open for ever.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=_MAX_LINE_BYTES, loop=loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()

    async def ended(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for the end of the process."""
        try:
            await asyncio.wait_for(self.exited.wait(), seconds)
        except TimeoutError:
            return False
        return True


class RpcClient(JsonRPCClient):
    """One server process and the connection to it."""

    protocol: _Wire

    def __init__(self, handler: Handler) -> None:
        super().__init__(_Wire, cattrs.Converter)
        self.protocol.handler = handler
        self._handler = handler
        self._pipes: _Pipes | None = None
        self._transport: asyncio.SubprocessTransport | None = None
        self._closed = False
        self._bad_messages = 0
        self._stderr: deque[bytes] = deque(maxlen=16)

    @property
    def pid(self) -> int | None:
        """Process id of the server, also the id of its process group; None before the start."""
        return self._transport.get_pid() if self._transport is not None else None

    @property
    def exited(self) -> bool:
        """The process has ended and was reaped."""
        return self._pipes is None or self._pipes.exited.is_set()

    @property
    def stderr_tail(self) -> str:
        """The end of what the server wrote to stderr, for the log."""
        return b"".join(self._stderr)[-2000:].decode("utf-8", errors="replace").strip()

    async def start(self, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> None:
        """Start the server. Raises OSError when it cannot be executed."""
        loop = asyncio.get_running_loop()
        self._transport, pipes = await loop.subprocess_exec(
            lambda: _Pipes(loop),
            *argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=dict(environment),
            start_new_session=sys.platform != "win32",
        )
        assert pipes.stdin is not None and pipes.stdout is not None and pipes.stderr is not None
        self._pipes = pipes
        # A StreamWriter in all that pygls uses of it; its close() is not awaitable, which pygls handles.
        self.protocol.set_writer(cast("Any", pipes.stdin))
        self._async_tasks += [
            asyncio.create_task(self._read(pipes, pipes.stdout)),
            asyncio.create_task(self._drain(pipes.stderr)),
            asyncio.create_task(self._watch(pipes)),
        ]

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification. Nothing happens when the server is gone (its Handler has been told)."""
        if self._closed or self._pipes is None or self._pipes.stdin is None:
            return
        if self._pipes.stdin.transport.get_write_buffer_size() > _MAX_UNSENT_BYTES:
            self._close("it does not read what it is sent")
            return
        self.protocol.notify(method, params)

    async def request(self, method: str, params: Mapping[str, Any] | None, timeout: float) -> Any:
        """Send a request and wait up to ``timeout`` seconds for its result (JSON).

        Raises ServerError (the server refused), ServerGone, TimeoutError. When it is cancelled or times
        out, the server is told so.
        """
        if self._closed:
            raise ServerGone("the language server is not running")
        identity = str(uuid.uuid4())
        try:
            reply = self.protocol.send_request_async(method, params, msg_id=identity)
            return await asyncio.wait_for(reply, timeout)
        except (TimeoutError, asyncio.CancelledError):
            self.notify("$/cancelRequest", {"id": identity})
            raise
        finally:
            self.protocol.give_up(identity)

    async def end(self, *, exit_s: float, terminate_s: float) -> None:
        """Make sure that nothing of the server runs any more. Never raises; safe to call twice.

        Waits ``exit_s`` seconds for it to end by itself, then TERM, ``terminate_s``, KILL; to its whole
        process group, since many servers are a wrapper around another process.
        """
        transport, pipes = self._transport, self._pipes
        if transport is None or pipes is None:
            return
        if not await pipes.ended(exit_s):
            _signal_group(transport.get_pid(), force=False)
            if not await pipes.ended(terminate_s):
                _signal_group(transport.get_pid(), force=True)
                await pipes.ended(terminate_s)
        self._close("stopped")
        # The leader may be gone and its children not.
        _signal_group(transport.get_pid(), force=True)
        transport.close()
        for task in self._async_tasks:
            task.cancel()
        await asyncio.gather(*self._async_tasks, return_exceptions=True)
        self._async_tasks.clear()

    def report_server_error(self, error: Exception, source: Any) -> None:
        """pygls' hook: something that is not a JSON-RPC message, or could not be handled."""
        self._bad_messages += 1
        _logger.debug("bad message %d from a language server: %s", self._bad_messages, error)
        if self._bad_messages >= _MAX_BAD_MESSAGES:
            self._close("it does not speak JSON-RPC")

    def _close(self, reason: str) -> None:
        if not self._closed:
            self._closed = True
            self._stop_event.set()
            self.protocol.fail_all(ServerGone(reason))
            self._handler.on_closed(reason)

    async def _watch(self, pipes: _Pipes) -> None:
        await pipes.exited.wait()
        code = self._transport.get_returncode() if self._transport is not None else None
        self._close(f"exited with {code}")

    async def _read(self, pipes: _Pipes, stream: asyncio.StreamReader) -> None:
        try:
            await run_async(
                self._stop_event, _BoundedReader(stream), self.protocol, _nowhere, self.report_server_error
            )
            reason = "it closed its output"
        except (ValueError, OSError, EOFError) as error:
            reason = f"its output ended badly: {error}"
        # The process' own end says more than the end of its output: let that be reported first.
        await pipes.ended(0.2)
        await asyncio.sleep(0)
        self._close(reason)

    async def _drain(self, stream: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError, ValueError):
            while chunk := await stream.read(4096):
                self._stderr.append(chunk)


def _signal_group(pid: int, *, force: bool) -> None:
    if sys.platform == "win32":
        subprocess.run(["taskkill", "/T", *(["/F"] if force else []), "/PID", str(pid)], capture_output=True)
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL if force else signal.SIGTERM)
