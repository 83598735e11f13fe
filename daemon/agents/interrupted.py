"""Sub-agents that were at work when the daemon was killed: they have ended with it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from daemon.model.branches import child_id
from daemon.model.events import SubagentCompleted
from daemon.model.messages import Usage, added
from daemon.model.traces import Trace
from daemon.store.base import StoreError, TraceStore

if TYPE_CHECKING:
    from daemon.loop.session import Session
    from daemon.loop.state import SessionState

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Took:
    """What a sub-agent took, with those that it had sent. ``cost``: US dollars."""

    usage: Usage
    cost: float
    message_count: int
    summary: str

    @classmethod
    def of(cls, trace: Trace) -> Took:
        """What its own record says."""
        return cls(trace.usage, trace.total_cost, trace.message_count, trace.summary)


def read_interrupted(store: TraceStore, state: SessionState) -> dict[str, Took]:
    """What those that are at work by the record of ``state`` took until they were stopped, by their id.

    From their logs, as the metadata may be seconds older. Reads whole traces: call it in a thread.
    """
    from daemon.loop.recovery import read_state

    found: dict[str, Took] = {}
    for meta in state.children.subagents.values():
        if meta.status != "running":
            continue
        try:
            child = read_state(store, child_id(state.trace.trace_id, meta.id))
        except StoreError as error:
            log.warning("what %s took is not known: %s", meta.id, error)
            continue
        took = Took.of(child.trace)
        usage, cost = took.usage, took.cost
        for below in read_interrupted(store, child).values():
            usage, cost = added(usage, below.usage), cost + below.cost
        found[meta.id] = Took(usage, cost, took.message_count, took.summary)
    return found


def close_interrupted(session: Session) -> None:
    """Record their end, with what they took as it was read when the session was opened; of others a small file is read.
    Raises StoreError.
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
        session.emit(
            SubagentCompleted(
                trace_id=session.session_id,
                time=session.services.now(),
                subagent=meta.model_copy(update=updates),
            )
        )
