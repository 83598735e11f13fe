"""The order that a driver sends to the worker process of a branch, and what the worker reports. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from daemon.agents.loader import AgentProfile
    from daemon.config import Config
    from daemon.explore.branch_task import BranchOutcome, BranchTask
    from daemon.model.events import SessionCreated
    from daemon.model.permissions import Mode, Rule, Trust
    from daemon.settings import Settings


_STAYS: dict[str, Any] = {
    "hooks": {}, "mcp_servers": {}, "language_servers": {}, "environment": (), "store_url": None,
    "telemetry": False, "telemetry_endpoint": None, "budget_usd": None, "budget_tokens": None,
    "goal_budget_usd": None, "goal_budget_tokens": None, "budget_warning_usd": 0,
}  # fmt: skip
"""Settings for nodes: money is counted by the driver, and what names programs or may have secrets does not leave."""


def for_node(settings: Settings) -> Settings:
    """Return the settings as a node gets them."""
    return settings.changed(_STAYS)


@dataclass(frozen=True, slots=True)
class BranchOrder:
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


@dataclass(frozen=True, slots=True)
class Opened:
    """The branch's session has begun in the worker."""

    created: SessionCreated
    root: Path
    """The copy's counterpart of the workspace, on the node."""
    rules: tuple[Rule, ...]
    """Rules of the copy for any agent."""
    first: bool = True
    """False: a sub-agent's."""


@dataclass(frozen=True, slots=True)
class Report:
    """The end of a branch in the worker."""

    outcome: BranchOutcome
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Versions of files and full outputs of its commands, by path below its session's folder."""
