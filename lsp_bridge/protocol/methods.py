"""The wire between the daemon and its clients: every ``goalwright/…`` method with its params and result.

Names follow the Agent Client Protocol where it has the thing. camelCase on the wire; the TypeScript types
in ``vscode-extension/src/protocol.gen.ts`` are generated from this module (``make generate``).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from daemon.model.base import Model
from daemon.model.branches import BranchMeta, SubagentMeta
from daemon.model.events import Delta, Event
from daemon.model.goals import GoalTree
from daemon.model.messages import FilePart, Message, Part, StopReason
from daemon.model.meters import Meter
from daemon.model.permissions import Mode, PermissionRequest, Trust
from daemon.model.traces import Budget, Planner, QueuedPrompt
from lsp_bridge.protocol.branches import AgentInfo as AgentInfo
from lsp_bridge.protocol.branches import AgentListParams as AgentListParams
from lsp_bridge.protocol.branches import AgentListResult as AgentListResult
from lsp_bridge.protocol.branches import BranchContentParams as BranchContentParams
from lsp_bridge.protocol.branches import BranchContentResult as BranchContentResult
from lsp_bridge.protocol.branches import BranchFilesResult as BranchFilesResult
from lsp_bridge.protocol.branches import BranchParams as BranchParams
from lsp_bridge.protocol.branches import BranchPatchResult as BranchPatchResult
from lsp_bridge.protocol.branches import Exploration as Exploration
from lsp_bridge.protocol.branches import ExploreLeaveParams as ExploreLeaveParams
from lsp_bridge.protocol.branches import ExploreLeaveResult as ExploreLeaveResult
from lsp_bridge.protocol.branches import ExploreListParams as ExploreListParams
from lsp_bridge.protocol.branches import ExploreListResult as ExploreListResult
from lsp_bridge.protocol.branches import ExploreSelectParams as ExploreSelectParams
from lsp_bridge.protocol.branches import ExploreSelectResult as ExploreSelectResult
from lsp_bridge.protocol.branches import PlanBuildParams as PlanBuildParams
from lsp_bridge.protocol.branches import PlanBuildResult as PlanBuildResult
from lsp_bridge.protocol.branches import PlanReplanParams as PlanReplanParams
from lsp_bridge.protocol.branches import PlanReplanResult as PlanReplanResult
from lsp_bridge.protocol.branches import SessionInfo as SessionInfo
from lsp_bridge.protocol.handshake import API_FAILED as API_FAILED
from lsp_bridge.protocol.handshake import BUSY as BUSY
from lsp_bridge.protocol.handshake import CONFIG_BROKEN as CONFIG_BROKEN
from lsp_bridge.protocol.handshake import HISTORY_CONFLICT as HISTORY_CONFLICT
from lsp_bridge.protocol.handshake import INCOMPATIBLE as INCOMPATIBLE
from lsp_bridge.protocol.handshake import INVALID_PARAMS as INVALID_PARAMS
from lsp_bridge.protocol.handshake import PREAMBLE as PREAMBLE
from lsp_bridge.protocol.handshake import PROTOCOL_VERSION as PROTOCOL_VERSION
from lsp_bridge.protocol.handshake import SEALED as SEALED
from lsp_bridge.protocol.handshake import STORE_FAILED as STORE_FAILED
from lsp_bridge.protocol.handshake import UNAUTHORIZED as UNAUTHORIZED
from lsp_bridge.protocol.handshake import UNKNOWN_BRANCH as UNKNOWN_BRANCH
from lsp_bridge.protocol.handshake import UNKNOWN_REQUEST as UNKNOWN_REQUEST
from lsp_bridge.protocol.handshake import UNKNOWN_SESSION as UNKNOWN_SESSION
from lsp_bridge.protocol.history import HistoryChange as HistoryChange
from lsp_bridge.protocol.history import HistoryFile as HistoryFile
from lsp_bridge.protocol.history import HistoryOutcome as HistoryOutcome
from lsp_bridge.protocol.history import HistoryRestoreParams as HistoryRestoreParams
from lsp_bridge.protocol.history import HistoryResult as HistoryResult
from lsp_bridge.protocol.history import HistoryStepParams as HistoryStepParams
from lsp_bridge.protocol.models import CommitMessageParams as CommitMessageParams
from lsp_bridge.protocol.models import CommitMessageResult as CommitMessageResult
from lsp_bridge.protocol.models import ModelCheckParams as ModelCheckParams
from lsp_bridge.protocol.models import ModelCheckResult as ModelCheckResult
from lsp_bridge.protocol.models import ModelListParams as ModelListParams
from lsp_bridge.protocol.models import ModelListResult as ModelListResult
from lsp_bridge.protocol.models import ModelProvider as ModelProvider
from lsp_bridge.protocol.models import ModelTestParams as ModelTestParams
from lsp_bridge.protocol.models import ModelTestResult as ModelTestResult
from lsp_bridge.protocol.models import OfferedModel as OfferedModel
from lsp_bridge.protocol.permissions import CommandStopParams as CommandStopParams
from lsp_bridge.protocol.permissions import JobInfo as JobInfo
from lsp_bridge.protocol.permissions import JobKillParams as JobKillParams
from lsp_bridge.protocol.permissions import JobListResult as JobListResult
from lsp_bridge.protocol.permissions import JobResult as JobResult
from lsp_bridge.protocol.permissions import PermissionContentParams as PermissionContentParams
from lsp_bridge.protocol.permissions import PermissionContentResult as PermissionContentResult
from lsp_bridge.protocol.permissions import PermissionExplainParams as PermissionExplainParams
from lsp_bridge.protocol.permissions import PermissionExplainResult as PermissionExplainResult
from lsp_bridge.protocol.permissions import PermissionForgetParams as PermissionForgetParams
from lsp_bridge.protocol.permissions import PermissionForgetResult as PermissionForgetResult
from lsp_bridge.protocol.permissions import PermissionListParams as PermissionListParams
from lsp_bridge.protocol.permissions import PermissionListResult as PermissionListResult
from lsp_bridge.protocol.permissions import PermissionPreviewParams as PermissionPreviewParams
from lsp_bridge.protocol.permissions import PermissionPreviewResult as PermissionPreviewResult
from lsp_bridge.protocol.permissions import PermissionReplyParams as PermissionReplyParams
from lsp_bridge.protocol.permissions import PermissionReplyResult as PermissionReplyResult
from lsp_bridge.protocol.permissions import PermissionRulesParams as PermissionRulesParams
from lsp_bridge.protocol.permissions import PermissionRulesResult as PermissionRulesResult
from lsp_bridge.protocol.plan import CompactResult as CompactResult
from lsp_bridge.protocol.plan import ContextMessage as ContextMessage
from lsp_bridge.protocol.plan import ContextPart as ContextPart
from lsp_bridge.protocol.plan import ContextResult as ContextResult
from lsp_bridge.protocol.plan import ContextTool as ContextTool
from lsp_bridge.protocol.plan import GoalAbandonParams as GoalAbandonParams
from lsp_bridge.protocol.plan import GoalAddParams as GoalAddParams
from lsp_bridge.protocol.plan import GoalDoneParams as GoalDoneParams
from lsp_bridge.protocol.plan import GoalMoveParams as GoalMoveParams
from lsp_bridge.protocol.plan import GoalParams as GoalParams
from lsp_bridge.protocol.plan import GoalRenameParams as GoalRenameParams
from lsp_bridge.protocol.plan import GoalResult as GoalResult
from lsp_bridge.protocol.plan import SessionCompactParams as SessionCompactParams
from lsp_bridge.protocol.plan import SessionHandoverParams as SessionHandoverParams
from lsp_bridge.protocol.traces import ApiOpenParams as ApiOpenParams
from lsp_bridge.protocol.traces import ApiOpenResult as ApiOpenResult
from lsp_bridge.protocol.traces import PrunedTrace as PrunedTrace
from lsp_bridge.protocol.traces import RebuiltSession as RebuiltSession
from lsp_bridge.protocol.traces import SessionDeleteParams as SessionDeleteParams
from lsp_bridge.protocol.traces import SessionHit as SessionHit
from lsp_bridge.protocol.traces import SessionSearchParams as SessionSearchParams
from lsp_bridge.protocol.traces import SessionSearchResult as SessionSearchResult
from lsp_bridge.protocol.traces import TraceExportParams as TraceExportParams
from lsp_bridge.protocol.traces import TraceExportResult as TraceExportResult
from lsp_bridge.protocol.traces import TraceImportParams as TraceImportParams
from lsp_bridge.protocol.traces import TraceImportResult as TraceImportResult
from lsp_bridge.protocol.traces import TraceMessagesParams as TraceMessagesParams
from lsp_bridge.protocol.traces import TraceMessagesResult as TraceMessagesResult
from lsp_bridge.protocol.traces import TracePruneParams as TracePruneParams
from lsp_bridge.protocol.traces import TracePruneResult as TracePruneResult
from lsp_bridge.protocol.traces import TraceRebuildParams as TraceRebuildParams
from lsp_bridge.protocol.traces import TraceRebuildResult as TraceRebuildResult


class Empty(Model):
    """No params, or nothing to say."""


class InitializationOptions(Model):
    """What a client may put into ``initializationOptions`` of LSP's ``initialize``."""

    protocol_version: int = PROTOCOL_VERSION
    client: str = "editor"
    """Shown where it matters who answered a request, e.g. ``VS Code``, ``terminal``."""
    trusted: bool | None = None
    """Whether the person trusts this folder (VS Code's workspace trust); null: the editor has no say in it, and
    ``goalwright trust`` has."""
    can_save: bool = False
    """The client answers ``goalwright/editor/save`` (``{"uri": …}`` → ``{"saved": bool}``): a file with unsaved changes
    there can be changed in its buffer and saved."""
    diagnostics: bool = False
    """The client answers ``goalwright/editor/diagnostics``, see ``editor_protocol``: what its own extensions say about
    files counts, and where they cover a language no server is started for it."""
    chat: bool = False
    """The client shows sessions and questions itself, as the VS Code extension does. Any other LSP editor is shown them
    by LSP's own means: messages, progress, code lenses."""
    unattended: bool = False
    """A program without a person: it answers what its own turns ask, and what others ask only when nobody else is there
    to answer (``attendedBy`` of ``goalwright/permission/list``)."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the editor or the command line, same keys as ``config.json``."""
    env: dict[str, str] = Field(default_factory=dict)
    """Provider variables of the client's environment; used for its prompts, kept in memory only."""


