"""Accept connections to the daemon: one pygls server per connection over one shared core.

pygls' own ``start_tcp`` ends the whole server when a client leaves; here a client that leaves, sends a wrong token or
garbage affects no other one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
from typing import TYPE_CHECKING

from msgspec import Struct

from lsp_bridge.framing import FramingError, frame, read_body
from lsp_bridge.protocol.handshake import PREAMBLE, ErrorCode
from lsp_bridge.server.connection import Bridge, ClientServer
from tools.process.background import Background

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

    from daemon.api.lazy_server import LazyApiServer
    from daemon.core import Daemon

log = logging.getLogger(__name__)

HANDSHAKE_S = 5.0
_MAX_BODY = 64 * 1024 * 1024
_MAX_HEADER = 16 * 1024
_BACKLOG = 1024
"""Connections that the system keeps for us; when it keeps no more, clients believe that there is no daemon."""
_LAST_S = 5.0
"""Seconds that connections have to end when the daemon closes."""
MAX_SILENT = 128
"""Connections that may be open without having said anything; the oldest are closed to make room for new ones."""


class Listener:
    """Accepts clients until closed. ``stop`` is called when a client asks the daemon to stop."""

    def __init__(
        self, core: Daemon, bridge: Bridge, api: LazyApiServer, token: str, stop: Callable[[], None]
    ) -> None:
        self._core = core
        self._api = api
        self._bridge = bridge
        self._token = token
        self._stop = stop
        self._server: asyncio.Server | None = None
        self._connections = Background("a connection")
        self._silent: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        """Those of which no message has come, the oldest first."""

    async def open(self, socket: Path | None) -> int | None:
        """Listen on a Unix socket that only the user can use, or on 127.0.0.1 (returns the port)."""
        if socket is not None:
            self._server = await asyncio.start_unix_server(
                self._accepted, socket, limit=_MAX_HEADER, backlog=_BACKLOG
            )
            socket.chmod(0o600)
            return None
        self._server = await asyncio.start_server(
            self._accepted, "127.0.0.1", 0, limit=_MAX_HEADER, backlog=_BACKLOG
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop accepting and hang up on everybody."""
        if self._server is not None:
            self._server.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_S):
                await self._connections.close()

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._connections.start(
            self._serve(reader, writer), then=lambda ended: self._silent.pop(ended, None)
        )
        self._silent[task] = writer
        if len(self._silent) > MAX_SILENT:
            self._silent.pop(next(iter(self._silent))).transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if await self._welcome(reader, writer):
                await self._converse(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # clients may leave at any time
        except asyncio.CancelledError:
            pass  # the daemon is closing
        except Exception:
            log.exception("a connection failed")
        finally:
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a client until it leaves. Until its first message it costs next to nothing."""
        server: ClientServer | None = None
        try:
            async for message in _messages(reader):
                if server is None:
                    if (task := asyncio.current_task()) is not None:
                        self._silent.pop(task, None)
                    server = ClientServer(self._core, self._bridge, self._api, writer, self._stop)
                if isinstance(message, _Unreadable):
                    server.refuse(None, -32700, message.why)
                else:
                    server.handle(message)
                if server.closed:
                    return
        finally:
            if server is not None:
                server.gone()

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                line = await reader.readline()
        except (TimeoutError, ValueError):
            line = b""
        name, _, token = line.strip().partition(b" ")
        if name == PREAMBLE.encode() and secrets.compare_digest(token, self._token.encode()):
            return True
        log.warning(
            "refused a connection: %s", "wrong token" if name == PREAMBLE.encode() else "no handshake"
        )
        message = (
            f"The first line of a connection must be `{PREAMBLE} <token>`, with the token of this daemon. "
            "Run `goalwright start --json` to get its address and token."
        )
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": ErrorCode.UNAUTHORIZED, "message": message}}
        body = json.dumps(error).encode()
        writer.write(frame(body))
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(HANDSHAKE_S):
                await writer.drain()
        return False


class _Unreadable(Struct, frozen=True):
    """A message that cannot be read, and why."""

    why: str


async def _messages(reader: asyncio.StreamReader) -> AsyncGenerator[object]:
    """Return the decoded messages of a connection until it ends; ``_Unreadable`` in the place of one that is not JSON.

    pygls' own loop structures every nested object that has a "jsonrpc" key; here only the message itself is one.
    """
    while True:
        try:
            body = await read_body(reader, _MAX_BODY)
        except FramingError as error:
            yield _Unreadable(f"{error} The connection is closed.")
            return
        if body is None:
            return
        try:
            message: object = json.loads(body)
        except RecursionError:
            message = _Unreadable("The message is nested too deeply.")
        except ValueError as error:
            message = _Unreadable(f"The message is not JSON: {error}.")
        yield message
