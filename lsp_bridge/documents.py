"""The open documents of one editor, and which of them have unsaved changes.

LSP says what a buffer holds, not whether it is saved. A buffer counts as unsaved from the moment the person changes
it until it is saved or equals the disk again. It is not enough to compare buffer and disk: after somebody wrote the
file, the editor's clean buffer is stale for a moment. So each document remembers its text when it last equalled the
disk. Nothing is compared on a keystroke, only when somebody asks, and some time after the last change (see ``check``).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pygls.uris import to_fs_path

from lsp_bridge.open_text import OpenText, Units

if TYPE_CHECKING:
    from lsprotocol import types

    from tools.open_files import AppliedEdit

log = logging.getLogger(__name__)

LARGE = 512 * 1024
"""Characters above which a text is compared with the disk in the background."""

_RECENT = 8
Stamp = tuple[int, int, int]
"""Size, time of change and inode: when they are the same, so is the file."""


class Writer(Protocol):
    """Changes, saves and renames documents in the editor."""

    @property
    def can_write(self) -> bool: ...
    @property
    def can_move(self) -> bool: ...
    async def apply(self, document: OpenDocument, before: str, after: str) -> AppliedEdit: ...
    async def move(self, document: OpenDocument, source: Path, target: Path) -> None: ...


@dataclass(slots=True, eq=False)
class OpenDocument:
    """A document as the editor has it."""

    uri: str
    path: Path
    version: int
    content: OpenText
    known: bool = True
    """False after a change that could not be understood: nobody knows the text until it comes as a whole."""
    changes: int = 0
    """Rises with each change."""
    saved_content: OpenText | None = None
    """The text when it last equalled the disk."""
    saved_at: int = -1
    """``changes`` at that time."""
    saved_stamp: Stamp | None = None
    """The file on disk at that time."""
    decided: tuple[int, Stamp | None, bool] | None = None
    """What was found out last, of which text and which file on disk."""
    recent: deque[OpenText] = field(default_factory=lambda: deque(maxlen=_RECENT))
    """Texts of before the last changes."""
    told_saved: OpenText | None = None
    """Since the editor told of a save, and until the next change: the text that was on disk before the save."""
    waiting: list[asyncio.Future[None]] = field(default_factory=list["asyncio.Future[None]"])
    """Who waits for the next change."""
    saving: list[asyncio.Future[None]] = field(default_factory=list["asyncio.Future[None]"])
    """Who waits for the next save."""
    closed: bool = False
    """It is open no more: what was not saved is gone."""

    @property
    def text(self) -> str:
        """The whole text."""
        return self.content.text

    @property
    def name(self) -> str:
        """The file's name, for messages."""
        return self.path.name

    def is_saved(self) -> bool:
        """Whether the text has no unsaved changes. Reads the disk if need be; may be called in a thread."""
        if not self.known:
            return False
        changes, content, before = self.changes, self.content, self.saved_content
        if before is not None and (changes == self.saved_at or content.same(before)):
            return True
        stamp = stamp_of(self.path)
        if self.decided is not None and self.decided[:2] == (changes, stamp):
            return self.decided[2]
        if before is not None and stamp is not None and stamp == self.saved_stamp:
            same = False  # the disk is what it was, and the text is not
        else:
            content, data = content.copy(), _read(self.path)
            same = same_text(content.text, data) or (
                self.told_saved is not None and not self._typed_since(data, self.told_saved)
            )
            if same and changes == self.changes:
                self.is_on_disk(content, changes, stamp)
        self.decided = (changes, stamp, same)
        return same

    async def next_change(self) -> None:
        """Return when the editor tells of a change, or that the document is closed."""
        waiting = asyncio.get_running_loop().create_future()
        self.waiting.append(waiting)
        await waiting

    async def next_save(self) -> None:
        """Return when the editor tells of a save, or that the document is closed."""
        waiting = asyncio.get_running_loop().create_future()
        self.saving.append(waiting)
        await waiting

    def tell_change(self) -> None:
        """There was a change."""
        self.changes += 1
        self.told_saved = None
        self._wake(self.waiting)

    def tell_save(self) -> None:
        """There was a save."""
        self._wake(self.saving)

    def tell_closed(self) -> None:
        """The document is open no more."""
        self.closed = True
        self._wake(self.waiting)
        self._wake(self.saving)

    @staticmethod
    def _wake(waiting: list[asyncio.Future[None]]) -> None:
        for one in waiting:
            if not one.done():
                one.set_result(None)
        waiting.clear()

    def is_on_disk(self, content: OpenText, changes: int, stamp: Stamp | None) -> None:
        """Note that the file held ``content``."""
        self.saved_content, self.saved_at, self.saved_stamp = content, changes, stamp


