"""The WebSocket ``/api/traces/{trace_id}/watch`` (source: seed 000 "WebSocket 实时推送", seed 003 "WebSocket 事件")."""

from __future__ import annotations

from collections.abc import Callable

from starlette.websockets import WebSocket

from daemon.api.limits import Limits
from daemon.api.reader import TraceReader
from daemon.bus import Bus


class WatchServer:
    """All clients that watch traces of one daemon; made and used on its event loop. See ``daemon.api.app.Watch``."""

    def __init__(
        self,
        reader: TraceReader,
        bus: Bus,
        *,
        attached: Callable[[], None] = lambda: None,
        left: Callable[[], None] = lambda: None,
        limits: Limits | None = None,
    ) -> None:
        """``attached`` and ``left``: a client came or went (``Daemon.client_attached``, ``client_left``)."""
        raise NotImplementedError

    async def serve(self, websocket: WebSocket, trace_id: str) -> None:
        """Speak with one client until it or we leave; the caller has checked token, Host and Origin."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close all clients with 1001 and let go of everything."""
        raise NotImplementedError
