"""Close a session whose turn was interrupted, in this daemon or in one that was killed.

Everything open is closed: half messages, sub-agents, tool calls without a result, questions without an answer, the
turn.

But a turn that only waited for the user continues, see ``waits_for_answer``: the session stays as it is until a client
is there to answer (``Session.resume``), whose settings and keys it then uses. The open calls are planned and asked
about again, because rules, files and trust may have changed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from daemon.loop.parallel_calls import EDITS, HOW_FAR, NOT_BEGUN, TOGETHER
from daemon.model.branches import SubagentMeta, child_id
from daemon.model.events import QueueChanged, TurnEnded
from daemon.model.messages import FinishPart, TextPart, ToolCallPart, ToolResultPart
from daemon.model.traces import Trace, trace_status
from daemon.permission.service import CANCELED
from daemon.provider.call_ids import goal_of_step
from daemon.store.trace_store import StoreError, TraceStore
from tools.localization import noted, t
from tools.redaction.redactor import is_redacted
from tools.text.truncate import one_line
from tools.tool_names import MCP_ELICITATION, MCP_SAMPLING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.loop.record import SessionRecord
    from daemon.state.session_state import SessionState

NOTHING_SAID = "It ended without a report."


def task_words(record: SessionRecord, call_id: str, prompt: str, limit: int) -> str:
    """Return in short what a sub-agent is to do: the goal that it does as a step of the plan, else its prompt."""
    goal = record.state.plan.goals.get(goal_of_step(call_id) or "")
    return one_line(prompt if goal is None else goal.description, limit)


def title_of(meta: SubagentMeta, record: SessionRecord) -> str:
    """Return the title of the call that started a sub-agent."""
    return f"{meta.agent}: {task_words(record, meta.tool_call_id, meta.prompt, 80)}"


def metadata_of(meta: SubagentMeta, record: SessionRecord) -> dict[str, object]:
    """Return the metadata about a sub-agent for clients, in the result of the call that started it."""
    return {
        "subagent_id": meta.id,
        "agent": meta.agent,
        "session_id": child_id(record.session_id, meta.id),
        "stop_reason": meta.stop_reason,
        "tokens": meta.usage.total,
        "cost": meta.cost,
    }


def answer_of(meta: SubagentMeta, record: SessionRecord) -> ToolResultPart:
    """Return the result of the call that started a sub-agent which had ended in order."""
    return ToolResultPart(
        tool_call_id=meta.tool_call_id,
        name="task",
        content=meta.summary or NOTHING_SAID,
        title=title_of(meta, record),
        metadata=metadata_of(meta, record),
    )


log = logging.getLogger(__name__)

STOPPED = noted("Interrupted: Goalwright was stopped.")
WAS_STOPPED = noted("Goalwright was stopped. What was done is stored; send another prompt to continue.")
"""End of a turn that worked when its daemon was stopped."""
LEFT_WAITING = (
    "Goalwright was stopped while this waited for an answer. It asks again when the session is opened."
)
UNSTORED = "Storing the session failed during this call."


def waits_for_answer(state: SessionState) -> bool:
    """Return whether an interrupted turn waited at a question, so that it can continue from there without repeating
    anything.

    It did when all of this is in the log:

    - a question is pending, and no message was half received;
    - either it is about the budget, which is asked between two steps, when no call is open;
    - or it is about the first call without a result and others that had begun, and since these began nothing was
      allowed (except a repeated call: that question comes before the tool runs), no file was written and the plan was
      not changed by it. Tools ask before they act. Other calls of the message had not begun, or are edits that wait for
      the first one;
    - no MCP server asked, because it did so in the middle of a call;
    - it was not a branch or a sub-agent that asked: they end with the daemon;
    - the arguments of the open calls are stored as they were: where a secret was taken out they are not.

    An allowed call may have run, in part or completely: it is never run again automatically.
    """
    if state.turn is None or not state.open.has_prompt or state.open.streaming or not state.pending:
        return False
    if any(request.branch_id is not None for request in state.pending.values()):
        return False  # a child asked, and ended with the daemon
    if any(request.permission in (MCP_ELICITATION, MCP_SAMPLING) for request in state.pending.values()):
        return False
    open_calls = state.open_tool_calls()
    if not open_calls:
        return all(request.permission == "budget" for request in state.pending.values())
    message, first, _ = open_calls[0]
    if any(other is not message for other, _, _ in open_calls):
        return False
    ids = {call_id for _, call_id, _ in open_calls}
    asking = {request.tool_call_id for request in state.pending.values()}
    begun = {call_id: name for _, call_id, name in open_calls if call_id in state.open.calls}
    return (
        first in asking
        and asking <= begun.keys() == state.open.calls.keys()
        and not any(state.open.calls.values())
        and all(call_id in asking or name in EDITS for call_id, name in begun.items())
        and not any(is_redacted(call.input) for call in message.tool_calls() if call.id in ids)
    )


def _exploration(state: SessionState) -> dict[str, str]:
    """Return the exploration that an ``explore`` call without a result had started, as its result would name it.

    Its branches have ended with their work so far, which the user can still inspect and use.
    """
    named = {
        part.metadata.get("explore_start_id")
        for message in state.messages
        for part in message.content
        if isinstance(part, ToolResultPart)
    }
    begun = [branch.explore_start_id for branch in state.children.branches.values()]
    start = next((start for start in reversed(begun) if start not in named), None)
    return {} if start is None else {"explore_start_id": start}


def close_what_is_open(
    record: SessionRecord, store: TraceStore, model: str, why: str, ended: Mapping[str, Trace]
) -> None:
    """Bring a session to rest after its turn broke off. Does nothing on one that is at rest. Raises StoreError.

    ``model``: of the messages that were coming in. ``ended``: records of
    children that came to rest before it, by id.
    """
    state = record.state
    for message_id in list(state.open.streaming):
        parts = state.open.parts(message_id)
        if any(isinstance(part, TextPart | ToolCallPart) for part in parts):
            goal_id = next(iter(state.open.streaming[message_id].values())).goal_id
            finish = FinishPart(reason="error", time=record.now(), detail=why)
            record.add("assistant", (*parts, finish), goal_id=goal_id, message_id=message_id, model=model)
        else:
            state.open.streaming.pop(message_id)
    _close_subagents(record, store, ended)
    close_calls(record, why)
    for request in list(state.pending.values()):
        record.replied(request, CANCELED)
    state.children.awaited.clear()  # nobody waits any more, and a damaged log may lack the end of the turn
    if state.turn is not None:
        if state.open.has_prompt:
            # The prompt was taken from the queue, and only the note of that is missing.
            queue = tuple(prompt for prompt in state.queue if prompt.prompt_id != state.turn)
            if queue != state.queue:
                record.emit(QueueChanged(**record.here(), queue=queue))
        record.emit(TurnEnded(**record.here(), prompt_id=state.turn, stop_reason="error", detail=t(why)))
        record.completed()
        record.snapshot()


def close_calls(record: SessionRecord, why: str, *, begun: bool = True) -> None:
    """Answer the calls without a result. ``begun``: they may have done something. Raises StoreError."""
    state = record.state
    for message, call_id, name in state.open_tool_calls():
        goal_id = goal_of_step(call_id)
        meta = state.children.started_by(call_id) if goal_id is not None else None
        if goal_id is not None and meta is not None and meta.status == "completed":
            # Only its answer is missing in the record: a completed step of the plan must not run again.
            record.add_result(answer_of(meta, record), goal_id)
            record.goals(state.plan.step_done(goal_id, meta.summary))
            continue
        has_begun = begun and (name != TOGETHER or state.children.started_by(call_id) is not None)
        how_far = HOW_FAR if has_begun else NOT_BEGUN
        interrupted = ToolResultPart(
            tool_call_id=call_id,
            name=name,
            content=f"Interrupted: {why.removeprefix('Interrupted: ')} {how_far}",
            is_error=True,
            metadata={"not_run": True, **(_exploration(state) if name == "explore" else {})},
            title=t("interrupted"),
        )
        record.add_result(interrupted, goal_id or message.goal_id)


def _close_subagents(record: SessionRecord, store: TraceStore, ended: Mapping[str, Trace]) -> None:
    """Record the end of sub-agents that were at work, with their usage from their own records."""
    for meta in list(record.state.children.subagents.values()):
        if meta.status != "running":
            continue
        updates: dict[str, object] = {"status": "failed", "stop_reason": "error"}
        try:
            trace = ended.get(meta.id) or store.trace(child_id(record.session_id, meta.id))
        except StoreError as error:
            log.warning("what %s took is not known: %s", meta.id, error)
        else:
            updates |= {
                "usage": trace.usage,
                "cost": trace.total_cost,
                "message_count": trace.message_count,
                "summary": trace.summary,
            }
            if trace_status(trace) == "completed":
                # It had ended and only this record was missing: the result was lost on the way, not the work.
                updates |= {"status": "completed", "stop_reason": "end_turn"}
        record.subagent_ended(meta.model_copy(update=updates))
