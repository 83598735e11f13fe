"""One editor with one file open, as the daemon hears of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from lsprotocol import types

from lsp_bridge.protocol.sessions import InitializationOptions
from lsp_bridge.server.documents.open_documents import OpenDocuments
from lsp_bridge.server.documents.writer import DocumentWriter


def deaf_writer() -> DocumentWriter:
    """The writer of an editor that takes no edits."""
    server = SimpleNamespace(client_capabilities=types.ClientCapabilities())
    return DocumentWriter(cast("Any", server), InitializationOptions)


class Editor:
    """An editor's state of one file."""

    def __init__(self, path: Path, uri: str = "") -> None:
        self.path = path
        self.uri = uri or path.as_uri()
        self.documents = OpenDocuments()
        self.version = 1

    def open(self, text: str) -> None:
        self.documents.opened(self.uri, self.version, text)

    def change(self, text: str, version: int | None = None) -> None:
        self.version = self.version + 1 if version is None else version
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.documents.changed(self.uri, self.version, [change])

    def type(self, line: int, column: int, text: str, version: int | None = None) -> None:
        self.version = self.version + 1 if version is None else version
        place = types.Position(line, column)
        change = types.TextDocumentContentChangePartial(types.Range(place, place), text)
        self.documents.changed(self.uri, self.version, [change])

    def save(self, text: str) -> None:
        self.path.write_text(text)
        self.documents.saved(self.uri)

    def close(self) -> None:
        self.documents.closed(self.uri)

    @property
    def unsaved(self) -> str | None:
        return self.documents.unsaved(self.path.resolve())