class SessionNewParams(Model):
    """Begin a session. ``model`` is ``provider/model``; for it and for ``mode`` the configuration has defaults."""

    model: str | None = None
    agent: str = "build"
    mode: Mode | None = None


class SessionForkParams(Model):
    """Begin a session with the conversation of another one, which stays as it is. Files stay as they are, too."""

    session_id: str
    message_id: str | None = None
    """A message of the user (its id or its number): the fork has what was said before it. Null: all of it."""


class SessionResult(Model):
    """The session a request was about."""

    session: SessionInfo


class SessionListParams(Model):
    """Newest first."""

    limit: int = Field(default=50, ge=1, le=1000)
    before: str | None = None
    """``trace_id`` after which to go on, for the next page."""


class SessionListResult(Model):
    """``more``: there are older ones."""

    sessions: tuple[SessionInfo, ...]
    more: bool = False
    unreadable: tuple[UnreadableSession, ...] = ()
    """Sessions of this person's that would stand among these, and on the first page the one used last."""
    last_used: str | None = None
    """On the first page: the user's own session that was prompted last, whatever the clocks said."""


class UnreadableSession(Model):
    """What is stored of it is damaged, or of a newer version; ``why``, in words."""

    session_id: str
    why: str


class SessionLoadParams(Model):
    """Open a session and subscribe this connection to its updates."""

    session_id: str
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
    pending: tuple[PermissionRequest, ...]
    queue: tuple[QueuedPrompt, ...]
    last_event_id: int
    meter: Meter | None = None
    branches: dict[str, BranchMeta] = Field(default_factory=dict)
    """By id, as seed 000's API has them; what is inside of one comes by loading the session ``{sessionId}:{id}``."""
    subagents: dict[str, SubagentMeta] = Field(default_factory=dict)
    awaits_choice: tuple[str, ...] = ()
    """Explorations (ids of their goals) in which the daemon waits for the person to choose."""
    sealed: str = ""
    """Not empty: the record of a branch or sub-agent that has ended, which takes no prompts; why, in words."""
    notices: tuple[Told, ...] = ()
    """What a transcript tells among ``messages``, in order."""
    under_way: tuple[CallUnderWay, ...] = ()
    """Tool calls that have been started and have no result yet, and those whose background job still runs."""
    compacting: bool = False
    """The user has started a compaction that has not ended."""


