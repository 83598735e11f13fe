"""Permission rules, requests and answers as data (source: conventions.md, "Permission rules")."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from daemon.model.base import Model

Action = Literal["allow", "ask", "deny"]
Reply = Literal["once", "always", "reject"]
RuleSource = Literal["shipped", "user", "workspace", "editor", "session", "agent"]


class Rule(Model):
    """``permission`` and ``pattern`` are wildcards; of all rules that match, the last one decides."""

    permission: str
    pattern: str
    action: Action
    source: RuleSource = "shipped"


class FileDiff(Model):
    """One file of a proposed change, as shown to the person. ``diff`` is a unified diff."""

    path: str
    """Relative to the workspace, or absolute when outside of it."""
    kind: Literal["create", "update", "delete"]
    diff: str
    added: int
    removed: int
    moved_from: str | None = None
    """Where the file was before, when it is moved; the old file's deletion is not listed by itself."""
    hunks: int = 0
    """Number of hunks that can be accepted one by one; zero when only the whole file can."""


class FileAnswer(Model):
    """What the person accepts of one proposed file. Files without an answer are accepted as they are.

    Exactly one of ``hunks`` and ``text`` is given.
    """

    path: str
    """As in ``FileDiff.path``."""
    hunks: tuple[int, ...] | None = None
    """Numbers, from 0 in the order of the diff, of the hunks to write; empty: leave this file as it is."""
    text: str | None = None
    """The whole content as the person edited it. Line ends and encoding of the file are kept."""


class PermissionRequest(Model):
    """A question that waits for the person."""

    request_id: str
    trace_id: str
    branch_id: str | None = None
    goal_id: str | None = None
    tool_call_id: str
    tool: str
    permission: str
    targets: tuple[str, ...]
    title: str
    detail: str = ""
    files: tuple[FileDiff, ...] = ()
    suggestions: tuple[str, ...] = ()
    """Patterns that the answer "always" remembers for this session. None: "always" means "once", because a target
    itself must not become a pattern (it may hold wildcards)."""
    rule: Rule
    """The rule that made it a question."""
    created_at: datetime
