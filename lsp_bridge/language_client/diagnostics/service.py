"""Find what a change broke, from all sources of problems: implements the Diagnostics port of the tools.

The rules: the baseline is taken before the write; an answer counts only when it is *fresh*, which means final and about
the current text of the file; "no fresh answer in time" is never "clean"; only problems that the change caused are
reported, and only once. A file that an earlier source (an editor) covers is not given to a later one (the servers).

Answered in time or not, a change stays in ``_seen``: to get late answers, the caller asks once more, by the same rules.
Files without a fresh answer are compared with the text before the first change that had none. A reported change is only
corrected: by errors in it that follow, and in other files for some seconds, or until the next change is sent to the
same server, which could be the cause from then on.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import weakref
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from lsp_bridge.language_client.diagnostics.merging import in_order, without_duplicates
from lsp_bridge.language_client.diagnostics.sources import (
    Change,
    FreshDiagnostics,
    Observer,
    Source,
    SourceWatch,
    Texts,
)
from lsp_bridge.language_client.diagnostics.verdict import Raw, news, on_new_lines, verdict_on
from lsp_bridge.language_client.text.problems import severe, to_problems
from tools.language_ports import CurrentProblems, DiagnosticsReport, Problem, Severity
from tools.process.background import Background
from tools.text.lines import lsp_lines

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine, Hashable, Mapping, Sequence
    from pathlib import Path

log = logging.getLogger("goalwright.diagnostics")

_OTHERS_S = 15.0
"""How long other files are watched for what a change has broken there."""
_KEPT_S = 600.0
"""Seconds that findings are kept for a session that works on something else, until the next change."""
_LEAST: Severity = "warning"
"""The mildest problems that are reported about a change."""
_MAX_SEEN = 200
_MAX_SENT = 500
_MAX_OTHER_FILES = 5
"""With errors, that are looked at."""


class _CheckedFile(Struct, eq=False):
    """A changed file, as one observer sees it."""

    before: str | None
    """The text before the first change without a fresh answer; None: there was no file."""
    known: Raw | None
    """Diagnostics of that text; None: none yet."""
    open: bool = True
    """It has had no fresh answer yet."""
    after: str = ""
    """The text that was judged,"""
    raw: Raw = ()
    """the diagnostics of that text."""
    told: list[Problem] = field(default_factory=list[Problem])


class _ObserverFindings(Struct):
    """The findings of one observer."""

    problems: list[Problem] = field(default_factory=list[Problem])
    asked: bool = True
    sure: bool = False


class _CheckedChange(Struct, eq=False):
    """A change that one observer has been asked about."""

    run: ServiceRun
    observer: Observer
    paths: frozenset[Path]
    files: dict[Path, _CheckedFile]
    until: float
    """How long other files are watched (loop's clock, seconds)."""
    told: list[Problem]
    """About other files."""
    said: Mapping[Path, Raw] | None = None
    """All that the observer had said when it was shown the next change; None: it has not been."""
    watched: bool = True
    """Other files were, until then."""

    def open_files(self) -> dict[Path, _CheckedFile]:
        """Return the files without a fresh answer."""
        return {path: file for path, file in self.files.items() if file.open}


class DiagnosticsService:
    """The Diagnostics port on some sources, those first whose word counts more."""

    def __init__(self, workspace: Path, sources: Sequence[Source]) -> None:
        self.sources = sources
        self.read = sources[-1].read
        self._workspace = workspace
        self._background = Background("finding out about problems", level=logging.ERROR, logger=log)
        self._warming: set[Path] = set()
        self._runs: weakref.WeakSet[ServiceRun] = weakref.WeakSet()
        self._seen: list[_CheckedChange] = []
        self._sent: deque[tuple[int, int, Path]] = deque(maxlen=_MAX_SENT)
        """The files whose new contents were shown last: how many had been before, the number of the run, the path."""
        self.count = 0
        self.numbers = itertools.count()
        """Numbers for runs, kept in place of runs, which hold texts."""

    # ---- the port

    def warm(self, path: Path) -> None:
        """Prepare a source, only if those before it do not cover such files."""
        self._spawn(self._warm(path))

    async def begin(self, paths: Sequence[Path]) -> ServiceRun:
        run = ServiceRun(self)
        self._runs.add(run)
        try:
            await run.extend(paths)
        except BaseException:
            run.drop()
            raise
        return run

    async def changed(self, path: Path) -> None:
        """Never raises."""
        await self._changed(path, buffer=False)

    def buffer_changed(self, path: Path) -> None:
        """To be called once for many keystrokes: the whole text is compared."""
        self._spawn(self._changed(path, buffer=True))

    async def overdue(self, paths: Sequence[Path]) -> DiagnosticsReport | None:
        """Never raises."""
        try:
            return await self._overdue(set(paths))
        except Exception:  # the caller's work has finished
            log.exception("late diagnostics failed")
            return None

    async def current(self, paths: Sequence[Path], least: Severity = "warning") -> CurrentProblems:
        found: list[CurrentProblems] = []
        for source in self.sources:
            rest = found[-1].unwatched if found else tuple(paths)
            try:
                found.append(await source.current(rest, least) if rest else CurrentProblems(()))
            except Exception:  # the port never raises
                log.exception("the problems that there are now could not be read")
        problems = [problem for part in reversed(found) for problem in part.problems]
        return CurrentProblems(
            await asyncio.to_thread(lambda: in_order(without_duplicates(problems))),
            tuple(name for part in found for name in part.servers),
            tuple(dict.fromkeys(name for part in found for name in part.silent)),
            found[-1].unwatched if found else tuple(paths),
            sum(part.left_out for part in found),
        )

    async def close(self) -> None:
        """Stop what happens in the background, and the sources."""
        await self._background.close()
        for source in self.sources:
            await source.close()

    async def _warm(self, path: Path) -> None:
        if path in self._warming:
            return
        self._warming.add(path)
        try:
            for source in self.sources:
                if await source.warm(path):
                    return
        finally:
            self._warming.discard(path)

    async def _changed(self, path: Path, *, buffer: bool) -> None:
        for source in self.sources:
            try:
                await source.changed(path, buffer=buffer)
            except Exception:  # a tool must not fail because of its diagnostics
                log.exception("%s was changed, and not everybody could be told", path)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            self._background.start(work)
        except RuntimeError:  # no event loop: nothing to notify
            work.close()

    # ---- interface for the runs

    def older(self, key: Hashable, path: Path, unknown: bool) -> str | None:
        file = self._open_file(key, path)
        return file.before if file is not None and (file.known is None or unknown) else None

    def sent(
        self, run: ServiceRun, key: Hashable, paths: Collection[Path], said: Mapping[Path, Raw] | None
    ) -> int:
        """Record that reports of ``key`` from now on are not about earlier changes."""
        now = asyncio.get_running_loop().time()
        for seen in self._seen:
            if said is None or seen.observer.key != key or seen.said is not None:
                continue
            for path, file in list(seen.files.items()):
                if not file.open and seen.observer.said(path)[0] != file.after:
                    del seen.files[path]  # the user typed there, so later findings are about other text
            seen.watched = seen.watched and now <= seen.until
            seen.said, seen.until = said, now + _KEPT_S
        self.count += 1
        self._sent.extend((self.count, run.number, path) for path in paths)
        return self.count

    async def report(self, run: ServiceRun) -> DiagnosticsReport:
        """Return the problems that a written change has caused."""
        started = asyncio.get_running_loop().time()
        after = {path: await self.read(path) for path in run.before}
        self.sent(run, None, after, None)
        observers: list[Observer] = []
        silent: list[str] = []
        for watch in run.watches:
            found, resting = await watch.observers(after)
            observers += found
            silent += resting
        for seen in self._seen:
            for path in (path for path in seen.open_files() if path in after and after[path] is None):
                del seen.files[path]
        verdicts = await asyncio.gather(*(self._ask(run, one, after, started) for one in observers))
        problems = [problem for verdict in verdicts for problem in verdict.problems]
        answered: list[str] = []
        for observer, verdict in zip(observers, verdicts, strict=True):
            if verdict.asked or verdict.problems:
                (answered if verdict.sure else silent).append(observer.name)
        return await verdict_on(problems, run.before, answered, silent)

    def ended(self, run: ServiceRun) -> None:
        """Handle the end of ``run``: missing answers are awaited in the background."""
        for observer, files in run.owed:
            self._spawn(self._catch_up(observer, files))

    async def _catch_up(self, observer: Observer, files: Mapping[Path, _CheckedFile]) -> None:
        """Find the problems before changes that came too early for that, and send the current texts."""
        known = await observer.look_back(
            {path: file.before if file.known is None else None for path, file in files.items()}
        )
        for path, raw in known.items():
            files[path].known = raw

    # ---- one rule for all answers, in time or late

    async def _ask(
        self, run: ServiceRun, observer: Observer, after: Texts, started: float
    ) -> _ObserverFindings:
        """Ask an observer; an unexpected failure counts as silence of this observer only."""
        try:
            heard = await observer.ask(after, started)
            return await self._judge_all(run, observer, heard)
        except Exception:
            log.exception("the answer of %s could not be judged", observer.name)
            return _ObserverFindings()

    async def _judge_all(
        self, run: ServiceRun, observer: Observer, heard: FreshDiagnostics
    ) -> _ObserverFindings:
        files = {path: self._file(run, observer, heard, path) for path in (*heard.missing, *heard.fresh)}
        until = asyncio.get_running_loop().time() + _OTHERS_S
        seen = _CheckedChange(run, observer, frozenset(run.before), files, until, [])
        self._seen = [*self._seen[-_MAX_SEEN + 1 :], seen]
        owed = {} if observer.since else dict(files)
        verdict = _ObserverFindings(await self._others(seen, _LEAST), heard.asked, heard.complete)
        for path, (text, raw) in heard.fresh.items():
            found, sure = await self._judge(observer, path, files[path], text, raw)
            verdict.problems += found
            if not sure:
                verdict.sure, owed[path] = False, files[path]
        if owed and observer.follows:
            run.owed.append((observer, owed))
        return verdict

    def _file(self, run: ServiceRun, observer: Observer, heard: FreshDiagnostics, path: Path) -> _CheckedFile:
        """Return the state to compare an answer about ``path`` with: the text before the first change that had no
        answer."""
        file = self._open_file(observer.key, path, take=True) or _CheckedFile(run.before[path], None)
        if file.known is None and path in observer.baseline and observer.baseline[path] == file.before:
            file.known = heard.known.get(path)
        return file

    def _open_file(self, key: Hashable, path: Path, *, take: bool = False) -> _CheckedFile | None:
        for seen in self._seen:
            if seen.observer.key == key and path in seen.open_files():
                return seen.files.pop(path) if take else seen.files[path]
        return None

    async def _judge(
        self, observer: Observer, path: Path, file: _CheckedFile, text: str, raw: Raw, *, late: bool = False
    ) -> tuple[list[Problem], bool]:
        """Return unreported new problems of one file, and whether these are all of them."""
        sure = True
        if late and text == file.before:  # e.g. undone: then nothing in it is new
            found: list[Problem] = []
        elif file.known is None and file.before is not None and (everything := severe(raw, _LEAST)):
            if late and observer.follows:
                return [], False  # the server is being asked about the text before
            # Without a baseline, only problems on changed lines are certainly new.
            found = await on_new_lines(path, file.before, text, raw, _LEAST)
            sure = late or len(found) == len(everything)
        else:
            found = await news(path, file.before, text, file.known, raw, _LEAST)
        if sure or not observer.follows:
            file.open, file.after, file.raw = False, text, raw
        return _untold(found, file.told), sure

    async def _others(self, seen: _CheckedChange, least: Severity) -> list[Problem]:
        """Return new, unreported problems of unchanged files."""
        observer, found = seen.observer, list[Problem]()
        with_errors: set[Path] = set()
        passed_over = self._passed_over(seen)
        for other in await observer.others(seen.said):
            if other.path in passed_over or self._workspace not in other.path.parents:
                continue
            found += await news(other.path, other.text, other.text, other.before, other.raw, least)
            with_errors.update(problem.path for problem in found if problem.severity == "error")
            if len(with_errors) == _MAX_OTHER_FILES:
                break
        return _untold(self._still(seen, found), seen.told)

    def _passed_over(self, seen: _CheckedChange) -> set[Path]:
        """Return the files that are left to this change's own report, or to those of parallel or later changes."""
        key, since = seen.observer.key, seen.observer.since
        busy = (run for run in self._runs if run is not seen.run and not run.over)
        return {
            *seen.paths,
            *(path for run in busy for path in run.before),
            *(path for at, run, path in self._sent if at > since and run != seen.run.number),
            *(path for one in self._seen if one.observer.key == key for path in one.open_files()),
        }

    def _still(self, seen: _CheckedChange, problems: list[Problem]) -> list[Problem]:
        """Return the problems that were not fixed meanwhile, of those that were reported until the next change."""
        if seen.said is None:
            return problems
        there: dict[Path, set[tuple[Path, str, str, str]]] = {}
        for path in {problem.path for problem in problems}:
            text, raw = seen.observer.said(path)
            there[path] = set(map(_words, to_problems(path, severe(raw, _LEAST), lsp_lines(text or ""))))
        return [problem for problem in problems if _words(problem) in there[problem.path]]

    async def _overdue(self, wanted: set[Path]) -> DiagnosticsReport | None:
        now = asyncio.get_running_loop().time()
        self._seen = [seen for seen in self._seen if _lives(seen, now)]
        mine = [seen for seen in self._seen if seen.run.over and seen.paths & wanted]
        fresh = await self._ask_again(mine, wanted)
        problems: list[Problem] = []
        answered: list[str] = []
        silent: list[str] = []
        for seen in mine:
            ended = seen.said is not None  # the next change may be shown during the look
            try:
                found, spoke = await self._look_again(seen, fresh, now)
            except Exception:  # a failing observer must not affect the others
                log.exception("the late answer of %s could not be judged", seen.observer.name)
                found, spoke = [], False
            problems += found
            if found or spoke:
                answered.append(seen.observer.name)
            if wanted.intersection(seen.open_files()):
                silent.append(seen.observer.name)
            if ended:  # an ended change is checked once more
                seen.files, seen.watched, seen.until = seen.open_files(), False, 0.0
        changed = dict.fromkeys(path for seen in mine for path in seen.paths)
        return await verdict_on(problems, changed, answered, silent) if answered else None

    async def _ask_again(
        self, mine: Sequence[_CheckedChange], wanted: set[Path]
    ) -> dict[tuple[Hashable, Path], tuple[str, Raw]]:
        """Return the fresh answers that have come by now about open files: each observer is asked once."""
        asked: dict[Hashable, tuple[Observer, set[Path]]] = {}
        for seen in mine:
            if paths := wanted.intersection(seen.open_files()):
                asked.setdefault(seen.observer.key, (seen.observer, set()))[1].update(paths)
        now = {path: await self.read(path) for _, paths in asked.values() for path in paths}
        texts = {path: text for path, text in now.items() if text is not None}
        answers = await asyncio.gather(
            *(
                observer.again({path: texts[path] for path in paths if path in texts})
                for observer, paths in asked.values()
            )
        )
        return {
            (key, path): (texts[path], raw)
            for key, answer in zip(asked, answers, strict=True)
            for path, raw in answer.items()
        }

    async def _look_again(
        self, seen: _CheckedChange, fresh: Mapping[tuple[Hashable, Path], tuple[str, Raw]], now: float
    ) -> tuple[list[Problem], bool]:
        """Return new problems of a change so far, and whether a missing answer has come."""
        observer, found, spoke = seen.observer, list[Problem](), False
        judged = {path: file for path, file in seen.files.items() if not file.open}
        for path, file in seen.open_files().items():
            if (observer.key, path) in fresh:
                text, raw = fresh[observer.key, path]
                new, sure = await self._judge(observer, path, file, text, raw, late=True)
                found += new
                spoke = spoke or sure
        if observer.follows and judged:
            texts = {path: file.after for path, file in judged.items()}
            answers = await observer.again(texts) if seen.said is None else seen.said
            for path, file in judged.items():
                if (raw := answers.get(path, file.raw)) != file.raw:
                    new = await news(path, file.before, file.after, file.known, raw, "error")
                    found += _untold(self._still(seen, new), file.told)
        if seen.watched and (spoke or seen.said is not None or now <= seen.until):
            found += await self._others(seen, _LEAST if spoke else "error")
        return found, spoke


class ServiceRun:
    """One change of one or several files: implements DiagnosticsRun."""

    def __init__(self, service: DiagnosticsService) -> None:
        self.number = next(service.numbers)
        self.before: dict[Path, str | None] = {}
        """The files that change, with the texts before."""
        self.over = False
        self.owed: list[tuple[Observer, dict[Path, _CheckedFile]]] = []
        """Files whose older texts are to be asked about as soon as this is over."""
        self._service = service
        change = Change(service.count, service.older, functools.partial(service.sent, self))
        self.watches: list[SourceWatch] = [source.begin(change) for source in service.sources]

    async def extend(self, paths: Sequence[Path]) -> None:
        """Waits for no server."""
        rest = {
            path: await self._service.read(path) for path in dict.fromkeys(paths) if path not in self.before
        }
        self.before.update(rest)
        for watch in self.watches:
            try:
                covered = await watch.extend(rest)
            except Exception:  # the write that follows must not fail because of its diagnostics
                log.exception("the diagnostics before a change could not be prepared")
                continue
            rest = {path: text for path, text in rest.items() if path not in covered}

    async def report(self) -> DiagnosticsReport:
        try:
            return await self._service.report(self)
        except Exception:  # the port never raises: the edit has been applied in any case
            log.exception("diagnostics failed")
            return DiagnosticsReport("no_fresh_answer")
        finally:
            self.drop()

    def written(self) -> None:
        """Whoever keeps this run asks for its report, or drops it."""

    def drop(self) -> None:
        if not self.over:
            self.over = True
            for watch in self.watches:
                watch.end()
            self._service.ended(self)


def _lives(seen: _CheckedChange, now: float) -> bool:
    """Return whether more may come about a change. Files that only a gone observer could report on are dropped."""
    if seen.observer.gone or not seen.observer.follows:
        seen.files, seen.watched, seen.until = seen.open_files(), False, 0.0
        if not seen.observer.follows and seen.observer.gone:
            return False
    return bool(seen.open_files()) or now <= seen.until or (seen.said is None and bool(seen.files))


def _untold(problems: Sequence[Problem], told: list[Problem]) -> list[Problem]:
    """Return ``problems`` without those reported already, wherever they are now; the rest is marked as reported."""
    left = Counter(map(_words, told))
    found: list[Problem] = []
    for problem in problems:
        if left[_words(problem)] > 0:
            left[_words(problem)] -= 1
        else:
            found.append(problem)
    told += found
    return found


def _words(problem: Problem) -> tuple[Path, str, str, str]:
    return problem.path, problem.source, problem.code, problem.message
