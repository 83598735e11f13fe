"""Iterate: init designs, execute implements, init learns from the report, and so on.

Each handover of a session of ``init`` is an iteration: a fresh session of ``execute``, a child like a sub-agent, begins
with init's handover, and its report is the result of init's call. Iterations end when the success target is reached,
after the last iteration, or when the user stops one. All decisions are read from the record of the session, so they
hold after a restart, too.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from daemon.agents.loader import UnknownAgentError
from daemon.context.compaction import open_goals
from daemon.context.handover import HandoverSource, changed_paths, handover_text, last_report
from daemon.loop.children import has_ended
from daemon.model.branches import SubagentMeta, child_id
from daemon.model.events import SessionUpdated
from daemon.model.messages import Message, NotePart, StopReason
from daemon.store.replay import read_state
from daemon.store.trace_store import StoreError
from daemon.subagents.runner import last_number, run_child, slot, start_child
from tools.localization import t
from tools.ports import ToolResult
from tools.text.truncate import cut_text
from tools.tool import PermissionAsk, ToolError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.loop.session import Session
    from daemon.permission.service import CallPermission
    from daemon.state.session_state import SessionState

log = logging.getLogger(__name__)

EXECUTE = "execute"
RESULT_TOKENS = 6_000
"""Estimated; of what execute hands back: init's window is small, and the files have the details."""
_STOPS: dict[StopReason, str] = {
    "canceled": "The user canceled it",
    "permission_denied": "The user rejected something it wanted to do, which stopped it",
    "error": "It stopped with an error",
    "max_tokens": "Its last answer was truncated",
}
_BY_PERSON: frozenset[StopReason] = frozenset({"canceled", "permission_denied"})
_DETAIL = 5_000
"""Characters."""


def handover_source(state: SessionState, *, report: str = "") -> HandoverSource:
    """Return a session as one that hands its work over."""
    return HandoverSource(
        trace_id=state.trace.trace_id,
        agent=state.trace.agent,
        plan=state.plan,
        messages=state.messages,
        changed_files=changed_paths(state.messages),
        report=report,
    )


async def report_back(
    session: Session, permission: CallPermission, report: str, success_rate: float | None
) -> ToolResult:
    """End the execute agent's work: its turn ends with this step. Raises ToolError, PermissionDeniedError."""
    if not session.policy.handed_over:
        raise ToolError(
            "No init agent is waiting for this report: give it as your final answer. (The user can hand "
            "the session over to init.)"
        )
    await permission.ask(
        PermissionAsk(
            "hand_over", ("init",), t("Report back to the init agent?"), detail=cut_text(report, _DETAIL)
        )
    )
    session.turn.leave()
    rate = "" if success_rate is None else t("success rate {success_rate:g}", success_rate=success_rate)
    return ToolResult(
        "Reported to the init agent. Your work ends here.",
        rate or t("reported to init"),
        {"report": report, "success_rate": success_rate},
    )


async def iterate(session: Session, permission: CallPermission, report: str) -> ToolResult:
    """Have the design implemented once, and return the result. Raises ToolError, PermissionDeniedError."""
    if session.foreign:
        raise ToolError(
            "This session came with the folder, so its text may have been written by anyone, and nothing "
            "is handed over from it. Tell the user to start a new session."
        )
    if refusal := _refusal(session):
        raise ToolError(refusal)
    settings = session.config.settings
    past = _iterations(session)
    number = len(past) + 1
    await permission.ask(
        PermissionAsk(
            "hand_over",
            (EXECUTE,),
            t(
                "Hand over to the execute agent (iteration {number} of at most {max_iterations})?",
                number=number,
                max_iterations=settings.agents.max_iterations,
            ),
            detail=cut_text(report, _DETAIL),
        )
    )
    try:
        earlier = await _earlier(session, past[-1]) if past else ""
        facts = [
            t(
                "This is iteration {number} of at most {max_iterations}.",
                number=number,
                max_iterations=settings.agents.max_iterations,
            )
        ]
        if settings.agents.success_target is not None:
            facts.append(
                t(
                    "Success criterion: a success rate of {success_target:g} or more.",
                    success_target=settings.agents.success_target,
                )
            )
        source = replace(handover_source(session.state, report=report), facts=facts, earlier=earlier)
        text = handover_text(source, EXECUTE)
        async with slot(session):
            done, child, detail = await _carried_out(
                session, permission.call.tool_call_id, number, report, text
            )
    except (StoreError, UnknownAgentError) as error:
        raise ToolError(
            f"The execute agent could not start, or its result could not be stored: {error}"
        ) from error
    return _work_outcome(session, done, child, detail)


async def _carried_out(
    session: Session, call_id: str, number: int, report: str, text: str
) -> tuple[SubagentMeta, Session, str]:
    """Run one iteration to its end, however it ends; returns it, its session, and why it stopped."""
    state, now = session.state, session.services.now
    profile = await asyncio.to_thread(session.services.agents.find, EXECUTE, session.trust)
    meta = SubagentMeta(
        id=f"s{last_number(state.children.subagents.values()) + 1}",
        agent=EXECUTE,
        prompt=report,
        tool_call_id=call_id,
        goal_id=state.plan.current_id or "",
        iteration=number,
        started_at=now(),
    )
    record = session.record.subagent_ended
    child = start_child(session, meta, profile, f"{EXECUTE} {number}: {state.trace.title}", record)

    async def work() -> tuple[StopReason, str]:
        child.policy.take_over(changed_paths(state.messages))
        mission = {"mission": state.plan.mission}
        child.emit(SessionUpdated(**child.record.here(), updates=mission))
        result = await child.prompt(text, planner="in_loop")
        await child.seal(has_ended(meta.id))  # the user may have sent it more prompts
        return child.state.trace.last_stop_reason or result.stop, result.detail

    meta, detail = await run_child(child, meta, work(), _result, record)
    return meta, child, detail


