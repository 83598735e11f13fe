"""What one language server was told about files, and which of its diagnostics answer that: pure bookkeeping.

One counter numbers everything in order of happening, what we send and what arrives. The number of a
``didOpen`` or ``didChange`` is also the document's LSP version, so "is this answer newer than that change" is
one comparison, and versions never repeat when a file is closed and opened again.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lsp_bridge.language.problems import RawDiagnostic
from lsp_bridge.language.progress import Progress

SyncKind = Literal["open", "change", "same"]

_MAX_CLOSED_FILES = 2000
"""Servers that report on whole projects may push about any number of files that are not open."""


@dataclass(slots=True)
class OpenDocument:
    """A document that is open at the server, with the text it was told last."""

    path: Path
    text: str
    version: int
    orderly: bool
    """The server had answered everything before this version, so what it pushes now is about this version."""
    sent_at: float = 0.0
    """When this version was sent, in seconds of the event loop's clock."""
    told: int = 0
    """The newest version that the server was really told; older than ``version`` when it wants no changes."""
    told_text: str = ""
    """The text of that version: what an incremental change starts from."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Diagnostics of one file as a server gave them."""

    items: tuple[RawDiagnostic, ...]
    version: int | None
    """The document version they are about, if the server said so (for pulled ones: it is known)."""
    number: int
    """When it arrived, in the common counting."""
    at: float
    """When it arrived, in seconds of the event loop's clock."""


@dataclass(frozen=True, slots=True)
class Settling:
    """How long (seconds) after a push until it counts as the server's last word.

    One rule for all servers (300 ms in other agents) would make the quick ones slow and the slow ones wrong: an
    answer that was pulled is final at once, a push about our very version nearly so, and one that may be about an
    older text is waited out. An *empty* answer of a server that is at work is never final (see ``Progress``).
    """

    versioned_s: float = 0.15
    """The push says that it is about our version. Still, basedpyright pushes an empty list for a file just
    opened and corrects it some milliseconds later, and what it says about other files follows."""
    unversioned_s: float = 0.3
    """The push came after our change (source: conventions.md, 150-300 ms in other agents)."""
    doubtful_s: float = 1.5
    """As before, but an older version was still unanswered, so the push may be about that one."""