@dataclass(slots=True)
class OpenDocuments:
    """The documents of one editor. Everything but ``is_saved`` happens on the event loop."""

    writer: Writer
    units: Units = "utf-16"
    later: Callable[[OpenDocument], None] = lambda document: None
    """Told of each change; calls ``check`` in a thread some time after the last one."""
    _by_uri: dict[str, OpenDocument] = field(default_factory=dict[str, OpenDocument])
    _by_path: dict[Path, list[OpenDocument]] = field(default_factory=dict[Path, list[OpenDocument]])
    _folded: dict[str, set[Path]] = field(default_factory=dict[str, set[Path]])
    _notebooks: dict[str, Path] = field(default_factory=dict[str, Path])

    # -- what the editor tells

    def opened(self, uri: str, version: int, text: str) -> OpenDocument | None:
        """An editor may open a buffer with unsaved changes of an earlier run (hot exit)."""
        self.closed(uri)
        path = path_of(uri)
        if path is None:
            return None
        document = OpenDocument(uri, path, version, OpenText(text))
        self._by_uri[uri] = document
        self._by_path.setdefault(path, []).append(document)
        self._folded.setdefault(str(path).casefold(), set()).add(path)
        if document.content.length <= LARGE:
            # At once: the file may be changed by somebody else before anybody asks.
            document.is_saved()
        self.later(document)
        return document

    def changed(
        self, uri: str, version: int, changes: Sequence[types.TextDocumentContentChangeEvent]
    ) -> OpenDocument | None:
        """The text changed. Equal to the disk again (undo, reload) means saved."""
        document = self._by_uri.get(uri)
        if document is None:
            return self._changed_unopened(uri, version, changes)
        if version < document.version:
            # Out of order: parts would go to the wrong places, and a whole text is older than what is known.
            log.warning("%s: version %s after version %s", document.name, version, document.version)
            if any(hasattr(change, "range") for change in changes):
                self.lost(uri)
            return document
        for change in changes:
            part = getattr(change, "range", None)
            if part is None:
                if document.content.length <= LARGE:
                    document.recent.append(document.content)
                document.content = OpenText(change.text)
                document.known = True
            elif document.known:
                start, end = part.start, part.end
                document.recent.append(document.content.copy())
                document.content.replace(
                    (start.line, start.character), (end.line, end.character), change.text, self.units
                )
        document.version = version
        document.tell_change()
        self.later(document)
        return document

    def _changed_unopened(
        self, uri: str, version: int, changes: Sequence[types.TextDocumentContentChangeEvent]
    ) -> OpenDocument | None:
        """A client that did not say ``didOpen``: it has the file open all the same."""
        log.warning("a change of %s, which was not opened", uri[:200])
        document = self.opened(uri, version, "")
        if document is not None:
            document.known = False
            document.saved_content = None
            return self.changed(uri, version, changes)
        return None

    def lost(self, uri: str) -> None:
        """A change of this document could not be understood: its text is not known any more."""
        document = self._by_uri.get(uri)
        if document is not None:
            document.known = False
            document.tell_change()

    def saved(self, uri: str) -> OpenDocument | None:
        """The buffer was saved; what was typed since is unsaved again."""
        document = self._by_uri.get(uri)
        if document is not None:
            document.told_saved = document.saved_content or OpenText("")
            document.saved_content, document.decided = None, None
            if document.content.length <= LARGE:
                document.is_saved()
            self.later(document)
            document.tell_save()
        return document

    def closed(self, uri: str) -> OpenDocument | None:
        """What was not saved is discarded."""
        document = self._by_uri.pop(uri, None)
        if document is not None:
            document.tell_closed()
            path = document.path
            self._by_path[path].remove(document)
            if not self._by_path[path]:
                del self._by_path[path]
                folded = self._folded[str(path).casefold()]
                folded.discard(path)
                if not folded:
                    del self._folded[str(path).casefold()]
        return document

    def notebook_opened(self, uri: str) -> None:
        """A file is open as a notebook: its cells are documents, the file itself is none."""
        if (path := path_of(uri)) is not None:
            self._notebooks[uri] = path

    def notebook_closed(self, uri: str) -> None:
        """The notebook is closed."""
        self._notebooks.pop(uri, None)

    # -- what others ask

    def at(self, path: Path) -> list[OpenDocument]:
        """The documents of a file: two, when it is open under its own name and through a symlink."""
        if (found := self._by_path.get(path)) is not None:
            return found
        # Where case is ignored, two names are one file.
        for other in self._folded.get(str(path).casefold(), ()):
            if _same_file(other, path):
                return self._by_path[other]
        return []

    def document(self, uri: str) -> OpenDocument | None:
        """The open document with this uri."""
        return self._by_uri.get(uri)

    def is_notebook(self, path: Path) -> bool:
        """Whether the file is open as a notebook."""
        return path in self._notebooks.values()

    def unsaved(self, path: Path) -> str | None:
        """The unsaved text of ``path``, or None when it has none."""
        return next((d.text for d in self.at(path) if d.known and not d.is_saved()), None)

    def unsaved_paths(self) -> list[Path]:
        """The files with unsaved changes."""
        return [document.path for document in self.all() if document.known and not document.is_saved()]

    def all(self) -> Iterable[OpenDocument]:
        """All open documents."""
        return list(self._by_uri.values())


