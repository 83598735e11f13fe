"""Calls of one message that run at the same time: tasks for sub-agents, as many as stand next to each other.

All other calls run in order. The results are stored in the order of the calls whatever ends first, each call has
exactly one, also when the turn is canceled, and what one sub-agent is refused does not stop the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from daemon.loop.doom import same_call
from daemon.model.messages import ToolCallPart, ToolResultPart
from tools.base import PermissionDenied
from tools.shielding import finish

TOGETHER = "task"
HOW_FAR = "It is not known how far the tool came; look before you repeat it."
NOT_BEGUN = "It had not begun: nothing of it was done."
"""What the model is told of a call that was broken off."""


def together(calls: Sequence[ToolCallPart], position: int) -> Sequence[ToolCallPart]:
    """The call at ``position``, and those behind it that run at the same time."""
    end = position + 1
    if calls[position].name == TOGETHER:
        while end < len(calls) and calls[end].name == TOGETHER:
            end += 1
    return calls[position:end]


async def run_together(
    calls: Sequence[ToolCallPart],
    run: Callable[[ToolCallPart, bool], Awaitable[ToolResultPart]],
    add: Callable[[ToolResultPart], None],
    *,
    refused: Callable[[ToolCallPart, PermissionDenied], ToolResultPart],
    canceled: Callable[[ToolCallPart], ToolResultPart],
) -> PermissionDenied | None:
    """Run all of them and store the results; returns the first refusal by the person, if there was one.

    ``run`` gets a call and whether an equal one runs beside it: that is no running in circles. On cancellation all are
    canceled, and it is raised again when each has its result; other failures are raised when all have ended.
    """
    tasks = [
        asyncio.ensure_future(run(call, any(same_call(call, other) for other in calls[:at])))
        for at, call in enumerate(calls)
    ]
    first: PermissionDenied | None = None
    stored = 0
    try:
        for call, task in zip(calls, tasks, strict=True):
            await asyncio.wait({task})
            error = task.exception()
            if isinstance(error, PermissionDenied):
                first = first or error
                add(refused(call, error))
            else:
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
    return first
