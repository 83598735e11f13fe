"""Sub-agents that were at work when the daemon was killed: they have ended with it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from daemon.model.branches import SubagentMeta, child_id
from daemon.model.messages import ToolResultPart, Usage
from daemon.model.traces import Trace, trace_status
from daemon.provider.call_ids import goal_of_step
from daemon.store.base import StoreError, TraceStore
from tools.text.truncate import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.loop.record import Record

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Took:
    """What a child took, with those that it had sent. ``cost``: US dollars."""

    usage: Usage
    cost: float
    message_count: int
    summary: str
    trace: Trace
    """Its own record."""

    @classmethod
    def of(cls, trace: Trace) -> Took:
        """What its own record says."""
        return cls(trace.usage, trace.total_cost, trace.message_count, trace.summary, trace)


NOTHING_SAID = "It ended without a word."


def task_words(record: Record, call_id: str, prompt: str, limit: int) -> str:
    """Return in short what a sub-agent is to do: the goal that it does as a step of the plan, else its prompt."""
    goal = record.state.plan.goals.get(goal_of_step(call_id) or "")
    return one_line(prompt if goal is None else goal.description, limit)


def title_of(meta: SubagentMeta, record: Record) -> str:
    """Return the title of the call that started a sub-agent."""
    return f"{meta.agent}: {task_words(record, meta.tool_call_id, meta.prompt, 80)}"


def metadata_of(meta: SubagentMeta, record: Record) -> dict[str, object]:
    """Return what the result of the call that started a sub-agent tells clients of it."""
    return {
        "subagent_id": meta.id,
        "agent": meta.agent,
        "session_id": child_id(record.session_id, meta.id),
        "stop_reason": meta.stop_reason,
        "tokens": meta.usage.total,
        "cost": meta.cost,
    }


def answer_of(meta: SubagentMeta, record: Record) -> ToolResultPart:
    """Return the result of the call that started a sub-agent which had ended in order."""
    return ToolResultPart(
        tool_call_id=meta.tool_call_id,
        name="task",
        content=meta.summary or NOTHING_SAID,
        title=title_of(meta, record),
        metadata=metadata_of(meta, record),
    )


def close_interrupted(record: Record, store: TraceStore, ended: Mapping[str, Took]) -> None:
    """Record their end, with what they took: as ``ended`` has it by their id (``left_children``); of others a small
    file is read. Raises StoreError.
    """
    for meta in list(record.state.children.subagents.values()):
        if meta.status != "running":
            continue
        updates: dict[str, object] = {"status": "failed", "stop_reason": "error"}
        try:
            took = ended.get(meta.id) or Took.of(store.trace(child_id(record.session_id, meta.id)))
        except StoreError as error:
            log.warning("what %s took is not known: %s", meta.id, error)
        else:
            updates |= {
                "usage": took.usage,
                "cost": took.cost,
                "message_count": took.message_count,
                "summary": took.summary,
            }
            if trace_status(took.trace) == "completed":
                # It had ended, and only to say so here was missing: what came of it was lost on the way, not the work.
                updates |= {"status": "completed", "stop_reason": "end_turn"}
        record.subagent_ended(meta.model_copy(update=updates))
