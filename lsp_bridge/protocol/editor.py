"""Requests of the daemon to an attached editor, besides LSP's own. An editor announces its support in ``initialize``.

Diagnostics of the *editor* (of all the user's extensions) are requested, not pushed: the daemon needs them only around
a change, and needs to know which text they are about.
"""

from typing import Any, Literal

from pydantic import Field

from daemon.model.stored_model import Model
from lsp_bridge.protocol.sessions import Notification

EDITOR_DIAGNOSTICS = "goalwright/editor/diagnostics"
EDITOR_MODELS = "goalwright/editor/models"
EDITOR_OPEN = "goalwright/editor/open"
EDITOR_SAVE = "goalwright/editor/save"
"""``{"uri": …}`` → ``{"saved": bool}``."""

Freshness = Literal["fresh", "pending", "uncovered"]


class EditorFile(Model):
    """A file whose problems are asked for."""

    uri: str
    text_hash: str | None = None
    """Hex SHA-256 of the text that the answer must be about, as UTF-8, with ``\\n`` as line ends and no byte-order
    mark. The editor waits until its document has this text. Null: whatever it has."""


class EditorDiagnosticsParams(Model):
    """Request diagnostics.

    Without ``since`` (a baseline) the editor answers at once with its current diagnostics. With it, the editor waits
    for reports of its extensions after the documents have these texts, until there was no news for ``settle_ms``, and
    not longer than ``timeout_ms``.
    """

    files: tuple[EditorFile, ...]
    since: int | None = None
    """``generation`` of the answer that is the baseline."""
    settle_ms: int = Field(default=300, ge=0, le=10_000)
    timeout_ms: int = Field(default=2_500, ge=0, le=60_000)
    patient: bool = False
    """Wait the whole time also for extensions that have not yet shown that they cover such files; otherwise only
    briefly. For tests of coverage, when nothing waits for the answer."""


class EditorFileDiagnostics(Model):
    """The editor's diagnostics of one file.

    ``fresh``: they are about the requested text (for a baseline: about the editor's current text, and reported for that
    text). ``pending``: some extension covers such files, and has not reported about this text. ``uncovered``: nothing
    in the editor reports problems of such files, as far as it has shown.
    """

    uri: str
    """As in the question; of other files as the editor writes it."""
    freshness: Freshness
    diagnostics: tuple[dict[str, Any], ...] = ()
    """LSP's Diagnostic objects; positions in UTF-16 units."""
    before: tuple[dict[str, Any], ...] | None = None
    """Diagnostics of the text at ``since`` when that text was changed, so newer than those of the baseline. Null: the
    editor no longer knows that baseline, or there was none."""


class EditorDiagnosticsResult(Model):
    """The requested files, and others whose problems changed since ``since``."""

    generation: int
    """Rises with everything that happens to documents and diagnostics in the editor."""
    files: tuple[EditorFileDiagnostics, ...]
    others: tuple[EditorFileDiagnostics, ...] = ()
    """At most 20, and none whose own text changed."""


class EditorOpenParams(Model):
    """Report the document of a file, as ``textDocument/didOpen`` and ``didChange`` do, if it has unsaved changes."""

    uri: str


class EditorOpenResult(Model):
    """It was reported, or has no unsaved changes."""


class EditorModelsParams(Model):
    """Ask for the language models that the editor's extensions offer to Goalwright."""


class OfferedByEditor(Model):
    """A language model of an extension."""

    vendor: str
    id: str
    name: str = ""
    """For people."""
    max_input_tokens: int = 0
    """0: not known."""
    tools: bool | None = None
    """It can call tools; null: not known."""


class EditorModelsResult(Model):
    """They, in the editor's order."""

    models: tuple[OfferedByEditor, ...] = ()


class EditorChat(Notification):
    """Have a model of the editor answer. The editor sends the answer with ``goalwright/model/answer``."""

    method = "goalwright/editor/chat"
    chat_id: str
    model: str
    """``VENDOR/ID``."""
    messages: tuple[dict[str, Any], ...]
    """The conversation, in the shape of OpenAI's chat completions."""
    tools: tuple[dict[str, Any], ...] = ()
    """Tools on offer, in the same shape."""


class EditorChatCanceled(Notification):
    """Nothing more of an answer is wanted."""

    method = "goalwright/editor/chatCancel"
    chat_id: str


EDITOR_REQUESTS: dict[str, tuple[type[Model], type[Model]]] = {
    EDITOR_DIAGNOSTICS: (EditorDiagnosticsParams, EditorDiagnosticsResult),
    EDITOR_MODELS: (EditorModelsParams, EditorModelsResult),
    EDITOR_OPEN: (EditorOpenParams, EditorOpenResult),
}
"""Params and result of each request from the daemon to the editor."""
