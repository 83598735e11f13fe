"""The extensions of the attached editors as a source of diagnostics.

The editor identifies the text of an answer by its hash. Editors watch the disk themselves, so they are not notified of
a write; they are asked about the texts after it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lsp_bridge.language_client.diagnostics.sources import (
    Change,
    FreshDiagnostics,
    Observer,
    OtherFile,
    Read,
    Source,
    SourceWatch,
    Texts,
)
from lsp_bridge.language_client.server.diagnostics_freshness import Wakeup
from lsp_bridge.language_client.text.problems import severe, to_problems
from lsp_bridge.server.documents.open_documents import path_of
from lsp_bridge.server.editor.clients import EditorPeer, EditorPeers, PeerGoneError
from tools.json_access import array, mapping, mappings, string
from tools.language_ports import CurrentProblems, Problem, Severity
from tools.text.lines import lsp_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from lsp_bridge.language_client.diagnostics.verdict import Raw
    from lsp_bridge.language_client.text.problems import RawDiagnostic
    from lsp_bridge.protocol.editor import Freshness

_log = logging.getLogger("goalwright.editor")

EDITOR_DIAGNOSTICS = "goalwright/editor/diagnostics"
"""As in ``lsp_bridge.protocol.editor``."""
_MAX_FILES = 500
"""Files of one answer."""
_FRESHNESS: dict[str, Freshness] = {"fresh": "fresh", "pending": "pending", "uncovered": "uncovered"}
_UNREADABLE = "\N{REPLACEMENT CHARACTER}"
"""Occurs in a text that no editor shows unchanged."""
_MAX_CURRENT = 50
"""Most files for one query about current problems."""
_MAX_CHANGED = 1_000
"""Files whose last change is remembered."""
_COVER_HOLDS_S = 30.0
"""Seconds for which a language counts as uncovered after the editor did not cover it, when no such file changes."""


class EditorFileAnswer(Struct, frozen=True):
    """One editor's diagnostics of one file; see ``EditorFileDiagnostics``."""

    freshness: Freshness
    diagnostics: tuple[RawDiagnostic, ...] = ()
    before: tuple[RawDiagnostic, ...] | None = None


class EditorAnswer(Struct, frozen=True):
    """By uri, as the editor wrote them."""

    generation: int
    files: Mapping[str, EditorFileAnswer]
    others: Mapping[str, EditorFileAnswer]


class EditorTiming(Struct, frozen=True):
    """Every wait on an editor, in seconds."""

    answer_s: float = 1.0
    """For reports of extensions about a change."""
    settle_s: float = 0.3
    baseline_s: float = 0.3
    """For the answer to what an editor answers at once; a write waits for it."""
    trial_s: float = 6.0
    """For extensions to show that they cover a language; nothing waits for it."""
    grace_s: float = 0.3
    """For an answer to travel, beyond what the editor was given."""

    @classmethod
    def within(cls, answer_s: float) -> EditorTiming:
        """Return the defaults with ``answer_s`` for an answer, and the baseline's time in proportion.

        Without a baseline an editor is not asked about the change, however long it may take to answer.
        """
        normal = cls()
        return cls(answer_s=answer_s, baseline_s=normal.baseline_s * answer_s / normal.answer_s)


