"""Sanitize and limit the problems of an editor before anything is made of them. Pure, and cheap.

An editor is a peer like any other. Each problem is validated separately: one that is wrong, or newer than our LSP
version, costs only itself. Their number decides neither how long we work nor how much we answer.
"""

from __future__ import annotations

from typing import Any, TypeGuard, cast

from tools.json_access import mapping
from tools.text.truncate import head, short

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


def code_action_params(params: object) -> object:
    """Return the params of ``textDocument/codeAction`` with a context that fits LSP; what else is wrong stays wrong."""
    if not isinstance(params, dict):
        return params
    fields = cast("dict[str, Any]", params)
    context = mapping(fields.get("context"))
    at = span(fields.get("range"))
    kept: dict[str, Any] = {"diagnostics": [] if at is None else at_place(context.get("diagnostics"), at)}
    if isinstance(only := context.get("only"), list):
        kept["only"] = [one for one in cast("list[object]", only)[:50] if isinstance(one, str)]
    if context.get("triggerKind") in (1, 2):
        kept["triggerKind"] = context["triggerKind"]
    return fields | {"context": kept, **({} if at is None else {"range": at})}


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
