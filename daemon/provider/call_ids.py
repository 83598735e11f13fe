"""Tool call ids that are unique in the session, whatever the model's server sends.

Some servers begin again at ``call_0`` with each answer, and a bad one sends the same id twice in one. Results are
found by the id of their call, and providers refuse a request with doubles, so a double would end the session.
Ids of the planner's own calls name the goal of a step: no answer of a model gets one of these.
"""

from __future__ import annotations

import re
import uuid
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec.structs import replace

from daemon.model.messages import Part, ToolCallPart
from daemon.provider.model_calls import Complete, PartStop, Restart, Retry, ToolCallDelta, ToolCallStart

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.provider.model_calls import ProviderEvents

_STEP = re.compile(r"plan_step_(\d{1,15})_[0-9a-f]{12}")


def step_call_id(goal_id: str) -> str:
    """Return a new id for the call with which the planner has a sub-agent work on a goal."""
    return f"plan_step_{goal_id}_{uuid.uuid4().hex[:12]}"


def goal_of_step(call_id: str) -> str | None:
    """Return the goal that a call of the planner is for; None for every other call."""
    match = _STEP.fullmatch(call_id)
    return None if match is None else match[1]


async def unique_call_ids(stream: ProviderEvents, is_used: Callable[[str], bool]) -> ProviderEvents:
    """Yield the events; a call whose id is used already (``is_used``, or earlier in this answer) gets another one."""
    ids: dict[int, str] = {}
    async with aclosing(stream):
        async for event in stream:
            if isinstance(event, ToolCallStart):
                ids[event.index] = _free(event.id, is_used, ids)
                yield replace(event, id=ids[event.index])
            elif isinstance(event, ToolCallDelta) and event.index in ids:
                yield replace(event, id=ids[event.index])
            elif isinstance(event, PartStop) and isinstance(event.part, ToolCallPart):
                ids.setdefault(event.index, _free(event.part.id, is_used, ids))
                yield replace(event, part=_renamed(event.part, ids[event.index]))
            elif isinstance(event, Complete):
                yield replace(event, parts=_renamed_all(event.parts, ids, is_used))
            else:
                if isinstance(event, Retry | Restart):
                    ids.clear()
                yield event


def _free(wanted: str, is_used: Callable[[str], bool], ids: dict[int, str]) -> str:
    taken = set(ids.values())
    if wanted and wanted not in taken and not is_used(wanted) and goal_of_step(wanted) is None:
        return wanted
    number = 2
    while (found := f"{wanted or 'call'}_{number}") in taken or is_used(found):
        number += 1
    return found


def _renamed_all(
    parts: tuple[Part, ...], ids: dict[int, str], is_used: Callable[[str], bool]
) -> tuple[Part, ...]:
    known = [ids[index] for index in sorted(ids)]
    renamed: list[Part] = []
    for part in parts:
        if isinstance(part, ToolCallPart):
            # Calls keep their order; one that was never announced gets its id here.
            new = known.pop(0) if known else _free(part.id, is_used, ids)
            ids.setdefault(-1 - len(renamed), new)
            part = _renamed(part, new)
        renamed.append(part)
    return tuple(renamed)


def _renamed(part: ToolCallPart, new: str) -> ToolCallPart:
    return part if part.id == new else part.model_copy(update={"id": new})
