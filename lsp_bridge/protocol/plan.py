"""The protocol's messages about the plan: the user's changes of goals, planning again, and building.

See ``lsp_bridge.protocol.sessions`` for the rules.
"""

from daemon.model.messages import StopReason
from daemon.model.permissions import FileDiff
from daemon.model.stored_model import Model
from lsp_bridge.protocol.sessions import SessionInfo, SessionParams


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


class PlanReplanParams(SessionParams):
    """Replan from here. ``reason``: what is wrong with the plan, in the user's words."""

    reason: str = ""


class PlanReplanResult(Model):
    """The plan was made, or the reason why not. Sent when that is known; a running turn continues by the new plan."""

    stop_reason: StopReason
    detail: str = ""


class PlanBuildParams(SessionParams):
    """The user hands the plan of a planning session over to the building agent."""

    start: bool = True
    """Begin to build at once; else the client sends ``PlanBuildResult.prompt`` itself."""


class PlanBuildResult(Model):
    """The session, whose agent builds from now on, and with which prompt that begins."""

    session: SessionInfo
    prompt: str
