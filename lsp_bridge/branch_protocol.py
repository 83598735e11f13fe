"""The wire, its part about branches of explorations, sub-agents and agents.

A branch and a sub-agent are sessions: their messages, goals and events come by ``goalwright/session/…`` with the id
``{sessionId}:{id}``. What is here is about them as results: which there are, what they changed, which one is used.
Part of ``lsp_bridge.protocol``, which has the rules and the list of methods.
"""

from __future__ import annotations

from typing import Literal

from daemon.model.base import Wire
from daemon.model.branches import BranchMeta, SubagentMeta


class ExploreListParams(Wire):
    """The explorations of a session: all, or the one that its goal ``exploreStartId`` began."""

    session_id: str
    explore_start_id: str | None = None


class Exploration(Wire):
    """One exploration with its branches, as seed 000's API lists them."""

    explore_start_id: str
    explore_merge_id: str | None = None
    """The goal in which a branch is chosen; null while branches are at work."""
    merge_summary: str = ""
    selected_branch: str | None = None
    """What was applied: an id, or several with their paths."""
    awaits_choice: bool = False
    """The daemon waits for the person: ``goalwright/explore/select`` or ``…/leave``."""
    branches: tuple[BranchMeta, ...]


class ExploreListResult(Wire):
    """Oldest first. ``subagents``: those that this session started itself."""

    explorations: tuple[Exploration, ...]
    subagents: tuple[SubagentMeta, ...] = ()


class BranchParams(Wire):
    """A request about one branch, by its id (``A``)."""

    session_id: str
    branch_id: str


class BranchFile(Wire):
    """A file that a branch changed."""

    path: str
    kind: Literal["create", "update", "delete"]
    added: int = 0
    removed: int = 0
    binary: bool = False


class BranchFilesResult(Wire):
    """In the order of their paths."""

    files: tuple[BranchFile, ...]


class BranchContentParams(Wire):
    """The full text of both sides of a file that a branch changed, for a diff editor."""

    session_id: str
    branch_id: str
    path: str
    """As in ``BranchFile.path``."""


class BranchContentResult(Wire):
    """``base``: where the branch began; ``branch``: what it made of it. ``null``: the file does not exist there."""

    base: str | None
    branch: str | None
    binary: bool = False


class ExploreSelectParams(Wire):
    """The person's choice: a branch (``["A"]``), or files and folders of several (``["A:src/a.py", "B:docs"]``).

    What is to be written is asked about first, as every change is; the answer comes when that is decided.
    """

    session_id: str
    choice: tuple[str, ...]


class ExploreSelectResult(Wire):
    """What came of it, in words. Not ``applied``: refused, or it conflicts with what happened meanwhile."""

    applied: bool
    title: str
    detail: str = ""


class ExploreLeaveParams(Wire):
    """The model is to choose."""

    session_id: str
    explore_start_id: str | None = None
    """Null: the one that waits."""


class ExploreLeaveResult(Wire):
    """``left`` is false when no exploration waited for the person."""

    left: bool


class BranchPatchResult(Wire):
    """All that the branch changed, as ``git apply`` takes it; contents of binary files are in it."""

    patch: str


class AgentListParams(Wire):
    """``sessionId``: the agents are those of its folder either way; it says which one is at work."""

    session_id: str | None = None


class AgentInfo(Wire):
    """An agent profile."""

    name: str
    description: str
    source: Literal["shipped", "user", "workspace"] = "shipped"
    """Whose it is: the product's, of ``~/.goalwright/agents``, of the folder's ``.goalwright/agents``."""
    file: str = ""
    """Where it stands; empty for shipped ones."""
    model: str | None = None
    """Its own model; null: the session's."""
    tools: tuple[str, ...] | None = None
    """Those it may use; null: all that its permissions let it."""
    primary: bool = True
    """A session may begin with it; others only do tasks for an agent."""


class AgentListResult(Wire):
    """Shipped ones first, then the person's own. ``problems``: files that are no agents, in words."""

    agents: tuple[AgentInfo, ...]
    problems: tuple[str, ...] = ()


class PlanReplanParams(Wire):
    """Plan again from here. ``reason``: what is wrong with the plan, in the person's words."""

    session_id: str
    reason: str = ""


class PlanReplanResult(Wire):
    """``queued``: a turn runs; it is done when that has ended."""

    detail: str = ""


class PlanBuildParams(Wire):
    """The person hands the plan of a planning session over to the agent that builds."""

    session_id: str
