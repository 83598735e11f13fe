"""What a change broke, as the language servers see it: implements the Diagnostics port of the tools.

The rules (sources: conventions.md, "Diagnostics after a write", and known failures of other agents): the
baseline is taken before the write; only answers about the text after it count; "no answer in time" is never
"clean"; and only what the change made worse is reported.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import weakref
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lsp_bridge.language.delta import new_problems
from lsp_bridge.language.problems import SEVERITIES, RawDiagnostic, to_problems
from lsp_bridge.language.source_text import lines_of, read_source
from lsp_bridge.language_server import LanguageServer
from lsp_bridge.language_servers import LanguageServers
from tools.language import CurrentProblems, DiagnosticsReport, Problem, Severity

_MAX_PROBLEMS_A_FILE = 20
_MAX_OTHER_FILES = 5
_MANY_PROBLEMS = 300
_MUCH_TEXT = 200_000
"""Characters; beyond these two the comparison is done in a thread, to keep the event loop free."""
_BASELINE_SHARE = 0.6
"""Part of the deadline that may go into waiting for the baseline; the rest is for the answer itself."""
_BASELINE_PATIENCE_S = 30.0
"""How long a baseline may take while a person looks at the proposed change."""

_Raw = tuple[RawDiagnostic, ...]


class ServerDiagnostics:
    """The Diagnostics port on the language servers of a workspace."""

    def __init__(self, servers: LanguageServers, *, logger: logging.Logger | None = None) -> None:
        self._servers = servers
        self._log = logger or logging.getLogger("goalwright.lsp_client")
        self._tasks: set[asyncio.Task[Any]] = set()
        self._warming: set[Path] = set()
        self._runs: weakref.WeakSet[ServerDiagnosticsRun] = weakref.WeakSet()
        self.unjudged: dict[tuple[str, Path], tuple[str | None, _Raw | None]] = {}
        """By server and file, the text and problems before the first change that the server did not answer about:
        what that change broke is still news when an answer comes at last."""

    def warm(self, path: Path) -> None:
        """Somebody works on ``path``: start its servers in the background and open the file there."""
        try:
            if path in self._warming:
                return
            self._warming.add(path)
            self.spawn(self._warm(path)).add_done_callback(lambda _: self._warming.discard(path))
        except RuntimeError:  # no event loop: nothing to warm up for
            self._warming.discard(path)

    async def begin(self, paths: Sequence[Path]) -> ServerDiagnosticsRun:
        """Capture the baseline of ``paths``; call while the old content is on disk. Waits for no server."""
        before = {path: await read_source(path) for path in dict.fromkeys(paths)}
        run = ServerDiagnosticsRun(self, self._servers, before, self._log)
        self._runs.add(run)
        try:
            run.prepare()
        except Exception:  # the write that follows must not fail because of its eyes
            self._log.exception("language servers could not be prepared")
        return run

    async def changed(self, path: Path) -> None:
        """``path`` was changed on disk by somebody else: tell the servers that run. Never raises."""
        try:
            text = await read_source(path)
            for server in self._servers.alive():
                was_open = path in server.answers.documents
                if text is None:
                    server.close_document(path)
                elif was_open:
                    server.sync(path, text)
                server.watched(path, "update" if text is not None else "delete")
        except Exception:  # a port that never raises: a tool's work must not fail because of its eyes
            self._log.exception("language servers were not told about %s", path)

    async def overdue(self, paths: Sequence[Path]) -> DiagnosticsReport | None:
        """See the port."""
        raise NotImplementedError

    async def current(self, paths: Sequence[Path], least: Severity = "warning") -> CurrentProblems:
        """See the port."""
        raise NotImplementedError

    async def close(self) -> None:
        """Stop what happens in the background, and all servers. Returns when nothing is left."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._servers.close()

    def busy_elsewhere(self, run: ServerDiagnosticsRun) -> set[Path]:
        """The files that other runs are changing at this moment."""
        return {path for other in self._runs if other is not run and not other.over for path in other.paths}

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run ``work`` in the background."""
        try:
            task = asyncio.get_running_loop().create_task(work)
        except RuntimeError:
            work.close()
            raise
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _warm(self, path: Path) -> None:
        try:
            servers = self._servers.for_path(path).servers
            text = await read_source(path) if servers else None
            for server in servers:
                until = asyncio.get_running_loop().time() + server.timing.initialize_s
                if text is not None and await server.ready(until):
                    server.sync(path, text)
        except Exception:  # warm() promises never to raise, and nobody waits for this
            self._log.exception("could not warm up for %s", path)


@dataclass(slots=True)
class _Baseline:
    """What one server said about the old content."""

    versions: dict[Path, int] = field(default_factory=dict[Path, int])
    known: dict[Path, _Raw] = field(default_factory=dict[Path, "_Raw"])
    task: asyncio.Task[None] | None = None
    closed: bool = False
    """Too late: the new content is being sent, the old one must not follow."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What one server said about the change."""

    complete: bool
    problems: tuple[Problem, ...] = ()


