"""One editor with one file open, as the daemon hears of it."""

from __future__ import annotations

from pathlib import Path

from lsprotocol import types

from lsp_bridge.server.documents.open_documents import OpenDocument, OpenDocuments
from tools.ports import AppliedEdit


class Deaf:
    """The writer of an editor that takes no edits."""

    can_edit = False
    can_write = False
    can_move = False

    async def report(self, path: Path) -> None:
        pass

    async def apply(self, document: OpenDocument, before: str, after: str) -> AppliedEdit:
        raise AssertionError("nobody writes here")

    async def move(self, document: OpenDocument, source: Path, target: Path) -> None:
        raise AssertionError("nobody moves here")


class Editor:
    """An editor's state of one file."""

    def __init__(self, path: Path, uri: str = "") -> None:
        self.path = path
        self.uri = uri or path.as_uri()
        self.documents = OpenDocuments(Deaf())
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
