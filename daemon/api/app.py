"""The FastAPI application: routes behind the guard of ``daemon.api.security``."""

from __future__ import annotations

from typing import Protocol

from fastapi import FastAPI
from starlette.websockets import WebSocket

from daemon.api.reader import TraceReader
from daemon.api.security import Access


class Watch(Protocol):
    """The WebSocket's side, see ``daemon.api.watch``."""

    async def serve(self, websocket: WebSocket, trace_id: str) -> None:
        """Speak with one client of ``/api/traces/{trace_id}/watch`` until it or we leave.

        Token, Host and Origin are checked before; accepting, the query, and refusing with a close code are its own.
        """
        ...

    async def close(self) -> None:
        """Close all clients with 1001."""
        ...


def make_app(reader: TraceReader, access: Access, *, watch: Watch | None = None) -> FastAPI:
    """The application. ``watch``: without one there is no WebSocket."""
    raise NotImplementedError
