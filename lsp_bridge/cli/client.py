"""A small JSON-RPC client of the daemon: asyncio and json, nothing else, because it must start at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from lsp_bridge.framing import frame, read_body
from lsp_bridge.protocol.handshake import PROTOCOL_VERSION, preamble
from tools.json_access import mapping
from tools.localization import t
from tools.process.background import Background

if TYPE_CHECKING:
    from pathlib import Path

    from daemon.runtime import Address

NotificationHandler = Callable[[str, dict[str, Any]], None]
"""Called with method and params, in the order of arrival and before any later response is delivered."""

RequestHandler = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any] | None]]
"""Called with method and params of a request of the daemon; returns its result, None when it does not know the
method."""

MAX_BODY = 512 * 1024 * 1024
"""Bytes. No message of the daemon is near it: a longer one means that the other end is no daemon."""

_LAST_BYTES_S = 2.0
"""Seconds that the daemon has to take what was sent, when the connection ends."""
_METHOD_NOT_FOUND = -32601
_EDITS = {"workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}}}
"""Capabilities of a client whose documents can be edited."""


class DaemonError(Exception):
    """A failure that a client expects; ``str(error)`` is its message for the user, ``code`` is for programs."""

    code: int | str = 0


class ConnectionLostError(DaemonError):
    """There is no daemon at the other end (any more). Requests under way fail with it."""

    code = "unresponsive"


class RequestTimeoutError(DaemonError):
    """No answer in time."""

    code = "unresponsive"


class RpcError(DaemonError):
    """Raised when the daemon answers with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Greeting(NamedTuple):
    """A client's data for ``initialize``; see ``protocol.sessions.InitializationOptions``."""

    client: str = "terminal"
    settings: Mapping[str, Any] = MappingProxyType({})
    env: Mapping[str, str] = MappingProxyType({})
    trusted: bool | None = None
    """None: the user's own list of trusted folders decides."""
    unattended: bool = False
    answers: RequestHandler | None = None
    """Answers the daemon's requests about documents, for an editor that reports them on request only."""

    def __repr__(self) -> str:
        return f"Greeting({self.client!r})"  # ``env`` has keys


