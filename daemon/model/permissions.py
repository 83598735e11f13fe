"""Permission rules, requests and answers as data."""

from datetime import datetime
from typing import Literal

from daemon.model.choices import Mode as Mode
from daemon.model.stored_model import Model
from tools.tool import Question

Action = Literal["allow", "ask", "deny"]
Reply = Literal["once", "always", "reject"]
RuleSource = Literal[
    "shipped", "user", "editor", "workspace", "granted", "session", "mode", "agent", "branch", "protected"
]
"""Origin of a rule: ``granted`` are the user's stored grants for the workspace or for all of them; ``mode`` and
``protected`` are no rules of a file but decisions of the mode and the protection of secrets; ``branch`` confines a
branch of an exploration to its own copy of the workspace."""
Scope = Literal["session", "workspace", "user"]
"""Scope of the answer "always": this session, this workspace, or all the user's workspaces."""
Trust = Literal["trusted", "unknown", "restricted"]
"""Trust in the workspace's folder. ``restricted``: an editor reports that the user does not trust it, so nothing is
changed or run there. ``unknown``: nobody has decided, so its own files are neither obeyed nor executed."""


class Rule(Model):
    """``permission`` and ``pattern`` are wildcards; of all rules that match, the last one decides."""

    permission: str
    pattern: str
    action: Action
    source: RuleSource = "shipped"
    file: str = ""
    """Path of its file, for the user; empty without a file."""
    words: str = ""
    """Explanation for the model and the user, where it says more than the pattern."""


class Grant(Model):
    """Something that is allowed without asking."""

    permission: str
    pattern: str


class StoredGrant(Grant):
    """A stored grant."""

    grant_id: str
    scope: Scope
    granted_at: datetime | None = None
    by: str = ""
    """Name of the client that answered, e.g. ``VS Code``."""
    title: str = ""
    """The question that was answered so."""


class Reason(Model):
    """Why one thing that a call would do is allowed, asked about or denied."""

    permission: str
    target: str
    action: Action
    rule: Rule
    """The rule that decides."""
    why: str = ""
    """Where it comes from ("argument of cat"), or why rules cannot see more."""


class ShownHunk(Model):
    """A hunk of a diff: its rows in the text of the diff, and its lines in the file."""

    row: int
    """Its first row, which begins with ``@@``, from 0."""
    rows: int
    old_start: int
    """From 1, as in the first row: an empty side has the number of the line before it."""
    old_lines: int
    new_start: int
    new_lines: int


class FileDiff(Model):
    """One file of a proposed change, for the user. ``diff`` is a unified diff."""

    path: str
    """Relative to the workspace, or absolute when outside of it."""
    kind: Literal["create", "update", "delete"]
    diff: str
    added: int
    removed: int
    moved_from: str | None = None
    """The file's old path, when it is moved; the old file's deletion is not listed separately."""
    hunks: int = 0
    """Number of hunks that can be accepted one by one; zero when only the whole file can."""
    shown_hunks: tuple[ShownHunk, ...] = ()
    """Those of them that ``diff`` shows to their end; the last ones are missing from a diff that was cut off."""


class FileAnswer(Model):
    """The parts of one proposed file that the user accepts. Files without an answer are accepted unchanged.

    Exactly one of ``hunks`` and ``text`` is given.
    """

    path: str
    """As in ``FileDiff.path``."""
    hunks: tuple[int, ...] | None = None
    """Numbers of the hunks to write, from 0 in the order of the diff; empty: leave this file unchanged."""
    text: str | None = None
    """The whole content as the user edited it. Line ends and encoding of the file are kept."""


class PermissionRequest(Model):
    """A question that waits for the user."""

    request_id: str
    trace_id: str
    branch_id: str | None = None
    goal_id: str | None = None
    tool_call_id: str
    tool: str
    permission: str
    targets: tuple[str, ...]
    title: str
    """One line about the action, including the command itself; for a long one, with the length of the rest."""
    detail: str = ""
    """The whole action: a command, a prompt."""
    model_says: str = ""
    """The model's own words about it, which may be wrong: show them last, and as the model's."""
    notes: tuple[str, ...] = ()
    """Further information, e.g. that a command runs outside the sandbox."""
    files: tuple[FileDiff, ...] = ()
    suggestions: tuple[Grant, ...] = ()
    """Grants that the answer "always" stores unless the user changes them. None: "always" is not offered, because a
    target itself must not become a pattern (it may contain wildcards)."""
    rule: Rule
    """The rule that made it a question."""
    reasons: tuple[Reason, ...] = ()
    """Everything in it that is asked about, with its rule."""
    warnings: tuple[str, ...] = ()
    """Effects that cannot be undone, as text for the user."""
    questions: tuple[Question, ...] = ()
    """The model's questions to the user (tool ``question``). Such a request is answered by ``once`` with an answer for
    each question, or by ``reject``, which skips them all and lets the turn go on."""
    created_at: datetime
