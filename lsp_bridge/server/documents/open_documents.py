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
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pygls.uris import to_fs_path

from lsp_bridge.server.documents.disk_text import Stamp, shows, stamp_of
from lsp_bridge.server.documents.open_text import OpenText, Units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lsprotocol import types

    from tools.ports import AppliedEdit

log = logging.getLogger(__name__)

LARGE = 128 * 1024
"""Characters above which a text is compared with the disk in threads only."""

_RECENT = 8

NO_FIT = "the editor sent a change that does not fit"
_MOVED_ON = "its file or folder was renamed, and the editor did not open it again under its new name"


class Writer(Protocol):
    """Changes, saves and renames documents in the editor."""

    @property
    def can_edit(self) -> bool: ...
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
    why_lost: str = ""
    """Why it is not known, for the model."""
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
        """Whether the text has no unsaved changes, as far as can be told at once.

        Until a long text has been compared with a file that somebody changed (``find_out``), it counts as unsaved.
        """
        return self._decide(LARGE)

    def find_out(self) -> bool:
        """Whether the text has no unsaved changes; blocking."""
        return self._decide(None)

    def untouched(self) -> bool:
        """Whether the text is what was on disk last; asks the disk nothing."""
        before = self.saved_content
        return (
            self.known and before is not None and (self.changes == self.saved_at or self.content.same(before))
        )

    def undecided(self) -> bool:
        """Whether ``find_out`` should be asked first, or the text has to be put together, which takes a moment."""
        return self.known and self.content.length > LARGE and not (self.content.is_whole and self.untouched())

    def _decide(self, most: int | None) -> bool:
        if not self.known:
            return False
        if self.untouched():
            return True
        changes, content, before = self.changes, self.content, self.saved_content
        stamp = stamp_of(self.path)
        if self.decided is not None and self.decided[:2] == (changes, stamp):
            return self.decided[2]
        if before is not None and stamp is not None and stamp == self.saved_stamp:
            same = False  # the disk is what it was, and the text is not
        elif most is not None and content.length > most:
            return False
        else:
            content = content.copy()
            same = self._shown(content)
            if same and changes == self.changes:
                self.is_on_disk(content, changes, stamp)
        self.decided = (changes, stamp, same)
        return same

    def _shown(self, content: OpenText) -> bool:
        """Whether the file on disk is ``content``, or, after a save that the editor told of, what it made of it.

        After a save that left a text of a moment ago on disk, more was typed before the editor told of it. If it left
        none of these, the editor is believed: it has saved in a way (an encoding, a place) that cannot be seen here.
        """
        before = self.told_saved
        older = [] if before is None else [old for old in list(self.recent) if not old.same(before)]
        found = shows(self.path, [(one.length, one.parts()) for one in (content, *older)])
        return found[0] or (before is not None and not any(found[1:]))

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
    soon: Callable[[OpenDocument], None] = lambda document: check(document)
    """Calls ``check`` in a thread, now: the file may be changed by somebody else before anybody asks."""
    _by_uri: dict[str, OpenDocument] = field(default_factory=dict[str, OpenDocument])
    _by_path: dict[Path, list[OpenDocument]] = field(default_factory=dict[Path, list[OpenDocument]])
    _folded: dict[str, set[Path]] = field(default_factory=dict[str, set[Path]])
    _notebooks: dict[str, Path] = field(default_factory=dict[str, Path])
    _moved: dict[str, Path] = field(default_factory=dict[str, Path])
    """Where files are now whose editor has not said that it opened them there."""

    # -- what the editor tells

    def opened(self, uri: str, version: int, text: str) -> OpenDocument | None:
        """An editor may open a buffer with unsaved changes of an earlier run (hot exit)."""
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
        """The text changed. Equal to the disk again (undo, reload) means saved."""
        document = self._by_uri.get(uri)
        if document is None:
            # Nothing is open there, so the disk is the truth.
            log.warning("a change of %s, which is not open", uri[:200])
            if (path := self._moved.pop(uri, None)) is not None:
                self._put_lost(uri, path, version, _MOVED_ON)
            return None
        if version < document.version:
            # Parts would go to the wrong places, and nobody knows whether a whole text is the newest. It is when the
            # editor began to count anew, so the next one is taken.
            log.warning("%s: version %s after version %s", document.name, version, document.version)
            document.version = version
            self.lost(uri, "the editor's changes came in the wrong order")
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
        """A file or folder is somewhere else now, and the editor has not said (yet) that it has its files open there.

        What is written under the old names would come back in the old place. So an unsaved text is not known until it
        comes under its new name; for a file without unsaved changes the disk is the truth until it does.
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
        """The buffer was saved; what was typed since is unsaved again."""
        document = self._by_uri.get(uri)
        if document is not None:
            document.told_saved = document.saved_content or OpenText("")
            document.saved_content, document.decided = None, None
            self.soon(document)
            self.later(document)
            document.tell_save()
        return document

    def closed(self, uri: str) -> OpenDocument | None:
        """What was not saved is discarded."""
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

    async def settle(self, path: Path | None = None) -> None:
        """Find out in a thread what would take the event loop too long; of one file or of all."""
        undecided = [one for one in (self.all() if path is None else self.at(path)) if one.undecided()]
        if undecided:
            await asyncio.to_thread(_settle, undecided)

    def all(self) -> Iterable[OpenDocument]:
        """All open documents."""
        return list(self._by_uri.values())


def check(document: OpenDocument) -> None:
    """Find out whether a document is saved, so that the answer is there when asked; blocking."""
    document.content.prepare()
    document.find_out()


def _settle(documents: Iterable[OpenDocument]) -> None:
    for document in documents:
        document.find_out()
        _ = document.text  # put together here


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
