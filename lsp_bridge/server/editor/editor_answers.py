"""Validate an editor's answers about problems. An editor is a peer like any other: it may send anything."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tools.json_access import array, mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lsp_bridge.language_client.text.problems import RawDiagnostic
    from lsp_bridge.protocol.editor import Freshness

_MAX_OF_A_FILE = 2_000
_MAX_FILES = 500
_FREE = 300
"""Diagnostics up to which an answer is looked through on the event loop."""
_LARGEST = 2**31 - 1
"""LSP's uinteger."""
_FRESHNESS: dict[str, Freshness] = {"fresh": "fresh", "pending": "pending", "uncovered": "uncovered"}


@dataclass(frozen=True, slots=True)
class EditorFileAnswer:
    """One editor's diagnostics of one file; see ``EditorFileDiagnostics``."""

    freshness: Freshness
    diagnostics: tuple[RawDiagnostic, ...] = ()
    before: tuple[RawDiagnostic, ...] | None = None


@dataclass(frozen=True, slots=True)
class EditorAnswer:
    """By uri, as the editor wrote them."""

    generation: int
    files: Mapping[str, EditorFileAnswer]
    others: Mapping[str, EditorFileAnswer]


async def checked(raw: object) -> EditorAnswer | None:
    """Return the valid parts of ``raw``; None: it is no answer at all."""
    if not isinstance(raw, dict):
        return None
    answer = cast("dict[str, object]", raw)
    generation = answer.get("generation")
    if not isinstance(generation, int) or isinstance(generation, bool):
        return None
    if _size(answer.get("files")) + _size(answer.get("others")) <= _FREE:
        return EditorAnswer(generation, _files(answer.get("files")), _files(answer.get("others")))
    return await asyncio.to_thread(
        lambda: EditorAnswer(generation, _files(answer.get("files")), _files(answer.get("others")))
    )


def _size(files: object) -> int:
    return sum(
        len(array(file.get("diagnostics"))) + len(array(file.get("before"))) for file in _objects(files)
    )


def _files(files: object) -> dict[str, EditorFileAnswer]:
    found: dict[str, EditorFileAnswer] = {}
    for file in _objects(files)[:_MAX_FILES]:
        uri, freshness = file.get("uri"), file.get("freshness")
        # There are two answers about one file, and it is unknown which of them is right.
        if not isinstance(uri, str) or not isinstance(freshness, str) or uri in found:
            continue
        if freshness not in _FRESHNESS:
            continue
        # A value that is not a list is no answer; an empty list would mean "clean".
        if not isinstance(file.get("diagnostics", []), list):
            continue
        before = file.get("before")
        found[uri] = EditorFileAnswer(
            _FRESHNESS[freshness],
            _diagnostics(file.get("diagnostics")),
            None if before is None else _diagnostics(before),
        )
    return found


def _diagnostics(items: object) -> tuple[RawDiagnostic, ...]:
    found = [_diagnostic(item) for item in _objects(items)]
    if len(found) > _MAX_OF_A_FILE:
        found.sort(key=lambda item: item["severity"])
    return tuple(found[:_MAX_OF_A_FILE])


def _diagnostic(item: Mapping[str, Any]) -> RawDiagnostic:
    """Return a diagnostic with a place, at least the file's beginning: a problem without one still counts."""
    start = mapping(mapping(item.get("range")).get("start"))
    severity = item.get("severity")
    message, source, code = item.get("message"), item.get("source"), item.get("code")
    return {
        "range": {
            "start": {"line": _number(start.get("line")), "character": _number(start.get("character"))}
        },
        "severity": severity if isinstance(severity, int) and 1 <= severity <= 4 else 1,
        "message": message if isinstance(message, str) else "",
        **({"source": source} if isinstance(source, str) else {}),
        **({"code": code} if isinstance(code, str | int) else {}),
    }


def _number(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value <= _LARGEST else 0


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [cast("dict[str, Any]", item) for item in array(value) if isinstance(item, dict)]
