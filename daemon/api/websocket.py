"""uvicorn's side of the WebSocket: frames that are encoded once are written as they are to all clients.

``uvicorn.Config(ws=WatchProtocol, **websocket_settings(limits))``. To the application it offers the ASGI extension
``goalwright.frames`` (see ``Outlet``); what cannot offer it is served by ASGI's own messages.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from daemon.api.limits import Limits


class WatchProtocol(WebSocketsSansIOProtocol):
    """The protocol class to give to uvicorn."""


def websocket_settings(limits: Limits) -> dict[str, Any]:
    """What ``uvicorn.Config`` is to be told of WebSockets."""
    return {
        "ws": WatchProtocol,
        "ws_max_size": limits.frame_bytes,
        "ws_per_message_deflate": False,
        "ws_ping_interval": limits.ping_s,
        "ws_ping_timeout": limits.ping_timeout_s,
    }
