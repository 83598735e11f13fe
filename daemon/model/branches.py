"""Branches of an exploration and sub-agents, as data.

Both are sessions of their own, children of the one that started them. The id of a child is ``{trace_id}:{branch_id}``:
``…:A`` is a branch, ``…:s1`` a sub-agent, ``…:A.s1`` a sub-agent of that branch.
"""

import re
from datetime import datetime
from typing import Literal

from daemon.model.goals import GoalStats
from daemon.model.messages import Message, StopReason, Usage
from daemon.model.stored_model import Cost, Count, Model

BranchStatus = Literal["exploring", "completed", "abandoned"]

_SEPARATOR = ":"
BRANCH_ID = re.compile(r"(?:[A-Z]{1,3}|s[0-9]{1,6})(?:\.(?:[A-Z]{1,3}|s[0-9]{1,6})){0,7}")


def child_id(session_id: str, name: str) -> str:
    """Return the id of the child ``name`` (``A``, ``s1``) of a session, which may be a child itself."""
    return f"{session_id}.{name}" if _SEPARATOR in session_id else f"{session_id}{_SEPARATOR}{name}"


def root_of(session_id: str) -> str:
    """Return the ``trace_id`` of the main session that a session belongs to; its own when it is no child."""
    return session_id.partition(_SEPARATOR)[0]


def branch_of(session_id: str) -> str | None:
    """Return the ``branch_id`` of a child, e.g. ``A.s1``; None for a main session."""
    return session_id.partition(_SEPARATOR)[2] or None


def session_of(trace_id: str, branch_id: str | None) -> str:
    """Return the id of the session that a message or a request with these two belongs to."""
    return f"{trace_id}{_SEPARATOR}{branch_id}" if branch_id else trace_id


def is_within(session_id: str, above: str) -> bool:
    """Return whether a session is ``above`` itself or a child of it, at any depth."""
    return session_id == above or session_id.startswith(
        (f"{above}.",) if _SEPARATOR in above else (f"{above}{_SEPARATOR}",)
    )


def branch_name(number: int) -> str:
    """Return the id of a branch: ``A`` for 0, ``B`` for 1, … ``Z``, ``AA``, ``AB``."""
    letters = ""
    number += 1
    while number > 0:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


class CheckRun(Model):
    """How the test command ended in a branch."""

    command: str
    exit_code: int | None = None
    """None: it did not end in time, or was not run."""
    passed: Count | None = None
    failed: Count | None = None
    """Numbers of tests, if its output has them."""
    duration_ms: Count = 0
    detail: str = ""
    """Why it was not run, or the last lines of its output."""

    @property
    def ok(self) -> bool | None:
        """Whether the tests pass; None: not known."""
        return None if self.exit_code is None else self.exit_code == 0


class Score(Model):
    """The known facts about a branch's result, to compare it with the others. None: not known."""

    new_problems: Count | None = None
    fixed_problems: Count | None = None
    """Diagnostics of the changed files, compared with the base."""
    test: CheckRun | None = None
    files: Count | None = None
    added: Count | None = None
    removed: Count | None = None
    """Lines."""
    tokens: Count = 0
    """Sent and received."""
    cost: Cost = 0.0
    """US dollars."""
    unpriced_tokens: Count = 0
    """Tokens of ``tokens`` whose price is not known, so that ``cost`` lacks them."""
    duration_ms: Count = 0


class BranchMeta(Model):
    """A branch as the main session knows it, and as the trace API lists it."""

    id: str
    explore_start_id: str
    description: str
    status: BranchStatus = "exploring"
    summary: str | None = None
    cumulative_stats: GoalStats = GoalStats()
    goal_count: Count = 0
    last_message: Message | None = None
    score: Score | None = None
    """Known when the branch has ended."""
    node: str = ""
    """Name of the node of a cluster that it works on, or worked on last; empty: this machine."""
    removed: bool = False
    """The user has removed it: its work is gone."""


class Choice(Model):
    """A choice of branches of one exploration."""

    branch_ids: tuple[str, ...]
    """Empty: the user wants none of the branches."""
    tool_call_id: str
    """Id of the tool call whose file change it made."""
    summary: str
    used: bool = True
    """False: the branches had changed no files, so nothing of them is in the workspace."""
    by: str = ""
    """Name of the user who chose; empty: the model."""
    undone: bool = False
    """The change was undone."""


class SubagentMeta(Model):
    """A sub-agent as the session knows it that started it."""

    id: str
    """``s1``, ``s2``, … within its parent."""
    agent: str
    prompt: str
    tool_call_id: str
    goal_id: str | None = None
    """Internal id of the goal that had the focus when the call ran; empty or None for none."""
    status: Literal["running", "completed", "failed"] = "running"
    summary: str = ""
    """Its answer."""
    stop_reason: StopReason | None = None
    usage: Usage = Usage()
    cost: Cost = 0.0
    """All it took, with its own children."""
    message_count: Count = 0
    iteration: Count | None = None
    """For a handover from init to execute: its number in the session, from 1."""
    success_rate: float | None = None
    """The success rate that it reported, 0 to 1."""
    started_at: datetime
