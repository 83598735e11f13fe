"""The wire, its part about traces: the API that serves them, and what is looked at of them here.

Part of ``lsp_bridge.protocol``, which has the rules and the list of methods.
"""

from __future__ import annotations

from pydantic import Field

from daemon.model.base import Model
from daemon.model.messages import Message


class ApiOpenParams(Model):
    """Open the trace API (REST, WebSocket, web page) of this workspace, if it is not open yet."""

    port: int | None = Field(default=None, ge=0, le=65535)
    """On 127.0.0.1; 0: any free one; null: as the setting ``apiPort`` says."""


class ApiOpenResult(Model):
    """Where it is. Each request needs the token: ``Authorization: Bearer …`` or ``?token=…``."""

    url: str
    """``http://127.0.0.1:PORT``."""
    token: str
    page: str
    """The web page's address, with the token."""


class TraceMessagesParams(Model):
    """Messages of a session, newest page first, e.g. those of one goal: the work that an edge of the graph stands for.

    Nothing is opened for it and nobody is subscribed.
    """

    session_id: str
    branch_id: str | None = None
    """Of this branch or sub-agent of the session (``A``, ``A.s1``); null: the session's own."""
    goal_id: str | None = None
    """The internal id, which abandoned goals have too; null: of all goals and of none."""
    without_goal: bool = False
    """Only those that belong to no goal."""
    inherited: bool = True
    """With those that a branch began with, which are of the line that it left. A goal never has them."""
    descendants: bool = False
    """With those of the goals below, and of the branches that they or the goal itself began."""
    before: int | None = None
    """Only those with a ``sequence`` below."""
    limit: int = Field(default=50, ge=1, le=500)


class TraceMessagesResult(Model):
    """What was found, oldest first."""

    messages: tuple[Message, ...]
    has_earlier: bool