class ServerDiagnosticsRun:
    """One change (of one or several files) under observation."""

    def __init__(
        self,
        diagnostics: ServerDiagnostics,
        servers: LanguageServers,
        before: Mapping[Path, str | None],
        logger: logging.Logger,
    ) -> None:
        self.over = False
        self._diagnostics = diagnostics
        self._servers = servers
        self._before = before
        self._log = logger
        self._baselines: dict[LanguageServer, _Baseline] = {}

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that change."""
        return tuple(self._before)

    def prepare(self) -> None:
        """Start the servers and ask them about the old content, in the background."""
        for path in self._before:
            for server in self._servers.for_path(path).servers:
                self._baseline(server)

    async def extend(self, paths: Sequence[Path]) -> None:
        """See the port."""
        raise NotImplementedError

    def drop(self) -> None:
        """See the port."""
        self.over = True

    async def report(self) -> DiagnosticsReport:
        """Call after the write. Waits for answers newer than the write, with a deadline; never raises."""
        try:
            return await self._report()
        except Exception:  # the port never raises: the edit has been applied, whatever happens here
            self._log.exception("diagnostics failed")
            return DiagnosticsReport("no_fresh_answer")
        finally:
            self.over = True

    async def _report(self) -> DiagnosticsReport:
        after = {path: await read_source(path) for path in self._before}
        watched: dict[LanguageServer, list[Path]] = {}
        resting: set[str] = set()
        for path in self._before:
            lookup = self._servers.for_path(path)
            resting.update(lookup.resting)
            for server in lookup.servers:
                watched.setdefault(server, []).append(path)
        verdicts = await asyncio.gather(
            *(self._ask(server, {path: after[path] for path in paths}) for server, paths in watched.items())
        )

        problems = self._bounded([problem for verdict in verdicts for problem in verdict.problems])
        names = tuple(s.name for s, verdict in zip(watched, verdicts, strict=True) if verdict.complete)
        if problems:
            return DiagnosticsReport("problems", problems, names)
        asked = any(after[path] is not None for paths in watched.values() for path in paths)
        missing = resting or not all(verdict.complete for verdict in verdicts)
        if missing and (asked or resting):
            return DiagnosticsReport("no_fresh_answer", (), names)
        return DiagnosticsReport("clean" if asked else "no_server", (), names)

    def _baseline(self, server: LanguageServer) -> _Baseline:
        baseline = self._baselines.get(server)
        if baseline is None:
            baseline = self._baselines[server] = _Baseline()
            baseline.task = self._diagnostics.spawn(self._take_baseline(server, baseline))
        return baseline

    async def _take_baseline(self, server: LanguageServer, baseline: _Baseline) -> None:
        now = asyncio.get_running_loop().time
        if not await server.ready(now() + server.timing.initialize_s) or baseline.closed:
            return
        for path, text in self._before.items():
            if text is not None and server.spec.language_of(path) is not None:
                baseline.versions[path] = server.sync(path, text)
                server.ask_again(path)
        for path in await server.answered(baseline.versions, now() + _BASELINE_PATIENCE_S):
            # Kept here, because the server forgets the file when too many others are opened meanwhile.
            baseline.known[path] = server.answers.known(path, baseline.versions[path]) or ()

    async def _ask(self, server: LanguageServer, after: Mapping[Path, str | None]) -> _Verdict:
        now = asyncio.get_running_loop().time
        deadline = now() + server.deadline_s()
        baseline = self._baseline(server)
        if baseline.task is not None and not baseline.task.done():
            await asyncio.wait({baseline.task}, timeout=server.deadline_s() * _BASELINE_SHARE)
            baseline.task.cancel()
        baseline.closed = True
        if not await server.ready(deadline):
            server.unanswered += 1
            return _Verdict(complete=False)

        # One that has begun to answer meanwhile is not cold any more.
        deadline = min(deadline, now() + server.deadline_s())
        # No await from here until everything is sent: what was known, and the change, are one moment.
        known = {path: self._newest(server, baseline, path) for path in after}
        elsewhere, mark = server.answers.snapshot(), server.answers.count
        versions = self._send(server, after)
        answered = await server.answered(versions, deadline)
        if versions:
            complete = len(answered) == len(versions)
            if complete:
                await server.look_around(after.keys(), min(deadline, now() + server.timing.around_s))
            server.unanswered = 0 if complete else server.unanswered + 1
        else:
            complete = False
            await server.quiet(deadline)

        said = {path: server.answers.known(path, versions[path]) or () for path in answered}
        problems = self._newly_broken(server, mark, elsewhere)
        unjudged = self._diagnostics.unjudged
        for path in versions.keys() - said.keys():
            unjudged.setdefault((server.name, path), (self._before[path], known[path]))
        for path, raw in said.items():
            text = after[path] or ""
            before, old = unjudged.pop((server.name, path), (self._before[path], known[path]))
            compare = functools.partial(_compare, path, before, text, old, raw)
            small = len(raw) <= _MANY_PROBLEMS and len(text) <= _MUCH_TEXT
            problems += compare() if small else await asyncio.to_thread(compare)
        return _Verdict(complete, tuple(problems))

    def _send(self, server: LanguageServer, after: Mapping[Path, str | None]) -> dict[Path, int]:
        """Tell ``server`` the new contents, all in one breath. Returns the versions to wait for."""
        versions: dict[Path, int] = {}
        for path, text in after.items():
            if text is None:
                server.close_document(path)
                server.watched(path, "update" if path.exists() else "delete")
                continue
            # A created file is announced first: other files that import it are looked at again.
            created = self._before[path] is None
            server.watched(path, "create" if created else "update")
            versions[path] = server.sync(path, text)
            server.saved(path)
        return versions

    def _newest(self, server: LanguageServer, baseline: _Baseline, path: Path) -> _Raw | None:
        """The newest settled answer about the old content of ``path``; None when there is none."""
        version = baseline.versions.get(path)
        if version is None:
            return None
        settled = server.answers.settled_at(path, version, pull=server.pulls(path))
        if settled is not None and settled <= asyncio.get_running_loop().time():
            return server.answers.known(path, version) or ()
        return baseline.known.get(path)

    def _newly_broken(self, server: LanguageServer, mark: int, before: Mapping[Path, _Raw]) -> list[Problem]:
        """New problems in files that did not change, among what was said after ``mark``."""
        broken: list[Problem] = []
        files = 0
        passed_over = {*self._before, *self._diagnostics.busy_elsewhere(self)}
        for path in server.answers.said_after(mark):
            document, raw = server.answers.documents.get(path), server.answers.known(path)
            if not raw or path in passed_over or self._servers.workspace not in path.parents:
                continue
            if path not in before and document is not None:
                continue  # just opened: its problems are news to us, not new
            text = document.text if document is not None else ""
            new = _compare(path, text, text, before.get(path, ()), raw)
            broken += new
            files += bool(new)
            if files == _MAX_OTHER_FILES:
                break
        return broken

    def _bounded(self, problems: Sequence[Problem]) -> tuple[Problem, ...]:
        """Without repetitions, in order, and not more than a model can use."""
        files: dict[Path, list[Problem]] = {path: [] for path in self._before}
        for problem in dict.fromkeys(problems):
            files.setdefault(problem.path, []).append(problem)
        others = [path for path, found in files.items() if found and path not in self._before]
        shown = [*self._before, *others[:_MAX_OTHER_FILES]]
        return tuple(p for path in shown for p in sorted(files[path], key=_order)[:_MAX_PROBLEMS_A_FILE])


def _compare(path: Path, before: str | None, after: str, known: _Raw | None, raw: _Raw) -> list[Problem]:
    if not raw:
        return []
    old = None if known is None or before is None else to_problems(path, known, lines_of(before))
    return new_problems(before, after, old, to_problems(path, raw, lines_of(after)))


def _order(problem: Problem) -> tuple[int, int, int]:
    return SEVERITIES.index(problem.severity), problem.line, problem.column
