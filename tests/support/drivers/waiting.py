"""Waiting for a condition with a deadline, instead of sleeping and hoping."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], what: str = "the condition", within_s: float = 20.0) -> None:
    """Return as soon as ``condition()`` is true; fail the test after ``within_s`` seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while not condition():
        assert loop.time() < deadline, f"{what} did not come within {within_s:g} s"
        await asyncio.sleep(0.01)
