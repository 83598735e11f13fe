"""Notify a server of documents and files: only those it wants, with changes in the form it wants."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from lsp_bridge.language_client.server.text_sync import TextSync, content_changes
from lsp_bridge.language_client.text.watch_globs import WIRE_KIND
from tools.files.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from lsp_bridge.language_client.server.diagnostics_freshness import DiagnosticsTracker, SyncKind
    from lsp_bridge.language_client.server.registrations import Registrations
    from lsp_bridge.language_client.specs.server_spec import ServerSpec
    from lsp_bridge.language_client.text.positions import PositionEncoding
    from tools.tool import ChangeKind

_MAX_OPEN_DOCUMENTS = 40
_MAX_OPEN_CHARACTERS = 8_000_000
_MAX_COMPARED = 1 << 20


class Documents:
    """The documents that are open at one server, as far as it receives them; Answers keeps the records."""

    def __init__(
        self,
        answers: DiagnosticsTracker,
        registrations: Registrations,
        spec: ServerSpec,
        notify: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        self.encoding: PositionEncoding = "utf-16"
        self._answers = answers
        self._registrations = registrations
        self._spec = spec
        self._notify = notify
        self._opened: set[Path] = set()
        self.real: dict[str, Path] = {}
        """The open documents by their real paths: a server may name a file by another way to it."""

    def sync(self, path: Path, text: str, *, pull: bool) -> tuple[SyncKind, int]:
        """Send it the text of ``path``; documents that were unused for long are closed. As
        ``DiagnosticsTracker.sync``."""
        wanted = self._wanted(path)
        before = self._answers.documents.get(path)
        kind, version = self._answers.sync(
            path, text, now=asyncio.get_running_loop().time(), pull=pull, tell=wanted.change != "none"
        )
        if kind == "open":
            self.real[os.path.normcase(os.path.realpath(path))] = path
            if wanted.open_close:
                self._open(path)
            self._close_surplus()
        elif kind == "change" and before is not None:
            changes = content_changes(before.told_text, text, wanted.change, self.encoding)
            if changes:
                document = {"uri": path.as_uri(), "version": version}
                self._notify("textDocument/didChange", {"textDocument": document, "contentChanges": changes})
        needs_save = kind != "same" and not pull and self._answers.needs_save and wanted.save is not None
        if needs_save and (wanted.save or _is_on_disk(path, text)):
            # Without this notification it would not report on this text.
            self.saved(path)
        return kind, version

    def saved(self, path: Path) -> None:
        """Notify the server of a save of ``path``, if it wants that."""
        document, with_text = self._answers.documents.get(path), self._wanted(path).save
        if document is not None and with_text is not None and self._answers.saved(path):
            params: dict[str, Any] = {"textDocument": {"uri": path.as_uri()}}
            if with_text:
                params["text"] = document.text
            self._notify("textDocument/didSave", params)

    def close(self, path: Path) -> None:
        """Close ``path``, if it is open."""
        if not self._answers.close(path):
            return
        self.real = {real: name for real, name in self.real.items() if name != path}
        if path in self._opened:
            self._opened.discard(path)
            self._notify("textDocument/didClose", {"textDocument": {"uri": path.as_uri()}})

    def open_late(self) -> None:
        """Open documents after a registration: the server may want them now."""
        for path in list(self._answers.documents):
            if path not in self._opened and self._wanted(path).open_close:
                self._open(path)

    def watched(self, path: Path, kind: ChangeKind) -> None:
        """Tell the server that a file changed on disk, if it wants to know."""
        wanted = self._registrations.watches(path, kind)
        if wanted is None:
            # It registered nothing, perhaps because it expects its client to have its own watchers.
            wanted = self._spec.language_of(path) is not None
        if wanted:
            self._answers.changed_on_disk()
            changes = [{"uri": path.as_uri(), "type": WIRE_KIND[kind]}]
            self._notify("workspace/didChangeWatchedFiles", {"changes": changes})

    def on_disk(self, path: Path, text: str) -> bool:
        """Return whether the server has this text of ``path``, and was told that it is on disk."""
        document = self._answers.documents.get(path)
        return document is not None and document.on_disk and document.text == text

    def note_on_disk(self, path: Path, text: str) -> None:
        """Record that the server was told of a change on disk to this text of ``path``."""
        document = self._answers.documents.get(path)
        if document is not None:
            document.on_disk = document.text == text

    def _wanted(self, path: Path) -> TextSync:
        return self._registrations.sync(path, self._spec.language_of(path))

    def _open(self, path: Path) -> None:
        document = self._answers.documents[path]
        document.told, document.told_text = document.version, document.text
        self._answers.sent(path, document.version)
        self._opened.add(path)
        item = {
            "uri": path.as_uri(),
            "languageId": self._spec.language_of(path) or "plaintext",
            "version": document.version,
            "text": document.text,
        }
        self._notify("textDocument/didOpen", {"textDocument": item})

    def _close_surplus(self) -> None:
        documents = self._answers.documents
        size = sum(len(document.text) for document in documents.values())
        while len(documents) > 1 and (len(documents) > _MAX_OPEN_DOCUMENTS or size > _MAX_OPEN_CHARACTERS):
            oldest = next(iter(documents.values()))
            size -= len(oldest.text)
            self.close(oldest.path)


def _is_on_disk(path: Path, text: str) -> bool:
    """Return whether a file has this text: a server that is sent a save may read it. Small files only: this blocks the
    event loop."""
    try:
        return read_regular(path, _MAX_COMPARED, follow=True).decode("utf-8-sig") == text
    except (OSError, UnicodeError):
        return False
