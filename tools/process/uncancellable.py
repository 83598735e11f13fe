"""Work that must not be broken off half-way, however often its caller is canceled."""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


async def finish(task: asyncio.Future[T]) -> bool:
    """Wait until ``task`` is done, whatever happens. Returns whether a cancellation came meanwhile."""
    canceled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            canceled = True
    return canceled
