"""Commands that the user can stop one by one, while the turn goes on with what they came to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from tools.base import ToolResult
from tools.localization import t


class StoppableCalls:
    """The commands under way of a session, by the ids of their calls."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[ToolResult]] = {}

    def stop(self, call_id: str) -> bool:
        """Stop a command with all its processes. False when it does not run (any more)."""
        task = self._tasks.get(call_id)
        return task is not None and task.cancel()

    async def run(
        self,
        call_id: str,
        work: Coroutine[Any, Any, ToolResult],
        stopped: Callable[[str], ToolResult | None],
    ) -> ToolResult:
        """Run a command to its end, or until ``stop``; ``stopped`` tells what it had come to by then.

        Whoever cancels the caller cancels the command and the caller, as without this.
        """
        task = self._tasks[call_id] = asyncio.create_task(work)
        try:
            return await task
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if not task.cancelled() or (caller is not None and caller.cancelling()):
                raise
            result = stopped(call_id) or ToolResult("Stopped by the user.", t("canceled"))
            return replace(result, metadata={**result.metadata, "canceled": True}, is_error=True)
        finally:
            del self._tasks[call_id]