class CallUnderWay(Model):
    """A tool call at work. ``output``: the end of what it has written so far."""

    tool_call_id: str
    output: str = ""


class Told(Model):
    """An event that a transcript shows as a line: how a turn stopped, a notice, an undo, a change of the plan."""

    after: int
    """``sequence`` of the message before it; 0: none."""
    event: Event


class Streaming(Model):
    """Parts of an unfinished message: complete ones, and the text so far of the one that grows."""

    message_id: str
    parts: tuple[Part, ...]


class SessionMessagesParams(Model):
    """Older messages, for scrolling back: those with a ``sequence`` below ``before``."""

    session_id: str
    before: int
    limit: int = Field(default=100, ge=1, le=1000)


class SessionMessagesResult(Model):
    """Oldest first."""

    messages: tuple[Message, ...]
    has_earlier: bool
    notices: tuple[Told, ...] = ()
    """What a transcript tells among ``messages``, in order."""


class SessionEventsParams(Model):
    """Events after the last one seen, after a reconnect. Subscribes the connection too."""

    session_id: str
    after_event_id: int = Field(ge=0)


class SessionEventsResult(Model):
    """In order."""

    events: tuple[Event, ...]


class SessionPromptParams(Model):
    """A prompt. The answer comes when the turn that works on it has ended."""

    session_id: str
    text: str
    attachments: tuple[FilePart, ...] = ()
    """With ``data``: contents, e.g. of a pasted image. Without: ``name`` is the path of a file that the daemon reads,
    as far as rules allow; where they ask, the user is asked. When one cannot be attached the answer is an error. With
    the media type ``text/x-open-file`` nothing is read: the model is told that the editor shows ``path:from-to``."""
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


