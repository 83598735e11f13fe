"""uvicorn's HTTP, with an end to its patience: who connects and says nothing keeps no place from others."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

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
