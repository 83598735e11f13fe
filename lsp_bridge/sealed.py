"""The record of a branch or sub-agent stays as it ended: it is read, and nothing of it is changed.

In one place for all requests: a new one that changes something is to be named here (a test asks for each).
"""

from __future__ import annotations

from daemon.core import Daemon
from daemon.model.branches import branch_of
from lsp_bridge import protocol as p
from lsp_bridge.request_error import RequestError

CHANGES = frozenset(
    {
        "goalwright/session/prompt",
        "goalwright/session/set",
        "goalwright/session/compact",
        "goalwright/queue/edit",
        "goalwright/queue/send",
        "goalwright/goal/add",
        "goalwright/goal/rename",
        "goalwright/goal/move",
        "goalwright/goal/focus",
        "goalwright/goal/done",
        "goalwright/goal/abandon",
        # What a sub-agent changed is taken back where its task was given; a branch's files are not the workspace's.
        "goalwright/history/undo",
        "goalwright/history/redo",
        "goalwright/history/restore",
        "goalwright/permission/forget",
        "goalwright/explore/select",
        "goalwright/explore/leave",
        "goalwright/explore/remove",
        "goalwright/plan/replan",
        "goalwright/plan/build",
        "goalwright/job/kill",
        "goalwright/command/stop",
    }
)
"""Requests that change the session they name."""


async def check_sealed(core: Daemon, method: str, params: object) -> None:
    """Raises RequestError for a change of a sealed session, and UnknownTrace, StoreError."""
    session_id = getattr(params, "session_id", None)
    if method not in CHANGES or not isinstance(session_id, str) or branch_of(session_id) is None:
        return  # main lines are never sealed
    if words := (await core.session(session_id)).sealed:
        raise RequestError(p.SEALED, words)