def check(document: OpenDocument) -> None:
    """Find out whether a document is saved, so that the answer is there when asked; blocking."""
    document.is_saved()


def stamp_of(path: Path) -> Stamp | None:
    """What tells whether a file was changed; None when it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def same_text(text: str, data: bytes) -> bool:
    """Whether an editor that shows ``text`` may have read it from ``data``.

    Editors show encodings, byte-order marks and line ends in their own way.
    """
    if data.isascii() and text.isascii():
        if len(text) == len(data):
            return text.encode("ascii") == data
        if b"\r" not in data and "\r" not in text:
            return False
    elif data == text.encode("utf-8", "surrogatepass"):
        return True
    return any(_to_lf(shown) == _to_lf(text) for shown in _readings(data))


def _readings(data: bytes) -> Iterable[str]:
    try:
        yield data.decode("utf-8-sig")
        return
    except UnicodeDecodeError:
        pass
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        yield data.decode("utf-16", "replace")
        return
    from tools.base import ToolError
    from tools.text import decode

    yield data.decode("cp1252", "replace")
    yield data.decode("latin-1")
    try:
        yield decode(data).text
    except ToolError:
        return


def _to_lf(text: str) -> str:
    text = text.removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def path_of(uri: str) -> Path | None:
    """The file that a uri means, symlinks resolved; None for what is no file: ``untitled:``, cells of notebooks, …"""
    if not uri.startswith("file:"):
        return None
    try:
        name = to_fs_path(uri)
        return Path(name).resolve() if name else None
    except (OSError, ValueError):
        return None  # no file can have such a name
