"""Sub-agents that were at work when the daemon was killed: they have ended with it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from daemon.loop.recording import Recorder
from daemon.model.branches import SubagentMeta, child_id
from daemon.model.messages import ToolResultPart, Usage
from daemon.model.traces import Trace, trace_status
from daemon.provider.call_ids import goal_of_step
from daemon.store.base import StoreError
from tools.text.truncate import one_line

if TYPE_CHECKING:
    from daemon.loop.session import Session

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


def task_words(session: Session, call_id: str, prompt: str, limit: int) -> str:
    """Return in short what a sub-agent is to do: the goal that it does as a step of the plan, else its prompt."""
    goal = session.state.plan.goals.get(goal_of_step(call_id) or "")
    return one_line(prompt if goal is None else goal.description, limit)


def title_of(meta: SubagentMeta, session: Session) -> str:
    """Return the title of the call that started a sub-agent."""
    return f"{meta.agent}: {task_words(session, meta.tool_call_id, meta.prompt, 80)}"


def metadata_of(meta: SubagentMeta, session: Session) -> dict[str, object]:
    """Return what the result of the call that started a sub-agent tells clients of it."""
    return {
        "subagent_id": meta.id,
        "agent": meta.agent,
        "session_id": child_id(session.session_id, meta.id),
        "stop_reason": meta.stop_reason,
        "tokens": meta.usage.total,
        "cost": meta.cost,
    }


def answer_of(meta: SubagentMeta, session: Session) -> ToolResultPart:
    """Return the result of the call that started a sub-agent which had ended in order."""
    return ToolResultPart(
        tool_call_id=meta.tool_call_id,
        name="task",
        content=meta.summary or NOTHING_SAID,
        title=title_of(meta, session),
        metadata=metadata_of(meta, session),
    )


def close_interrupted(session: Session) -> None:
    """Record their end, with what they took as it was read when the session was opened (``left_children``); of others a
    small file is read. Raises StoreError.
    """
    for meta in list(session.state.children.subagents.values()):
        if meta.status != "running":
            continue
        updates: dict[str, object] = {"status": "failed", "stop_reason": "error"}
        took = session.interrupted.get(meta.id)
        try:
            took = took or Took.of(session.services.store.trace(child_id(session.session_id, meta.id)))
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
        Recorder(session).subagent_ended(meta.model_copy(update=updates))
