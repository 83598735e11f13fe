"""Sub-agents: an agent does a task in a session of its own.

The child works in its parent's folder, under its parent's rules besides its own, with the main session's mode, budget,
trust and grants. When it has ended, its last text is the result of the call.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from daemon.agents.loader import AgentProfile, UnknownAgentError
from daemon.context.handover import last_words
from daemon.loop.budget import spent
from daemon.loop.children import close_child, open_child
from daemon.loop.interrupted_turn import NOTHING_SAID, metadata_of, task_words, title_of
from daemon.loop.mentions import attachments_of
from daemon.loop.tool_selection import depth, task_agents
from daemon.model.branches import SubagentMeta
from daemon.model.events import SessionUpdated, SubagentStarted
from daemon.provider.call_ids import goal_of_step
from daemon.store.trace_store import StoreError
from tools.errors import ToolError
from tools.files.regular_files import make_folder
from tools.localization import noted, t
from tools.ports import ToolResult
from tools.process.background import finish
from tools.process.output import HeadTail, whole_in
from tools.redaction.redactor import SECRETS
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from daemon.loop.session import Session
    from daemon.model.messages import Message, StopReason

log = logging.getLogger(__name__)

_SEALED = noted("This sub-agent only works on its own task. Write to the session that started it.")
_TITLE = 120
"""Characters."""


class SessionSubagents(Struct, frozen=True):
    """The tasks that one call of a session gives to sub-agents."""

    session: Session
    call_id: str

    async def run(self, agent: str, prompt: str) -> ToolResult:
        session = self.session
        limit = session.config.settings.agents.max_depth
        if depth(session.policy) >= limit:
            raise ToolError("Sub-agents are not started from here (setting max_depth): do the task yourself.")
        if session.foreign:
            raise ToolError(
                "This session came with the folder, so its text may have been written by anyone, and no "
                "sub-agents are started from it. Tell the user to start a new session."
            )
        # In the order of the calls; otherwise the call whose file is read first would take the first free slot.
        async with session.turn.starting:
            profile = await self._profile(agent)
        async with slot(session):
            return await self._work(profile, prompt)

    async def _profile(self, name: str) -> AgentProfile:
        session = self.session
        try:
            profile = await asyncio.to_thread(session.services.agents.find, name, session.trust)
            if profile.serves:
                return profile
            why = t("{name} does not take tasks.", name=name)
        except UnknownAgentError as error:
            why = str(error).partition(";")[0] + "."
        raise ToolError(
            t(
                "{why} Agents that take tasks: {session}.",
                why=why,
                session=", ".join(agent.name for agent in task_agents(session.policy)),
            )
        )

    async def _work(self, profile: AgentProfile, prompt: str) -> ToolResult:
        session = self.session
        meta = SubagentMeta(
            id=_name(session, self.call_id),
            agent=profile.name,
            prompt=prompt,
            tool_call_id=self.call_id,
            goal_id=goal_of_step(self.call_id) or session.state.plan.current_id or "",
            started_at=session.services.now(),
        )
        description = task_words(session.record, self.call_id, prompt, _TITLE)
        record = partial(_completed, session)
        try:
            child = start_child(session, meta, profile, description, record)
        except StoreError as error:
            raise ToolError(f"The sub-agent could not start: {error}") from error
        meta, detail = await run_child(child, meta, self._turn_of(child, prompt), _result, record)
        return await self._work_outcome(meta, child.state.messages, detail)

    async def _turn_of(self, child: Session, prompt: str) -> tuple[StopReason, str]:
        turn = asyncio.ensure_future(self._turn(child, prompt))
        try:
            return await asyncio.shield(turn)
        except asyncio.CancelledError:
            if not child.cancel():
                turn.cancel()  # it has not started
            await finish(turn)
            raise

    async def _turn(self, child: Session, prompt: str) -> tuple[StopReason, str]:
        child.emit(SessionUpdated(**child.record.here(), updates={"mission": head(prompt, 2_000)}))
        attachments = attachments_of(self.call_id, prompt, self.session.state.messages)
        working = asyncio.ensure_future(child.prompt(prompt, attachments, planner="in_loop"))
        await asyncio.sleep(0)  # now it has its task
        child.make_read_only(t(_SEALED))
        result = await working
        return result.stop, result.detail

    async def _work_outcome(self, meta: SubagentMeta, messages: Sequence[Message], detail: str) -> ToolResult:
        text, where = await self._bounded(meta, last_words(messages))
        stop = meta.stop_reason or "error"
        content = text or NOTHING_SAID
        if stop != "end_turn":
            said = f"\n\nIts last message:\n{text}" if text else ""
            content = f"The sub-agent {meta.id} ({meta.agent}) did not finish: {_why(stop, detail)}{said}"
        took = self.session.services.now() - meta.started_at
        steps = sum(message.role == "assistant" and message.compaction() is None for message in messages)
        metadata = metadata_of(meta, self.session.record) | {
            "stop_reason": stop,
            "steps": steps,
            "duration_ms": int(took.total_seconds() * 1000),
        }
        if where is not None:
            metadata["output"] = str(where)
        title = title_of(meta, self.session.record)
        return ToolResult(
            content, title if stop == "end_turn" else f"{title} ({stop})", metadata, stop != "end_turn"
        )

    async def _bounded(self, meta: SubagentMeta, text: str) -> tuple[str, Path | None]:
        """Return the text as the model gets it, and where all of it is when that is not all."""
        shown = HeadTail()
        shown.add(text)
        if not shown.cut:
            return text, None
        services = self.session.services
        path = services.store.folder(self.session.session_id) / "output" / f"task-{meta.id}.md"
        try:
            await asyncio.to_thread(_write, path, text)
        except OSError as error:
            log.warning("the answer of %s could not be kept: %s", meta.id, error)
            return shown.text("it could not be stored"), None
        return shown.text(whole_in(path)), path


def slot(session: Session) -> AbstractAsyncContextManager[object]:
    """Return a place to work for a child. A nested one takes none: its parent holds one, so waiting would deadlock."""
    if session.parent is not None:
        return contextlib.nullcontext()
    return session.services.children.parallel.place(session.config.settings.agents.max_parallel)


def start_child(
    session: Session,
    meta: SubagentMeta,
    profile: AgentProfile,
    description: str,
    record: Callable[[SubagentMeta], None],
) -> Session:
    """Return the new session of a sub-agent. ``record`` stores its end when it cannot start. Raises StoreError."""
    session.emit(SubagentStarted(**session.record.here(), subagent=meta))
    try:
        model = profile.model_by(session.config.settings.model.models)
        child = open_child(session, meta.id, profile, model=model, description=description)
    except BaseException:
        record(meta.model_copy(update={"status": "failed", "stop_reason": "error"}))
        raise
    child.files.history.keep_above(session.files.history, meta.tool_call_id)
    return child


async def run_child(
    child: Session,
    meta: SubagentMeta,
    work: Awaitable[tuple[StopReason, str]],
    result: Callable[[Sequence[Message]], dict[str, object]],
    record: Callable[[SubagentMeta], None],
) -> tuple[SubagentMeta, str]:
    """Run a sub-agent to its end, however it ends; returns what is recorded of it, and why it stopped.

    ``work`` runs its turns, ``result`` returns fields of its record from its messages, and ``record`` stores it.
    """
    stop: StopReason = "canceled"
    detail = ""
    try:
        stop, detail = await work
    finally:
        canceled = await finish(asyncio.ensure_future(close_child(child)))
        # Nothing is awaited in between, so usage is counted for the child up to here, and for the parent from here.
        usage, cost = spent(child.record)
        ended = {
            "status": "completed" if stop == "end_turn" else "failed",
            "stop_reason": stop,
            "usage": usage,
            "cost": cost,
            "message_count": len(child.state.messages),
        }
        meta = meta.model_copy(update=ended | result(child.state.messages))
        record(meta)
        if canceled:
            raise asyncio.CancelledError
    return meta, detail


def _name(session: Session, call_id: str) -> str:
    """Return the name of a sub-agent; its number follows the place of its call in the message, whichever starts first.

    It is derived from stored data, so nothing has to be released: the number of a call that never started stays unused
    when a later one started, and the next message continues after the last one used.
    """
    calls: list[str] = []
    for message in reversed(session.state.messages):
        if call_id in (found := _starting(message)):
            calls = found
            break
    known = session.state.children.subagents
    before = (meta for meta in known.values() if meta.tool_call_id not in calls)
    number = last_number(before) + calls.index(call_id) + 1 if calls else 0
    # A call that runs again after a restart has already used its number.
    return f"s{last_number(known.values()) + 1}" if not number or f"s{number}" in known else f"s{number}"


def _starting(message: Message) -> list[str]:
    """Return the ids of the calls of a message that may start a sub-agent each, in order."""
    return [call.id for call in message.tool_calls() if call.name in ("task", "hand_over")]


def last_number(metas: Iterable[SubagentMeta]) -> int:
    """Return the highest number of sub-agents; 0 when there are none."""
    return max((int(meta.id[1:]) for meta in metas if meta.id[1:].isdigit()), default=0)


def _result(messages: Sequence[Message]) -> dict[str, object]:
    return {"summary": head(last_words(messages), 2_000)}


def _completed(session: Session, meta: SubagentMeta) -> None:
    try:
        session.record.subagent_ended(meta)
    except StoreError as error:
        log.warning("the end of %s is not in the log: %s", meta.id, error)


def _why(stop: StopReason, detail: str) -> str:
    if stop == "canceled":
        return "the user canceled it."
    if stop == "permission_denied":
        refused = detail or "the user rejected something."
        return f"{refused} Do not try it in another way: continue without it, or ask."
    if stop == "max_tokens":
        return "its answer was cut off at the token limit."
    return detail or "it failed."


def _write(path: Path, text: str) -> None:
    make_folder(path.parent)
    path.write_text(SECRETS.text(text), "utf-8")
