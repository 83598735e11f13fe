"""The open documents of one editor, and which of them have unsaved changes.

LSP has the text of a buffer, not whether it is saved. A buffer counts as unsaved from the user's change until it is
saved or equals the disk again. Comparing buffer and disk is not enough: after another program wrote the file, the
editor's clean buffer is stale for a moment. So each document remembers its text when it last equalled the disk. Nothing
is compared on a keystroke, only on request, and some time after the last change.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections import deque
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes, urlsplit

from msgspec import Struct, field
from pygls.uris import to_fs_path

from lsp_bridge.language_client.server.diagnostics_freshness import Wakeup
from lsp_bridge.server.documents.disk_text import Stamp, shows, stamp_of
from lsp_bridge.server.documents.open_text import OpenText, PartChange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lsprotocol import types

    from lsp_bridge.language_client.text.positions import PositionEncoding

log = logging.getLogger(__name__)

LARGE = 128 * 1024
"""Characters above which a text is compared with the disk in threads only."""

_RECENT = 8

NO_FIT = "the editor sent a change that does not match the text"
_MOVED_ON = "its file or folder was renamed, and the editor did not reopen it under its new name"


class OpenDocument(Struct, eq=False):
    """A document as the editor has it."""

    uri: str
    path: Path
    version: int
    content: OpenText
    known: bool = True
    """False after a change that could not be applied: the text is unknown until the editor sends all of it."""
    why_lost: str = ""
    """Why it is not known, for the model."""
    changes: int = 0
    """Rises with each change."""
    saved_text: str | None = None
    """The text when it last equalled the disk."""
    saved_at: int = -1
    """``changes`` at that time."""
    saved_stamp: Stamp | None = None
    """The file on disk at that time."""
    recent: deque[OpenText] = field(default_factory=lambda: deque(maxlen=_RECENT))
    """Texts of before the last changes."""
    told_saved: str | None = None
    """Between a reported save and the next change: the text that was on disk before the save."""
    changing: Wakeup = field(default_factory=Wakeup)
    """Rings when the editor reports a change, or that the document is closed."""
    saving: Wakeup = field(default_factory=Wakeup)
    """Rings when the editor reports a save, or that the document is closed."""
    closed: bool = False
    """It is closed: unsaved changes are gone."""

    @property
    def text(self) -> str:
        """The whole text."""
        return self.content.text

    @property
    def name(self) -> str:
        """The file's name, for messages."""
        return self.path.name

    def is_saved(self) -> bool:
        """Return whether the text has no unsaved changes, as far as that can be decided at once.

        Until a long text has been compared with a file that another program changed (``find_out``), it counts as
        unsaved.
        """
        return self._decide(LARGE)

    def find_out(self) -> bool:
        """Return whether the text has no unsaved changes; blocking."""
        self.content.lines()  # the next change needs them
        return self._decide(None)

    def untouched(self) -> bool:
        """Return whether the text equals the last known one on disk; does not read the disk."""
        before = self.saved_text
        if not self.known or before is None:
            return False
        return self.changes == self.saved_at or (self.content.length == len(before) and self.text == before)

    def undecided(self) -> bool:
        """Return whether ``find_out`` should be asked first, or the text has to be put together, which takes a
        moment."""
        return self.known and self.content.length > LARGE and not (self.content.is_whole and self.untouched())

    def _decide(self, most: int | None) -> bool:
        if not self.known:
            return False
        if self.untouched():
            return True
        changes, content, before = self.changes, self.content, self.saved_text
        stamp = stamp_of(self.path)
        if before is not None and stamp is not None and stamp == self.saved_stamp:
            return False  # the disk is unchanged, but the text is not
        if most is not None and content.length > most:
            return False
        same = self._shown(content)
        if same and changes == self.changes:
            self.is_on_disk(content.text, changes, stamp)
        return same

    def _shown(self, content: OpenText) -> bool:
        """Return whether the file on disk is ``content``, or, after a reported save, the result of saving it.

        If a save left a recent text on disk, the user typed more before the editor reported it. If it left none of
        these, the editor is trusted: it has saved in a way (an encoding, a path) that cannot be seen here.
        """
        before = self.told_saved
        earlier = [] if before is None else [text.read() for text in list(self.recent)]
        older = [text for text in earlier if text != before]
        found = shows(self.path, [content.text, *older])
        return found[0] or (before is not None and not any(found[1:]))

    def tell_change(self) -> None:
        """There was a change."""
        self.changes += 1
        self.told_saved = None
        self.changing.wake()

    def tell_closed(self) -> None:
        """The document is open no more."""
        self.closed = True
        self.changing.wake()
        self.saving.wake()

    def is_on_disk(self, text: str, changes: int, stamp: Stamp | None) -> None:
        """Note that the file held ``text``."""
        self.saved_text, self.saved_at, self.saved_stamp = text, changes, stamp


