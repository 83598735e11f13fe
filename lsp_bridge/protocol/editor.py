"""What the daemon asks of an attached editor, besides what LSP has. An editor that can says so in ``initialize``.

Diagnostics of the *editor* (of all extensions that the person has) are asked for, not pushed: the daemon needs them
around a change only, and needs to know what they are about.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from daemon.model.stored_model import Model

EDITOR_DIAGNOSTICS = "goalwright/editor/diagnostics"

Freshness = Literal["fresh", "pending", "uncovered"]


class EditorFile(Model):
    """A file whose problems are asked for."""

    uri: str
    text_hash: str | None = None
    """Hex SHA-256 of the text that the answer must be about, as UTF-8, with ``\\n`` as line ends and no byte-order
    mark. The editor waits until its document has this text. Null: whatever it has."""


class EditorDiagnosticsParams(Model):
    """Ask for problems.

    Without ``since`` (a baseline) the editor answers at once with what it knows. With it, the editor waits for what its
    extensions say after the documents have these texts, until nothing more has come for ``settle_ms``, and not longer
    than ``timeout_ms``.
    """

    files: tuple[EditorFile, ...]
    since: int | None = None
    """``generation`` of the answer that is the baseline."""
    settle_ms: int = Field(default=300, ge=0, le=10_000)
    timeout_ms: int = Field(default=2_500, ge=0, le=60_000)
    patient: bool = False
    """Wait the whole time also for extensions that have not yet shown that they look after such files; else those are
    waited for shortly only. For finding out, when nobody waits for the answer."""


class EditorFileDiagnostics(Model):
    """What the editor knows of one file.

    ``fresh``: it is about the asked text (for a baseline: about the text that the editor has now, and said after that
    text was there). ``pending``: some extension looks after such files, and has not spoken about this text.
    ``uncovered``: nothing in the editor reports problems of such files, as far as it has shown.
    """

    uri: str
    """As in the question; of other files as the editor writes it."""
    freshness: Freshness
    diagnostics: tuple[dict[str, Any], ...] = ()
    """LSP's Diagnostic objects; positions in UTF-16 units."""
    before: tuple[dict[str, Any], ...] | None = None
    """What was known of the text at ``since`` when that text was changed, so newer than what the baseline could say.
    Null: the editor does not know that baseline any more, or there was none."""


class EditorDiagnosticsResult(Model):
    """The files asked about, and others whose problems changed since ``since``."""

    generation: int
    """Rises with everything that happens to documents and diagnostics in the editor."""
    files: tuple[EditorFileDiagnostics, ...]
    others: tuple[EditorFileDiagnostics, ...] = ()
    """At most 20, and none whose own text changed."""


EDITOR_REQUESTS: dict[str, tuple[type[Model], type[Model]]] = {
    EDITOR_DIAGNOSTICS: (EditorDiagnosticsParams, EditorDiagnosticsResult),
}
"""Params and result of each request from the daemon to the editor."""
