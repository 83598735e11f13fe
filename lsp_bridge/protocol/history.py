"""Messages about the session's changes of files."""

from datetime import datetime
from typing import Literal

from daemon.model.permissions import FileDiff
from daemon.model.stored_model import Model
from lsp_bridge.protocol.sessions import SessionParams


class HistoryFile(Model):
    """One file of a change the agent made. ``undoable`` is false when its old content is not known."""

    path: str
    kind: Literal["create", "update", "delete"]
    added: int
    removed: int
    undoable: bool = True


class HistoryChange(Model):
    """The change by one tool call. A change that was ``undone`` can be redone."""

    change_id: str
    tool_call_id: str
    tool: str
    """Empty when the message with the call is gone."""
    time: datetime
    goal_id: str | None = None
    message_id: str | None = None
    """The message with the tool call."""
    prompt_id: str | None = None
    """The user's newest message before it."""
    prompt: str = ""
    """Its first words."""
    state: Literal["applied", "undone"]
    files: tuple[HistoryFile, ...]


class HistoryResult(Model):
    """The session's changes of files, oldest first; ``undo`` and ``redo`` are the ids that would be next."""

    changes: tuple[HistoryChange, ...]
    undo: str | None = None
    redo: str | None = None


class HistoryStepParams(SessionParams):
    """Undo or redo one change: ``change_id``, or the next one. The user's own edits stay."""

    change_id: str | None = None
    dry_run: bool = False
    """Only report what would happen."""


class HistoryRestoreParams(SessionParams):
    """Undo all changes made since a message (it included), or those of a goal and the goals below it.

    Exactly one of ``message_id`` and ``goal_id``.
    """

    message_id: str | None = None
    goal_id: str | None = None
    dry_run: bool = False
    texts: bool = False
    """Answer with the texts of the files, too."""


class HistoryOutcome(Model):
    """The files that were changed on disk (or would be). Conflicts are errors (HISTORY_CONFLICT) and change nothing."""

    target: str
    """Description for the user: "edit of src/a.py"."""
    files: tuple[FileDiff, ...]
    texts: tuple[str | None, ...] = ()
    """Their texts afterwards, when ``texts`` asked for them; null: deleted, or not a text."""
    """Empty: the files read so already."""
