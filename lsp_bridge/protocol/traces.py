"""The wire, its part about looking after stored traces: rebuilding, taking in, deleting old ones.

See ``lsp_bridge.protocol.sessions`` for the rules.
"""

from pydantic import Field

from daemon.model.messages import Message
from daemon.model.stored_model import Model
from lsp_bridge.protocol.sessions import SessionParams


class TraceRebuildParams(Model):
    """Rebuild messages, plan and metadata of a trace from its event log. Rejected while it is open."""

    trace_id: str


class TraceImportParams(Model):
    """Take in an archive of a trace."""

    archive: str
    """Absolute path of the ``.tar.gz``."""
    max_mb: float | None = Field(default=None, gt=0)
    """Most megabytes unpacked; null: 1024."""


class TracePruneParams(Model):
    """Delete old traces. Null: the setting's value."""

    keep_days: float | None = Field(default=None, gt=0)
    max_mb: float | None = Field(default=None, gt=0)
    keep: int | None = Field(default=None, ge=1)
    dry_run: bool = False


class SessionSearchParams(Model):
    """Search the stored sessions: titles, messages, goals and names of changed files."""

    query: str
    limit: int = Field(default=50, ge=1, le=200)
    everywhere: bool = False
    """Also those of other folders and users, in the database of the setting ``store_url``."""


class SessionHit(Model):
    """A session that was found."""

    session_id: str
    excerpt: str = ""
    """The place in a message, goal or file name, in one line; empty: the title has it."""
    title: str = ""
    folder: str | None = None
    """Where a session works that is not stored here; None: it is stored here."""
    user: str = ""
    """The author of a session that is not stored here."""


class SessionSearchResult(Model):
    """Newest session first."""

    hits: tuple[SessionHit, ...]


class TraceExportParams(SessionParams):
    """Write the archive of a session to ``archive``, an absolute path; a file that is there is replaced."""

    archive: str


class TraceExportResult(Model):
    """The result of an export."""

    archive: str
    files: int
    size: int
    """Bytes."""


class ApiOpenParams(Model):
    """Open the trace API (REST, WebSocket, web page) of this workspace, if it is not open yet."""

    port: int | None = Field(default=None, ge=0, le=65535)
    """Port on 127.0.0.1; 0: any free one; null: that of the setting ``apiPort``."""


class ApiOpenResult(Model):
    """Where it is. Each request needs the token: ``Authorization: Bearer …`` or ``?token=…``."""

    url: str
    """``http://127.0.0.1:PORT``."""
    token: str
    page: str
    """The web page's address, with the token."""


class TraceMessagesParams(SessionParams):
    """Messages of a session, newest page first, e.g. those of one goal, which an edge of the graph represents.

    This opens no session and subscribes to none.
    """

    branch_id: str | None = None
    """A branch or sub-agent of the session (``A``, ``A.s1``); null: the session itself."""
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
    """The messages found, oldest first."""

    messages: tuple[Message, ...]
    has_earlier: bool
