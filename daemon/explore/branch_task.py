"""The task of a branch and its outcome: ``(base, task) → (patch, summary, trace)``.

All of it can be pickled, so that a branch could run elsewhere: with the commit, the same tree can be built from
``Base``, and the changes are sent back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from daemon.model.branches import BranchStatus, Score, SubagentMeta, child_id
from daemon.model.events import BranchCompleted
from daemon.model.goals import GoalStats
from daemon.model.messages import Message, StopReason, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from daemon.agents.loader import AgentProfile
    from daemon.config import Config
    from daemon.copies.working_copy import Base, BranchChange
    from daemon.loop.session import Session
    from daemon.model.events import SessionCreated
    from daemon.model.permissions import Mode, Rule, Trust
    from daemon.provider.model_calls import PromptMessage
    from daemon.settings import Settings


class BranchTask(Struct, frozen=True):
    """Everything that a branch begins with."""

    trace_id: str
    """Id of the main session's trace."""
    branch_id: str
    explore_start_id: str
    base: Base
    direction: str
    others: tuple[tuple[str, str], ...]
    """Ids and directions of the other branches."""
    background: str | None
    """Text that it starts with; None: the conversation."""
    workspace: str
    """The folder that the places below are in."""
    conversation: tuple[PromptMessage, ...]
    seen: Mapping[str, str]
    """Hash of each file as the main session read it, by path."""
    instructions: Mapping[str, str]
    untrusted_instructions: Mapping[str, str]
    """Instruction files that it was given: text by shown path."""
    mission: str
    plan: str
    """The main session's plan, as text."""
    agent: AgentProfile
    model: str
    settings: Settings
    home: str = ""
    """The user's home folder, which texts may abbreviate to ``~``."""

    @property
    def session_id(self) -> str:
        """Id of the branch's session."""
        return child_id(self.trace_id, self.branch_id)


class BranchOutcome(Struct, frozen=True):
    """The outcome of a branch; its conversation is in the record of ``session_id``."""

    session_id: str
    status: BranchStatus
    summary: str
    stop: StopReason
    detail: str = ""
    changes: tuple[BranchChange, ...] = ()
    patch: bytes = b""
    """Against the base's tree."""
    ignored: tuple[BranchChange, ...] = ()
    """Files that it wrote and git ignores."""
    stats: GoalStats = field(default_factory=GoalStats)
    """Statistics of its own messages."""
    last_message: Message | None = None
    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0
    """All it took, with its sub-agents; US dollars."""
    score: Score | None = None
    duration_ms: int = 0

    def record(self, session: Session, branch_id: str) -> None:
        """Record the end of the branch in its own session, or in the main one. Raises StoreError."""
        session.emit(
            BranchCompleted(
                **session.record.here(),
                branch_id=branch_id,
                status=self.status,
                summary=self.summary,
                cumulative_stats=self.stats,
                last_message=self.last_message,
                score=self.score,
                usage=self.usage,
                cost=self.cost,
            )
        )


class TestCommand(Struct, frozen=True):
    """The command that tests the branches of an exploration."""

    command: str | None
    """None: nothing does."""
    why_not: str = ""
    """Short reason for those who compare the branches."""
    approved: bool = False
    """The user was asked: it runs as approved, outside of the sandbox."""


# -- the order that a driver sends to the worker process of a branch, and what the worker reports --

_STAYS: dict[str, Any] = {
    "hooks": {}, "mcp_servers": {}, "language_servers": {}, "environment": (), "store_url": None,
    "telemetry": False, "telemetry_endpoint": None, "budget_usd": None, "budget_tokens": None,
    "goal_budget_usd": None, "goal_budget_tokens": None, "budget_warning_usd": 0,
}  # fmt: skip
"""Settings for nodes: money is counted by the driver, and what names programs or may have secrets does not leave."""


def for_node(settings: Settings) -> Settings:
    """Return the settings as a node gets them."""
    return settings.changed(_STAYS)


class BranchOrder(Struct, frozen=True):
    """Everything that a worker needs beside the base's objects. It holds no key: models are called by the driver."""

    task: BranchTask
    config: Config
    trust: Trust
    mode: Mode
    granted: tuple[Rule, ...]
    """Grants of the session."""
    grants: tuple[tuple[Rule, ...], tuple[Rule, ...]]
    """Grants of the user for all workspaces, and for this one."""
    agent: AgentProfile
    """The main session's."""
    design: tuple[Rule, ...]
    default_model: str
    first_sequence: int
    """Messages of the branch are numbered after it."""
    last_goal: int
    """Goals of the branch are numbered after it."""
    subagents: Mapping[str, SubagentMeta]
    """Those of an attempt before: its sub-agents are numbered after them."""
    calibration: float
    windows: Mapping[str, tuple[int, bool]]
    """Context windows in tokens by model, and whether each is assumed."""
    contained: bool
    """Commands run in a sandbox on the driver's machine, so they must here."""
    workspace_key: str
    top: str
    """Name of the repository's top folder."""
    inner: str
    """The workspace within the top folder: empty, or a path with ``/``."""
    language: str
    instructions: bytes | None = None
    """The user's own AGENTS.md."""


class Opened(Struct, frozen=True):
    """The branch's session has begun in the worker."""

    created: SessionCreated
    root: Path
    """The copy's counterpart of the workspace, on the node."""
    rules: tuple[Rule, ...]
    """Rules of the copy for any agent."""
    first: bool = True
    """False: a sub-agent's."""


class BranchReport(Struct, frozen=True):
    """The end of a branch in the worker."""

    outcome: BranchOutcome
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Versions of files and full outputs of its commands, by path below its session's folder."""
