"""The ports behind ``explore``, ``task`` and ``hand_over``: work that others do. Outer layers implement them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tools.errors import ToolError


@dataclass(frozen=True, slots=True)
class Told:
    """What came of it: ``content`` for the model, ``title`` and ``metadata`` (JSON-able) for the display."""

    content: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_error: bool = False


class Explorer(Protocol):
    """Rival approaches, each in a branch with a copy of the working tree (source: seed 000 "explore 工具")."""

    async def explore(self, branches: Sequence[str], background: str | None) -> Told:
        """Work on all directions in parallel and tell how they came out. Raises ToolError.

        ``background``: with what a branch begins; None: with the conversation so far.
        """
        ...

    async def select(self, choice: Sequence[str]) -> Told:
        """Apply a branch (``A``) or parts of several (``A:src/a.py``, ``B:docs``) as one change that the person
        reviews. Raises ToolError, also on a conflict with what happened meanwhile; PermissionDenied passes through.
        """
        ...


class Subagents(Protocol):
    """Agents that do a task for another one and answer once (source: seed 000 "Sub-Agent 机制")."""

    async def run(self, agent: str, prompt: str) -> Told:
        """Have the task done; returns the agent's last words. Raises ToolError for an unknown agent."""
        ...


class HandOver(Protocol):
    """One agent passes its work on: plan → build, init → execute, execute → init (source: seed 001)."""

    async def hand_over(self, report: str, success_rate: float | None) -> Told:
        """``report``: what the other one must know. ``success_rate``: of an iteration, 0 to 1. Raises ToolError."""
        ...


class Alone:
    """Where there is nobody else: all three ports refuse."""

    async def explore(self, branches: Sequence[str], background: str | None) -> Told:
        """See Explorer."""
        raise ToolError("Nothing can be explored in branches here: try one way after the other.")

    async def select(self, choice: Sequence[str]) -> Told:
        """See Explorer."""
        raise ToolError("There are no branches here.")

    async def run(self, agent: str, prompt: str) -> Told:
        """See Subagents."""
        raise ToolError("There are no other agents here: do the task yourself.")

    async def hand_over(self, report: str, success_rate: float | None) -> Told:
        """See HandOver."""
        raise ToolError("There is nobody to hand over to here: answer the person.")
