"""Which open documents have unsaved changes, over all attached editors.

A buffer counts as unsaved from the moment the person changes it until it is saved or equals the disk again. It is
not enough to compare buffer and disk: after the agent wrote a file, the editor's clean buffer is stale for a moment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pygls.uris import to_fs_path

if TYPE_CHECKING:
    from pygls.workspace import TextDocument, Workspace


class Writer(Protocol):
    """Changes and saves documents in the editor."""

    async def write(self, document: TextDocument, before: str, after: str) -> None: ...


@dataclass(slots=True)
class OpenDocuments:
    """The documents of one editor. ``workspace`` is pygls' own store of their text."""

    workspace: Workspace
    writer: Writer
    _dirty: set[Path] = field(default_factory=set[Path])
    _uris: dict[Path, str] = field(default_factory=dict[Path, str])

    def opened(self, uri: str) -> None:
        """An editor may open a buffer with unsaved changes of an earlier run (hot exit)."""
        self._update(uri)

    def changed(self, uri: str) -> None:
        """The text changed; equal to the disk again (undo, reload) means clean."""
        self._update(uri)

    def saved(self, uri: str) -> Path | None:
        """The buffer is on disk now. Returns its path."""
        if (path := _path(uri)) is not None:
            self._dirty.discard(path)
        return path

    def closed(self, uri: str) -> None:
        """What was not saved is discarded."""
        if (path := _path(uri)) is not None:
            self._dirty.discard(path)
            self._uris.pop(path, None)

    def unsaved(self, path: Path) -> str | None:
        """The unsaved text of ``path``, or None when it has none."""
        if path not in self._dirty:
            return None
        return self.workspace.get_text_document(self._uris[path]).source

    def text(self, path: Path) -> str | None:
        """The text of an open document, saved or not; None when it is not open here."""
        uri = self._uris.get(path)
        return None if uri is None else self.workspace.get_text_document(uri).source

    async def write(self, path: Path, before: str, after: str) -> None:
        """Turn the text of an open document into ``after`` and save it. Raises ToolError."""
        uri = self._uris[path]
        await self.writer.write(self.workspace.get_text_document(uri), before, after)
        self._dirty.discard(path)

    def _update(self, uri: str) -> None:
        path = _path(uri)
        if path is None:
            return
        self._uris[path] = uri
        text = self.workspace.get_text_document(uri).source
        try:
            on_disk = path.read_bytes()
        except OSError:
            on_disk = b""
        if _same_text(text, on_disk):
            self._dirty.discard(path)
        else:
            self._dirty.add(path)


def _same_text(text: str, data: bytes) -> bool:
    if data == text.encode("utf-8", "surrogatepass"):
        return True
    # Editors show other encodings, byte-order marks and line ends in their own way.
    try:
        decoded = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin-1"
        decoded = data.decode(encoding, "replace")
    return decoded.replace("\r\n", "\n") == text.replace("\r\n", "\n")


def _path(uri: str) -> Path | None:
    if not uri.startswith("file:"):
        return None
    try:
        name = to_fs_path(uri)
        return Path(name).resolve() if name else None
    except (OSError, ValueError):
        return None  # no file can have such a name
