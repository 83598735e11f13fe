"""Background tasks, kept alive until they end; and waiting for one that must not be interrupted."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

log = logging.getLogger(__name__)
T = TypeVar("T")


class Background:
    """The tasks of one owner. The event loop itself keeps no task alive, and reports no failure."""

    def __init__(
        self, doing: str, *, level: int = logging.WARNING, logger: logging.Logger | None = None
    ) -> None:
        """``doing`` describes in the log what failed; ``level`` is that of its line, ERROR with a traceback."""
        self._doing = doing
        self._level = level
        self._log = logger or log
        self._tasks: set[asyncio.Future[Any]] = set()

    def __bool__(self) -> bool:
        """Return whether any of it still runs."""
        return bool(self._tasks)

    def start(
        self,
        work: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        then: Callable[[asyncio.Task[T]], object] | None = None,
    ) -> asyncio.Task[T]:
        """Begin; ``then`` is called with the task when it has ended, however it did."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        if then is not None:
            task.add_done_callback(then)
        task.add_done_callback(self._ended)
        return task

    def cancel(self) -> None:
        """Cancel all, without waiting."""
        for task in set(self._tasks):
            task.cancel()

    async def wait(self) -> None:
        """Wait until all have ended. Never raises their exceptions."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def close(self) -> None:
        """Cancel all and wait for their ends."""
        self.cancel()
        await self.wait()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            trace = error if self._level >= logging.ERROR else None
            self._log.log(
                self._level, "%s failed: %s", self._doing, error or type(error).__name__, exc_info=trace
            )


def is_canceled() -> bool:
    """Return whether the current task was canceled, even if something it waited for has lost the cancellation."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def finish(task: asyncio.Future[T]) -> bool:
    """Wait until ``task`` is done, whatever happens. Returns whether a cancellation came meanwhile."""
    canceled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            canceled = True
    return canceled


async def despite_cancel(work: Awaitable[T]) -> T:
    """Return the result of ``work``, which is not broken off; a cancellation that came meanwhile is raised
    afterwards."""
    task = asyncio.ensure_future(work)
    if await finish(task):
        raise asyncio.CancelledError
    return task.result()
