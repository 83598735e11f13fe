"""Validate an editor's answers about problems. An editor is a peer like any other: it may send anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lsp_bridge.language_client.text.problems import severe
from tools.json_access import array, mapping, mappings, string

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lsp_bridge.language_client.text.problems import RawDiagnostic
    from lsp_bridge.protocol.editor import Freshness

_MAX_FILES = 500
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


def checked(raw: object) -> EditorAnswer | None:
    """Return the valid parts of ``raw``; None: it is no answer at all."""
    answer = mapping(raw)
    generation = answer.get("generation")
    if type(generation) is not int:
        return None
    return EditorAnswer(generation, _files(answer.get("files")), _files(answer.get("others")))


def _files(files: object) -> dict[str, EditorFileAnswer]:
    found: dict[str, EditorFileAnswer] = {}
    for file in mappings(files)[:_MAX_FILES]:
        uri, freshness = file.get("uri"), _FRESHNESS.get(string(file.get("freshness")))
        # Of two answers about one file it is unknown which is right.
        if not isinstance(uri, str) or freshness is None or uri in found:
            continue
        # A value that is not a list is no answer; an empty list would mean "clean".
        if not isinstance(file.get("diagnostics", []), list):
            continue
        before = file.get("before")
        found[uri] = EditorFileAnswer(
            freshness,
            severe(array(file.get("diagnostics")), "hint"),
            None if before is None else severe(array(before), "hint"),
        )
    return found
