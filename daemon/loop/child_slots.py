"""How many children (branches, sub-agents) work at the same time: fair, first come first served."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class ChildSlots:
    """Places to work at. The limit may differ from call to call: settings change while sessions live."""

    def __init__(self) -> None:
        self.working = 0
        """How many are at work."""
        self._first = asyncio.Lock()
        """Held by the one that is next."""
        self._left = asyncio.Event()

    @asynccontextmanager
    async def place(self, limit: int) -> AsyncGenerator[None]:
        """Wait for a slot, and hold it for the block; while ``limit`` are at work, no other one starts.

        Nested sub-agents (those of a branch) take no slot: their parent waits for them and already holds one, so
        waiting would deadlock. They do not call this.
        """
        async with self._first:
            while self.working >= limit:
                self._left.clear()
                await self._left.wait()
            self.working += 1
        try:
            yield
        finally:
            self.working -= 1
            self._left.set()
