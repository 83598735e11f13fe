"""Events, in the order in which they happened.

Stored events have a rising ``event_id`` and are never lost. Deltas have none: they are for display, may be dropped for
a slow client, and are followed by the stored part or message that they belong to.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict, get_args

from msgspec import Struct
from pydantic import Field

from daemon.model.branches import BranchMeta, BranchStatus, Choice, Score, SubagentMeta
from daemon.model.goals import Goal, GoalStats, GoalStatus
from daemon.model.messages import Message, Part, Role, StopReason, Usage
from daemon.model.permissions import Grant, PermissionRequest, Reply, Scope
from daemon.model.stored_model import Cost, Count, Model
from daemon.model.traces import BranchTrace, PromptLayer, QueuedPrompt, Trace, TraceStatus
from tools.tool import QuestionAnswer


class Occurrence(TypedDict):
    """The session of an event, and when it happened."""

    trace_id: str
    time: datetime


class _Event(Model):
    event_id: int = 0
    """Given by the store when the event is appended."""
    trace_id: str
    time: datetime


class SessionCreated(_Event):
    """A session begins."""

    event: Literal["session_created"] = "session_created"
    trace: BranchTrace | Trace


class SessionUpdated(_Event):
    """Title, summary, model, mission or totals changed."""

    event: Literal["session_updated"] = "session_updated"
    updates: dict[str, Any]
    usage: Usage | None = None
    """Usage of the model request that wrote the title or the summary; None when no model was called."""
    cost: Cost | None = None
    """US dollars."""
    model: str | None = None
    duration_ms: Count | None = None


class AffectedGoal(Model):
    """A goal whose numbers or status changed as a consequence. Ancestors carry no ``self_stats``."""

    goal_id: str
    status: GoalStatus | None = None
    summary: str | None = None
    self_stats: GoalStats | None = None
    cumulative_stats: GoalStats | None = None


class SystemPromptChanged(_Event):
    """The requests that follow have this system prompt: the first one of the session, or another one than before."""

    event: Literal["system_prompt_changed"] = "system_prompt_changed"
    sha256: str
    """Hash of the names and hashes of its layers."""
    layers: tuple[PromptLayer, ...]
    """In the order in which the model reads them. A plan in the system prompt is not among them."""


class MessageAdded(_Event):
    """A message is complete and stored."""

    event: Literal["message_added"] = "message_added"
    message: Message
    affected_goals: tuple[AffectedGoal, ...] = ()


class MessagePartAdded(_Event):
    """A part of a message that is still being streamed is complete: it survives a crash from now on."""

    event: Literal["message_part_added"] = "message_part_added"
    message_id: str
    role: Role = "assistant"
    goal_id: str | None = None
    index: int
    part: Part


class MessageTextAdded(_Event):
    """More text of a part that is still being streamed; the part follows as a whole when it is complete."""

    event: Literal["message_text_added"] = "message_text_added"
    message_id: str
    goal_id: str | None = None
    index: int
    kind: Literal["text", "reasoning"]
    text: str


class MessageDiscarded(_Event):
    """The model call broke off and is tried again: the parts shown so far are void."""

    event: Literal["message_discarded"] = "message_discarded"
    message_id: str
    reason: str


class GoalAdded(_Event):
    """A goal was added."""

    event: Literal["goal_added"] = "goal_added"
    goal: Goal
    parent_id: str | None = None
    index: int | None = None
    """Position in the flat list, when it is not the end."""
    by: str = ""
    """Name of the user who did it; empty: the model. The model sees the user's changes."""


class GoalUpdated(_Event):
    """A goal changed; ``affected_goals`` has every ancestor that changed with it (cascade)."""

    event: Literal["goal_updated"] = "goal_updated"
    goal_id: str
    updates: dict[str, Any]
    affected_goals: tuple[AffectedGoal, ...] = ()
    current_id: str | None = None
    """The focus after this event."""
    by: str = ""
    """Name of the user who did it; empty: the model."""


class GoalMoved(_Event):
    """A user moved a goal: under ``parent_id``, before the sibling ``before_id`` (None: last)."""

    event: Literal["goal_moved"] = "goal_moved"
    goal_id: str
    parent_id: str | None = None
    before_id: str | None = None
    affected_goals: tuple[AffectedGoal, ...] = ()
    """Old and new ancestors, whose cumulative numbers changed."""
    by: str = ""


class GoalRemoved(_Event):
    """A pending goal was dropped from the plan before any work on it."""

    event: Literal["goal_removed"] = "goal_removed"
    goal_id: str
    current_id: str | None = None
    description: str = ""
    """Description of the goal, which is stored nowhere else any more."""
    reason: str = ""
    """The user's reason, if there is one."""
    by: str = ""
    """Name of the user who did it; empty: the model."""


