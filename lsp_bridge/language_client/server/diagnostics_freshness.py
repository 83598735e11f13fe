"""Match diagnostics of one language server with the texts that it has received: pure bookkeeping.

One counter numbers everything in order, both sent and received messages. The number of a ``didOpen`` or ``didChange``
is also the document's LSP version, so "is this answer newer than that change" is one comparison, and versions never
repeat when a file is closed and opened again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from lsp_bridge.language_client.server.work_progress import ServerWork

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lsp_bridge.language_client.text.problems import RawDiagnostic

SyncKind = Literal["open", "change", "same"]

_MAX_SENT = 10_000
_A_WHILE_S = 0.3
"""Seconds without a report before a save, and a report after it, that show that the server waits for saves."""
_LONGEST_PAUSE_S = 1.5
"""Two pushes about one text that are further apart are two findings, not one answer in two parts."""
_PAUSE_MARGIN = 1.5
_MAX_CLOSED_FILES = 2000
"""Servers that report on whole projects may push about any number of files that are not open."""


class ServerDocument(Struct):
    """A document that is open at the server, with the text that it received last."""

    path: Path
    text: str
    version: int
    orderly: bool
    """The server had answered everything before this version, so its pushes now are about this version."""
    sent_at: float = 0.0
    """When this version was sent, in seconds of the event loop's clock."""
    told: int = 0
    """The newest version that was really sent to the server; older than ``version`` when it wants no changes."""
    told_text: str = ""
    """The text of that version: what an incremental change starts from."""
    saved: int = 0
    """The newest version for which the server was sent a save."""
    ignored: bool = False
    """The version before was not saved, and the server said nothing about it for a while."""
    changed: bool = False
    """It was open with another text before: the server knows the file, and need not load its dependencies."""
    pulled_after: int = 0
    """The number of the last thing that was sent before it was pulled."""
    final: bool = False
    """There has been a final answer about this version: what the server works on since does not undo that."""
    on_disk: bool = False
    """The server was told that this text is on disk."""


class FileDiagnostics(Struct, frozen=True):
    """Diagnostics of one file as a server gave them."""

    items: tuple[RawDiagnostic, ...]
    version: int | None
    """The document version they are about, if the server said so (for pulled ones: it is known)."""
    number: int
    """When it arrived, in the common counting."""
    at: float
    """When it arrived, in seconds of the event loop's clock."""


class Settling(Struct, frozen=True):
    """How long (seconds) after a push until it counts as the server's last word.

    One rule for all servers (300 ms in other agents) would make the quick ones slow and the slow ones wrong: an
    answer that was pulled is final at once, a push about our very version nearly so, and one that may be about an
    older text is waited out. An *empty* answer of a server that is at work is never final (see ``ServerWork``), except
    one that was pulled from a server whose ``pulls_are_final``.
    """

    versioned_s: float = 0.15
    """The push names our version. Still, basedpyright pushes an empty list for a file just opened and corrects it some
    milliseconds later, and reports on other files follow."""
    unversioned_s: float = 0.3
    """Seconds to wait for further pushes when one without a version came after our change."""
    doubtful_s: float = 1.5
    """As before, but an older version was still unanswered, so the push may be about that one."""


