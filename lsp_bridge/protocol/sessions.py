"""A session as lists and answers show it."""

from __future__ import annotations

from daemon.model.base import Model
from daemon.model.permissions import Mode, Trust
from daemon.model.traces import BranchTrace, SessionStatus, Trace


class SessionInfo(Model):
    """A session in a list."""

    trace: BranchTrace | Trace
    status: SessionStatus
    model: str = ""
    """The model that answers, ``provider/model``: the session's own or the default."""
    demo: bool = False
    """The scripted demo model answers, not a real one."""
    foreign: bool = False
    """The session came with the folder: it was not begun by this user on this machine."""
    mode: Mode = "ask"
    """What passes unasked, for this client."""
    trust: Trust = "unknown"
