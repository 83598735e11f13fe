"""The protocol's messages about branches of explorations, sub-agents and agents.

A branch and a sub-agent are sessions: their messages, goals and events come by ``goalwright/session/…`` with the id
``{sessionId}:{id}``. The messages here are about results: lists of branches, their changes, and the choice. See
``lsp_bridge.protocol.sessions`` for the rules.
"""

from typing import Literal

from daemon.model.branches import BranchMeta, SubagentMeta
from daemon.model.permissions import FileDiff
from daemon.model.stored_model import Model
from lsp_bridge.protocol.sessions import SessionParams


class ExploreListParams(SessionParams):
    """The explorations of a session: all, or the one that its goal ``exploreStartId`` began."""

    explore_start_id: str | None = None


class Exploration(Model):
    """One exploration with its branches, as the trace API lists them."""

    explore_start_id: str
    explore_merge_id: str | None = None
    """The goal in which a branch is chosen; null while branches are at work."""
    merge_summary: str = ""
    selected_branch: str | None = None
    """The applied choice: an id, or several with their paths."""
    awaits_choice: bool = False
    """The daemon waits for the user: ``goalwright/explore/select`` or ``…/leave``."""
    branches: tuple[BranchMeta, ...]


class ExploreListResult(Model):
    """Oldest first. ``subagents``: those that this session started itself."""

    explorations: tuple[Exploration, ...]
    subagents: tuple[SubagentMeta, ...] = ()


class BranchParams(SessionParams):
    """A request about one branch, by its id (``A``)."""

    branch_id: str


class BranchFilesResult(Model):
    """The changed files of an ended branch, in the order of the paths; of very many files the first ones."""

    files: tuple[FileDiff, ...]
    ignored: tuple[FileDiff, ...] = ()
    """Files that git ignores: they count as no change, and are taken over only by name."""


class BranchContentParams(BranchParams):
    """The full text of both sides of a file that a branch changed, for a diff editor."""

    path: str
    """As in ``FileDiff.path``."""


class BranchContentResult(Model):
    """``base``: the start of the branch; ``branch``: its result. ``null``: the file does not exist there."""

    base: str | None
    branch: str | None
    binary: bool = False


class ExploreSelectParams(SessionParams):
    """The user's choice: a branch (``["A"]``), or files and folders of several (``["A:src/a.py", "B:docs"]``).

    The changes need approval first, as every change does; the answer comes after the decision.
    """

    choice: tuple[str, ...]


class ExploreSelectResult(Model):
    """The outcome, as text for the user. Not ``applied``: the user rejected the change. A merge that is not certain is
    an error (HISTORY_CONFLICT) that shows both sides, and changes nothing."""

    applied: bool
    title: str
    detail: str = ""


class ExploreLeaveParams(SessionParams):
    """The user does not choose: the model does, or ``none`` of the branches is wanted."""

    explore_start_id: str | None = None
    """Null: the one that waits."""
    none: bool = False


class ExploreLeaveResult(Model):
    """``left`` is false when no exploration waited for the user."""

    left: bool


class BranchPatchResult(Model):
    """All that the branch changed, as ``git apply`` takes it; contents of binary files are in it."""

    patch: str
    base64: bool = False
    """The patch is not UTF-8 text, so it is in base64."""


class AgentInfo(Model):
    """An agent profile."""

    name: str
    description: str
    source: Literal["shipped", "user", "workspace"] = "shipped"
    """Origin of the agent: the product, ``~/.goalwright/agents``, or the folder's ``.goalwright/agents``."""
    file: str = ""
    """Path of its file; empty for shipped ones."""
    model: str | None = None
    """Its own model; null: the session's."""
    tools: tuple[str, ...] | None = None
    """Those it may use, as wildcards; after ``!`` those of all that it may not. Null: all that its rules let it."""
    primary: bool = True
    """A session may begin with it."""
    serves: bool = True
    """Other agents may give it tasks."""


class AgentListResult(Model):
    """Shipped agents first, then the user's own. ``problems``: files that are no valid agents, as text for the user."""

    agents: tuple[AgentInfo, ...]
    problems: tuple[str, ...] = ()
