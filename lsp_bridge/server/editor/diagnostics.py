"""What the extensions of the attached editors say about a change: the editor's eyes.

The rules are those of the daemon's own servers: a baseline before the write, only answers about the text after it, and
no answer in time is never "clean". Which text an answer is about, the editor finds out by the text's hash.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lsp_bridge.language_client.diagnostics.verdict import Raw, news, on_new_lines
from lsp_bridge.language_client.text.positions import lines_of
from lsp_bridge.language_client.text.problems import severe, to_problems
from lsp_bridge.server.editor.clients import EditorPeer, EditorPeers, PeerGoneError
from lsp_bridge.server.editor.editor_answers import EditorAnswer, EditorFileAnswer, checked
from lsp_bridge.server.editor.stale_text import UNREADABLE, Replaced
from tools.language import Problem, Severity

Read = Callable[[Path], Awaitable[str | None]]
"""The text of a file as the person sees it, or None."""

EDITOR_DIAGNOSTICS = "goalwright/editor/diagnostics"
"""As in ``editor_protocol``."""

_MAX_OTHER_FILES = 5
_MAX_UNJUDGED = 200
_MAX_CURRENT = 50
"""Files that an editor is shown for one question about what there is now."""
_COVER_HOLDS_S = 30.0
"""How long a language that the editor did not cover is believed to be uncovered, when nobody changes such files."""


@dataclass(frozen=True, slots=True)
class EditorTiming:
    """Every wait on an editor, in seconds."""

    answer_s: float = 2.5
    """For what extensions say about a change."""
    settle_s: float = 0.3
    baseline_s: float = 0.3
    """For the answer to what an editor answers at once; a write waits for it."""
    trial_s: float = 6.0
    """For extensions to show that they look after a language; nobody waits for it."""
    grace_s: float = 0.3
    """For an answer to travel, beyond what the editor was given."""


@dataclass(frozen=True, slots=True)
class UnansweredFile:
    """A file before the first change that the editor did not answer about."""

    text: str | None
    known: Raw | None


@dataclass(slots=True)
class _Group:
    """Files of one baseline of one editor."""

    peer: EditorPeer
    generation: int
    uris: dict[Path, str]
    known: dict[Path, EditorFileAnswer]
    covered: frozenset[Path]


@dataclass(slots=True)
class EditorVerdict:
    """What the editors said about a change."""

    problems: list[Problem] = field(default_factory=list[Problem])
    answered: list[str] = field(default_factory=list[str])
    silent: list[str] = field(default_factory=list[str])
    """Editors that look after a file asked about and did not answer about it."""


@dataclass(slots=True)
class EditorCurrent(EditorVerdict):
    """All problems that editors show in some files."""

    watched: set[Path] = field(default_factory=set[Path])
    """Files that an editor looks after."""
    left_out: int = 0


class EditorDiagnostics:
    """The editors as a source of problems. Nothing here raises: an editor's trouble is not the write's."""

    def __init__(
        self,
        peers: EditorPeers,
        workspace: Path,
        read: Read,
        *,
        least: Severity = "warning",
        timing: EditorTiming | None = None,
        path_of: Callable[[str], Path | None],
        clock: Callable[[], float] = time.monotonic,
        logger: logging.Logger | None = None,
    ) -> None:
        """``path_of`` turns an editor's uri into a path with symlinks resolved. ``clock`` is for what is remembered."""
        self.workspace = workspace
        self.read = read
        self.least: Severity = least
        self.timing = timing or EditorTiming()
        self.path_of = path_of
        self.log = logger or logging.getLogger("goalwright.editor")
        self.unjudged: dict[tuple[EditorPeer, Path], UnansweredFile] = {}
        """By editor, not by its name (two windows share one), and file."""
        self.replaced = Replaced()
        self._peers = peers
        self._clock = clock
        self._cover: dict[str, tuple[bool, float]] = {}
        self._cover_of = peers.changes
        self._trials: dict[str, asyncio.Task[bool]] = {}

    @property
    def attached(self) -> bool:
        """Whether anybody can be asked."""
        return bool(self._peers.peers)

    async def begin(self, paths: Sequence[Path]) -> EditorRun:
        """Take the baseline of ``paths``. Waits shortly, for who looks after them must be known before the write."""
        run = EditorRun(self)
        await run.extend(paths)
        return run

    async def covers(self, path: Path) -> bool:
        """Whether an editor looks after files like ``path``; it is shown the file, and given time to prove it.

        For who has time: this may take seconds. What was found out is remembered.
        """
        text = await self.read(path)
        if text is None or UNREADABLE in text or not self.attached:
            return False
        suffix = _kind(path)
        known = self.remembered(path)
        if known is None:
            if (trial := self._trials.get(suffix)) is None:
                trial = self._trials[suffix] = asyncio.ensure_future(self._try(path, text))
                trial.add_done_callback(lambda _: self._trials.pop(suffix, None))
            return await asyncio.shield(trial)
        if known:
            await self.baseline({path: text})
        return known

    def remembered(self, path: Path) -> bool | None:
        """Whether files like ``path`` were covered when it was last asked for; None: nobody knows."""
        if self._cover_of != self._peers.changes:
            self._cover, self._cover_of = {}, self._peers.changes
        covered, until = self._cover.get(_kind(path), (False, 0.0))
        return covered if covered or self._clock() < until else None

    async def baseline(self, texts: Mapping[Path, str | None]) -> list[_Group]:
        """What all editors know now of these files, old and new; what does not exist or cannot be shown is left out."""
        asked = {path: text for path, text in texts.items() if text is None or UNREADABLE not in text}
        peers = list(self._peers.peers)
        if not asked or not peers:
            return []
        groups = await asyncio.gather(*(self._baseline(peer, asked) for peer in peers))
        found = [group for group in groups if group is not None]
        for path in asked:
            self._remember(path, any(path in group.covered for group in found))
        return found

    async def ask(
        self,
        peer: EditorPeer,
        texts: Mapping[Path, str | None],
        *,
        since: int | None,
        timeout_s: float,
        patient: bool = False,
    ) -> EditorAnswer | None:
        """One question to one editor; None: it has gone, did not answer in time, or answered nonsense."""
        # As EditorDiagnosticsParams says; its class is not made for this, the daemon is to start fast.
        params = {
            "files": await _files(peer, texts),
            "since": since,
            "settleMs": round(self.timing.settle_s * 1000),
            "timeoutMs": round(timeout_s * 1000),
            "patient": patient,
        }
        try:
            raw = await peer.ask(EDITOR_DIAGNOSTICS, params, timeout_s + self.timing.grace_s)
            return await checked(raw)
        except PeerGoneError as error:
            self.log.info("no diagnostics of an editor: %s", error)
        except Exception:  # whatever an editor sends, the write it is asked about has happened
            self.log.exception("an editor's diagnostics could not be read")
        return None

    async def overdue(self, paths: Iterable[Path]) -> list[Problem] | None:
        """What has come by now about changes that were not answered in time; None: nothing. Told once."""
        asked = {path for path in paths for _, late in self.unjudged if late == path}
        if not asked:
            return None
        texts = {path: await self.read(path) for path in asked}
        problems: list[Problem] = []
        told = False
        for group in await self.baseline(texts):
            for path, answer in group.known.items():
                if answer.freshness != "fresh" or (group.peer, path) not in self.unjudged:
                    continue
                item = self.unjudged.pop((group.peer, path))
                found = await self.judge(path, item.text, texts[path] or "", item.known, answer.diagnostics)
                problems += found[0]
                told = True
        return problems if told else None

    async def current(self, paths: Sequence[Path], least: Severity) -> EditorCurrent:
        """All problems of these files that the editors show; waits for answers about files that changed just now."""
        asked = list(paths)[:_MAX_CURRENT]
        texts = {path: text for path in asked if (text := await self.read(path)) is not None}
        groups = await self.baseline(texts)
        found = EditorCurrent()
        await asyncio.gather(*(self._current(group, texts, least, found) for group in groups))
        more = {path for path in list(paths)[_MAX_CURRENT:] if self.remembered(path)}
        found.watched |= more
        found.left_out = len(more)
        return found

    async def close(self) -> None:
        """Stop what happens in the background."""
        trials = list(self._trials.values())
        for trial in trials:
            trial.cancel()
        await asyncio.gather(*trials, return_exceptions=True)

    async def judge(
        self, path: Path, before: str | None, after: str, known: Raw | None, raw: Raw
    ) -> tuple[list[Problem], bool]:
        """What is new in one file, and whether that is all of it."""
        if known is None and before is not None and (all_of_it := severe(raw, self.least)):
            # Nobody knows what was there before: only what stands on changed lines is surely new.
            found = await on_new_lines(path, before, after, raw, self.least)
            return found, len(found) == len(all_of_it)
        return await news(path, before, after, known, raw, self.least), True

    async def _current(
        self, group: _Group, texts: Mapping[Path, str], least: Severity, found: EditorCurrent
    ) -> None:
        async def ask(texts: Mapping[Path, str], timeout_s: float) -> EditorAnswer | None:
            return await self.ask(group.peer, texts, since=group.generation, timeout_s=timeout_s)

        answers = dict(group.known)
        open_ones = {path: texts[path] for path in group.covered if answers[path].freshness == "pending"}
        if open_ones:
            late, now = await self.replaced.answer(ask, open_ones, self.read, self.timing.answer_s)
            texts = {**texts, **now}
            for path in open_ones:
                answer = None if late is None else late.files.get(group.uris[path])
                answers[path] = answer or EditorFileAnswer("pending")
        fresh = {path for path, answer in answers.items() if answer.freshness == "fresh"}
        for path in fresh:
            raw = severe(answers[path].diagnostics, least)
            found.problems += to_problems(path, raw, lines_of(texts[path]))
        found.watched |= group.covered
        if fresh:
            found.answered.append(group.peer.name)
        if group.covered - fresh:
            found.silent.append(group.peer.name)

    async def _baseline(self, peer: EditorPeer, texts: Mapping[Path, str | None]) -> _Group | None:
        uris = {path: peer.uri_of(path) for path in texts}
        answer = await self.ask(peer, texts, since=None, timeout_s=self.timing.baseline_s)
        if answer is None:
            return None
        known = {path: answer.files[uri] for path, uri in uris.items() if uri in answer.files}
        covered = frozenset(path for path, file in known.items() if file.freshness != "uncovered")
        return _Group(peer, answer.generation, uris, known, covered)

    async def _try(self, path: Path, text: str) -> bool:
        async def try_one(peer: EditorPeer) -> bool:
            answer = await self.ask(peer, {path: text}, since=0, timeout_s=self.timing.trial_s, patient=True)
            return answer is not None and any(file.freshness != "uncovered" for file in answer.files.values())

        covered = any(await asyncio.gather(*(try_one(peer) for peer in list(self._peers.peers))))
        self._remember(path, covered)
        return covered

    def _remember(self, path: Path, covered: bool) -> None:
        self._cover[_kind(path)] = (covered, self._clock() + _COVER_HOLDS_S)


