"""uvicorn within the event loop of a daemon, on 127.0.0.1, or of a shared server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable, Collection
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from daemon.api.address import ApiError, OpenApi, PortTakenError
from daemon.api.app import TraceApi, make_app, warm_up
from daemon.api.files_index import FilesIndex
from daemon.api.hub import ClientLimits
from daemon.api.reader import TraceReader
from daemon.api.security import RequiredAccess
from daemon.api.watch import WatchServer, websocket_settings
from daemon.core import Daemon
from daemon.runtime import new_token
from daemon.state.session_state import SessionState
from daemon.workspace_key import workspace_key
from tools.localization import t

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
MAX_HEAD = 32 * 1024
"""Bytes of a request's first line and headers."""
MAX_CONNECTIONS = 512
"""WebSockets included."""
HEAD_S = 10.0
"""Seconds for the head of a request, the first one of a connection included."""
KEEP_ALIVE_S = 30
_CLOSE_S = 3


class IdleTimeout:
    """ASGI middleware whose ``sweep`` closes connections that have had no request for too long.

    uvicorn itself waits forever for the end of a request's head, and for a client to read the data before a close. See
    https://github.com/Kludex/uvicorn/issues/157
    """

    def __init__(self, app: ASGIApp) -> None:
        self.connections: Collection[Any] = ()
        """uvicorn's, each with its ``client`` and ``transport``."""
        self._app = app
        self._served: set[object] = set()
        """Addresses of the clients whose requests are under way."""
        self._idle: dict[object, tuple[float, int]] = {}
        """Connections by peer address: when to close them, and how many bytes were still unsent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        client = scope["client"]
        self._served.add(client)
        try:
            await self._app(scope, receive, send)
        finally:
            self._served.discard(client)
            self._idle[client] = time.monotonic() + KEEP_ALIVE_S + HEAD_S, 0

    async def sweep(self) -> None:
        """Hang up; uvicorn calls it every second."""
        now = time.monotonic()
        before, self._idle = self._idle, {}
        for connection in tuple(self.connections):
            if connection.client in self._served:
                continue
            unsent = connection.transport.get_write_buffer_size()
            until, unsent_before = before.get(connection.client, (now + HEAD_S, unsent))
            if unsent < unsent_before:
                until = max(until, now + HEAD_S)  # the client is reading
            if now > until:
                connection.transport.abort()
            else:
                self._idle[connection.client] = until, unsent


class ApiServer:
    """A running API."""

    def __init__(
        self,
        address: OpenApi,
        server: uvicorn.Server,
        listening: socket.socket,
        watch: WatchServer,
        close: Callable[[], None],
    ) -> None:
        """``server``: one that has started; ``close``: called in a thread at the end."""
        self.address = address
        self._server = server
        self._listening = listening
        self._watch = watch
        self._close = close
        self._loop = asyncio.create_task(server.main_loop(), name="trace api")

    async def close(self) -> None:
        """Stop: WebSockets are closed with 1001, requests under way are finished."""
        await self._watch.close()
        self._server.should_exit = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S + 2):
                await self._loop
                await self._server.shutdown([self._listening])
        await asyncio.to_thread(self._close)


async def serve(core: Daemon, port: int) -> ApiServer:
    """Serve the API of a daemon. ``port`` 0: any free one. Raises ApiError."""
    listening = bound(HOST, port)
    taken: int = listening.getsockname()[1]
    token = new_token()
    index = FilesIndex(core.store, core.state_folder / "numbers" / workspace_key(core.workspace))
    reader = reader_of(core, index)
    limits = ClientLimits()
    watch = WatchServer(
        lambda _: reader,
        core.bus,
        attached=core.presence.client_attached,
        left=core.presence.client_left,
        limits=limits,
    )
    access = RequiredAccess(token, taken)
    app = make_app(lambda _: reader, access, watch=watch, asked=core.presence.asked)
    return await begin(app, watch, listening, OpenApi(access.url, token), index.close)


async def begin(
    app: TraceApi,
    watch: WatchServer,
    listening: socket.socket,
    address: OpenApi,
    close: Callable[[], None] = lambda: None,
) -> ApiServer:
    """Serve an application on a socket. ``close``: called in a thread at the end. Raises ApiError."""
    await asyncio.to_thread(warm_up, app)
    timed = IdleTimeout(app)
    config = uvicorn.Config(
        timed,
        loop="none",
        http="h11",
        lifespan="off",
        # At "info", uvicorn logs the address of each WebSocket, including the token.
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        h11_max_incomplete_event_size=MAX_HEAD,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=_CLOSE_S,
        callback_notify=timed.sweep,
        timeout_notify=0,
        **websocket_settings(watch.limits),
    )
    server = uvicorn.Server(config)
    timed.connections = server.server_state.connections
    try:
        # The steps of ``server.serve``, without its signal handlers: the daemon has its own. uvicorn has no option for
        # that: https://github.com/Kludex/uvicorn/pull/402
        config.load()
        server.lifespan = config.lifespan_class(config)
        await server.startup([listening])
    except Exception as error:
        listening.close()
        raise ApiError(t("The API cannot be served: {exception}.", exception=error)) from error
    log.info("the trace API is at %s", address.url)
    return ApiServer(address, server, listening, watch, close)


def reader_of(core: Daemon, index: FilesIndex | None = None) -> TraceReader:
    """Reads the traces of a daemon, live ones from its memory."""

    def live(session_id: str) -> SessionState | None:
        session = core.live(session_id)
        return session.state if session is not None else None

    return TraceReader(core.store, live, is_foreign=core.is_foreign, database=index and index.current)


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens. ``host``: an address of this machine. Raises PortTakenError."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise PortTakenError(
            t(
                "Cannot listen on port {port} of {host} ({strerror}). Choose another port, or 0 for any "
                "free one.",
                port=port,
                host=host,
                strerror=error.strerror or error,
            )
        ) from error
    return listening