class ContextMarked(_Event):
    """From here on the model receives less of the past; the stored messages stay complete.

    ``pruned``: sequences of tool messages whose result is cleared. ``history_before``: turns that began below this
    sequence are history: only their last user message and assistant message stay.
    """

    event: Literal["context_marked"] = "context_marked"
    pruned: tuple[int, ...] = ()
    history_before: int | None = None
    freed_tokens: int = 0
    """Estimated."""


class TurnStarted(_Event):
    """A prompt is being worked on."""

    event: Literal["turn_started"] = "turn_started"
    prompt_id: str


class TurnEnded(_Event):
    """The turn is over. ``detail`` explains ``error`` and other stops as text for the user."""

    event: Literal["turn_ended"] = "turn_ended"
    prompt_id: str
    stop_reason: StopReason
    detail: str = ""
    error_kind: str = ""
    """For ``error``, when the model's provider caused it: ``no_key``, ``auth``, ``rate_limit``, ``overloaded``,
    ``server``, ``network``, ``malformed``, ``overflow``, ``bad_request``."""


class TraceCompleted(_Event):
    """The turn is over and no prompt waits: nothing more happens until the user sends something.

    It has the totals so far.
    """

    event: Literal["trace_completed"] = "trace_completed"
    status: TraceStatus
    total_messages: Count = 0
    total_tokens: Count = 0
    total_cost: Cost = 0.0
    unpriced_tokens: Count = 0


class QueueChanged(_Event):
    """Prompts that wait, in order."""

    event: Literal["queue_changed"] = "queue_changed"
    queue: tuple[QueuedPrompt, ...]


class ToolStarted(_Event):
    """A tool call is being run."""

    event: Literal["tool_started"] = "tool_started"
    tool_call_id: str
    name: str


class PermissionAsked(_Event):
    """A request waits for the user."""

    event: Literal["permission_asked"] = "permission_asked"
    request: PermissionRequest


class PermissionReplied(_Event):
    """A request was answered, or ``canceled`` with its turn."""

    event: Literal["permission_replied"] = "permission_replied"
    request_id: str
    reply: Reply | Literal["canceled"]
    feedback: str | None = None
    by: str = ""
    remembered: tuple[Grant, ...] | None = None
    """Rules that "always" remembers; None: the request's suggestions."""
    scope: Scope = "session"
    answers: tuple[QuestionAnswer, ...] = ()
    """To the request's questions."""


class PermissionForgotten(_Event):
    """The user revoked a grant for the session; grants of a wider scope are no part of it."""

    event: Literal["permission_forgotten"] = "permission_forgotten"
    grants: tuple[Grant, ...]
    by: str = ""


class FileChanged(_Event):
    """A file was written after approval; ``version`` is kept in the file history."""

    event: Literal["file_changed"] = "file_changed"
    path: str
    kind: Literal["create", "update", "delete"]
    version: str
    tool_call_id: str
    added: int
    removed: int


class RestoredFile(Model):
    """One file that the user restored by an undo or redo."""

    path: str
    kind: Literal["create", "update", "delete"]
    added: int
    removed: int


class FilesRestored(_Event):
    """The user undid, redid or restored changes of files; the model is notified with the next prompt."""

    event: Literal["files_restored"] = "files_restored"
    action: Literal["undo", "redo", "restore"]
    files: tuple[RestoredFile, ...]
    target: str = ""
    """Description of what was undone or restored, for the user, e.g. "edit of src/a.py"."""
    changes: tuple[str, ...] = ()
    """The tool calls whose changes these were."""
    by: str = ""


class ModelRetry(_Event):
    """The model call failed in a way that passes; it is tried again after ``delay_s`` seconds."""

    event: Literal["model_retry"] = "model_retry"
    attempt: int
    delay_s: float
    reason: str
    attempts: Count = 0
    """How many there are at most; 0: not known."""


class Notice(_Event):
    """A message for the user, with advice."""

    event: Literal["notice"] = "notice"
    level: Literal["info", "warning", "error"]
    text: str
    code: str = ""
    about: str = ""
    """Id of its subject, if it has one: a background job."""
    exit_code: int | None = None
    """How a background job ended, negative for a signal; None when that is not known."""


class BranchStarted(_Event):
    """A branch begins to explore."""

    event: Literal["branch_started"] = "branch_started"
    explore_start_id: str
    branch: BranchMeta


class BranchPlaced(_Event):
    """A branch works on a node of a cluster; once more when that node was lost. Branches on this machine have none."""

    event: Literal["branch_placed"] = "branch_placed"
    branch_id: str
    node: str


