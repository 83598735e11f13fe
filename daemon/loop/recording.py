"""Writes messages and changes of the plan into a session's record."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

from daemon.model.branches import SubagentMeta
from daemon.model.events import MessageAdded, SubagentCompleted
from daemon.model.goals import GoalStats
from daemon.model.messages import Message, Part, Role, Usage, describe
from daemon.plan.counting import Together, tokens_of, tools_of
from daemon.plan.explore_goals import plan_counted
from daemon.plan.tree import Change
from daemon.state.goal_events import goal_event
from daemon.state.spending import goal_of_subagent
from daemon.store.base import StoreError
from daemon.store.ids import sequence_of
from tools.text.truncate import head

if TYPE_CHECKING:
    from daemon.loop.session import Session

log = logging.getLogger(__name__)

_DESCRIPTION = 500
"""Characters."""


def new_message_id(sequence: int) -> str:
    """Sorts by age within the session."""
    return f"msg_{sequence:06d}_{uuid.uuid4().hex[:8]}"


class Recorder:
    """Everything that becomes part of a session's conversation or plan goes through here."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._state = session.state
        self._services = session.services
        self._together = Together()

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
        """Store a complete message, with what it adds to its goal's numbers. Raises StoreError.

        ``tokens``: what it holds; ``cost`` in US dollars.
        """
        sequence = sequence_of(message_id or "")
        if sequence <= (self._state.messages[-1].sequence if self._state.messages else 0):
            sequence = self._state.take_sequence()
        message = Message(
            message_id=message_id or new_message_id(sequence),
            trace_id=self._session.trace_id,
            branch_id=self._session.branch_id,
            role=role,
            sequence=sequence,
            goal_id=goal_id,
            tool_call_id=tool_call_id,
            content=content,
            description=head(describe(role, content), _DESCRIPTION),
            tokens=tokens,
            cost=cost,
            created_at=self._services.now(),
            model=model,
            usage=usage,
            duration_ms=duration_ms,
            overlap_ms=overlap_ms,
        )
        affected = self._state.plan.count(
            goal_id,
            tokens=tokens_of(message),
            cost=cost or 0.0,
            tools=tools_of(message),
            time_of=self._together.time_of(message),
        )
        self._session.emit(
            MessageAdded(
                trace_id=self._session.session_id,
                time=message.created_at,
                message=message,
                affected_goals=affected,
            )
        )
        try:
            self._services.store.save_message(message)
        except StoreError as error:
            # A copy of what the log has; the reader notices that it is missing.
            log.warning("%s", error)
        return message

    def subagent_ended(self, subagent: SubagentMeta) -> None:
        """Record the end of a sub-agent, and what it took with its goal's numbers. Raises StoreError."""
        session = self._session
        session.emit(
            SubagentCompleted(trace_id=session.session_id, time=self._services.now(), subagent=subagent)
        )
        took = GoalStats(total_tokens=subagent.usage.total, total_cost=subagent.cost)
        goal_id = goal_of_subagent(subagent, self._state.messages)
        for change in plan_counted(self._state.plan, goal_id or "", took):
            self.goal(change)

    def goal(self, change: Change, by: str = "") -> None:
        """Record a change of the plan. ``by``: the person who made it, if it was one. Raises StoreError."""
        self._session.emit(
            goal_event(
                change, self._session.session_id, self._services.now(), by, plan=self._session.state.plan
            )
        )
