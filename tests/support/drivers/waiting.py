"""Waiting for a condition with a deadline, instead of sleeping and hoping."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], what: str = "the condition", within_s: float = 20.0) -> None:
    """Return as soon as ``condition()`` is true; fail the test after ``within_s`` seconds."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not condition():
        waited = loop.time() - began
        assert waited < within_s, f"{what} did not come within {within_s:g} s"
        await asyncio.sleep(pause(waited))


def pause(waited_s: float) -> float:
    """Return the seconds until one asks again: more after a while, as what is waited for needs the processor, too."""
    return max(0.01, min(waited_s / 10, 0.1))