class SessionParams(Model):
    """A request about one session."""

    session_id: str


class SessionCancelParams(Model):
    """Stop the running turn. ``hold_queue``: what is queued waits for ``goalwright/queue/send``."""

    session_id: str
    hold_queue: bool = False


class CanceledResult(Model):
    """``canceled`` is false when nothing was running."""

    canceled: bool


class QueueEditParams(Model):
    """Change the text of a waiting prompt; ``text`` null removes it. Or ``hold`` it while the user edits it: it is not
    sent until its text comes, or ``hold`` is false."""

    session_id: str
    prompt_id: str
    text: str | None = None
    hold: bool | None = None


class SessionSetParams(Model):
    """Change title, model, limits, mode or agent of a session; null leaves it."""

    session_id: str
    title: str | None = None
    model: str | None = None
    budget: Budget | None = None
    mode: Mode | None = None
    agent: str | None = None
    """The name of the agent that goes on with the session. Not while a turn is under way."""


class ActiveSession(Model):
    """A session with a turn under way, or with a question that waits."""

    session_id: str
    title: str
    asked: tuple[str, ...] = ()
    """Ids of the questions that wait for an answer."""
    waits: bool = False
    """It needs the user: a question, or a choice among branches."""


class SessionsActivity(Model):
    """What all sessions of the daemon do, as a whole: sent to clients with a chat whenever it changes."""

    active: tuple[ActiveSession, ...]
    ended: str | None = None
    """Id of the session whose turn has just ended."""
    title: str = ""
    """Of that session."""
    stop_reason: StopReason | None = None


class DaemonStatus(Model):
    """What the daemon is and does."""

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
    """What to tell the user about the model, e.g. how to set a key."""
    notice: str = ""
    """What else to tell the user, e.g. of settings that are ignored."""
    demo_prompt: str = ""
    """The task that the demo can do here; empty: none, or the model is a real one."""
    trace_folder: str
    trust: Trust = "unknown"
    sandbox: str = ""
    """Where commands run, in words; empty: as they are, after a question."""
    memory_mb: float | None = None
    api_url: str | None = None
    """Where the trace API is, without its token; null: it is not open."""
    active: tuple[ActiveSession, ...] = ()


class SessionUpdate(Model):
    """Notification ``goalwright/session/update``: a stored event."""

    session_id: str
    event: Event


class SessionMeter(Model):
    """Notification ``goalwright/session/meter``: the numbers changed; may be dropped, the next one has all."""

    session_id: str
    meter: Meter


class SessionDelta(Model):
    """Notification ``goalwright/session/delta``: a piece of something growing; may be dropped."""

    session_id: str
    delta: Delta


SessionLoadResult.model_rebuild()

