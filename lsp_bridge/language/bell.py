"""Waiting for the next thing that happens."""

from __future__ import annotations

import asyncio


class Bell:
    """Wakes all who wait, each time it is rung."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    async def heard(self, until: float) -> bool:
        """Wait until it rings; False when ``until`` (loop's clock, seconds) came first."""
        loop = asyncio.get_running_loop()
        ring: asyncio.Future[None] = loop.create_future()
        self._waiting.add(ring)
        try:
            # Not wait_for: in Python 3.11 it may swallow a cancellation.
            done, _ = await asyncio.wait({ring}, timeout=max(0.0, until - loop.time()))
        finally:
            self._waiting.discard(ring)
        return bool(done)

    def ring(self) -> None:
        """Something happened."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
