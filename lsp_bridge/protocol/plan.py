"""The protocol's messages about the plan and the context: the user's changes of goals, and the model's input.

See ``lsp_bridge.protocol.sessions`` for the rules.
"""

from typing import Any, Literal

from daemon.model.choices import TakingOver
from daemon.model.messages import Part
from daemon.model.meters import Meter
from daemon.model.permissions import FileDiff
from daemon.model.stored_model import Model
from lsp_bridge.protocol.sessions import SessionParams


class GoalAddParams(SessionParams):
    """A goal that the user adds: under ``parent_id`` (None: at the top), before the sibling ``before_id`` (None:
    last)."""

    description: str
    reason: str = ""
    parent_id: str | None = None
    before_id: str | None = None


class GoalParams(SessionParams):
    """A request about one goal, by its id (not its display number)."""

    goal_id: str


class GoalRenameParams(GoalParams):
    """Another description for a goal that is not finished."""

    description: str


class GoalMoveParams(GoalParams):
    """Put a goal under another parent, or elsewhere among its siblings; ``before_id`` None: last."""

    parent_id: str | None = None
    before_id: str | None = None


class GoalDoneParams(GoalParams):
    """The user completes a goal; the summary replaces its details in the model's input."""

    summary: str


class GoalAbandonParams(GoalParams):
    """The user abandons a goal. ``revert_files`` also undoes the changes for it (or fails with HISTORY_CONFLICT)."""

    reason: str
    revert_files: bool = False
    dry_run: bool = False
    """Only report which files would be undone."""


class GoalResult(Model):
    """The result of a change. The plan itself goes to all clients by events: a large one must not travel with each
    click."""

    goal_id: str
    """The goal that was added or changed."""
    number: str | None
    """Its display number now; None when it is in the plan no more."""
    current_id: str | None
    """The goal in focus now."""
    files: tuple[FileDiff, ...] = ()
    """Files that were undone on disk."""


class ContextPart(Model):
    """A layer of the next request, or the messages of one goal, with its share of the tokens (estimated)."""

    layer: Literal["system", "tools", "messages", "plan"]
    name: str
    """E.g. ``agent``, ``environment``, ``instructions …/AGENTS.md``; for messages the goal's number and description, or
    the instruction file that came with a result."""
    goal_id: str | None = None
    tokens: int


class ContextMessage(Model):
    """A message as the model would get it."""

    role: Literal["user", "assistant", "tool"]
    goal_id: str | None = None
    kind: Literal["message", "goal_summary", "compaction", "history"] = "message"
    """``goal_summary`` replaces the messages of an ended goal; ``history`` is the rest of a past turn."""
    tokens: int
    content: tuple[Part, ...]


class ContextTool(Model):
    """A tool as offered to the model."""

    name: str
    description: str
    input_schema: dict[str, Any]


class ContextResult(Model):
    """The exact next input of the model, if the user sent nothing more."""

    model: str
    system: tuple[str, ...]
    tools: tuple[ContextTool, ...]
    messages: tuple[ContextMessage, ...]
    tail: str
    """The plan at the end of the last message (empty when it is part of the system prompt)."""
    parts: tuple[ContextPart, ...]
    tokens: int
    meter: Meter


class SessionCompactParams(SessionParams):
    """Compact the context now. ``instructions``: what to keep, in the user's words."""

    instructions: str = ""


class SessionHandoverParams(SessionParams):
    """Begin a session of ``agent`` that takes over from another one (``init`` or ``execute``)."""

    agent: TakingOver
