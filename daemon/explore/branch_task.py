"""The task of a branch and its outcome: ``(base, task) → (patch, summary, trace)``.

All of it is data that can be pickled, so that a branch could be worked on elsewhere: whoever has the commit can build
the same tree from ``Base``, and sends back what the branch changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from daemon.model.branches import BranchStatus, Score, child_id
from daemon.model.goals import GoalStats
from daemon.model.messages import Message, StopReason, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.agents.loader import AgentProfile
    from daemon.copies.working_copy import Base, BranchChange
    from daemon.explore.inheriting import Inherited
    from daemon.settings import Settings


@dataclass(frozen=True, slots=True)
class BranchTask:
    """Everything that a branch begins with."""

    trace_id: str
    """Of the main line."""
    branch_id: str
    explore_start_id: str
    base: Base
    direction: str
    others: tuple[tuple[str, str], ...]
    """Ids and directions of the rivals."""
    background: str | None
    """With what it begins; None: with the conversation."""
    workspace: str
    """The folder that the places below are in."""
    conversation: tuple[Inherited, ...]
    seen: Mapping[str, str]
    """Hash of each file as the main line read it, by path."""
    instructions: Mapping[str, str]
    untrusted_instructions: Mapping[str, str]
    """Instruction files that it was given: text by shown path."""
    mission: str
    plan: str
    """The main line's, as text."""
    agent: AgentProfile
    model: str
    settings: Settings
    home: str = ""
    """The person's home, as it may stand in texts as ``~``."""

    @property
    def session_id(self) -> str:
        """Of the branch."""
        return child_id(self.trace_id, self.branch_id)


@dataclass(frozen=True, slots=True)
class BranchOutcome:
    """What came of a branch; its conversation is in the record of ``session_id``."""

    session_id: str
    status: BranchStatus
    summary: str
    stop: StopReason
    detail: str = ""
    changes: tuple[BranchChange, ...] = ()
    patch: bytes = b""
    """Against the base's tree."""
    ignored: tuple[BranchChange, ...] = ()
    """What it wrote that git ignores."""
    stats: GoalStats = field(default_factory=GoalStats)
    """Of its own messages."""
    last_message: Message | None = None
    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0
    """All it took, with its sub-agents; US dollars."""
    score: Score | None = None
    duration_ms: int = 0


@dataclass(frozen=True, slots=True)
class Agreed:
    """What tests the branches of an exploration."""

    command: str | None
    """None: nothing does."""
    why_not: str = ""
    """For whoever compares the branches, in a few words."""
    approved: bool = False
    """The user was asked: it runs as approved, outside of the sandbox."""
