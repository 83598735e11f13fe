"""uvicorn within the daemon's event loop, on 127.0.0.1."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Generator
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from daemon.api.address import ApiError, OpenApi, PortTakenError
from daemon.api.app import make_app, warm_up
from daemon.api.reader import TraceReader
from daemon.api.security import RequiredAccess
from daemon.api.watch import WatchServer
from daemon.api.websocket import ClientLimits, websocket_settings
from daemon.core import Daemon
from daemon.runtime import new_token
from daemon.state.session_state import SessionState
from tools.localization import t

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
MAX_HEAD = 32 * 1024
"""Bytes of a request's first line and headers."""
MAX_CONNECTIONS = 512
"""WebSockets included."""
_CLOSE_S = 3


class _Server(uvicorn.Server):
    """Leaves signals to the daemon, and says when it serves."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """See uvicorn."""
        yield


class ApiServer:
    """A running API."""

    def __init__(
        self, address: OpenApi, server: uvicorn.Server, task: asyncio.Task[None], watch: WatchServer
    ) -> None:
        self.address = address
        self._server = server
        self._task = task
        self._watch = watch

    async def close(self) -> None:
        """Stop: WebSockets are closed with 1001, requests under way are finished."""
        await self._watch.close()
        self._server.should_exit = True
        await asyncio.wait([self._task], timeout=_CLOSE_S + 2)
        self._task.cancel()


async def serve(core: Daemon, port: int) -> ApiServer:
    """Serve the API of a daemon. ``port`` 0: any free one. Raises ApiError."""
    listening = _bound(port)
    taken: int = listening.getsockname()[1]
    token = new_token()
    reader = reader_of(core)
    limits = ClientLimits()
    watch = WatchServer(reader, core.bus, attached=core.client_attached, left=core.client_left, limits=limits)
    app = make_app(reader, RequiredAccess(token, taken), watch=watch, asked=core.asked)
    await asyncio.to_thread(warm_up, app)
    config = uvicorn.Config(
        app,
        loop="none",
        http=ImpatientProtocol,
        lifespan="off",
        # At "info" uvicorn logs the address of each WebSocket, with the token in it.
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        h11_max_incomplete_event_size=MAX_HEAD,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_CLOSE_S,
        **websocket_settings(limits),
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listening]), name="trace api")
    ready = asyncio.create_task(server.ready.wait())
    await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
    ready.cancel()
    if task.done():
        listening.close()
        raise ApiError(
            t("The API cannot be served: {exception}.", exception=task.exception() or t("it ended at once"))
        )
    log.info("the trace API is at http://%s:%d", HOST, taken)
    return ApiServer(OpenApi(f"http://{HOST}:{taken}", token), server, task, watch)


def reader_of(core: Daemon) -> TraceReader:
    """Reads the traces of a daemon, live ones from its memory."""

    def live(session_id: str) -> SessionState | None:
        session = core.live(session_id)
        return session.state if session is not None else None

    return TraceReader(core.store, live, is_foreign=core.is_foreign)


def _bound(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(128)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise PortTakenError(
            t(
                "Port {port} of {host} cannot be used ({strerror}): name another one, or 0 for any free one.",
                port=port,
                host=HOST,
                strerror=error.strerror or error,
            )
        ) from error
    return listening


HEAD_S = 10.0
"""Seconds for the head of a request, the first one of a connection included."""


class ImpatientProtocol(H11Protocol):
    """Hangs up when a request does not come to an end of its head in time. uvicorn itself would wait for ever."""

    head_s = HEAD_S

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] - as uvicorn has it
        """See asyncio."""
        super().connection_made(transport)
        self._head = self.loop.call_later(self.head_s, self._too_slow)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        super().data_received(data)
        if self._is_waiting():
            if self._head is None and self.timeout_keep_alive_task is None:
                self._head = self.loop.call_later(self.head_s, self._too_slow)
        elif self._head is not None:
            self._head.cancel()
            self._head = None

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        if self._head is not None:
            self._head.cancel()
            self._head = None
        super().connection_lost(exc)

    def _is_waiting(self) -> bool:
        # Another protocol has the transport from the upgrade to a WebSocket on.
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            return False
        # None before the first request, whatever uvicorn's types say.
        return self.cycle is None or self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]

    def _too_slow(self) -> None:
        self._head = None
        if self._is_waiting():
            self.transport.close()
