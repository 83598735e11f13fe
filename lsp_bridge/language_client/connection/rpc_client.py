"""JSON-RPC with a child process on its stdin and stdout: pygls' client, hardened against bad servers.

Imported where the first server is started, because pygls and lsprotocol take a while to import. Differences from plain
pygls (checked against 2.1):

- Messages stay plain dicts. Structured by pygls they would be namedtuples with mangled keys, slow for
  thousands of diagnostics, and a nested dict with a ``jsonrpc`` key would break them.
- A reply to an abandoned request is dropped; pygls raises (https://github.com/openlawlibrary/pygls/issues/621), and
  forgets no request that is never answered (https://github.com/openlawlibrary/pygls/issues/608).
- Messages are read by ``framing``: bounded, tolerant of data between them, large ones not on the event loop. Sending is
  bounded too, for a server that does not read.
- The server is killed if necessary, with its child processes. pygls waits forever.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from typing import TYPE_CHECKING, Any

import cattrs
from lsprotocol.types import ResponseError
from pygls.client import JsonRPCClient
from pygls.protocol import JsonRPCProtocol

from lsp_bridge.language_client.connection.framing import (
    BadMessage,
    BadStreamError,
    MethodNotFoundError,
    ServerError,
    ServerGoneError,
    messages,
)
from tools.json_access import mapping
from tools.process.server_process import ServerProcess, ended, start_server

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_MAX_BAD_MESSAGES = 20
"""In a row."""
_MAX_UNSENT_BYTES = 16_000_000
_METHOD_NOT_FOUND = -32601

_logger = logging.getLogger("goalwright.lsp_client")


class _Wire(JsonRPCProtocol):
    """pygls' ids and futures; dispatch to the client instead of pygls features."""

    client: RpcClient

    def handle_message(self, message: dict[str, Any]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One message, which may be anything."""
        method, identity = message.get("method"), message.get("id")
        given = message.get("params")
        params = mapping(given)
        if not isinstance(method, str):
            if isinstance(identity, (str, int)) and method is None:
                self._handle_response(identity, message.get("result"), message.get("error"))
            else:
                raise ValueError("neither a request nor a response")
        elif isinstance(identity, (str, int)):
            self._answer(identity, method, params)
        else:
            self.client.on_notification(method, params)

    def _answer(self, identity: str | int, method: str, params: dict[str, Any]) -> None:
        try:
            self._send_response(identity, self.client.on_request(method, params))
        except MethodNotFoundError:
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
        # pygls logs the whole body, including source code, and escapes non-ASCII characters.
        body = json.dumps(data, default=self._serialize_message, ensure_ascii=False).encode(
            "utf-8", errors="replace"
        )
        self.client.send(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def fail_all(self, error: Exception) -> None:
        """Nobody will answer any more."""
        for future in list(self._request_futures.values()):
            if not future.done():
                future.set_exception(error)

    def give_up(self, msg_id: str) -> None:
        """Forget an abandoned request; pygls would keep it forever."""
        self._request_futures.pop(msg_id, None)
        self._result_types.pop(msg_id, None)


class RpcClient(JsonRPCClient):
    """One server process and the connection to it."""

    protocol: _Wire

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
        super().__init__(_Wire, cattrs.Converter)
        self.on_request, self.on_notification = on_request, on_notification
        self.protocol.client = self
        self._on_closed = on_closed
        self._process: ServerProcess | None = None
        self._closed = False
        self._bad_messages = 0

    @property
    def pid(self) -> int | None:
        """Process id of the server, also the id of its process group; None before the start."""
        return self._process.pid if self._process is not None else None

    @property
    def exited(self) -> bool:
        """The process has ended and was reaped."""
        return self._process is None or self._process.exited.is_set()

    @property
    def stderr_tail(self) -> str:
        """The end of what the server wrote to stderr, for the log."""
        return self._process.stderr_tail if self._process is not None else ""

    async def start(
        self, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], grace_s: float
    ) -> None:
        """Start the server; ``grace_s`` between TERM and KILL when it has to end. Raises OSError."""
        process = await start_server(argv, cwd=cwd, environment=environment, grace_s=grace_s)
        self._process = process
        self._async_tasks += [
            asyncio.create_task(self._read(process)),
            asyncio.create_task(self._watch(process)),
        ]

    def send(self, data: bytes) -> None:
        """Send bytes to the server. Nothing happens when it is gone (``on_closed`` has been called)."""
        if self._closed or self._process is None:
            return
        if self._process.unsent > _MAX_UNSENT_BYTES:
            self._close("it does not read what it is sent")
            return
        self._process.write(data)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification. Nothing happens when the server is gone."""
        if not self._closed:
            self.protocol.notify(method, params)

    async def request(self, method: str, params: Mapping[str, Any] | None, timeout: float) -> Any:
        """Send a request and wait up to ``timeout`` seconds for its result (JSON).

        Raises ServerError (the server rejected it), ServerGoneError, TimeoutError. The server is notified when the
        request is cancelled or times out.
        """
        if self._closed:
            raise ServerGoneError("the language server is not running")
        identity = str(uuid.uuid4())
        try:
            reply = self.protocol.send_request_async(method, params, msg_id=identity)
            if self._closed:  # noticed while sending
                raise ServerGoneError("the language server does not read what it is sent")
            # Not wait_for: in Python 3.11 it may swallow a cancellation that arrives together with the answer.
            async with asyncio.timeout(timeout):
                return await reply
        except (TimeoutError, asyncio.CancelledError):
            self.notify("$/cancelRequest", {"id": identity})
            raise
        finally:
            self.protocol.give_up(identity)

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
        for task in self._async_tasks:
            task.cancel()
        await asyncio.gather(*self._async_tasks, return_exceptions=True)
        self._async_tasks.clear()

    def _close(self, reason: str) -> None:
        if not self._closed:
            self._closed = True
            self._stop_event.set()
            self.protocol.fail_all(ServerGoneError(reason))
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
                self.protocol.handle_message(message)
                self._bad_messages = 0
                return
            why = message.why
        except Exception as error:  # a server may send anything; whatever cannot be handled is a bad message
            why = f"{type(error).__name__}: {error}"
        self._bad_messages += 1
        _logger.debug("bad message %d from a language server: %s", self._bad_messages, why)
        if self._bad_messages >= _MAX_BAD_MESSAGES:
            self._close("it does not speak JSON-RPC")
