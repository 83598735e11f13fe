"""Messages about permissions and background commands."""

from datetime import datetime

from daemon.model.permissions import (
    Action,
    FileAnswer,
    FileDiff,
    Grant,
    Mode,
    PermissionRequest,
    Reason,
    Reply,
    Rule,
    Scope,
    StoredGrant,
    Trust,
)
from daemon.model.stored_model import Model
from lsp_bridge.protocol.sessions import SessionParams
from tools.tool import QuestionAnswer


class PermissionListResult(Model):
    """Oldest first."""

    requests: tuple[PermissionRequest, ...]
    attended_by: tuple[str, ...] = ()
    """For one session: names of the other clients that can answer its turn's requests: those with a user to whom the
    session is shown, and the sender of the turn's prompt. Nobody: any client may answer."""


class PermissionContentParams(Model):
    """The full text of both sides of a proposed change, for a diff editor."""

    request_id: str
    path: str
    """As in ``FileDiff.path``."""


class PermissionContentResult(Model):
    """``null`` on a side: the file does not exist there. ``binary``: no text to show."""

    before: str | None
    after: str | None
    binary: bool = False


class PermissionPreviewParams(Model):
    """Ask for the files that would be written if a request were accepted with these answers."""

    request_id: str
    files: tuple[FileAnswer, ...]


class PermissionPreviewResult(Model):
    """The files that would be written, with their diffs."""

    files: tuple[FileDiff, ...]


class PermissionReplyParams(Model):
    """The user's answer. ``feedback`` with ``reject`` lets the turn continue with it."""

    request_id: str
    reply: Reply
    feedback: str | None = None
    files: tuple[FileAnswer, ...] = ()
    """With ``once`` and ``always``: files of which only some hunks, or an edited text, are accepted."""
    grants: tuple[Grant, ...] | None = None
    """With ``always``: the grants to store, as the user edited them; null: the request's suggestions."""
    scope: Scope = "session"
    """With ``always``: where that holds."""
    answers: tuple[QuestionAnswer, ...] = ()
    """With ``once``: one for each of the request's questions, in their order."""
    unseen: bool = False
    """Nobody looked at the request (``goalwright run --yes``). Where rules deny files, its command stays in the
    sandbox."""


class PermissionReplyResult(Model):
    """``accepted`` is false when another client answered first; ``by`` is its name."""

    accepted: bool
    by: str = ""


class ListedRule(Rule):
    """A rule in a list."""

    idle: bool = False
    """It gives no permission, because the folder that it came with is not trusted."""


class PermissionRulesResult(Model):
    """The rules in force. ``grants``: the user's grants, which can be revoked; ``rules``: all others, weak to
    strong."""

    grants: tuple[StoredGrant, ...]
    rules: tuple[ListedRule, ...]
    mode: Mode
    trust: Trust
    problems: tuple[str, ...] = ()
    """Parts that are ignored, or that block all actions, as text for the user: damaged files, unknown settings."""


class PermissionForgetParams(Model):
    """Take grants back."""

    grant_ids: tuple[str, ...]
    session_id: str | None = None
    """For grants of the session."""


class PermissionForgetResult(Model):
    """Those that were there."""

    forgotten: tuple[StoredGrant, ...]


class PermissionExplainParams(Model):
    """Asks what would happen, and why: for a path (``permission`` read, edit, …), command line (``bash``) or URL."""

    permission: str
    target: str
    session_id: str | None = None


class PermissionExplainResult(Model):
    """``reasons``: each thing that would be done, the strictest first. ``problems``: parts of the files that are
    ignored, as text for the user."""

    action: Action
    reasons: tuple[Reason, ...]
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class JobInfo(Model):
    """A command in the background. ``exit_code`` is null while it runs."""

    job_id: str
    session_id: str
    command: str
    started_at: datetime
    exit_code: int | None = None
    output_file: str | None = None


class JobListResult(Model):
    """Oldest first; those that ended lately are in it."""

    jobs: tuple[JobInfo, ...]


class JobKillParams(SessionParams):
    """Stop a background command with all its processes."""

    job_id: str


class CommandStopParams(SessionParams):
    """Stop a command that the turn waits for; the turn continues with the partial result."""

    tool_call_id: str


class JobResult(Model):
    """The current state of the job."""

    job: JobInfo