class DiagnosticsTracker:
    """The documents open at one server and its reports on them."""

    def __init__(
        self,
        settling: Settling | None = None,
        progress: ServerWork | None = None,
        *,
        pulls_are_final: bool = False,
    ) -> None:
        """``pulls_are_final``: as in ``ServerSpec``."""
        self.settling = settling or Settling()
        self.progress = progress or ServerWork(time.monotonic)
        self._pulls_are_final = pulls_are_final
        self.documents: OrderedDict[Path, ServerDocument] = OrderedDict()
        """Least recently used first."""
        self._pushed: dict[Path, FileDiagnostics] = {}
        self._pulled: dict[Path, FileDiagnostics] = {}
        self.count = 0
        """The number of the latest thing that happened: the generation to capture before a change."""
        self.needs_save = False
        """It seems to check a text only after a save (as linters do)."""
        self._answers_unsaved = False
        self.has_answered = False
        self.unanswered = 0
        """How many changes in a row it left without a fresh answer, and has reported nothing since."""
        self._sent: OrderedDict[int, Path] = OrderedDict()
        """The versions that the server has received, newest last."""
        self.sent_last = 0
        """The number of the newest text that was (or is about to be) sent, or change on disk, for any file."""
        self.empty_first_s = 0.0
        """Seconds that an empty push must stay unchanged, by experience with this server: several push their first
        quick result (nothing) before a thorough check."""
        self._counts_itself = False
        """Its versions are none of ours: it has its own counter, so they do not identify a text."""

    def sync(
        self, path: Path, text: str, *, now: float, pull: bool, tell: bool = True
    ) -> tuple[SyncKind, int]:
        """Record that the server is (about to be) sent ``text``. Returns the notification to send and the version.

        ``pull``: the diagnostics of this file are pulled. ``tell`` False: nothing is sent, because the server wants no
        changes; it may read the file on disk.
        """
        document = self.documents.get(path)
        if document is not None:
            self.documents.move_to_end(path)
            if document.text == text:
                return "same", document.version
            self._unlearn_pause(document, now)
        self.count += 1
        orderly = True
        if document is not None:
            settled = self.settled_at(path, document.version, pull=pull)
            passed_over = self.passed_over_at(path, pull=pull)
            orderly = settled is not None and settled <= now
            if passed_over is not None and passed_over <= now:
                orderly = document.orderly  # Nothing will come about the older text that could be mixed up.
        self.sent_last = self.count
        told, told_text = self.count, text
        if document is not None and not tell:
            told, told_text = document.told, document.told_text
        saved, ignored = 0, False
        if document is not None:
            saved = document.saved
            ignored = saved != document.version and now - document.sent_at >= _A_WHILE_S
            ignored = ignored and not self.heard(path, document.version)
        self.documents[path] = ServerDocument(
            path, text, self.count, orderly, now, told, told_text, saved, ignored, document is not None
        )
        if told == self.count:
            self.sent(path, told)
        return ("open" if document is None else "change"), self.count

    def close(self, path: Path) -> bool:
        """Forget an open document and its diagnostics. False when it was not open."""
        self._pushed.pop(path, None)
        self._pulled.pop(path, None)
        return self.documents.pop(path, None) is not None

    def sent(self, path: Path, version: int) -> None:
        """Record that this version of ``path`` was sent."""
        self._sent[version] = path
        if len(self._sent) > _MAX_SENT:
            self._sent.popitem(last=False)

    def changed_on_disk(self) -> None:
        """Record that the server was notified of a change on disk: earlier answers may be out of date."""
        self.count += 1
        self.sent_last = self.count

    def saved(self, path: Path) -> bool:
        """Record that a save of ``path`` is sent. False: the server knows that already."""
        document = self.documents.get(path)
        if document is None or document.saved == document.version:
            return False
        document.saved = document.version
        return True

    def passed_over_at(self, path: Path, *, pull: bool) -> float | None:
        """Return the time (seconds) from which on no report about the unsaved newest text of ``path`` is expected;
        None: one is, or has come."""
        document = self.documents.get(path)
        if document is None or pull or not self.needs_save or document.saved == document.version:
            return None
        answer = self._pushed.get(path)
        if answer is not None and _is_about(answer, document.version):
            return None
        return document.sent_at + self.settling.doubtful_s

    def has_pulled(self, path: Path, *, surely: bool = False) -> bool:
        """Return whether there is a pulled answer about the newest text of ``path``; ``surely``: not one that came
        perhaps too early."""
        document, answer = self.documents.get(path), self._pulled.get(path)
        if document is None or answer is None or not _is_about(answer, document.version):
            return False
        return self.is_sure(answer.items) or not surely

    def is_sure(self, pulled: Sequence[object]) -> bool:
        """Return whether pulled diagnostics are final, even from a server at work: an empty answer is perhaps early."""
        return bool(pulled) or self._pulls_are_final

    def _version_of(self, path: Path, version: int | None) -> int | None:
        """Return the version of a push if it can be trusted; None when it is none of ours."""
        document = self.documents.get(path)
        if document is None or version is None:
            return version
        if version == document.told < document.version:
            return None  # it knows of no newer version, so only the order shows which text this is about
        if version < document.version and self._sent.get(version) != path:
            # An older version than those we remember may still be ours.
            self._counts_itself = self._counts_itself or len(self._sent) < _MAX_SENT
        return None if self._counts_itself else version

    def push(self, path: Path, version: int | None, items: tuple[RawDiagnostic, ...], *, now: float) -> bool:
        """Take in ``publishDiagnostics``. False when it is impossible or out of order, and so ignored."""
        document, latest = self.documents.get(path), self._pushed.get(path)
        version = self._version_of(path, version)
        if version is not None and document is not None and version > document.version:
            return False
        if version is not None and latest is not None and (latest.version or 0) > version:
            return False
        self.count += 1
        if document is None:
            # The document is closed: only its problems are worth keeping, as a baseline for "other files".
            if not items:
                self._pushed.pop(path, None)
                return True
            if len(self._pushed) >= _MAX_CLOSED_FILES and path not in self._pushed:
                return False
        else:
            self._learn(document, version)
            if document.changed:
                self._learn_pause(latest, items, now)
        self._pushed[path] = FileDiagnostics(items, version, self.count, now)
        return True

    def _learn(self, document: ServerDocument, about: int | None) -> None:
        """It pushes about this document (this version). A save too many is harmless, so one sign is enough."""
        heard = self._pushed.get(document.path)
        answered = heard is not None and _is_about(heard, document.saved)
        if not document.saved or (
            document.saved != document.version and (answered or about == document.version)
        ):
            self._answers_unsaved, self.needs_save = True, False
        elif document.ignored and document.saved == document.version and not self._answers_unsaved:
            self.needs_save = True

    def _learn_pause(
        self, before: FileDiagnostics | None, items: tuple[RawDiagnostic, ...], now: float
    ) -> None:
        """It pushed nothing, and now problems. If no text was sent in between, both are its answer to the same."""
        if before is None or before.items or not items or before.number < self.sent_last:
            return
        pause = now - before.at
        if pause <= _LONGEST_PAUSE_S:
            self.empty_first_s = min(max(self.empty_first_s, pause * _PAUSE_MARGIN), _LONGEST_PAUSE_S)

    def _unlearn_pause(self, document: ServerDocument, now: float) -> None:
        """Shorten the pause after an empty push has stayed unchanged for longer: perhaps it was an exception, on a busy
        machine."""
        answer = self._pushed.get(document.path)
        if answer is None or answer.items or not document.changed or not _is_about(answer, document.version):
            return
        if now - answer.at > self.empty_first_s:
            self.empty_first_s /= 2

    def pull(self, path: Path, version: int, items: tuple[RawDiagnostic, ...], *, now: float) -> bool:
        """Take in the response to a pull that was requested when the document had ``version``."""
        latest = self._pulled.get(path)
        if path not in self.documents or (latest is not None and (latest.version or 0) > version):
            return False
        self.count += 1
        self._pulled[path] = FileDiagnostics(items, version, self.count, now)
        return True

    def settled_at(self, path: Path, version: int, *, pull: bool) -> float | None:
        """When (seconds, maybe to come) the answer to ``version`` of ``path`` is final; None: none yet, or another
        version was sent since, and answers are about that one."""
        document = self.documents.get(path)
        if document is None or document.version != version:
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
        if answer.items or (pull and self.is_sure(answer.items)):
            return answer.at + wait
        final = self.progress.final_at(
            answer.at, document.sent_at, after_work_s=settling.unversioned_s, doubtful_s=settling.doubtful_s
        )
        if not pull:
            wait = max(wait, self.empty_first_s)
        return None if final is None else max(answer.at + wait, final)

    def known(self, path: Path, version: int = 0) -> tuple[RawDiagnostic, ...] | None:
        """Return the diagnostics of ``version`` of ``path`` or later ones, pushed and pulled; None: there are none.

        Those of older versions are left out: for a server that pushes late and is pulled too, the two would be mixed.
        """
        answers = [
            answer
            for answer in (self._pushed.get(path), self._pulled.get(path))
            if answer is not None and _is_about(answer, version)
        ]
        return _united([answer.items for answer in answers]) if answers else None

    def snapshot(self) -> dict[Path, tuple[RawDiagnostic, ...]]:
        """Return the current diagnostics of every file, to compare with later."""
        paths = self._pushed.keys() | self._pulled.keys()
        return {path: self.known(path) or () for path in paths}

    def heard(self, path: Path, number: int) -> bool:
        """Return whether something arrived about ``path`` after the thing numbered ``number``."""
        answers = (self._pushed.get(path), self._pulled.get(path))
        return any(answer is not None and answer.number > number for answer in answers)

    def said_after(self, number: int) -> list[Path]:
        """Return the files about which something arrived after the thing numbered ``number``."""
        answers = (*self._pushed.items(), *self._pulled.items())
        return sorted({path for path, answer in answers if answer.number > number})