def _result(messages: Sequence[Message]) -> dict[str, object]:
    """Return the report of an execute agent, and its success rate (0 to 1; None when it gave none).

    They are those of its last ``hand_over``; without one, its last words are the report.
    """
    for message in reversed(messages):
        result = message.tool_result() if message.role == "tool" else None
        if result is not None and result.name == "hand_over" and not result.is_error:
            report, rate = result.metadata.get("report"), result.metadata.get("success_rate")
            if isinstance(report, str):
                rate = float(rate) if isinstance(rate, int | float) else None
                return {"summary": report, "success_rate": rate}
    return {"summary": last_report(messages), "success_rate": None}


async def _earlier(session: Session, meta: SubagentMeta) -> str:
    """Return the report of the previous iteration and the files it changed: the next one begins where it ended."""
    state: SessionState | None = None
    try:
        child = child_id(session.session_id, meta.id)
        state = await asyncio.to_thread(read_state, session.services.store, child)
        if meta.stop_reason == "error":
            # The daemon may have been killed before the report was recorded.
            meta = meta.model_copy(update=_result(state.messages))
    except StoreError as error:
        log.warning("%s", error)
    lines = [f"Iteration {meta.iteration}. {_rate(meta)}"]
    if meta.stop_reason is not None and (why := _STOPS.get(meta.stop_reason)):
        lines.append(f"{why}: it is not complete.")
    if meta.summary:
        lines += ["", meta.summary]
    if state is None:
        return "\n".join(lines)
    if files := changed_paths(state.messages):
        lines += ["", "Files it changed:", *(f"- {path}" for path in files[-50:])]
    if left := open_goals(state.plan):
        lines += ["", "What it left open:", *left[:30]]
    return "\n".join(lines)


def _iterations(session: Session) -> list[SubagentMeta]:
    """Return all of the session, in order."""
    return [meta for meta in session.state.children.subagents.values() if meta.iteration is not None]


def _refusal(session: Session) -> str:
    """Return why there is no further iteration now; empty when there may be one."""
    settings = session.config.settings
    calls = _calls_since_prompt(session.state.messages)
    for meta in _iterations(session):
        if meta.tool_call_id not in calls:
            continue  # the user has sent something since
        if _reached(session, meta):
            return (
                f"The success criterion was reached in iteration {meta.iteration} ({_share(meta)}). Tell "
                "the user the result; start another iteration only if the user asks for one."
            )
        if meta.stop_reason in _BY_PERSON:
            return (
                f"The user stopped iteration {meta.iteration}. Say how far it got and ask what is wanted; "
                "start another iteration only if the user asks for one."
            )
    if len(_iterations(session)) >= settings.agents.max_iterations:
        return (
            f"All {settings.agents.max_iterations} iterations of this session are used (setting "
            "max_iterations). Tell the user what was reached, and what still fails."
        )
    return ""


def _calls_since_prompt(messages: Sequence[Message]) -> set[str]:
    """Return the ids of the calls since the user's last message."""
    found: set[str] = set()
    for message in reversed(messages):
        said = any(not isinstance(part, NotePart) for part in message.content)
        if message.role == "user" and message.compaction() is None and said:
            break
        found.update(call.id for call in message.tool_calls())
    return found


def _reached(session: Session, meta: SubagentMeta) -> bool:
    target = session.config.settings.agents.success_target
    return target is not None and meta.success_rate is not None and meta.success_rate >= target


def _rate(meta: SubagentMeta) -> str:
    return "Success rate: not reported." if meta.success_rate is None else f"Success rate: {_share(meta)}."


def _share(meta: SubagentMeta) -> str:
    return f"{meta.success_rate or 0:.4g}"


def _work_outcome(session: Session, meta: SubagentMeta, child: Session, detail: str) -> ToolResult:
    facts = [
        f"Iteration: {meta.iteration} of at most {session.config.settings.agents.max_iterations}.",
        _rate(meta),
    ]
    stopped = "" if meta.stop_reason is None else _STOPS.get(meta.stop_reason, "")
    if stopped:
        facts.append(f"{stopped}: this is how far it got. {detail}".strip())
    facts += child.policy.design.unasked_words()
    source = replace(handover_source(child.state, report=meta.summary), facts=facts)
    text = handover_text(source, "init", RESULT_TOKENS)
    rate = "" if meta.success_rate is None else t(", success rate {meta}", meta=_share(meta))
    return ToolResult(
        f"{text}\n\n{_next(session, meta)}",
        t("iteration {iteration}{rate}", iteration=meta.iteration, rate=rate)
        + (f" ({meta.stop_reason})" if stopped else ""),
        {
            "iteration": meta.iteration,
            "subagent": meta.id,
            "success_rate": meta.success_rate,
            "stop_reason": meta.stop_reason,
        },
        is_error=meta.stop_reason == "error",
    )


def _next(session: Session, meta: SubagentMeta) -> str:
    """Return the next action, as text for the model."""
    if refusal := _refusal(session):
        return refusal
    target = session.config.settings.agents.success_target
    if target is None:
        return (
            "No success target is set: judge from the user's messages whether another iteration is worth it."
        )
    return (
        f"The success criterion ({target:g}) is not reached: find the cause, change the design with the "
        "user's approval if the design is at fault, and hand over again."
    )
