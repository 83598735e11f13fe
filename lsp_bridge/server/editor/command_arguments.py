"""The names and arguments of the commands of ``workspace/executeCommand``.

The arguments of a command are written by us (in a code action or a lens) and come back through the editor, or are
written by the user into a key binding: they are checked like any other params.
"""

from __future__ import annotations

from typing import Annotated, cast

from lsprotocol import types
from pydantic import BeforeValidator, Field

from daemon.model.permissions import QuestionAnswer
from daemon.model.stored_model import Model
from lsp_bridge.server.editor.sanitize import problem
from tools.localization import noted

MANY = 1_000
"""Problems of one command that are looked at: all of a long file."""


class Point(Model):
    """LSP's Position: both count from 0."""

    line: int = Field(ge=0)
    character: int = Field(default=0, ge=0)


class LspRange(Model):
    """LSP's Range."""

    start: Point
    end: Point


class GivenProblem(Model):
    """The fields of an LSP Diagnostic that the model receives."""

    message: str
    source: str | None = None
    code: str | int | None = None
    severity: int | None = None
    """1 error, 2 warning, 3 information, 4 hint."""
    range: LspRange | None = None


def _usable(value: object) -> object:
    if not isinstance(value, list | tuple):
        return value
    return [made for raw in cast("list[object]", value)[:MANY] if (made := problem(raw)) is not None]


class About(Model):
    """The one argument of ``fix``, ``explain`` and ``ask``."""

    uri: str
    range: LspRange | None = None
    version: int | None = None
    """Version of the document when the action was offered."""
    diagnostics: Annotated[tuple[GivenProblem, ...], BeforeValidator(_usable)] = ()
    """As in LSP; each is validated separately."""
    question: str = ""
    """For ``ask``: the user's own question, from a key binding that prompts for it."""


class GivenAnswers(Model):
    """The one argument of ``answer``. Without a ``request_id`` it is the one request with questions that waits."""

    request_id: str | None = None
    answers: tuple[QuestionAnswer, ...] = ()
    """One for each question; none: skip them all."""


class HunkDecision(Model):
    """The one argument of the commands about a proposed change.

    Without a ``request_id`` it is the one that has waited longest, without a ``path`` all its files.
    """

    request_id: str | None = None
    path: str | None = None
    """As in ``FileDiff.path``."""
    hunk: int | None = Field(default=None, ge=0)
    """From 0 in the order of the diff; ``acceptHunk`` and ``rejectHunk`` need it."""


KINDS = (types.CodeActionKind.QuickFix, types.CodeActionKind.Refactor)
"""Kinds of code actions."""

FIX = "goalwright.fix"
EXPLAIN = "goalwright.explain"
ASK = "goalwright.ask"
ACCEPT_HUNK = "goalwright.acceptHunk"
REJECT_HUNK = "goalwright.rejectHunk"
ACCEPT_CHANGES = "goalwright.acceptChanges"
REJECT_CHANGES = "goalwright.rejectChanges"
SHOW_CHANGES = "goalwright.showChanges"
SHOW_ANSWER = "goalwright.showAnswer"
ANSWER = "goalwright.answer"
SHOW_ANSWER_TITLE = noted("Show Goalwright's last answer")

PROMPTS = (FIX, EXPLAIN, ASK)
DECISIONS = (ACCEPT_HUNK, REJECT_HUNK, ACCEPT_CHANGES, REJECT_CHANGES, SHOW_CHANGES)
COMMANDS = (*PROMPTS, *DECISIONS, ANSWER, SHOW_ANSWER)
"""All of them. None has a name of the VS Code extension's own: its client registers these there too."""
