"""Receive an editor's documents: LSP's text document and notebook synchronization, renames.

pygls' own store of documents is not used: it splits and joins the whole text for each keystroke
(https://github.com/openlawlibrary/pygls/issues/538), breaks lines where the protocol does not, and raises for a
document that was not opened.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from lsprotocol import types

from lsp_bridge.language_client.text.positions import MAX_SOURCE_BYTES, chosen
from lsp_bridge.server.documents.open_documents import OpenDocument, OpenDocuments, path_of
from lsp_bridge.server.documents.writer import DocumentWriter
from tools.process.background import Background

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from daemon.core import Daemon
    from lsp_bridge.protocol.sessions import InitializationOptions
    from lsp_bridge.server.documents.attached_editors import AttachedEditors
    from lsp_bridge.server.editor_server import EditorServer

SETTLE_S = 0.3
"""How long nothing is typed before the text is compared with the disk and shown to language servers."""

NOTEBOOKS = types.NotebookDocumentSyncOptions(
    notebook_selector=[
        types.NotebookDocumentFilterWithNotebook(notebook=types.NotebookDocumentFilterScheme(scheme="file"))
    ]
)
"""The notebooks that an editor should report."""
_ALL_FILES = types.FileOperationRegistrationOptions(
    filters=[types.FileOperationFilter(types.FileOperationPattern("**"), scheme="file")]
)
_CHANGES = (types.TEXT_DOCUMENT_DID_CHANGE, types.TEXT_DOCUMENT_DID_OPEN)


class DocumentSync:
    """The documents of one connection, as its client reports them. Lives on the event loop."""

    def __init__(
        self,
        server: EditorServer,
        editors: AttachedEditors,
        core: Daemon,
        *,
        options: Callable[[], InitializationOptions],
    ) -> None:
        """``options``: what the client can do."""
        self._server = server
        self._editors = editors
        self._core = core
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._checks = Background("checking a document")
        self.documents = OpenDocuments(later=self._later, soon=self._check)
        self._register()
        editors.add(self.documents, DocumentWriter(server, options))

    def close(self) -> None:
        """Close all documents after the end of the connection."""
        self._editors.remove(self.documents)
        for document in self.documents.all():
            self._core.buffer_changed(document.path)
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def malformed(self, message: Mapping[str, Any]) -> None:
        """Handle a message that violates the protocol: the texts that it would have changed become unknown."""
        if message.get("method") not in _CHANGES:
            return
        params = message.get("params")
        document = cast("dict[str, Any]", params).get("textDocument") if isinstance(params, dict) else None
        uri = cast("dict[str, Any]", document).get("uri") if isinstance(document, dict) else None
        if not isinstance(uri, str):
            return
        if message.get("method") == types.TEXT_DOCUMENT_DID_OPEN:
            self.documents.opened_somehow(uri)
        else:
            self.documents.lost(uri)

    def _register(self) -> None:
        server, documents = self._server, self.documents

        @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
        def _(params: types.DidOpenTextDocumentParams) -> None:
            item = params.text_document
            documents.units = chosen(server.workspace.position_encoding)
            documents.opened(item.uri, item.version, item.text)

        @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
        def _(params: types.DidChangeTextDocumentParams) -> None:
            document = params.text_document
            documents.changed(document.uri, document.version, params.content_changes)

        @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
        def _(params: types.DidSaveTextDocumentParams) -> None:
            documents.saved(params.text_document.uri)
            if (path := path_of(params.text_document.uri)) is not None:
                self._core.saved(path)

        @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
        def _(params: types.DidCloseTextDocumentParams) -> None:
            uri = params.text_document.uri
            document = documents.closed(uri)
            if (timer := self._timers.pop(uri, None)) is not None:
                timer.cancel()
            if document is not None:
                self._core.buffer_changed(document.path)

        @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
        def _(params: types.DidOpenNotebookDocumentParams) -> None:
            documents.notebook_opened(params.notebook_document.uri)

        @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
        def _(params: types.DidChangeNotebookDocumentParams) -> None:
            """The contents of its cells are ignored."""

        @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
        def _(params: types.DidCloseNotebookDocumentParams) -> None:
            documents.notebook_closed(params.notebook_document.uri)

        @server.feature(types.WORKSPACE_DID_RENAME_FILES, _ALL_FILES)
        def _(params: types.RenameFilesParams) -> None:
            for file in params.files:
                old, new = path_of(file.old_uri), path_of(file.new_uri)
                if old is not None and new is not None:
                    documents.renamed(old, new)
                    self._core.renamed(old, new)

    def _later(self, document: OpenDocument) -> None:
        if (timer := self._timers.get(document.uri)) is not None:
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._timers[document.uri] = loop.call_later(SETTLE_S, self._settled, document)

    def _settled(self, document: OpenDocument) -> None:
        self._timers.pop(document.uri, None)
        self._check(document)
        # Language servers receive no larger texts.
        if document.changes and len(document.text) <= MAX_SOURCE_BYTES:
            self._core.buffer_changed(document.path)

    def _check(self, document: OpenDocument) -> None:
        self._checks.start(asyncio.to_thread(document.find_out))
