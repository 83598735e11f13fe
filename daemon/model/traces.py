"""The record of a session: its metadata (``meta.json``)."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from daemon.model.branches import BranchMeta, BranchStatus, Choice, SubagentMeta
from daemon.model.choices import Planner as Planner
from daemon.model.goals import GoalStats
from daemon.model.messages import FilePart, Message, StopReason, Usage
from daemon.model.permissions import Mode, PermissionRequest, Rule
from daemon.model.stored_model import Cost, Count, Model

SessionStatus = Literal["idle", "running", "waiting"]
"""``waiting``: a turn is under way and needs an answer of the user."""

TraceStatus = Literal["idle", "running", "waiting", "completed", "failed", "canceled"]
"""How the last turn ended, or that one is under way; ``idle``: there was none yet."""

FORMAT = 1
"""Version of the stored format; a reader refuses a newer one."""


PromptPlanner = Literal[Planner, "replan"]
"""``replan``: the turn makes a new plan, and ends."""


class PromptLayer(Model):
    """A layer of a system prompt."""

    name: str
    """``agent``, ``provider``, ``environment``, ``project``, ``instructions <path>``, ``hooks``, …"""
    sha256: str
    """Hash of its text without secrets."""
    text: str | None = None
    """None: an earlier event of the same record has it."""


class RecordedPrompt(Model):
    """The part of a record that shows whether the system prompt has changed."""

    sha256: str = ""
    """Hash of the prompt that was recorded last; empty when there is none, as in traces of older versions."""
    layers: tuple[str, ...] = ()
    """Hashes of the layers whose texts the record has."""


class QueuedPrompt(Model):
    """A prompt that waits for the running turn to end; ``steer`` delivers it between two steps instead."""

    prompt_id: str
    text: str
    steer: bool = False
    planner: PromptPlanner | None = None
    """None: by the settings. A prompt that steers is planned like the turn that it joins."""
    attachments: tuple[FilePart, ...] = ()
    """Kept with the prompt, so that a crash while it waits loses none."""
    held: bool = False
    """The user stopped the turn that it waited for: it is sent when they release it, and not with other prompts."""


class Budget(Model):
    """Limits at which the run stops with a question; None is no limit. Money in US dollars."""

    session_usd: float | None = None
    session_tokens: int | None = None
    goal_usd: float | None = None
    goal_tokens: int | None = None


class CarriedChildren(Model):
    """The branches and sub-agents in a snapshot."""

    branches: tuple[BranchMeta, ...] = ()
    """In the order in which they were started."""
    branch_usage: dict[str, Usage] = Field(default_factory=dict[str, Usage])
    branch_cost: dict[str, Cost] = Field(default_factory=dict[str, Cost])
    """Costs of branches within the session's total, by branch id."""
    subagents: tuple[SubagentMeta, ...] = ()
    explored: tuple[str, ...] = ()
    """Goals of the explorations whose end is in the log."""
    persons_choice: tuple[str, ...] = ()
    """Explorations whose choice is the user's, and not left to the model."""
    choices: dict[str, tuple[Choice, ...]] = Field(default_factory=dict[str, tuple[Choice, ...]])
    """Choices, by the goal that started the exploration."""


class Carried(CarriedChildren):
    """State that a snapshot needs besides messages and goals to replace the whole log."""

    granted: tuple[Rule, ...] = ()
    """Rules that the user allowed for the rest of the session by "always"."""
    queue: tuple[QueuedPrompt, ...] = ()
    pending: tuple[PermissionRequest, ...] = ()
    """Questions without an answer: those about attached files may wait between two turns."""
    last_goal_id: Count = 0
    """Ids of goals that left the plan are not given again."""
    replaceable_goal: str | None = None
    """The abandoned goal whose place the next goal at its level takes."""
    replaced_goals: dict[str, str] = Field(default_factory=dict[str, str])
    """The abandoned goal that a goal took the place of, by the id of the new one."""
    pruned: tuple[int, ...] = ()
    history_before: Count = 0
    """Marks on the context, see ContextMarked."""
    system_prompt: RecordedPrompt = RecordedPrompt()
    calibration: float = 1.0
    """Tokens that the provider counts for each one of our estimate."""
    budget: Budget | None = None
    """The limits of this session, when they are not those of the settings."""
    raised_limits: dict[str, float] = Field(default_factory=dict[str, float])
    """Limits that the user raised when they were reached, see daemon.state.spending."""
    jobs: dict[str, str] = Field(default_factory=dict[str, str])
    """Commands in the background whose end is not known, by their ids: they end with the daemon."""
    notes: tuple[str, ...] = ()
    """Notes for the model with the next prompt: the user undid changes of files, or redid them."""


