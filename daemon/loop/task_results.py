"""What the calls that start sub-agents are called, and what comes of those that ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.model.branches import SubagentMeta, child_id
from daemon.model.messages import ToolResultPart
from daemon.provider.call_ids import goal_of_step
from tools.text.truncate import one_line

if TYPE_CHECKING:
    from daemon.loop.record import Record

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
