"""The record of a session: its state, and the one way to change it.

Everything that happens goes through ``emit``: it is appended to the log, applied to the state, and sent to the
listeners, in this order and without a break on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from typing import TYPE_CHECKING, Literal

from daemon.context.tokens import estimate_tokens
from daemon.model.branches import SubagentMeta, branch_of, root_of
from daemon.model.events import (
    Delta,
    Event,
    MessageAdded,
    ModelRetry,
    Notice,
    PermissionAsked,
    PermissionReplied,
    SessionUpdated,
    SubagentCompleted,
    TraceCompleted,
)
from daemon.model.goals import GoalStats, GoalTree
from daemon.model.messages import Message, Part, Role, Usage, describe, priced
from daemon.model.traces import Trace, trace_status
from daemon.plan.explore_goals import plan_counted
from daemon.plan.goal_stats import OverlapTimer, tokens_of, tools_of
from daemon.state.goal_events import goal_event
from daemon.state.projection import Projection
from daemon.store.ids import sequence_of
from daemon.store.trace_store import StoreError
from tools.process.background import Background
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from daemon.loop.parallel_calls import CallTime
    from daemon.loop.services import Services
    from daemon.model.events import Occurrence
    from daemon.model.messages import FinishPart, ToolResultPart
    from daemon.model.permissions import PermissionRequest
    from daemon.model.traces import ViewUpdate
    from daemon.permission.service import RequestResult
    from daemon.plan.tree import Change
    from daemon.provider.model_calls import Complete, Retry
    from daemon.state.session_state import SessionState

log = logging.getLogger(__name__)

_SNAPSHOT_DELAY_S = 1.0
_DESCRIPTION = 500
"""Characters."""


class TurnSuspended(BaseException):
    """Raised when the daemon stops while the turn waits for an answer: the turn stops, so that it can continue
    later."""


def new_message_id(sequence: int) -> str:
    """Sorts by age within the session."""
    return f"msg_{sequence:06d}_{uuid.uuid4().hex[:8]}"


class SessionRecord:
    """The record of one session. All methods run on the event loop of the daemon."""

    def __init__(
        self,
        state: SessionState,
        services: Services,
        *,
        foreign: bool = False,
        parent: SessionRecord | None = None,
    ) -> None:
        """``foreign``: the session came with the workspace, see ``daemon.store.provenance``. ``parent``: for a
        child."""
        self.state = state
        self.foreign = foreign
        self.main: SessionRecord = self if parent is None else parent.main
        """Record of the main session."""
        self.children: list[SessionRecord] = []
        """Records of the loaded children."""
        self._parent = parent
        if parent is not None:
            parent.children.append(self)
        self.services = services
        self._followers: list[Callable[[Event], None]] = []
        self._left = False
        self._told: set[str] = set()
        self._together = OverlapTimer()
        self.view: ViewUpdate | None = None
        """The change of the last event for clients that show the session; known once one of them looks on."""
        self._projection: Projection | None = None
        self._snapshot_due: asyncio.TimerHandle | None = None
        self._saving = Background("saving a snapshot")

    @property
    def session_id(self) -> str:
        """Id of the session and of its trace."""
        return self.state.trace.trace_id

    @property
    def branch_id(self) -> str | None:
        """Id of the branch for a child; None for a main session. See ``daemon.model.branches``."""
        return branch_of(self.session_id)

    def now(self) -> datetime:
        """Return the time of what happens."""
        return self.services.now()

    def here(self) -> Occurrence:
        """Return the fields of an event of this session that happens now."""
        return {"trace_id": self.session_id, "time": self.now()}

    # -- events --

    def follow(self, follower: Callable[[Event], None]) -> None:
        """Have ``follower`` called with each event from now on, when it is stored and applied."""
        self._followers.append(follower)

    def emit(self, event: Event) -> None:
        """Store, apply, publish. Raises StoreError when the log cannot be written."""
        if self._left:
            raise TurnSuspended
        stored = self.services.store.append(event)
        self.state.apply(stored)
        self.view = None if self._projection is None else self._projection.changes(stored)
        self.services.bus.publish(stored)
        for follower in self._followers:
            follower(stored)
        if self._snapshot_due is None:
            self._snapshot_due = asyncio.get_running_loop().call_later(_SNAPSHOT_DELAY_S, self._snapshot_soon)

    def shown(self) -> ViewUpdate:
        """Return status and totals for a client that starts watching: later events have their ``view``."""
        if self._projection is None:
            self._projection = Projection(self.state, self.state.plan)
        return self._projection.whole()

    def delta(self, delta: Delta) -> None:
        """Publish something that is not stored."""
        self.services.bus.publish(delta)

    def notice(
        self,
        level: Literal["info", "warning", "error"],
        text: str,
        code: str = "",
        *,
        about: str = "",
        exit_code: int | None = None,
    ) -> None:
        """Show the user a notice."""
        self.emit(Notice(**self.here(), level=level, text=text, code=code, about=about, exit_code=exit_code))

    def notice_once(
        self, text: str, code: str = "", *, level: Literal["info", "warning", "error"] = "warning"
    ) -> None:
        """Show the user a notice that stays true, once."""
        if text not in self._told:
            self._told.add(text)
            self.notice(level, text, code)

    def completed(self) -> None:
        """Record the end of a turn, with the totals, unless another prompt waits. Branches have an event of their
        own."""
        state = self.state
        if self.main is self and not state.queue:
            trace = state.trace
            self.emit(
                TraceCompleted(
                    **self.here(),
                    status=trace_status(trace),
                    total_messages=len(state.messages),
                    total_tokens=trace.usage.total,
                    total_cost=trace.total_cost,
                    unpriced_tokens=trace.usage.unpriced,
                )
            )

    def asked(self, request: PermissionRequest) -> None:
        """Record a question. The main session's record has its children's, too: that is what users look at."""
        for record in dict.fromkeys((self.main, self)):
            record.emit(PermissionAsked(**record.here(), request=request))

    def replied(self, request: PermissionRequest, settled: RequestResult) -> None:
        """The answer to one."""
        for record in dict.fromkeys((self.main, self)):
            record.emit(
                PermissionReplied(
                    **record.here(),
                    request_id=request.request_id,
                    reply=settled.answer,
                    feedback=settled.feedback,
                    by=settled.by,
                    remembered=settled.remembered,
                    scope=settled.scope,
                    answers=settled.answers,
                )
            )

    # -- messages and the plan --

    def add(
        self,
        role: Role,
        content: tuple[Part, ...],
        *,
        goal_id: str | None,
        message_id: str | None = None,
        tool_call_id: str | None = None,
        tokens: int | None = None,
        cost: float | None = None,
        usage: Usage | None = None,
        model: str | None = None,
        duration_ms: int | None = None,
        overlap_ms: int | None = None,
    ) -> Message:
        """Store a complete message, with its contribution to its goal's numbers. Raises StoreError.

        ``tokens``: of its content; ``cost`` in US dollars.
        """
        state = self.state
        sequence = sequence_of(message_id or "")
        if sequence <= (state.messages[-1].sequence if state.messages else 0):
            sequence = state.take_sequence()
        message = Message(
            message_id=message_id or new_message_id(sequence),
            trace_id=root_of(self.session_id),
            branch_id=self.branch_id,
            role=role,
            sequence=sequence,
            goal_id=goal_id,
            tool_call_id=tool_call_id,
            content=content,
            description=head(describe(role, content), _DESCRIPTION),
            tokens=tokens,
            cost=cost,
            created_at=self.now(),
            model=model,
            usage=usage,
            duration_ms=duration_ms,
            overlap_ms=overlap_ms,
        )
        affected = state.plan.count(
            goal_id,
            tokens=tokens_of(message),
            unpriced=priced(usage, cost).unpriced,
            cost=cost or 0.0,
            tools=tools_of(message),
            time_of=self._together.time_of(message),
        )
        self.emit(
            MessageAdded(
                trace_id=self.session_id, time=message.created_at, message=message, affected_goals=affected
            )
        )
        return message

    def answered_beside(
        self, model: str, complete: Complete, started: float, updates: Mapping[str, str] | None = None
    ) -> None:
        """Record what an answer outside the conversation took and changed. ``started``: by ``time.monotonic()``."""
        self.emit(
            SessionUpdated(
                **self.here(),
                updates=dict(updates or {}),
                usage=complete.usage,
                cost=self.services.models.cost(model, complete.usage),
                model=complete.model or model,
                duration_ms=int((time.monotonic() - started) * 1000),
            )
        )

    def add_result(
        self, result: ToolResultPart, goal_id: str | None, *finish: FinishPart, took: CallTime | None = None
    ) -> None:
        """Store the result of a call. ``finish``: why the turn ends with it. Raises StoreError."""
        if goal_id is not None and goal_id not in self.state.plan.goals:
            goal_id = self.state.plan.current_id  # the call itself removed the goal from the plan
        self.add(
            "tool",
            (result, *finish),
            goal_id=goal_id,
            tool_call_id=result.tool_call_id,
            tokens=estimate_tokens(result.content),
            duration_ms=took and took.duration_ms,
            overlap_ms=took and took.overlap_ms,
        )

    def retrying(self, retry: Retry) -> None:
        """Record that a model call has failed and is made again. Raises StoreError."""
        self.emit(
            ModelRetry(
                **self.here(),
                attempt=retry.attempt,
                delay_s=retry.delay_s,
                reason=retry.reason,
                attempts=retry.attempts,
            )
        )

    def subagent_ended(self, subagent: SubagentMeta) -> None:
        """Record the end of a sub-agent, and its usage with its goal's numbers. Raises StoreError."""
        self.emit(SubagentCompleted(**self.here(), subagent=subagent))
        took = GoalStats(
            total_tokens=subagent.usage.total,
            total_cost=subagent.cost,
            unpriced_tokens=subagent.usage.unpriced,
        )
        for change in plan_counted(self.state.plan, subagent.goal_id or "", took):
            self.goal(change)

    def goal(self, change: Change, by: str = "") -> None:
        """Record a change of the plan. ``by``: the user who made it, if one did. Raises StoreError."""
        self.emit(goal_event(change, self.session_id, self.now(), by, plan=self.state.plan))

    def goals(self, changes: Iterable[Change], by: str = "") -> None:
        """Record changes of the plan, in order. Raises StoreError."""
        for change in changes:
            self.goal(change, by)

    # -- snapshots on disk --

    def snapshot(self) -> None:
        """Write the current metadata and goal tree. A failure is logged: the event log has everything."""
        if self._snapshot_due is not None:
            self._snapshot_due.cancel()
            self._snapshot_due = None
        self._save(self.state.carrying(), self.state.plan.snapshot())

    async def save(self) -> None:
        """Write what the next snapshot would in a thread, and wait for it: the files of a turn's messages are many."""
        if self._snapshot_due is not None:
            self._snapshot_due.cancel()
            self._snapshot_soon()
        await self._saving.wait()

    def _snapshot_soon(self) -> None:
        """Save a snapshot in a thread: a large plan that was just read from disk takes 100 ms the first time."""
        self._snapshot_due = None
        saving = asyncio.to_thread(self._save, self.state.carrying(), self.state.plan.snapshot())
        self._saving.start(saving)

    def _save(self, trace: Trace, tree: GoalTree) -> None:
        try:
            self.services.store.save_snapshot(trace, tree)
        except StoreError as error:
            log.warning("no snapshot: %s", error)

    def leave(self) -> None:
        """Take nothing more: from now on ``emit`` raises Left."""
        self._left = True

    async def close(self) -> None:
        """Write the last snapshot, and release the log."""
        await self._saving.wait()
        if self._snapshot_due is not None:
            self.snapshot()
        self.services.store.close(self.session_id)
        if self._parent is not None and self in self._parent.children:
            self._parent.children.remove(self)
