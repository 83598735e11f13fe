"""Fork a session: a new one has its conversation up to a message; the session itself stays unchanged.

The record of the fork is written from the events of the session: a replay of them is the state, so the fork opens like
any stored session, and its requests begin with the same messages, which the provider may have cached.

The original session keeps its costs (else they would count twice), its queue, open questions, grants for the session,
background jobs, the changes of files with their undo, branches and sub-agents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from daemon.model import notice_codes
from daemon.model.events import (
    AffectedGoal,
    ContextMarked,
    Event,
    FilesRestored,
    GoalAdded,
    GoalMoved,
    GoalRemoved,
    GoalUpdated,
    MessageAdded,
    Notice,
    SessionCreated,
    SessionUpdated,
    SystemPromptChanged,
    TurnEnded,
    TurnStarted,
)
from daemon.model.goals import GoalStats
from daemon.model.messages import Message, NotePart, ToolResultPart
from daemon.plan.goal_stats import OverlapTimer, tools_of
from daemon.plan.tree import Moved, PlanError, Updated
from daemon.state.goal_events import goal_event
from daemon.state.session_state import SessionState
from daemon.store.trace_store import StoreError, TraceStore
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from daemon.model.permissions import Mode


COPIED = (
    ContextMarked, FilesRestored, GoalAdded, GoalMoved, GoalRemoved, GoalUpdated, MessageAdded, Notice,
    SessionUpdated, SystemPromptChanged, TurnEnded, TurnStarted,
)  # fmt: skip
_STAYS = frozenset(
    {
        notice_codes.COST,
        notice_codes.CHOICE_AWAITED,
        notice_codes.CHOICE_LEFT,
        notice_codes.JOB_ENDED,
        notice_codes.JOB_KILLED,
    }
)
"""Codes of notices that do not apply to the fork: its job ids and its costs start from zero."""
_NUMBERS = ("self_stats", "cumulative_stats")
_OF_A_PROMPT = ("title", "titled_by", "mission", "summary", "summarized_by")
"""Fields that the first prompt of a session sets."""


class ForkError(StoreError):
    """Raised when the session cannot be forked there; the message says why."""


class Fork(Struct, frozen=True):
    """The values that a fork starts from."""

    trace_id: str
    time: datetime
    source_title: str
    mode: Mode | None
    """The mode of the session now: an earlier one may allow more."""
    calibration: float


def cut(events: Sequence[Event], message: str | None) -> Sequence[Event]:
    """Return the events before the prompt ``message`` (its id or its number), or all when it is None.

    Raises ForkError when there is no such prompt.
    """
    if message is None:
        return events
    for at, event in enumerate(events):
        if isinstance(event, MessageAdded) and message in (
            event.message.message_id,
            str(event.message.sequence),
        ):
            if not is_prompt(event.message):
                break
            return events[: _begins(events, at)]
    raise ForkError(t("This session has no user message {message} to fork from.", message=message[:100]))


def is_prompt(message: Message) -> bool:
    """Return whether a message is one that the user wrote."""
    own = any(not isinstance(part, NotePart) for part in message.content)
    return message.role == "user" and message.compaction() is None and own


def _begins(events: Sequence[Event], at: int) -> int:
    """Return where the turn of the prompt at ``at`` begins; a prompt that came while a turn ran begins none."""
    for before in range(at - 1, 0, -1):
        if isinstance(events[before], MessageAdded):
            break
        if isinstance(events[before], TurnStarted):
            return before
    return at


def write_fork(store: TraceStore, fork: Fork, source: str, events: Sequence[Event]) -> None:
    """Write the record of a fork: ``events`` are those of ``source`` that it has. Blocking. Raises StoreError."""
    first = events[0] if events else None
    if not isinstance(first, SessionCreated):
        raise ForkError(t("The start of this session's log is missing: it cannot be forked."))
    began = first.trace.model_copy(
        update={"trace_id": fork.trace_id, "created_at": fork.time, "updated_at": fork.time}
    )
    state = SessionState(began)
    store.create(began)
    copies = _Copies(state, fork)

    def take(event: Event) -> None:
        state.apply(store.append(event))

    take(first.model_copy(update={"event_id": 0, "trace_id": fork.trace_id, "trace": began}))
    begun = any(isinstance(event, MessageAdded) for event in events)
    for event in events[1:]:
        copy = copies.of(event, begun=begun)
        if copy is not None:
            take(copy)
    for event in _ending(state, fork, source):
        take(event)
    state.set_calibration(fork.calibration)
    store.save_snapshot(state.carrying(), state.plan.snapshot())


def _ending(state: SessionState, fork: Fork, source: str) -> Iterator[Event]:
    """Yield the events after the copied ones: the end of a turn that was cut, the title, and a notice of the origin."""
    trace_id, now = fork.trace_id, fork.time
    if state.turn is not None:
        yield TurnEnded(trace_id=trace_id, time=now, prompt_id=state.turn, stop_reason="end_turn")
    updates: dict[str, object] = {"mode": fork.mode}
    if state.trace.title:
        prefix = t("Fork: ")
        title = fork.source_title
        updates["title"] = title if title.startswith(prefix) else prefix + title
        updates["titled_by"] = "user"
    yield SessionUpdated(trace_id=trace_id, time=now, updates=updates)
    yield Notice(
        trace_id=trace_id,
        time=now,
        level="info",
        text=t(
            'Forked from "{title}". Files stay as they are; earlier changes can be undone in that session.',
            title=fork.source_title or t("Untitled"),
        ),
        code=notice_codes.FORKED,
        about=source,
    )


class _Copies:
    """Makes events of a session into events of its fork."""

    def __init__(self, state: SessionState, fork: Fork) -> None:
        self._state = state
        self._fork = fork
        self._together = OverlapTimer()

    def of(self, event: Event, *, begun: bool) -> Event | None:
        """Return the copy of an event; None when it stays with the session. ``begun``: there are messages already."""
        if not isinstance(event, COPIED):
            return None
        if isinstance(event, Notice) and (not begun or event.code in _STAYS):
            return None
        if isinstance(event, MessageAdded):
            return self._message(event)
        if isinstance(event, GoalUpdated):
            return self._updated(event)
        if isinstance(event, GoalMoved):
            return self._moved(event)
        copied: dict[str, object] = {"event_id": 0, "trace_id": self._fork.trace_id}
        if isinstance(event, GoalAdded):
            empty = GoalStats()
            copied["goal"] = event.goal.model_copy(update={"self_stats": empty, "cumulative_stats": empty})
        elif isinstance(event, SessionUpdated):
            gone = ("raised_limits", *(() if begun else _OF_A_PROMPT))
            updates = {name: value for name, value in event.updates.items() if name not in gone}
            if not updates:
                return None
            copied |= {"updates": updates, "usage": None, "cost": None, "duration_ms": None}
        return event.model_copy(update=copied)

    def _message(self, event: MessageAdded) -> MessageAdded:
        trace_id, message = self._fork.trace_id, event.message
        content = tuple(
            part.model_copy(update={"metadata": {k: v for k, v in part.metadata.items() if k != "job_id"}})
            if isinstance(part, ToolResultPart) and "job_id" in part.metadata
            else part
            for part in message.content
        )
        copied = {"trace_id": trace_id, "content": content, "usage": None, "cost": None}
        message = message.model_copy(update=copied)
        affected = self._state.plan.count(
            message.goal_id,
            tokens=0,
            cost=0.0,
            tools=tools_of(message),
            time_of=self._together.time_of(message),
        )
        return MessageAdded(trace_id=trace_id, time=event.time, message=message, affected_goals=affected)

    def _updated(self, event: GoalUpdated) -> Event | None:
        updates = {name: value for name, value in event.updates.items() if name not in _NUMBERS}
        affected = tuple(
            AffectedGoal(goal_id=item.goal_id, status=item.status, summary=item.summary)
            for item in event.affected_goals
            if item.status is not None or item.summary is not None
        )
        plan = self._state.plan
        if not updates and not affected and event.current_id == plan.current_id:
            return None  # only numbers of branches and sub-agents
        change = Updated(event.goal_id, updates, event.current_id, affected)
        return goal_event(change, self._fork.trace_id, event.time, event.by, plan=plan)

    def _moved(self, event: GoalMoved) -> Event:
        plan = self._state.plan
        change = Moved(event.goal_id, event.parent_id, event.before_id)
        goal = plan.goals.get(event.goal_id)
        if goal is not None:
            try:
                planned = plan.plan_move(goal, event.parent_id, event.before_id, keep_needs=False)
                change = next((one for one in planned if isinstance(one, Moved)), change)
            except PlanError:
                pass  # a damaged log: the goal moves, its numbers stay
        return goal_event(change, self._fork.trace_id, event.time, event.by, plan=plan)