class Answers:
    """The documents open at one server and what the server says about them."""

    def __init__(self, settling: Settling | None = None, progress: Progress | None = None) -> None:
        self.settling = settling or Settling()
        self.progress = progress or Progress(time.monotonic)
        self.documents: OrderedDict[Path, OpenDocument] = OrderedDict()
        """Least recently used first."""
        self._pushed: dict[Path, Answer] = {}
        self._pulled: dict[Path, Answer] = {}
        self._count = 0

    @property
    def count(self) -> int:
        """The number of the latest thing that happened: the generation to capture before a change."""
        return self._count

    def sync(
        self, path: Path, text: str, *, now: float, pull: bool, tell: bool = True
    ) -> tuple[SyncKind, int]:
        """Note that the server is (about to be) told ``text``. Returns what to send and the version.

        ``pull``: the diagnostics of this file are pulled. ``tell`` False: the server is not told, because it wants
        no changes; it may see the file on disk.
        """
        document = self.documents.get(path)
        if document is not None:
            self.documents.move_to_end(path)
            if document.text == text:
                return "same", document.version
        self._count += 1
        orderly = True
        if document is not None:
            settled = self.settled_at(path, document.version, pull=pull)
            orderly = settled is not None and settled <= now
        told, told_text = self._count, text
        if document is not None and not tell:
            told, told_text = document.told, document.told_text
        self.documents[path] = OpenDocument(path, text, self._count, orderly, now, told, told_text)
        return ("open" if document is None else "change"), self._count

    def close(self, path: Path) -> bool:
        """Forget an open document and what was said about it. False when it was not open."""
        self._pushed.pop(path, None)
        self._pulled.pop(path, None)
        return self.documents.pop(path, None) is not None

    def push(self, path: Path, version: int | None, items: tuple[RawDiagnostic, ...], *, now: float) -> bool:
        """Take in ``publishDiagnostics``. False when it is impossible or out of order, and so ignored."""
        document, latest = self.documents.get(path), self._pushed.get(path)
        if document is not None and version == document.told < document.version:
            version = None  # It knows of no newer one: only the order tells what this is about.
        if version is not None and document is not None and version > document.version:
            return False
        if version is not None and latest is not None and (latest.version or 0) > version:
            return False
        self._count += 1
        if document is None:
            # Closed: only what it has problems in is worth keeping, as a baseline for "other files".
            if not items:
                self._pushed.pop(path, None)
                return True
            if len(self._pushed) >= _MAX_CLOSED_FILES and path not in self._pushed:
                return False
        self._pushed[path] = Answer(items, version, self._count, now)
        return True

    def pull(self, path: Path, version: int, items: tuple[RawDiagnostic, ...], *, now: float) -> bool:
        """Take in the response to a pull that was requested when the document had ``version``."""
        latest = self._pulled.get(path)
        if path not in self.documents or (latest is not None and (latest.version or 0) > version):
            return False
        self._count += 1
        self._pulled[path] = Answer(items, version, self._count, now)
        return True

    def settled_at(self, path: Path, version: int, *, pull: bool) -> float | None:
        """When (seconds, maybe to come) the answer to ``version`` of ``path`` is final; None: none yet."""
        document = self.documents.get(path)
        if document is None or document.version < version:
            return None
        settling = self.settling
        answer = self._pulled.get(path) if pull else self._pushed.get(path)
        if answer is None or not _is_about(answer, version):
            return None
        if pull:
            wait = 0.0
        elif answer.version is not None:
            wait = settling.versioned_s
        else:
            wait = settling.unversioned_s if document.orderly else settling.doubtful_s
        if answer.items:
            return answer.at + wait
        final = self.progress.final_at(
            answer.at, document.sent_at, after_work_s=settling.unversioned_s, doubtful_s=settling.doubtful_s
        )
        return None if final is None else max(answer.at + wait, final)

    def known(self, path: Path, version: int = 0) -> tuple[RawDiagnostic, ...] | None:
        """What was said about ``version`` of ``path`` or later ones, pushed and pulled; None: nothing.

        What was said about older versions is left out: a server that pushes late and is pulled too would
        otherwise mix the two.
        """
        answers = [
            answer
            for answer in (self._pushed.get(path), self._pulled.get(path))
            if answer is not None and _is_about(answer, version)
        ]
        return _united([answer.items for answer in answers]) if answers else None

    def snapshot(self) -> dict[Path, tuple[RawDiagnostic, ...]]:
        """What is known about every file, to compare with later."""
        paths = self._pushed.keys() | self._pulled.keys()
        return {path: self.known(path) or () for path in paths}

    def heard(self, path: Path, number: int) -> bool:
        """Whether something arrived about ``path`` after the thing numbered ``number``."""
        answers = (self._pushed.get(path), self._pulled.get(path))
        return any(answer is not None and answer.number > number for answer in answers)

    def said_after(self, number: int) -> list[Path]:
        """The files about which something arrived after the thing numbered ``number``."""
        answers = (*self._pushed.items(), *self._pulled.items())
        return sorted({path for path, answer in answers if answer.number > number})


def _is_about(answer: Answer, version: int) -> bool:
    """Whether it is about this version or a later one; without a version of its own the order tells."""
    return answer.number > version if answer.version is None else answer.version >= version


def _united(groups: Sequence[tuple[RawDiagnostic, ...]]) -> tuple[RawDiagnostic, ...]:
    """Pushed and pulled diagnostics of one server; those that it gives both ways count once."""
    if len(groups) == 1:
        return groups[0]
    first, second = groups
    seen = {repr(item) for item in first}
    return first + tuple(item for item in second if repr(item) not in seen)