class EditorRun:
    """One change under observation by the editors."""

    def __init__(self, source: EditorDiagnostics) -> None:
        self._source = source
        self._before: dict[Path, str | None] = {}
        self._groups: list[_Group] = []
        self._began = source.replaced.count

    @property
    def covered(self) -> frozenset[Path]:
        """The files that an editor looks after, by what it has shown until now."""
        return frozenset[Path]().union(*(group.covered for group in self._groups))

    async def extend(self, paths: Sequence[Path]) -> None:
        """More files are about to change."""
        if not self._source.attached:
            return
        added = {path: await self._source.read(path) for path in paths if path not in self._before}
        self._before |= added
        self._groups += await self._source.baseline(added)

    async def report(self) -> EditorVerdict:
        """Call after the write. Waits for answers about the texts that are there now, with a deadline."""
        after = {path: await self._source.read(path) for path in self._before}
        verdict = EditorVerdict()
        await asyncio.gather(*(self._ask(group, after, verdict) for group in self._groups))
        return verdict

    async def _ask(self, group: _Group, after: Mapping[Path, str | None], verdict: EditorVerdict) -> None:
        source, peer = self._source, group.peer
        there = {path: text for path in group.uris if (text := after[path]) is not None}
        deleted = len(there) < len(group.uris)
        texts = {path: text for path, text in there.items() if UNREADABLE not in text}
        if not texts and not (deleted and group.covered):
            return

        async def ask(texts: Mapping[Path, str], timeout_s: float) -> EditorAnswer | None:
            return await source.ask(peer, texts, since=group.generation, timeout_s=timeout_s)

        answer, texts = await source.replaced.answer(ask, texts, source.read, source.timing.answer_s)
        complete = True
        for path, text in texts.items():
            file = None if answer is None else answer.files.get(group.uris[path])
            if file is None or file.freshness != "fresh":
                complete = complete and path not in group.covered
                if path in group.covered:
                    self._leave_open(group, path, file)
                continue
            before = self._unjudged(group, path, file)
            source.unjudged.pop((peer, path), None)
            found, sure = await source.judge(path, before.text, text, before.known, file.diagnostics)
            verdict.problems += found
            complete = complete and sure
        if answer is not None:
            verdict.problems += await self._others(answer, after)
        if not complete:
            verdict.silent.append(peer.name)
        elif answer is not None and any(file.freshness == "fresh" for file in answer.files.values()):
            verdict.answered.append(peer.name)

    def _unjudged(self, group: _Group, path: Path, file: EditorFileAnswer | None) -> UnansweredFile:
        """What this change of ``path`` is to be compared with."""
        if (open_one := self._source.unjudged.get((group.peer, path))) is not None:
            return open_one
        known = None if file is None else file.before
        if known is None and (before := group.known.get(path)) is not None and before.freshness == "fresh":
            known = before.diagnostics
        return UnansweredFile(self._before[path], known)

    def _leave_open(self, group: _Group, path: Path, file: EditorFileAnswer | None) -> None:
        unjudged = self._source.unjudged
        unjudged[group.peer, path] = self._unjudged(group, path, file)
        gone = [key for key in unjudged if key[0].gone.is_set()]
        for key in gone or list(unjudged)[:-_MAX_UNJUDGED]:
            del unjudged[key]

    async def _others(self, answer: EditorAnswer, after: Mapping[Path, str | None]) -> list[Problem]:
        """New problems of files that did not change."""
        broken: list[Problem] = []
        files = 0
        for uri, file in answer.others.items():
            path = self._source.path_of(uri)
            if path is None or path in after or self._source.workspace not in path.parents:
                continue
            text = await self._source.read(path)
            if text is None or self._source.replaced.since(path, self._began):
                continue  # gone, or an undo or a user changed it meanwhile: what is new there is not by this change
            found = await news(path, text, text, file.before or (), file.diagnostics, self._source.least)
            broken += found
            files += bool(found)
            if files == _MAX_OTHER_FILES:
                break
        return broken


def _kind(path: Path) -> str:
    """What files of one language have in common."""
    return path.suffix.lower() or path.name


async def _files(peer: EditorPeer, texts: Mapping[Path, str | None]) -> list[dict[str, Any]]:
    def hashed() -> list[dict[str, Any]]:
        return [
            {"uri": peer.uri_of(path), "textHash": None if text is None else text_hash(text)}
            for path, text in texts.items()
        ]

    # Hashing a large text takes milliseconds.
    large = sum(len(text or "") for text in texts.values()) > 200_000
    return await asyncio.to_thread(hashed) if large else hashed()


def text_hash(text: str) -> str:
    """See ``EditorFile.text_hash``."""
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()
