"""Calls of one message that run at the same time, if they are adjacent.

Tasks of sub-agents run in parallel. Edits of different files are asked about together, so that the user can review them
as one change, and are written one after the other. All other calls run in order. The results are stored in the order of
the calls whichever ends first, each call has exactly one, also when the turn is canceled, and a rejection of one call
does not stop the others.
"""

from __future__ import annotations

import asyncio
import os.path
import time
from typing import TYPE_CHECKING

from msgspec import Struct, field

from daemon.loop.loop_detection import same_call
from daemon.permission.service import WaitingTime
from tools.process.background import finish

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from daemon.model.messages import ToolCallPart, ToolResultPart

TOGETHER = "task"
EDITS = ("edit", "write")
HOW_FAR = "It is unknown how much the tool did; check before you repeat it."
NOT_BEGUN = "It had not started: nothing was done."
"""The model's message about a call that was canceled before it began."""


def parallel_group(calls: Sequence[ToolCallPart], position: int) -> Sequence[ToolCallPart]:
    """Return the call at ``position``, and those behind it that run at the same time."""
    end = position + 1
    if calls[position].name == TOGETHER:
        while end < len(calls) and calls[end].name == TOGETHER:
            end += 1
    elif file := _edited(calls[position]):
        files = {file}
        while end < len(calls) and (file := _edited(calls[end])) and file not in files:
            files.add(file)
            end += 1
    return calls[position:end]


def edits(calls: Sequence[ToolCallPart]) -> bool:
    """Return whether a group of calls edits files, so that the calls write one after the other."""
    return calls[0].name in EDITS


def _edited(call: ToolCallPart) -> str:
    """Return the file that a call edits, or "" when it edits none or its arguments are no good."""
    path = call.argument("file_path") if call.name in EDITS else ""
    return os.path.normcase(os.path.normpath(path)) if path else ""


class InOrder:
    """Lets calls with a common question ask, and continue, in the order of the message."""

    def __init__(self, count: int) -> None:
        self._asked = [asyncio.Event() for _ in range(count)]
        self._ended = [asyncio.Event() for _ in range(count)]

    async def asking(self, position: int) -> None:
        """Wait until all calls before ``position`` have asked or ended. The caller asks at once then."""
        for asked in self._asked[:position]:
            await asked.wait()
        self._asked[position].set()

    async def turn(self, position: int) -> None:
        """Wait until all calls before ``position`` have ended."""
        for ended in self._ended[:position]:
            await ended.wait()

    def end(self, position: int) -> None:
        """The call at ``position`` has its result, or will never have one."""
        self._asked[position].set()
        self._ended[position].set()


async def run_in_parallel(
    calls: Sequence[ToolCallPart],
    run: Callable[[int, bool], Awaitable[ToolResultPart]],
    add: Callable[[ToolResultPart], None],
    *,
    canceled: Callable[[ToolCallPart], ToolResultPart],
) -> None:
    """Run all of them and store the results.

    ``run`` gets a call's index and whether an equal one runs in parallel: that does not count as a loop. On
    cancellation all are canceled, and it is raised again when each has its result; other failures are raised when all
    have ended.
    """
    tasks = [
        asyncio.ensure_future(run(at, any(same_call(call, other) for other in calls[:at])))
        for at, call in enumerate(calls)
    ]
    stored = 0
    try:
        for task in tasks:
            await asyncio.wait({task})
            add(task.result())
            stored += 1
    except BaseException as error:
        for task in tasks:
            task.cancel()
        await finish(asyncio.gather(*tasks, return_exceptions=True))
        if isinstance(error, asyncio.CancelledError):
            for call, task in zip(calls[stored:], tasks[stored:], strict=True):
                ended = not task.cancelled() and task.exception() is None
                add(task.result() if ended else canceled(call))
        raise


# -- the run time of each call: from its start to its result, without the time it waited for others --


class CallTime(Struct, frozen=True):
    """The time of one call, in milliseconds; None of a call that was not run."""

    duration_ms: int | None = None
    overlap_ms: int | None = None
    """The part of it that calls which ran at the same time account for; None when nothing ran beside it."""


class CallTimes(Struct):
    """The times of the calls of one turn, by their ids.

    Calls that run at the same time all begin before the first of them ends. Together they take as long as the longest
    of them, not their sum.
    """

    now: Callable[[], float] = time.monotonic
    _began: dict[str, float] = field(default_factory=dict[str, float])
    _waited: dict[str, WaitingTime] = field(default_factory=dict[str, WaitingTime])
    _counted_ms: int = 0
    """The time of the calls that ran beside those that still run."""

    def asks(self, call_id: str, waited: WaitingTime) -> None:
        """Register a call that is about to run; ``waited`` returns how long it waited."""
        self._waited[call_id] = waited

    def begin(self, call_id: str) -> float:
        """Record the start of a call; returns the time."""
        if not self._began:
            self._counted_ms = 0
        self._began[call_id] = self.now()
        return self._began[call_id]

    def end(self, call_id: str) -> CallTime:
        """Return the time of a call that has ended."""
        waited, began = self._waited.pop(call_id, None), self._began.pop(call_id, None)
        if began is None:
            return CallTime()
        ran = self.now() - began - (waited.seconds if waited is not None else 0.0)
        duration_ms = max(0, int(ran * 1000))
        overlap_ms = min(duration_ms, self._counted_ms)
        self._counted_ms = max(self._counted_ms, duration_ms)
        return CallTime(duration_ms, overlap_ms or None)
