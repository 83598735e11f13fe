"""Params and results of the requests about sessions and the daemon, and its notifications.

Names follow the Agent Client Protocol where possible; camelCase on the wire. The models of each method are in the
signature of its handler in ``lsp_bridge/server/requests``; the types of ``vscode-extension/src/protocol.gen.ts`` and
``docs/protocol.md`` are generated from there (``make generate``).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from daemon.model.branches import BranchMeta, SubagentMeta
from daemon.model.events import Delta, Event
from daemon.model.goals import GoalTree
from daemon.model.messages import FilePart, Message, Part, StopReason
from daemon.model.meters import Meter
from daemon.model.permissions import Mode, PermissionRequest, Trust
from daemon.model.stored_model import Model
from daemon.model.traces import BranchTrace, Budget, Planner, QueuedPrompt, SessionStatus, Trace, ViewUpdate
from lsp_bridge.protocol.handshake import PROTOCOL_VERSION


class Empty(Model):
    """No params, or no result."""


class SessionParams(Model):
    """A request about one session."""

    session_id: str


class AnySessionParams(Model):
    """A request about one session; null: about all, or none."""

    session_id: str | None = None


class InitializationOptions(Model):
    """A client's ``initializationOptions`` in LSP's ``initialize``."""

    protocol_version: int = PROTOCOL_VERSION
    client: str = "editor"
    """Name of the client for messages such as who answered a request, e.g. ``VS Code``, ``terminal``."""
    trusted: bool | None = None
    """Whether the user trusts this folder (VS Code's workspace trust); null: the editor does not decide, but
    ``goalwright trust`` does."""
    can_save: bool = False
    """The client answers ``goalwright/editor/save`` (``{"uri": …}`` → ``{"saved": bool}``): a file with unsaved changes
    there can be changed in its buffer and saved."""
    opens_on_request: bool = False
    """The client cannot report which documents are open. It answers ``goalwright/editor/open``, after it has opened,
    changed or closed that document (``textDocument/didOpen`` …), so that unsaved text counts."""
    diagnostics: bool = False
    """The client answers ``goalwright/editor/diagnostics``, see ``editor_protocol``: diagnostics of its own extensions
    count, and no server is started for a language that they cover."""
    language_models: bool = False
    """The client answers ``goalwright/editor/models`` and ``goalwright/editor/chat``: models ``vscode/VENDOR/ID`` of
    its extensions can be used."""
    chat: bool = False
    """The client shows sessions and questions itself, as the VS Code extension does. Any other LSP editor is shown them
    by LSP's own means: messages, progress, code lenses."""
    unattended: bool = False
    """A program without a user: it answers requests of its own turns, and those of others only when no one else is
    there to answer (``attendedBy`` of ``goalwright/permission/list``)."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the editor or the command line, same keys as ``config.json``."""
    env: dict[str, str] = Field(default_factory=dict)
    """Provider variables of the client's environment; used for its prompts, kept in memory only."""


class SessionInfo(Model):
    """A session in a list."""

    trace: BranchTrace | Trace
    status: SessionStatus
    model: str = ""
    """The model that answers, ``provider/model``: the session's own or the default."""
    demo: bool = False
    """The scripted demo model answers, not a real one."""
    foreign: bool = False
    """The session came with the folder: this user did not start it on this machine."""
    mode: Mode = "ask"
    """Permission mode for this client."""
    trust: Trust = "unknown"


class SessionNewParams(Model):
    """Begin a session. ``model`` is ``provider/model``; for it and for ``mode`` the configuration has defaults."""

    model: str | None = None
    agent: str = "build"
    mode: Mode | None = None


class SessionForkParams(SessionParams):
    """Start a session with the conversation of another one, which stays unchanged. Files stay unchanged, too."""

    message_id: str | None = None
    """A message of the user (its id or its number): the fork has the conversation before it. Null: all of it."""


class SessionResult(Model):
    """The session a request was about."""

    session: SessionInfo


class SessionListParams(Model):
    """Newest first."""

    limit: int = Field(default=50, ge=1, le=1000)
    before: str | None = None
    """``trace_id`` after which the next page starts."""


class SessionListResult(Model):
    """``more``: there are older ones."""

    sessions: tuple[SessionInfo, ...]
    more: bool = False
    unreadable: tuple[UnreadableSession, ...] = ()
    """This user's unreadable sessions that belong to this page, and on the first page the last used one."""
    last_used: str | None = None
    """On the first page: the user's own session that was prompted last, whatever the clocks said."""


class UnreadableSession(Model):
    """A session whose stored data is damaged, or of a newer version; ``why``, as text for the user."""

    session_id: str
    why: str


class SessionLoadParams(SessionParams):
    """Open a session and subscribe this connection to its updates."""

    messages: int = Field(default=200, ge=0, le=10_000)
    """How many of the newest messages to return."""


class SessionLoadResult(Model):
    """The state of a session up to ``last_event_id``; updates that follow have higher ids."""

    session: SessionInfo
    messages: tuple[Message, ...]
    """Oldest first."""
    has_earlier: bool
    """There are older messages than these."""
    streaming: Streaming | None = None
    """The message that is being received right now, as far as it got."""
    goal_tree: GoalTree
    goal_numbers: dict[str, str]
    """Display number of each goal by its id; abandoned ones have none."""
    view: ViewUpdate | None = None
    """Status and totals, ready to show; updates have the changes."""
    pending: tuple[PermissionRequest, ...]
    queue: tuple[QueuedPrompt, ...]
    last_event_id: int
    meter: Meter | None = None
    branches: dict[str, BranchMeta] = Field(default_factory=dict)
    """Branches by id, in the fields of the trace API; load the session ``{sessionId}:{id}`` for the contents of one."""
    subagents: dict[str, SubagentMeta] = Field(default_factory=dict)
    awaits_choice: tuple[str, ...] = ()
    """Explorations (ids of their goals) in which the daemon waits for the user to choose."""
    sealed: str = ""
    """Not empty: the record of an ended branch or sub-agent, which accepts no prompts; the reason, as text for the
    user."""
    notices: tuple[TranscriptNotice, ...] = ()
    """Notices of a transcript among ``messages``, in order."""
    under_way: tuple[CallUnderWay, ...] = ()
    """Tool calls that have been started and have no result yet, and those whose background job still runs."""
    compacting: bool = False
    """The user has started a compaction that has not ended."""


class CallUnderWay(Model):
    """A tool call at work. ``output``: the end of its output so far."""

    tool_call_id: str
    output: str = ""


class TranscriptNotice(Model):
    """An event that a transcript shows as a line: how a turn stopped, a notice, an undo, a change of the plan."""

    after: int
    """``sequence`` of the message before it; 0: none."""
    event: Event


class Streaming(Model):
    """Parts of an unfinished message: complete ones, and the text so far of the one that grows."""

    message_id: str
    parts: tuple[Part, ...]


class SessionMessagesParams(SessionParams):
    """Older messages, for scrolling back: those with a ``sequence`` below ``before``."""

    before: int
    limit: int = Field(default=100, ge=1, le=1000)


class SessionMessagesResult(Model):
    """Oldest first."""

    messages: tuple[Message, ...]
    has_earlier: bool
    notices: tuple[TranscriptNotice, ...] = ()
    """Notices of a transcript among ``messages``, in order."""


class SessionEventsParams(SessionParams):
    """Events after the last one seen, after a reconnect. Subscribes the connection too."""

    after_event_id: int = Field(ge=0)


class SessionEventsResult(Model):
    """In order."""

    events: tuple[Event, ...]


class SessionPromptParams(SessionParams):
    """A prompt. The answer comes when the turn that works on it has ended."""

    text: str
    attachments: tuple[FilePart, ...] = ()
    """With ``data``: contents, e.g. of a pasted image. Without: ``name`` is the path of a file that the daemon reads,
    as far as rules allow; where they ask, the user is asked. When one cannot be attached the answer is an error. With
    the media type ``text/x-open-file`` nothing is read: the model is informed that the editor shows ``path:from-to``.
    """
    prompt_id: str | None = None
    """Chosen by the client, to recognise it in the queue and in events."""
    when_busy: Literal["queue", "refuse", "steer"] = "queue"
    planner: Planner | None = None
    """How this prompt is planned; null: by the setting."""


class SessionPromptResult(Model):
    """How the turn ended. ``detail`` has words for ``error``; ``removed``: taken from the queue unseen."""

    prompt_id: str
    stop_reason: StopReason
    detail: str = ""
    removed: bool = False


class SessionCancelParams(SessionParams):
    """Stop the running turn. ``hold_queue``: queued prompts wait for ``goalwright/queue/send``."""

    hold_queue: bool = False


class CanceledResult(Model):
    """``canceled`` is false when nothing was running."""

    canceled: bool


class QueueEditParams(SessionParams):
    """Change the text of a waiting prompt; ``text`` null removes it. Or ``hold`` it while the user edits it: it is not
    sent until its text comes, or ``hold`` is false."""

    prompt_id: str
    text: str | None = None
    hold: bool | None = None


class SessionSetParams(SessionParams):
    """Change title, model, limits, mode or agent of a session; null leaves it."""

    title: str | None = None
    model: str | None = None
    budget: Budget | None = None
    mode: Mode | None = None
    agent: str | None = None
    """Name of the agent that takes over the session. Not while a turn is under way."""


class ActiveSession(Model):
    """A session with a turn under way, or with a question that waits."""

    session_id: str
    title: str
    asked: tuple[str, ...] = ()
    """Ids of the questions that wait for an answer."""
    waits: bool = False
    """It needs the user: a question, or a choice among branches."""


class ConfigProblems(Model):
    """Parts of the configuration that are not used, and why, as text for the user."""

    problems: tuple[str, ...]


class DaemonStatus(Model):
    """The state of the daemon."""

    version: str
    protocol_version: int
    pid: int
    workspace: str
    uptime_s: float
    clients: int
    running: int
    """Sessions with a turn under way."""
    model: str
    """The model a new session gets for this client."""
    demo: bool
    model_notice: str = ""
    """Message for the user about the model, e.g. how to set a key."""
    notice: str = ""
    """Another message for the user, e.g. about settings that are ignored."""
    demo_prompt: str = ""
    """The task that the demo can do here; empty: none, or the model is a real one."""
    trace_folder: str
    trust: Trust = "unknown"
    sandbox: str = ""
    """The sandbox of commands, as text for the user; empty: none, commands run after a question."""
    memory_mb: float | None = None
    api_url: str | None = None
    """Where the trace API is, without its token; null: it is not open."""
    active: tuple[ActiveSession, ...] = ()


class Notification(Model):
    """A notification to connections that loaded a session; about all sessions, to clients with a chat; or to the
    editor whose models are asked."""

    method: ClassVar[str]


class SessionUpdate(Notification):
    """A stored event."""

    method = "goalwright/session/update"
    session_id: str
    event: Event
    view: ViewUpdate | None = None
    """New values of status, totals and numbers after the event, ready to show."""


class SessionMeter(Notification):
    """The numbers of a session changed; may be dropped, the next one has all."""

    method = "goalwright/session/meter"
    session_id: str
    meter: Meter


class SessionDelta(Notification):
    """A piece of something growing; may be dropped."""

    method = "goalwright/session/delta"
    session_id: str
    delta: Delta


class SessionsActivity(Notification):
    """The activity of all sessions of the daemon: sent to clients with a chat whenever it changes."""

    method = "goalwright/sessions/activity"
    active: tuple[ActiveSession, ...]
    ended: str | None = None
    """Id of the session whose turn has just ended."""
    title: str = ""
    """Title of that session."""
    stop_reason: StopReason | None = None


SessionLoadResult.model_rebuild()