class EditorSource(Source):
    """The attached editors."""

    def __init__(
        self,
        peers: EditorPeers,
        read: Read,
        *,
        timing: EditorTiming | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``clock`` is for cached results."""
        self.read = read
        self.timing = timing or EditorTiming()
        self.moment = 0
        """How many texts have changed."""
        self._peers = peers
        self._clock = clock
        self._changed: OrderedDict[Path, int] = OrderedDict()
        self._wakeup = Wakeup()
        self._cover: dict[str, tuple[bool, float]] = {}
        self._cover_of = peers.changes
        self._trials: dict[tuple[str, int], asyncio.Task[bool]] = {}
        """By kind of file and ``changes`` of the peers."""

    def begin(self, change: Change) -> EditorWatch:
        return EditorWatch(self, change)

    async def warm(self, path: Path) -> bool:
        """Return whether an editor covers files like ``path``; it opens the file, and gets time to prove it.

        This may take seconds. The result is cached.
        """
        known = self._remembered(path) if self._peers.peers else False
        if known is False:
            return False
        text = await self.read(path)
        if text is None or not shown(text):
            return False
        if known:
            await self.observers({path: text})
            return True
        of = _kind(path), self._peers.changes  # an editor that came since a trial began was not asked
        if (trial := self._trials.get(of)) is None:
            trial = self._trials[of] = asyncio.ensure_future(self._try(path, text))
            trial.add_done_callback(lambda _: self._trials.pop(of, None))
        return await asyncio.shield(trial)

    async def changed(self, path: Path, *, buffer: bool = False) -> None:
        """Record a change: editors that are being asked about the old text are asked about this one instead."""
        self.moment += 1
        self._changed[path] = self.moment
        self._changed.move_to_end(path)
        if len(self._changed) > _MAX_CHANGED:
            self._changed.popitem(last=False)
        self._wakeup.wake()

    def changed_since(self, path: Path, moment: int) -> bool:
        """Return whether an undo or a user gave ``path`` another text after the moment."""
        return self._changed.get(path, 0) > moment

    async def current(self, paths: Sequence[Path], least: Severity) -> CurrentProblems:
        """Waits for answers about files that changed just now."""
        if not self._peers.peers:
            return CurrentProblems((), unwatched=tuple(paths))
        asked = list(paths)[:_MAX_CURRENT]
        texts = {path: text for path in asked if (text := await self.read(path)) is not None}
        problems: list[Problem] = []
        answered: list[str] = []
        silent: list[str] = []
        watched: set[Path] = set()

        async def ask(observer: EditorObserver) -> None:
            fresh = {path: (texts[path], raw) for path, raw in observer.fresh().items()}
            if rest := {path: texts[path] for path in observer.covered - fresh.keys()}:
                fresh |= await observer.wait_for(rest)
            for path, (text, raw) in fresh.items():
                problems.extend(to_problems(path, severe(raw, least), lsp_lines(text)))
            watched.update(observer.covered)
            if fresh:
                answered.append(observer.name)
            if observer.covered - fresh.keys():
                silent.append(observer.name)

        await asyncio.gather(*(ask(observer) for observer in await self.observers(texts)))
        more = {path for path in list(paths)[_MAX_CURRENT:] if self._remembered(path)}
        watched |= more
        unwatched = tuple(path for path in paths if path not in watched)
        return CurrentProblems(tuple(problems), tuple(answered), tuple(silent), unwatched, len(more))

    async def close(self) -> None:
        """Stop what happens in the background."""
        trials = list(self._trials.values())
        for trial in trials:
            trial.cancel()
        await asyncio.gather(*trials, return_exceptions=True)

    # ---- interface for the changes

    async def observers(self, texts: Texts) -> list[EditorObserver]:
        """Return all editors' diagnostics of these files, old and new; missing files, and those that cannot be shown,
        are left out."""
        asked, changes = {path: text for path, text in texts.items() if shown(text)}, self._peers.changes
        everybody = [EditorObserver(self, peer, asked) for peer in self._peers.peers] if asked else []
        heard = await asyncio.gather(*(observer.look() for observer in everybody))
        found = [observer for observer, answered in zip(everybody, heard, strict=True) if answered]
        for path in asked if everybody else ():
            self._remember(path, any(path in observer.covered for observer in found), changes)
        return found

    async def ask_until_there(
        self, peer: EditorPeer, texts: Mapping[Path, str], since: int
    ) -> tuple[EditorAnswer | None, Mapping[Path, str]]:
        """Return an editor's answer about ``texts``, or about their replacements, and these.

        The user may type. Or an editor opened a file just before the write, and reports that after it: then it has the
        old text, which looks like an unsaved one, until it reloads the file from disk. Nobody answers about a text that
        is gone. All questions share one deadline.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + self.timing.answer_s
        while True:
            left = max(0.0, end - loop.time())
            asked = asyncio.ensure_future(self.ask(peer, texts, since=since, timeout_s=left))
            replaced = asyncio.ensure_future(self._replaced(texts))
            try:
                await asyncio.wait({asked, replaced}, return_when=asyncio.FIRST_COMPLETED)
                if asked.done() or loop.time() >= end:
                    return await asked, texts
                texts = replaced.result()
            finally:
                asked.cancel()
                replaced.cancel()

    async def ask(
        self, peer: EditorPeer, texts: Texts, *, since: int | None, timeout_s: float, patient: bool = False
    ) -> EditorAnswer | None:
        """Ask one editor; None: it has gone, did not answer in time, or sent an invalid answer."""
        # These fields match EditorDiagnosticsParams; importing its class would slow down the daemon's start.
        params = {
            "files": await _files(peer, texts),
            "since": since,
            "settleMs": round(self.timing.settle_s * 1000),
            "timeoutMs": round(timeout_s * 1000),
            "patient": patient,
        }
        try:
            raw = await peer.ask(EDITOR_DIAGNOSTICS, params, timeout_s + self.timing.grace_s)
            return checked(raw)
        except PeerGoneError as error:
            _log.info("no diagnostics of an editor: %s", error)
        except Exception:  # whatever an editor sends, the write has already happened
            _log.exception("an editor's diagnostics could not be read")
        return None

    async def _replaced(self, asked: Mapping[Path, str]) -> dict[Path, str]:
        """Return when a file has another text than it was asked about: the texts of all.

        A file that is gone, or cannot be shown, keeps the text that it was asked about.
        """
        while True:
            moment = self.moment
            now = {path: await self.read(path) for path in asked}
            texts = {
                path: text if text is not None and shown(text) else asked[path] for path, text in now.items()
            }
            if texts != asked:
                return texts
            while not any(self.changed_since(path, moment) for path in asked):
                await self._wakeup.heard(float("inf"))

    async def _try(self, path: Path, text: str) -> bool:
        async def try_one(peer: EditorPeer) -> bool:
            answer = await self.ask(peer, {path: text}, since=0, timeout_s=self.timing.trial_s, patient=True)
            return answer is not None and any(file.freshness != "uncovered" for file in answer.files.values())

        changes = self._peers.changes
        covered = any(await asyncio.gather(*(try_one(peer) for peer in list(self._peers.peers))))
        self._remember(path, covered, changes)
        return covered

    def _remembered(self, path: Path) -> bool | None:
        """Return whether files like ``path`` were covered at the last check; None: unknown."""
        if self._cover_of != self._peers.changes:
            self._cover, self._cover_of = {}, self._peers.changes
        covered, until = self._cover.get(_kind(path), (False, 0.0))
        return covered if covered or self._clock() < until else None

    def _remember(self, path: Path, covered: bool, changes: int) -> None:
        """Remember a result; ``changes``: of the peers, before they were asked."""
        if changes == self._peers.changes:
            self._cover[_kind(path)] = (covered, self._clock() + _COVER_HOLDS_S)


class EditorWatch(SourceWatch):
    """A change of one or several files."""

    def __init__(self, source: EditorSource, change: Change) -> None:
        self._source = source
        self._change = change
        self._observers: list[EditorObserver] = []
        self._began = source.moment

    async def extend(self, texts: Texts) -> Collection[Path]:
        """Take the baseline; waits briefly, because coverage must be known before the write."""
        found = await self._source.observers(texts)
        for observer in found:
            observer.since = self._change.began
            observer.began = self._began
        self._observers += found
        return frozenset[Path]().union(*(observer.covered for observer in found))

    async def observers(self, after: Texts) -> tuple[list[EditorObserver], tuple[()]]:
        return self._observers, ()


class EditorObserver(Observer):
    """One editor and some files of one change."""

    def __init__(self, source: EditorSource, peer: EditorPeer, texts: Texts) -> None:
        super().__init__(peer.name, peer)  # two windows share a name
        self.baseline.update(texts)
        self.began = 0
        """The source's moment when the change began."""
        self.covered = frozenset[Path]()
        self._source = source
        self._peer = peer
        self._uris = {path: peer.uri_of(path) for path in texts}
        self._generation = 0
        self._known: Mapping[Path, EditorFileAnswer] = {}
        self._before: Mapping[Path, Raw] = {}
        self._others: Mapping[str, EditorFileAnswer] = {}

    @property
    def gone(self) -> bool:
        return self._peer.gone.is_set()

    async def look(self) -> bool:
        """Hear what the editor knows already; that is the baseline, too. False: it said nothing."""
        source = self._source
        answer = await source.ask(self._peer, self.baseline, since=None, timeout_s=source.timing.baseline_s)
        if answer is None:
            return False
        self._generation, self._known = answer.generation, self._files(answer)
        self.covered = frozenset(path for path, file in self._known.items() if file.freshness != "uncovered")
        return True

    def fresh(self) -> dict[Path, Raw]:
        """Return the earlier diagnostics that are about the texts of the baseline."""
        return {path: file.diagnostics for path, file in self._known.items() if file.freshness == "fresh"}

    async def wait_for(self, texts: Mapping[Path, str]) -> dict[Path, tuple[str, Raw]]:
        """Return the fresh answers about these texts, or those that take their place, until the deadline."""
        answer, texts = await self._source.ask_until_there(self._peer, texts, self._generation)
        if answer is None:
            return {}
        self._others, files = answer.others, self._files(answer)
        before = {path: file.before for path, file in files.items()}
        self._before = {path: raw for path, raw in before.items() if raw is not None}
        return {
            path: (texts[path], file.diagnostics)
            for path, file in files.items()
            if file.freshness == "fresh" and path in texts
        }

    async def ask(self, after: Texts, started: float) -> FreshDiagnostics:
        files = {path: after[path] for path in self._uris}
        texts = {path: text for path, text in files.items() if text is not None and shown(text)}
        deleted = any(text is None for text in files.values())
        if not texts and not (deleted and self.covered):
            return FreshDiagnostics(asked=False)
        fresh = await self.wait_for(texts)
        missing = [path for path in texts if path in self.covered and path not in fresh]
        known = {**self.fresh(), **self._before}
        concerned = bool(missing or self.covered & fresh.keys())
        return FreshDiagnostics(
            fresh, {path: known.get(path) for path in files}, missing, not missing, concerned
        )

    async def others(self, said: Mapping[Path, Raw] | None = None) -> list[OtherFile]:
        source, found = self._source, list[OtherFile]()
        for uri, file in self._others.items():
            path = path_of(uri)
            # This change is not to blame for files that an undo or a user changed meanwhile.
            if path is None or source.changed_since(path, self.began):
                continue
            if (text := await source.read(path)) is not None:
                found.append(OtherFile(path, text, file.before or (), file.diagnostics))
        return found

    async def again(self, texts: Mapping[Path, str]) -> dict[Path, Raw]:
        now = EditorObserver(self._source, self._peer, texts)
        await now.look()
        return now.fresh()

    def _files(self, answer: EditorAnswer) -> dict[Path, EditorFileAnswer]:
        return {path: answer.files[uri] for path, uri in self._uris.items() if uri in answer.files}


def shown(text: str | None) -> bool:
    """Return whether an editor shows the text unchanged."""
    return text is None or _UNREADABLE not in text


def _kind(path: Path) -> str:
    """Return a key that files of one language share."""
    return path.suffix.lower() or path.name


async def _files(peer: EditorPeer, texts: Texts) -> list[dict[str, Any]]:
    def hashed() -> list[dict[str, Any]]:
        return [
            {"uri": peer.uri_of(path), "textHash": None if text is None else text_hash(text)}
            for path, text in texts.items()
        ]

    # Hashing a large text takes milliseconds.
    large = sum(len(text or "") for text in texts.values()) > 200_000
    return await asyncio.to_thread(hashed) if large else hashed()


def text_hash(text: str) -> str:
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()


def checked(raw: object) -> EditorAnswer | None:
    """Return the valid parts of ``raw``; None: it is no answer at all."""
    answer = mapping(raw)
    generation = answer.get("generation")
    if type(generation) is not int:
        return None
    return EditorAnswer(generation, _file_answers(answer.get("files")), _file_answers(answer.get("others")))


def _file_answers(files: object) -> dict[str, EditorFileAnswer]:
    found: dict[str, EditorFileAnswer] = {}
    for file in mappings(files)[:_MAX_FILES]:
        uri, freshness = file.get("uri"), _FRESHNESS.get(string(file.get("freshness")))
        # Of two answers about one file it is unknown which is right.
        if not isinstance(uri, str) or freshness is None or uri in found:
            continue
        # A value that is not a list is no answer; an empty list would mean "clean".
        if not isinstance(file.get("diagnostics", []), list):
            continue
        before = file.get("before")
        found[uri] = EditorFileAnswer(
            freshness,
            severe(array(file.get("diagnostics")), "hint"),
            None if before is None else severe(array(before), "hint"),
        )
    return found