class BranchGoalAdded(_Event):
    """A branch added a goal to its own plan."""

    event: Literal["branch_goal_added"] = "branch_goal_added"
    branch_id: str
    goal: Goal
    parent_id: str | None = None
    index: int | None = None
    """As in ``goal_added``."""
    goal_numbers: dict[str, str | None] = Field(default_factory=dict[str, str | None])
    """New display numbers in the branch's plan; null: the goal has none any more."""


class BranchGoalUpdated(_Event):
    """A goal of a branch's plan changed; the branch's own log has every detail."""

    event: Literal["branch_goal_updated"] = "branch_goal_updated"
    branch_id: str
    goal_id: str
    updates: dict[str, Any]
    affected_goals: tuple[AffectedGoal, ...] = ()
    current_id: str | None = None
    goal_numbers: dict[str, str | None] = Field(default_factory=dict[str, str | None])
    """As in ``branch_goal_added``."""


class BranchMessageAdded(_Event):
    """A message of a branch is complete; ``affected_goals`` are goals of the branch."""

    event: Literal["branch_message_added"] = "branch_message_added"
    branch_id: str
    message: Message
    affected_goals: tuple[AffectedGoal, ...] = ()


class BranchCompleted(_Event):
    """A branch has ended: done (``completed``), or failed, refused or canceled (``abandoned``)."""

    event: Literal["branch_completed"] = "branch_completed"
    branch_id: str
    status: BranchStatus = "completed"
    summary: str
    cumulative_stats: GoalStats
    last_message: Message | None = None
    score: Score | None = None
    usage: Usage = Usage()
    cost: Cost = 0.0
    """All it took, with its sub-agents."""


class ExploreCompleted(_Event):
    """All branches have ended; the goal ``explore_merge_id`` is there to choose one."""

    event: Literal["explore_completed"] = "explore_completed"
    explore_start_id: str
    explore_merge_id: str | None = None
    merge_summary: str
    duration_ms: Count = 0
    """From the start of the branches to the end of the last one; the call that waited for them does not count it."""


class BranchSelected(_Event):
    """Branches of one exploration were chosen, by the model or a user, maybe while others are still at work.

    It is valid as long as the change ``tool_call_id`` is not undone, see FilesRestored.
    """

    event: Literal["branch_selected"] = "branch_selected"
    explore_start_id: str
    choice: Choice


class BranchRemoved(_Event):
    """The user removed a branch's work; its description and summary stay."""

    event: Literal["branch_removed"] = "branch_removed"
    branch_id: str
    by: str = ""


class SubagentStarted(_Event):
    """A sub-agent begins."""

    event: Literal["subagent_started"] = "subagent_started"
    subagent: SubagentMeta


class SubagentCompleted(_Event):
    """A sub-agent has ended; ``subagent`` has its final state."""

    event: Literal["subagent_completed"] = "subagent_completed"
    subagent: SubagentMeta


GoalEvent = GoalAdded | GoalUpdated | GoalMoved | GoalRemoved

Event = Annotated[
    SessionCreated
    | SessionUpdated
    | SystemPromptChanged
    | MessageAdded
    | MessagePartAdded
    | MessageTextAdded
    | MessageDiscarded
    | GoalAdded
    | GoalUpdated
    | GoalMoved
    | GoalRemoved
    | ContextMarked
    | TurnStarted
    | TurnEnded
    | TraceCompleted
    | QueueChanged
    | ToolStarted
    | PermissionAsked
    | PermissionReplied
    | PermissionForgotten
    | FileChanged
    | FilesRestored
    | ModelRetry
    | Notice
    | BranchStarted
    | BranchPlaced
    | BranchGoalAdded
    | BranchGoalUpdated
    | BranchMessageAdded
    | BranchCompleted
    | ExploreCompleted
    | BranchSelected
    | BranchRemoved
    | SubagentStarted
    | SubagentCompleted,
    Field(discriminator="event"),
]


def kinds() -> frozenset[str]:
    """Return the values of the field ``event`` of all kinds of events."""
    models: tuple[type[_Event], ...] = get_args(get_args(Event)[0])
    return frozenset(str(model.model_fields["event"].default) for model in models)


class Delta(Model):
    """A piece of something growing: text, reasoning, the JSON of a tool call, or a tool's live output."""

    trace_id: str
    kind: Literal["text", "reasoning", "tool_input", "tool_output"]
    message_id: str
    index: int = 0
    """Index of the part in its message."""
    tool_call_id: str | None = None
    name: str | None = None
    """The tool's name, for ``tool_input``."""
    text: str


class Marks(Struct, frozen=True):
    """The marks of ``ContextMarked`` that hold for a context."""

    pruned: frozenset[int] = frozenset()
    """Sequences of tool messages whose result is cleared."""
    history_before: int = 0
    """Turns that began below this sequence are history."""
