"""Sessions that work for another one: branches of an exploration and sub-agents.

A child is a session like any other, with its own messages, plan, log and compaction. Its permissions, costs and
questions belong to the main session (``Record.main``).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from daemon.loop.session import Session
from daemon.model.branches import child_id
from daemon.model.events import SessionCreated
from daemon.model.traces import BranchTrace, Trace
from daemon.state.session_state import SessionState
from tools.localization import t
from tools.text.truncate import head

if TYPE_CHECKING:
    from daemon.agents.loader import AgentProfile
    from daemon.loop.services import Services

log = logging.getLogger(__name__)


def open_child(
    parent: Session,
    name: str,
    agent: AgentProfile,
    *,
    services: Services | None = None,
    model: str | None = None,
    explore_start_id: str | None = None,
    description: str = "",
    inherited: int = 0,
) -> Session:
    """Return a new, empty child ``name`` (``A``, ``s1``) of ``parent``, stored and loaded. Raises StoreError.

    ``services``: its own environment, when it works elsewhere than its parent. ``explore_start_id``: for a branch,
    whose first ``inherited`` messages will be the main session's. Call ``close_child`` when it has ended, however it
    did.
    """
    services = services or parent.services
    now = services.now()
    session_id = child_id(parent.session_id, name)
    known = {
        "trace_id": session_id,
        "title": head(description, 200),
        "workspace": str(services.workspace),
        "agent": agent.name,
        "model": model or parent.model or None,
        "created_at": now,
        "updated_at": now,
    }
    trace = Trace.model_validate(known)
    if explore_start_id is not None:
        more = {"explore_start_id": explore_start_id, "description": description, "inherited": inherited}
        trace = BranchTrace.model_validate({**known, **more, "id": name})
    services.store.create(trace)
    child = Session(
        SessionState(trace), agent, services, parent.features, foreign=parent.foreign, parent=parent
    )
    if explore_start_id is None:
        child.state.share_order(parent.state.order)  # a branch does so when it has its first messages
    child.policy.use(config=parent.config, env=parent.env, trust=parent.trust, default_model=parent.model)
    parent.features.sessions[session_id] = child
    child.emit(SessionCreated(trace_id=session_id, time=now, trace=trace))
    return child


def has_ended(name: str) -> str:
    """Return why a child takes no more prompts."""
    return t(
        "This is the transcript of {child}, which has ended. Continue in the session that started it.",
        child=name,
    )


async def close_child(child: Session) -> None:
    """It has ended: cancel what still runs, write its snapshot, release it. Never raises."""
    try:
        await child.close()
    except Exception:
        log.exception("a child session could not be closed in order")
    child.features.sessions.pop(child.session_id, None)