class Client:
    """One connection to a daemon. Made by ``connect``; not thread-safe."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self._handlers: list[NotificationHandler] = []
        self._answerer: RequestHandler | None = None
        self._answering = Background("answers to the daemon")
        self._lost: Exception | None = None
        self._reading = asyncio.create_task(self._read_all(), name="daemon connection")

    @classmethod
    async def connect(cls, address: Address, *, timeout: float | None = 5.0) -> Client:
        """Open a connection and send its first line.

        Raises ConnectionLostError when nothing listens there. A wrong token shows in the first request, as an
        RpcError with code ``UNAUTHORIZED``. ``timeout`` is in seconds.
        """
        try:
            async with asyncio.timeout(timeout):
                if address.socket is not None:
                    reader, writer = await asyncio.open_unix_connection(address.socket)
                else:
                    reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
        except (OSError, TimeoutError) as error:
            where = address.socket or t("port {port}", port=address.port)
            raise ConnectionLostError(
                t("No daemon answers at {where}: {error}", where=where, error=error or t("timed out"))
            ) from error
        writer.write(preamble(address.token))
        return cls(reader, writer)

    async def initialize(
        self, workspace: Path, greeting: Greeting, timeout: float | None = 5.0
    ) -> dict[str, Any]:
        """LSP's ``initialize`` and ``initialized``. Returns the server's ``InitializeResult``.

        Raises as ``request``; code ``INCOMPATIBLE`` when the daemon speaks another version.
        """
        answers = greeting.answers is not None
        options = {
            "protocolVersion": PROTOCOL_VERSION,
            "client": greeting.client,
            "trusted": greeting.trusted,
            "canSave": answers,
            "opensOnRequest": answers,
            "diagnostics": False,
            "languageModels": False,
            "chat": True,
            "unattended": greeting.unattended,
            "settings": dict(greeting.settings),
            "env": dict(greeting.env),
        }
        root = workspace.as_uri()
        params = {
            "processId": os.getpid(),
            "clientInfo": {"name": f"goalwright-{greeting.client}"},
            "rootUri": root,
            "workspaceFolders": [{"uri": root, "name": workspace.name}],
            "capabilities": _EDITS if answers else {},
            "initializationOptions": options,
        }
        self._answerer = greeting.answers
        result = await self.request("initialize", params, timeout)
        await self.notify("initialized", {})
        return result

    def on_notification(self, handler: NotificationHandler) -> None:
        """Call ``handler`` for each notification from now on."""
        self._handlers.append(handler)

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> dict[str, Any]:
        """Send a request and return its result (``{}`` for null).

        Raises RpcError, ConnectionLostError, or RequestTimeoutError after ``timeout`` seconds. When it times out or the
        waiting task is cancelled, the daemon receives ``$/cancelRequest``.
        """
        if self._lost is not None:
            raise self._lost
        self._last_id += 1
        number = self._last_id
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[number] = future
        try:
            async with asyncio.timeout(timeout):
                await self._send({"id": number, "method": method, "params": dict(params or {})})
                result = await future
        except (TimeoutError, asyncio.CancelledError) as error:
            if self._lost is None:  # without waiting: a daemon that hangs may read nothing
                self._writer.write(_frame({"method": "$/cancelRequest", "params": {"id": number}}))
            if isinstance(error, TimeoutError):
                words = t("The daemon did not answer within {timeout:g} s.", timeout=timeout)
                raise RequestTimeoutError(words) from None
            raise
        finally:
            self._pending.pop(number, None)
            if future.done() and not future.cancelled():
                future.exception()  # retrieve it even when sending failed first, or asyncio logs it
        return mapping(result)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification. Raises ConnectionLostError."""
        await self._send({"method": method, "params": dict(params or {})})

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        return self._lost is not None

    async def close(self) -> None:
        """End the connection. Requests under way fail with ConnectionLostError."""
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading
        self._fail(ConnectionLostError(t("The connection to the daemon was closed.")))
        await self._answering.close()
        self._writer.close()
        try:
            # Shielded, because the end of this wait must not cancel the writer's own.
            closed = asyncio.ensure_future(self._writer.wait_closed())
            async with asyncio.timeout(_LAST_BYTES_S):
                await asyncio.shield(closed)
        except TimeoutError:
            self._writer.transport.abort()
        except OSError:
            pass

    async def _send(self, message: dict[str, Any]) -> None:
        if self._lost is not None:
            raise self._lost
        # A single write, so that the frames of two tasks that send at once cannot mix.
        self._writer.write(_frame(message))
        try:
            await self._writer.drain()
        except OSError as error:
            # The reader may still receive the daemon's last message (a rejection), and reports the loss.
            await asyncio.wait([self._reading])
            raise (self._lost or _gone(str(error))) from error

    async def _read_all(self) -> None:
        while self._lost is None:
            try:
                message = await self._read_message()
            except (EOFError, OSError):
                self._fail(_gone())
                return
            except ValueError as error:
                self._fail(_gone(t("it sent what is not JSON-RPC ({error})", error=error)))
                return
            try:
                self._receive(message)
            except Exception as error:
                # A handler failed (stdout is closed, or there is a bug), so callers that wait for an answer must learn
                # of it.
                self._fail(error)

    async def _read_message(self) -> dict[str, Any]:
        body = await read_body(self._reader, MAX_BODY)
        if body is None:
            raise EOFError
        message: object = json.loads(body)
        if not isinstance(message, dict):
            raise ValueError("a message must be an object")
        return cast("dict[str, Any]", message)

    def _receive(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            self._answered(message)
        elif "id" in message:
            self._answering.start(self._answer(message))
        else:
            for handler in self._handlers:
                handler(message["method"], message.get("params") or {})

    async def _answer(self, message: dict[str, Any]) -> None:
        """Answer a request of the daemon. Those for configuration and registrations mean nothing here."""
        answer: dict[str, Any] = {"result": None}
        if self._answerer is not None:
            answer["result"] = await self._answerer(message["method"], mapping(message.get("params")))
        if answer["result"] is None:
            words = t("This client does not handle requests.")
            answer = {"error": {"code": _METHOD_NOT_FOUND, "message": words}}
        self._writer.write(_frame({"id": message["id"], **answer}))

    def _answered(self, message: dict[str, Any]) -> None:
        failure = None
        if error := mapping(message.get("error")):
            failure = RpcError(int(error.get("code", 0)), str(error.get("message", "unknown error")))
        number = message.get("id")
        if number is None and failure is not None:
            # An error without a request id is about the connection, e.g. a wrong token.
            self._fail(failure)
            return
        future = self._pending.get(number) if isinstance(number, int) else None
        if future is None or future.done():
            return  # a late answer to an abandoned request
        if failure is not None:
            future.set_exception(failure)
        else:
            future.set_result(message.get("result"))

    def _fail(self, reason: Exception) -> None:
        self._lost = self._lost or reason
        for future in self._pending.values():
            if not future.done():
                future.set_exception(self._lost)


def _frame(message: dict[str, Any]) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode()
    return frame(body)


def _gone(detail: str = "") -> ConnectionLostError:
    why = f": {detail}" if detail else ""
    return ConnectionLostError(
        t("The connection to the daemon was lost") + why + t(". Work so far is stored; try again.")
    )