class Trace(Model):
    """Metadata of one session (``meta.json``); ``trace_id`` is the session's id, too."""

    trace_id: str
    format: int = FORMAT
    title: str = ""
    titled_by: str = ""
    """``prompt``: cut from the first prompt, or given by a handover; ``model``, ``user``; empty: unknown."""
    summary: str = ""
    summarized_by: str = ""
    """``model``, or empty: the agent's last text."""
    workspace: str
    agent: str = "build"
    model: str | None = None
    mode: Mode | None = None
    """The permission mode; None: that of the settings."""
    created_at: datetime
    updated_at: datetime
    message_count: Count = 0
    usage: Usage = Usage()
    total_cost: Cost = 0.0
    last_event_id: int = 0
    last_stop_reason: StopReason | None = None
    running: bool = False
    """A turn was under way when this was written: after a crash the log knows more than the snapshot."""
    carried: Carried = Carried()


def trace_status(trace: Trace) -> TraceStatus:
    """Status of a trace for lists and dumps, apart from questions to the user, see SessionHead.status."""
    if trace.running:
        return "running"
    stop = trace.last_stop_reason
    if stop is None:
        return "idle"
    if stop in ("end_turn", "tool_use"):  # an answer that was cut off does not count
        return "completed"
    # A rejection by the user counts like a cancellation by the user.
    return "canceled" if stop in ("canceled", "permission_denied") else "failed"


class ViewUpdate(Model):
    """New values of a session's status, totals and numbers, ready to show; null: unchanged."""

    status: TraceStatus | None = None
    awaits_choice: tuple[str, ...] | None = None
    """Goals of the explorations whose branches the user has to choose from now."""
    total_messages: Count | None = None
    total_tokens: Count | None = None
    """Sent and received, also by branches and sub-agents."""
    total_cost: Cost | None = None
    """US dollars."""
    unpriced_tokens: Count | None = None
    """Tokens whose price is not known, so that ``total_cost`` lacks them."""
    usage: Usage | None = None
    """``total_tokens`` in detail."""
    goal_numbers: dict[str, str | None] | None = None
    """New display numbers by goal id; null: the goal has none any more."""
    branches: dict[str, GoalStats] | None = None
    """Statistics of a branch so far, by its id."""


class TraceMeta(Model):
    """A trace as lists have it."""

    trace_id: str
    title: str
    summary: str
    task: str = Field(description="The mission.")
    status: TraceStatus
    agent: str
    model: str | None
    mode: Mode | None
    workspace: str
    created_at: datetime
    updated_at: datetime
    total_messages: int
    total_tokens: int
    total_cost: float = Field(description="US dollars.")
    unpriced_tokens: int = Field(
        description="Tokens whose price is not known, so that `total_cost` lacks them."
    )
    last_event_id: int
    foreign: bool = Field(description="It came with the folder: this user did not start it on this machine.")

    @classmethod
    def of(cls, trace: Trace, mission: str, status: TraceStatus, *, foreign: bool) -> TraceMeta:
        """Return what lists have of a trace."""
        return cls(
            **{name: getattr(trace, name) for name in cls.model_fields.keys() & Trace.model_fields.keys()},
            task=mission,
            status=status,
            total_messages=trace.message_count,
            total_tokens=trace.usage.total,
            unpriced_tokens=trace.usage.unpriced,
            foreign=foreign,
        )


class BranchTrace(Trace):
    """Metadata of a branch's own session, in ``branches/{id}/meta.json``.

    Its goal tree is in ``goal.json`` beside it; its ``summary`` is the branch's report.
    """

    id: str
    explore_start_id: str
    description: str = ""
    status: BranchStatus = "exploring"
    cumulative_stats: GoalStats = GoalStats()
    last_message: Message | None = None
    inherited: Count = 0
    """Sequence of the last message that came from the main session; the branch's own work begins after it."""