REQUESTS: dict[str, tuple[type[Model], type[Model]]] = {
    "goalwright/daemon/status": (Empty, DaemonStatus),
    "goalwright/daemon/stop": (Empty, Empty),
    "goalwright/session/new": (SessionNewParams, SessionResult),
    "goalwright/session/fork": (SessionForkParams, SessionResult),
    "goalwright/session/list": (SessionListParams, SessionListResult),
    "goalwright/session/load": (SessionLoadParams, SessionLoadResult),
    "goalwright/session/messages": (SessionMessagesParams, SessionMessagesResult),
    "goalwright/session/events": (SessionEventsParams, SessionEventsResult),
    "goalwright/session/prompt": (SessionPromptParams, SessionPromptResult),
    "goalwright/session/cancel": (SessionCancelParams, CanceledResult),
    "goalwright/session/set": (SessionSetParams, SessionResult),
    "goalwright/session/context": (SessionParams, ContextResult),
    "goalwright/session/compact": (SessionCompactParams, CompactResult),
    "goalwright/session/handover": (SessionHandoverParams, SessionResult),
    "goalwright/session/delete": (SessionDeleteParams, Empty),
    "goalwright/session/search": (SessionSearchParams, SessionSearchResult),
    "goalwright/queue/edit": (QueueEditParams, Empty),
    "goalwright/queue/send": (SessionParams, Empty),
    "goalwright/goal/add": (GoalAddParams, GoalResult),
    "goalwright/goal/rename": (GoalRenameParams, GoalResult),
    "goalwright/goal/move": (GoalMoveParams, GoalResult),
    "goalwright/goal/focus": (GoalParams, GoalResult),
    "goalwright/goal/done": (GoalDoneParams, GoalResult),
    "goalwright/goal/abandon": (GoalAbandonParams, GoalResult),
    "goalwright/history/list": (SessionParams, HistoryResult),
    "goalwright/history/undo": (HistoryStepParams, HistoryOutcome),
    "goalwright/history/redo": (HistoryStepParams, HistoryOutcome),
    "goalwright/history/restore": (HistoryRestoreParams, HistoryOutcome),
    "goalwright/permission/list": (PermissionListParams, PermissionListResult),
    "goalwright/permission/content": (PermissionContentParams, PermissionContentResult),
    "goalwright/permission/preview": (PermissionPreviewParams, PermissionPreviewResult),
    "goalwright/permission/reply": (PermissionReplyParams, PermissionReplyResult),
    "goalwright/permission/rules": (PermissionRulesParams, PermissionRulesResult),
    "goalwright/permission/forget": (PermissionForgetParams, PermissionForgetResult),
    "goalwright/permission/explain": (PermissionExplainParams, PermissionExplainResult),
    "goalwright/explore/list": (ExploreListParams, ExploreListResult),
    "goalwright/explore/files": (BranchParams, BranchFilesResult),
    "goalwright/explore/content": (BranchContentParams, BranchContentResult),
    "goalwright/explore/select": (ExploreSelectParams, ExploreSelectResult),
    "goalwright/explore/leave": (ExploreLeaveParams, ExploreLeaveResult),
    "goalwright/explore/remove": (BranchParams, Empty),
    "goalwright/explore/patch": (BranchParams, BranchPatchResult),
    "goalwright/agent/list": (AgentListParams, AgentListResult),
    "goalwright/plan/replan": (PlanReplanParams, PlanReplanResult),
    "goalwright/plan/build": (PlanBuildParams, PlanBuildResult),
    "goalwright/model/list": (ModelListParams, ModelListResult),
    "goalwright/model/test": (ModelTestParams, ModelTestResult),
    "goalwright/model/check": (ModelCheckParams, ModelCheckResult),
    "goalwright/model/commitMessage": (CommitMessageParams, CommitMessageResult),
    "goalwright/job/list": (PermissionListParams, JobListResult),
    "goalwright/job/kill": (JobKillParams, JobResult),
    "goalwright/command/stop": (CommandStopParams, CanceledResult),
    "goalwright/api/open": (ApiOpenParams, ApiOpenResult),
    "goalwright/trace/messages": (TraceMessagesParams, TraceMessagesResult),
    "goalwright/trace/rebuild": (TraceRebuildParams, TraceRebuildResult),
    "goalwright/trace/import": (TraceImportParams, TraceImportResult),
    "goalwright/trace/export": (TraceExportParams, TraceExportResult),
    "goalwright/trace/prune": (TracePruneParams, TracePruneResult),
}
"""Requests of a client, by method."""

NOTIFICATIONS: dict[str, type[Model]] = {
    "goalwright/session/update": SessionUpdate,
    "goalwright/session/delta": SessionDelta,
    "goalwright/session/meter": SessionMeter,
    "goalwright/sessions/activity": SessionsActivity,
}
"""Notifications of the daemon, to connections that loaded the session; of all sessions, to clients with a chat."""