def _is_about(answer: FileDiagnostics, version: int) -> bool:
    """Return whether it is about this version or a later one; without a version of its own the order decides."""
    return answer.number > version if answer.version is None else answer.version >= version


def _united(groups: Sequence[tuple[RawDiagnostic, ...]]) -> tuple[RawDiagnostic, ...]:
    """Pushed and pulled diagnostics of one server; those that it gives both ways count once."""
    if len(groups) == 1:
        return groups[0]
    first, second = groups
    seen = {repr(item) for item in first}
    return first + tuple(item for item in second if repr(item) not in seen)


class Timing(Struct, frozen=True):
    """Every wait on a language server, in seconds.

    The waits for an answer are counted from the end of the write and for all servers together: a caller that asks
    several of them computes one moment and waits for all of them until then. A server that is not even ready at that
    moment has given no fresh answer; it keeps starting, and its reports come late.
    """

    answer_s: float = 1.0
    """For a fresh answer about a change (the setting ``diagnostics_timeout_s``)."""
    silent_answer_s: float = 0.4
    """The limit for a server that left the last two changes unanswered: perhaps it is still starting."""
    quiet_s: float = 0.5
    """Without news, after a change that leaves no file to answer about (a deletion)."""
    deletion_s: float = 1.2
    """After a deletion, for the files that used it; basedpyright checks them half a second later."""
    around_s: float = 0.5
    """For reports on other open files, after the answer about the changed ones."""
    stalled_s: float = 60.0
    """Seconds without news after which an open ``$/progress`` no longer delays answers."""
    initialize_s: float = 20.0
    pull_s: float = 30.0
    shutdown_s: float = 1.0
    """For the answer to ``shutdown``, and again for the process to end after ``exit``."""
    terminate_s: float = 3.0
    """Between TERM and KILL."""
    settling: Settling = field(default_factory=lambda: Settling(versioned_s=0.3))
    """Several servers push an empty list for a new text first, with its version, and the problems some time later."""

    @classmethod
    def within(cls, answer_s: float) -> Timing:
        """Return the defaults, with at most ``answer_s`` for an answer, and a share of it for silent servers."""
        normal = cls()
        silent_s = normal.silent_answer_s * answer_s / normal.answer_s
        return replace(normal, answer_s=answer_s, silent_answer_s=silent_s)


class Wakeup:
    """Wakes all waiting tasks, each time it is rung."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    async def heard(self, until: float) -> bool:
        """Wait until it rings; False when ``until`` (loop's clock, seconds) came first."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                return await self._rung.wait()
        return False

    def wake(self) -> None:
        """Something happened."""
        self._rung.set()
        self._rung.clear()
