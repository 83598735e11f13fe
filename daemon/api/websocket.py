"""uvicorn's side of the WebSocket: frames that are encoded once are written as they are to all clients.

``uvicorn.Config(**websocket_settings(limits))``. To the application it offers the ASGI extension ``goalwright.frames``;
a server that does not offer it is spoken to in ASGI's own messages, a frame at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from starlette.websockets import WebSocket
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from daemon.api.frames import unframed

EXTENSION = "goalwright.frames"


class Outlet(Protocol):
    """Where frames for one client go."""

    async def write(self, frames: bytes) -> None:
        """Hand over any number of whole frames; returns when the client can take more. Raises ClientDisconnected."""
        ...

    def abort(self) -> None:
        """Cut the connection, whatever waits to be taken."""
        ...


class WatchProtocol(WebSocketsSansIOProtocol):
    """uvicorn's protocol, and the ``Outlet`` of its connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # uvicorn logs the address of each connection, and the address has the token.
        self.logger = self.conn.logger = logging.getLogger(__name__)
        self.logger.setLevel(logging.WARNING)
        self.close_timeout = 2.0

    def handle_connect(self, event: Request) -> None:
        """Offer ourselves to the application, whose task begins after this."""
        super().handle_connect(event)
        scope = cast("dict[str, Any] | None", getattr(self, "scope", None))
        if scope is not None:  # None: the handshake was refused
            scope["extensions"][EXTENSION] = self

    def handle_ping(self) -> None:
        """Answer, unless the client takes nothing: its pongs would pile up here."""
        answer = b"".join(self.conn.data_to_send())
        if self.writable.is_set():
            self.transport.write(answer)

    async def write(self, frames: bytes) -> None:
        """See Outlet."""
        if self.disconnected or self.close_sent or self.transport.is_closing():
            raise ClientDisconnected
        self.transport.write(frames)
        await self.writable.wait()

    def abort(self) -> None:
        """See Outlet."""
        self.transport.abort()


class MessageOutlet:
    """Frames as ASGI messages."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket

    async def write(self, frames: bytes) -> None:
        """See Outlet."""
        for text in unframed(frames):
            await self._websocket.send_text(text.decode())

    def abort(self) -> None:
        """Nothing is known of the connection."""


def outlet_of(websocket: WebSocket) -> Outlet:
    """The quickest way to a client."""
    extensions = cast("Mapping[str, object]", websocket.scope.get("extensions") or {})
    found = extensions.get(EXTENSION)
    return found if isinstance(found, WatchProtocol) else MessageOutlet(websocket)


def websocket_settings(limits: ClientLimits) -> dict[str, Any]:
    """What ``uvicorn.Config`` is to be told of WebSockets."""
    return {
        "ws": WatchProtocol,
        "ws_max_size": limits.frame_bytes,
        "ws_per_message_deflate": False,
        "ws_ping_interval": limits.ping_s,
        "ws_ping_timeout": limits.ping_timeout_s,
    }


async def taken(outlet: Outlet, frames: bytes, stalled_s: float) -> None:
    """Write, and cut a client off that takes nothing for too long. Raises ClientDisconnected."""
    try:
        async with asyncio.timeout(stalled_s):
            await outlet.write(frames)
    except TimeoutError:
        outlet.abort()
        raise ClientDisconnected from None


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """The limits of one daemon's API for its clients. Sizes in bytes, times in seconds."""

    clients: int = 256
    """The most clients at the same time, over all traces."""
    clients_per_trace: int = 128
    frame_bytes: int = 4096
    """The largest message that a client may send. It is never read."""
    frames_from_client: int = 100
    """How many messages a client may send before it is disconnected."""
    ring_frames: int = 4096
    ring_bytes: int = 8 * 1024 * 1024
    """How much of a watched trace is kept encoded. A client that is further behind is caught up from the log."""
    pending_events: int = 20_000
    """How many events may wait to be encoded. With more, all clients are caught up from the log."""
    delta_lag: int = 256
    """Frames that a client may be behind and still get deltas."""
    batch_bytes: int = 128 * 1024
    """Written to a client at once."""
    breath_s: float = 0.005
    """The pause between two batches of events."""
    page_events: int = 500
    """Read from the log at once."""
    stalled_s: float = 600.0
    """After this time without taking a byte a client is cut off; it can come back with its last event id."""
    linger_s: float = 20.0
    """A trace that nobody watches any more is still followed for this time: who lost the connection comes back."""
    close_s: float = 2.0
    """For a client to take the words of the close."""
    ping_s: float = 30.0
    ping_timeout_s: float = 300.0
    """Clients that read slowly answer late; those that are gone are found in the end."""
