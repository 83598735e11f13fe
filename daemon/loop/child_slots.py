"""How many children (branches, sub-agents) work at the same time: fair, first come first served."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class ChildSlots:
    """Places to work at. The limit may differ from call to call: settings change while sessions live."""

    def __init__(self) -> None:
        self._working = 0
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    @property
    def working(self) -> int:
        """How many are at work."""
        return self._working

    @asynccontextmanager
    async def place(self, limit: int) -> AsyncGenerator[None]:
        """Wait for a slot, and hold it for the block; while ``limit`` are at work, no other one starts.

        Nested sub-agents (those of a branch) take no slot: their parent waits for them and already holds one, so
        waiting would deadlock. They do not call this.
        """
        await self._enter(limit)
        try:
            yield
        finally:
            self._working -= 1
            self._wake()

    async def _enter(self, limit: int) -> None:
        if not self._waiting and self._working < limit:
            self._working += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (turn, limit)
        self._waiting.append(entry)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._working -= 1  # the slot became free at the same moment
            elif entry in self._waiting:
                self._waiting.remove(entry)
            self._wake()
            raise

    def _wake(self) -> None:
        while self._waiting and self._working < self._waiting[0][1]:
            turn, _ = self._waiting.popleft()
            if turn.done():
                continue  # canceled just now, but not aware of it yet
            self._working += 1
            turn.set_result(None)
