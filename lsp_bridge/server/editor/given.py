"""Values that an editor gives: the arguments of commands, and the problems at a place. Checked and limited; pure.

An editor is a peer like any other, and users write arguments into key bindings. Each problem is validated separately:
one that is wrong, or newer than our LSP version, costs only itself. Their number decides neither how long we work nor
how much we answer.
"""

from typing import Annotated, Any, TypeGuard, cast

from lsprotocol import types
from msgspec import Struct, field
from pydantic import BeforeValidator, Field

from daemon.model.stored_model import Model
from lsp_bridge.protocol.handshake import RequestError
from tools.json_access import array, mapping
from tools.localization import noted
from tools.text.truncate import head, short
from tools.tool import QuestionAnswer

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

    Without a ``request_id`` it is the only one that was shown in this editor, without a ``path`` all its files.
    """

    request_id: str | None = None
    path: str | None = None
    """As in ``FileDiff.path``."""
    hunk: int | None = Field(default=None, ge=0)
    """From 0 in the order of the diff; ``acceptHunk`` and ``rejectHunk`` need it."""


KINDS = (types.CodeActionKind.QuickFix.value, types.CodeActionKind.Refactor.value)
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

MOST = 20
"""Problems that are considered at one place."""
MESSAGE = 1_500
"""Characters of a problem's message."""
_LOOKED_AT = 1_000
"""Problems among which those of the place are looked for; an editor sends only those of the place."""
_WORD = 200
"""Characters of a source or code."""
_LARGEST = 2**31 - 1
"""LSP's uinteger."""


class CodeActionRequest(Struct, frozen=True):
    """The params of ``textDocument/codeAction``, as far as they count; ranges and problems in LSP's form."""

    uri: str
    range: dict[str, Any]
    problems: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    only: list[str] = field(default_factory=list[str])
    """The kinds that are wanted; empty: all."""
    automatic: bool = False
    """The editor asks by itself, e.g. at each move of the caret."""


def code_action_request(params: object) -> CodeActionRequest:
    """Return what the params ask for. Raises RequestError when they name no place."""
    fields = mapping(params)
    context, at = mapping(fields.get("context")), span(fields.get("range"))
    uri = mapping(fields.get("textDocument")).get("uri")
    if not isinstance(uri, str) or at is None:
        raise RequestError("textDocument/codeAction needs the uri of a textDocument, and a range.")
    return CodeActionRequest(
        uri,
        at,
        at_place(context.get("diagnostics"), at),
        [one for one in array(context.get("only"))[:50] if isinstance(one, str)],
        context.get("triggerKind") == types.CodeActionTriggerKind.Automatic,
    )


def at_place(problems: object, at: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the problems on the lines of ``at``, each once, at most ``MOST``."""
    found: list[dict[str, Any]] = []
    first, last = at["start"]["line"], at["end"]["line"]
    for item in cast("list[object]", problems)[:_LOOKED_AT] if isinstance(problems, list) else ():
        raw: Any = item
        try:  # most problems are elsewhere when an editor sends those of a whole file, so this must be fast
            start, end = raw["range"]["start"]["line"], raw["range"]["end"]["line"]
            if (start > last and end > last) or (start < first and end < first):
                continue
        except (LookupError, TypeError):
            continue
        if (where := span(raw["range"])) is None:
            continue
        made = problem(raw, where)
        if made is not None and made not in found:
            found.append(made)
            if len(found) == MOST:
                break
    return found


def problem(raw: object, where: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """Return the usable parts of an LSP Diagnostic; None: it has no message."""
    if not isinstance(raw, dict):
        return None
    fields = cast("dict[str, Any]", raw)
    message = fields.get("message")
    if isinstance(message, dict):  # LSP 3.18: a server may mark up its messages
        message = cast("dict[str, Any]", message).get("value")
    if not isinstance(message, str) or not message[:MESSAGE].strip():
        return None
    made: dict[str, Any] = {"message": short(message, MESSAGE)}
    if (place := where or span(fields.get("range"))) is not None:
        made["range"] = place
    severity, source, code = fields.get("severity"), fields.get("source"), fields.get("code")
    if _is_number(severity) and 1 <= severity <= 4:
        made["severity"] = severity
    if isinstance(source, str):
        made["source"] = head(source, _WORD)
    if isinstance(code, str):
        made["code"] = head(code, _WORD)
    elif _is_number(code) and abs(code) <= _LARGEST:
        made["code"] = code
    return made


def span(raw: object) -> dict[str, Any] | None:
    """Return an LSP Range, its ends in order and within LSP's numbers; None: it is none."""
    fields = mapping(raw)
    start, end = _point(fields.get("start")), _point(fields.get("end"))
    if start is None or end is None:
        return None
    turned = (end["line"], end["character"]) < (start["line"], start["character"])
    return {"start": end, "end": start} if turned else {"start": start, "end": end}


def _point(raw: object) -> dict[str, int] | None:
    fields = mapping(raw)
    line, character = fields.get("line"), fields.get("character", 0)
    if not _is_number(line) or not _is_number(character):
        return None
    return {"line": min(max(line, 0), _LARGEST), "character": min(max(character, 0), _LARGEST)}


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