class OpenDocuments(Struct):
    """The documents of one editor. Everything but ``is_saved`` happens on the event loop."""

    units: PositionEncoding = "utf-16"
    later: Callable[[OpenDocument], None] = lambda document: None
    """Told of each change; calls ``find_out`` in a thread some time after the last one."""
    soon: Callable[[OpenDocument], object] = lambda document: document.find_out()
    """Calls ``find_out`` in a thread, now: the file may change before the next request."""
    _by_uri: dict[str, OpenDocument] = field(default_factory=dict[str, OpenDocument])
    _by_path: dict[Path, list[OpenDocument]] = field(default_factory=dict[Path, list[OpenDocument]])
    _folded: dict[str, set[Path]] = field(default_factory=dict[str, set[Path]])
    _notebooks: dict[str, Path] = field(default_factory=dict[str, Path])
    _moved: dict[str, Path] = field(default_factory=dict[str, Path])
    """Where files are now whose editor has not said that it opened them there."""

    # -- reports of the editor

    def opened(self, uri: str, version: int, text: str) -> OpenDocument | None:
        """Record an opened document; editors may restore unsaved changes of an earlier run (hot exit)."""
        self.closed(uri)
        path = path_of(uri)
        if path is None:
            return None
        document = OpenDocument(uri, path, version, OpenText(text))
        self._put(document)
        self.soon(document)
        self.later(document)
        return document

    def changed(
        self, uri: str, version: int, changes: Sequence[types.TextDocumentContentChangeEvent]
    ) -> OpenDocument | None:
        """Record a changed text. One that equals the disk again (undo, reload) counts as saved."""
        document = self._by_uri.get(uri)
        if document is None:
            # The document is not open, so the disk is authoritative.
            log.warning("a change of %s, which is not open", uri[:200])
            if (path := self._moved.pop(uri, None)) is not None:
                self._put_lost(uri, path, version, _MOVED_ON)
            return None
        if version < document.version:
            # Partial changes would be applied at the wrong places, and a whole text may be outdated. If the editor has
            # restarted its count, the next change is accepted.
            log.warning("%s: version %s after version %s", document.name, version, document.version)
            document.version = version
            self.lost(uri, "the editor's changes came in the wrong order")
            return document
        for is_whole, group in groupby(changes, lambda change: getattr(change, "range", None) is None):
            before = document.content
            if is_whole:
                document.content, document.known = OpenText(list(group)[-1].text), True
            elif document.known:
                document.content = before.changed(map(_part, group), self.units)
            if document.content is not before and (not is_whole or before.length <= LARGE):
                document.recent.append(before)
        document.version = version
        document.tell_change()
        self.later(document)
        return document

    def lost(self, uri: str, why: str = NO_FIT) -> None:
        """A change of this document could not be understood: its text is not known any more."""
        document = self._by_uri.get(uri)
        if document is not None:
            document.known, document.why_lost = False, why
            document.tell_change()

    def opened_somehow(self, uri: str) -> None:
        """The editor opened a document, and no more could be understood: its text is not known."""
        self.closed(uri)
        if (path := path_of(uri)) is not None:
            self._put_lost(uri, path, 0, NO_FIT)

    def renamed(self, old: Path, new: Path) -> None:
        """Handle a rename of a file or folder that the editor has not reported (yet) for its open files.

        A write under the old names would recreate the old path. So an unsaved text is unknown until it arrives under
        its new name; for a file without unsaved changes the disk counts until then.
        """
        for document in self.all():
            if document.path != old and old not in document.path.parents:
                continue
            clean, path = document.untouched(), new / document.path.relative_to(old)
            self.closed(document.uri)
            if clean:
                self._moved[document.uri] = path
            else:
                self._put_lost(document.uri, path, document.version, _MOVED_ON)

    def saved(self, uri: str) -> OpenDocument | None:
        """Record that the buffer was saved; text typed since is unsaved again."""
        document = self._by_uri.get(uri)
        if document is not None:
            document.told_saved = document.saved_text or ""
            document.saved_text = None
            self.soon(document)
            self.later(document)
            document.saving.wake()
        return document

    def closed(self, uri: str) -> OpenDocument | None:
        """Close a document; unsaved changes are discarded."""
        self._moved.pop(uri, None)
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

    def _put(self, document: OpenDocument) -> None:
        path = document.path
        self._by_uri[document.uri] = document
        self._by_path.setdefault(path, []).append(document)
        self._folded.setdefault(str(path).casefold(), set()).add(path)

    def _put_lost(self, uri: str, path: Path, version: int, why: str) -> None:
        self._put(OpenDocument(uri, path, version, OpenText(""), known=False, why_lost=why, changes=1))

    # -- queries

    def at(self, path: Path) -> list[OpenDocument]:
        """Return the documents of a file: two, when it is open under its own name and through a symlink."""
        if (found := self._by_path.get(path)) is not None:
            return found
        # Where case is ignored, two names may be one file. This may be a thread, and the editor may close it meanwhile.
        for other in tuple(self._folded.get(str(path).casefold(), ())):
            if _same_file(other, path):
                return self._by_path.get(other, [])
        return []

    def document(self, uri: str) -> OpenDocument | None:
        """Return the open document with this uri."""
        return self._by_uri.get(uri)

    def is_notebook(self, path: Path) -> bool:
        """Return whether the file is open as a notebook."""
        return path in list(self._notebooks.values())  # this may be a thread

    def unsaved(self, path: Path) -> str | None:
        """Return the unsaved text of ``path``, or None when it has none."""
        return next((d.text for d in self.at(path) if d.known and not d.is_saved()), None)

    def unsaved_paths(self) -> list[Path]:
        """Return the files with unsaved changes."""
        return [document.path for document in self.all() if document.known and not document.is_saved()]

    async def settle(self, path: Path | None = None) -> None:
        """Compare in a thread what would block the event loop too long; for one file or for all."""
        undecided = [one for one in (self.all() if path is None else self.at(path)) if one.undecided()]
        if undecided:
            await asyncio.to_thread(_settle, undecided)

    def all(self) -> Iterable[OpenDocument]:
        """Return all open documents."""
        return list(self._by_uri.values())


def _part(change: Any) -> PartChange:
    """Return a change of LSP as that of a text. Any: ``groupby`` has chosen those with a range."""
    start, end = change.range.start, change.range.end
    return PartChange((start.line, start.character), (end.line, end.character), change.text)


def _settle(documents: Iterable[OpenDocument]) -> None:
    for document in documents:
        document.find_out()
        _ = document.text  # joins the lines


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def path_of(uri: str) -> Path | None:
    """Return the file of a URI, symlinks resolved; None unless it is a file: ``untitled:``, cells of notebooks, …"""
    if not uri.startswith("file:"):
        return None
    try:
        if sys.platform == "win32":
            name = to_fs_path(uri)
        else:  # pygls replaces the bytes of a name that are not UTF-8, and takes another machine's file for one here
            parts = urlsplit(uri)
            is_here = parts.netloc.lower() in ("", "localhost")
            name = os.fsdecode(unquote_to_bytes(parts.path)) if is_here else None
        return Path(os.path.realpath(name)) if name else None
    except (OSError, ValueError):
        return None  # no file can have such a name
