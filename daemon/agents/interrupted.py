"""Sub-agents that were at work when the daemon was killed: they have ended with it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from daemon.model.branches import child_id
from daemon.model.events import SubagentCompleted
from daemon.store.base import StoreError

if TYPE_CHECKING:
    from daemon.loop.session import Session

log = logging.getLogger(__name__)


def close_interrupted(session: Session) -> None:
    """Record their end, with what they took as far as it is known. Reads a small file for each. Raises StoreError."""
    for meta in list(session.state.children.subagents.values()):
        if meta.status != "running":
            continue
        updates: dict[str, object] = {"status": "failed", "stop_reason": "error"}
        try:
            trace = session.services.store.trace(child_id(session.session_id, meta.id))
        except StoreError as error:
            log.warning("what %s took is not known: %s", meta.id, error)
        else:
            updates |= {
                "usage": trace.usage,
                "cost": trace.total_cost,
                "message_count": trace.message_count,
                "summary": trace.summary,
            }
        session.emit(
            SubagentCompleted(
                trace_id=session.session_id,
                time=session.services.now(),
                subagent=meta.model_copy(update=updates),
            )
        )
