"""One change under observation: what the servers said before it, and what they say about it.

The baseline (what was known, and the generation of it) is taken before the change. One deadline, counted from the
end of the write, holds for all servers, who are asked in parallel. An answer counts only when it is newer than the
change; a server that has none in time is *silent*, whatever others say.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lsp_bridge.language_client.diagnostics.corrections import OTHERS_S, Judged, Watched
from lsp_bridge.language_client.diagnostics.late_diagnostics import Around, LateAnswers, Unjudged
from lsp_bridge.language_client.diagnostics.verdict import (
    Raw,
    bounded_aside,
    newly_broken,
    news,
    on_new_lines,
)
from lsp_bridge.language_client.text.problems import severe
from tools.language import DiagnosticsReport, Problem, Severity

if TYPE_CHECKING:
    import logging
    from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence

    from lsp_bridge.language_client.pool.server_pool import LanguageServers
    from lsp_bridge.language_client.server.language_server import LanguageServer

_BASELINE_SHARE = 0.6
"""Part of the deadline that may go into waiting for the baseline; the rest is for the answer itself."""
_BASELINE_PATIENCE_S = 30.0
"""How long a baseline may take while a person looks at the proposed change."""


class Observer(Protocol):
    """What a run needs of the diagnostics of its workspace."""

    @property
    def servers(self) -> LanguageServers: ...
    @property
    def late(self) -> LateAnswers: ...
    @property
    def least(self) -> Severity: ...
    async def read(self, path: Path) -> str | None: ...
    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]: ...
    def sent(self, run: ServerDiagnosticsRun, paths: Iterable[Path]) -> int: ...
    def others(self, run: ServerDiagnosticsRun, since: int) -> Collection[Path]: ...
    def ended(self, run: ServerDiagnosticsRun) -> None: ...


@dataclass(slots=True)
class _Baseline:
    """What one server said about the old contents."""

    texts: dict[Path, str] = field(default_factory=dict[Path, str])
    """What it was asked about: of a file with an unjudged change, the text before that change."""
    versions: dict[Path, int] = field(default_factory=dict[Path, int])
    known: dict[Path, Raw] = field(default_factory=dict[Path, "Raw"])
    tasks: list[asyncio.Task[None]] = field(default_factory=list["asyncio.Task[None]"])
    closed: bool = False
    """Too late: the new content is being sent, the old one must not follow."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What one server said about the change."""

    complete: bool
    problems: tuple[Problem, ...] = ()
    asked: bool = True
    """False: there was nothing that it could have been asked about."""


class ServerDiagnosticsRun:
    """One change of one or several files. Until its report the servers know the old contents of all of them."""

    def __init__(self, observer: Observer, logger: logging.Logger) -> None:
        self.over = False
        self._observer = observer
        self._before: dict[Path, str | None] = {}
        self._log = logger
        self._baselines: dict[LanguageServer, _Baseline] = {}
        self._owed: dict[LanguageServer, set[Path]] = {}
        """Files whose older texts a server is to be asked about as soon as this is over."""

    @property
    def paths(self) -> Collection[Path]:
        """The files that change."""
        return self._before.keys()

    async def extend(self, paths: Sequence[Path]) -> None:
        """See the port. Waits for no server."""
        added = {
            path: await self._observer.read(path) for path in dict.fromkeys(paths) if path not in self._before
        }
        self._before.update(added)
        try:
            asked: dict[LanguageServer, list[Path]] = {}
            for path in added:
                for server in self._observer.servers.for_path(path).servers:
                    asked.setdefault(server, []).append(path)
            for server, files in asked.items():
                self._take_baseline(server, files)
        except Exception:  # the write that follows must not fail because of its eyes
            self._log.exception("language servers could not be prepared")

    def drop(self) -> None:
        """See the port."""
        self._end()

    async def report(self) -> DiagnosticsReport:
        """Call after the write. Waits for answers newer than the write, with a deadline; never raises."""
        try:
            return await self._report()
        except Exception:  # the port never raises: the edit has been applied, whatever happens here
            self._log.exception("diagnostics failed")
            return DiagnosticsReport("no_fresh_answer")
        finally:
            self._end()

    def _end(self) -> None:
        if not self.over:
            self.over = True
            self._observer.ended(self)
            for server, paths in self._owed.items():
                self._observer.late.catch_up(server, paths)

    async def _report(self) -> DiagnosticsReport:
        started = asyncio.get_running_loop().time()
        after = {path: await self._observer.read(path) for path in self._before}
        watched: dict[LanguageServer, dict[Path, str | None]] = {}
        silent: list[str] = []
        for path, text in after.items():
            lookup = self._observer.servers.for_path(path)
            silent += lookup.resting
            for server in lookup.servers:
                watched.setdefault(server, {})[path] = text
        verdicts = await asyncio.gather(
            *(self._ask_safely(server, files, started) for server, files in watched.items())
        )

        answered: list[str] = []
        problems: list[Problem] = []
        asked = False
        for (server, files), verdict in zip(watched.items(), verdicts, strict=True):
            problems += verdict.problems
            if self._matters(files) and verdict.asked:
                asked = True
                (answered if verdict.complete else silent).append(server.name)
        shown, left_out = await bounded_aside(problems, self._before)
        missing = tuple(dict.fromkeys(silent))
        names = tuple(name for name in dict.fromkeys(answered) if name not in missing)
        if shown:
            return DiagnosticsReport("problems", shown, names, missing, left_out)
        if missing:
            return DiagnosticsReport("no_fresh_answer", (), names, missing)
        return DiagnosticsReport("clean" if asked else "no_server", (), names)

    def _matters(self, files: Mapping[Path, str | None]) -> bool:
        """Whether there is something to say: not about files too large to be shown, or that have come and gone."""
        return any(
            text is not None or (self._before[path] is not None and not path.exists())
            for path, text in files.items()
        )

    # ---- before

    def _take_baseline(self, server: LanguageServer, paths: Sequence[Path]) -> None:
        baseline = self._baselines.setdefault(server, _Baseline())
        baseline.tasks.append(self._observer.spawn(self._ask_about_old(server, baseline, paths)))

    async def _ask_about_old(
        self, server: LanguageServer, baseline: _Baseline, paths: Sequence[Path]
    ) -> None:
        now = asyncio.get_running_loop().time
        if not await server.ready(now() + server.timing.initialize_s) or baseline.closed:
            return
        asked: dict[Path, int] = {}
        for path in paths:
            item = self._observer.late.get(server, path)
            older = item is not None and item.known is None and item.before is not None
            text = item.before if item is not None and older else self._before[path]
            if text is not None and server.spec.language_of(path) is not None:
                baseline.texts[path] = text
                asked[path] = baseline.versions[path] = server.sync(path, text)
                server.ask_again(path)
        for path in await server.answered(asked, now() + _BASELINE_PATIENCE_S):
            # Kept here, because the server forgets the file when too many others are opened meanwhile.
            baseline.known[path] = server.answers.known(path, asked[path]) or ()
        # Files that an undo or a user has just changed have a baseline, too: what is said about their texts of now.
        recent = now() - server.deadline_s()
        documents = server.answers.documents
        await server.answered(
            {
                path: version
                for path, version in server.unsettled().items()
                if path not in asked and documents[path].changed and documents[path].sent_at > recent
            },
            now() + server.deadline_s(),
        )

    def _newest(self, server: LanguageServer, baseline: _Baseline, path: Path) -> Raw | None:
        """The newest settled answer about the old content of ``path``; None when there is none."""
        version = baseline.versions.get(path)
        if version is None:
            return None
        settled = server.answers.settled_at(path, version, pull=server.pulls(path))
        if settled is not None and settled <= asyncio.get_running_loop().time():
            return server.answers.known(path, version) or ()
        return baseline.known.get(path)

    # ---- after

    async def _ask_safely(
        self, server: LanguageServer, after: Mapping[Path, str | None], started: float
    ) -> _Verdict:
        """What nobody can make sense of is one server's silence, not everybody's."""
        try:
            return await self._ask(server, after, started)
        except Exception:
            self._log.exception("the answer of %s could not be judged", server.name)
            return _Verdict(complete=False)

    async def _ask(
        self, server: LanguageServer, after: Mapping[Path, str | None], started: float
    ) -> _Verdict:
        late, now = self._observer.late, asyncio.get_running_loop().time
        baseline = self._baselines.setdefault(server, _Baseline())
        under_way = [task for task in baseline.tasks if not task.done()]
        if under_way:
            share = server.deadline_s() * _BASELINE_SHARE
            await asyncio.wait(under_way, timeout=max(0.0, started + share - now()))
            for task in under_way:
                task.cancel()
        baseline.closed = True
        if not await server.ready(started + server.deadline_s()):
            server.unanswered += 1
            for path in after:
                if after[path] is not None:
                    late.note(server, path, Unjudged(self._before[path], None))
            self._owed[server] = set(after)
            return _Verdict(complete=False)

        # No await from here until everything is sent: what was known, and the change, are one moment.
        known = {path: self._newest(server, baseline, path) for path in after}
        everything, mark = server.answers.snapshot(), server.answers.count
        late.corrections.next_change(server, everything)
        # What was said about an older text of a file is no baseline: its lines may be others by now.
        unsettled = server.unsettled()
        around = {path: raw for path, raw in everything.items() if path not in unsettled}
        since = self._observer.sent(self, after)
        versions = self._send(server, after)
        deleted = len(versions) < len(after) and self._matters(
            {path: None for path in after if path not in versions}
        )
        answered = await self._answered(server, versions, started)
        complete, asked = len(answered) == len(versions), True
        if versions:
            server.unanswered = 0 if complete else server.unanswered + 1
        if deleted:
            others = any(path not in after for path in server.answers.documents)
            looked = others and await self._look_for_importers(server, after, mark, everything, started)
            complete = complete and (looked or bool(versions))
            # Nobody can be asked when no other file is open there: neither clean nor a missing answer.
            asked = others or bool(versions)
        elif complete and versions:
            until = min(started + server.deadline_s(), now() + server.timing.around_s)
            await server.look_around(after.keys(), until)

        said = {path: server.answers.known(path, versions[path]) or () for path in answered}
        for path in versions.keys() - said.keys():
            before = baseline.texts.get(path, self._before[path])
            where = Around(mark, around, lambda: self._observer.others(self, since))
            late.note(server, path, Unjudged(before, known[path], server, versions[path], where))
        unjudged = late.unjudged(server)
        problems = await newly_broken(
            server,
            mark,
            around,
            passed_over={*self._before, *self._observer.others(self, since), *unjudged},
            within=self._observer.servers.workspace,
            least=self._observer.least,
        )
        judged: dict[Path, Judged] = {}
        for path, raw in said.items():
            before, text = baseline.texts.get(path, self._before[path]), after[path] or ""
            found, sure = await self._judge(server, path, before, text, known[path], raw)
            problems += found
            complete = complete and sure
            if sure:
                judged[path] = Judged(before, text, known[path], raw, versions[path])
        late.corrections.watch(
            Watched(
                server,
                frozenset(after),
                mark,
                around,
                judged,
                lambda: self._observer.others(self, since),
                now() + OTHERS_S,
                told=list(problems),
            )
        )
        return _Verdict(complete, tuple(problems), asked)

    async def _look_for_importers(
        self,
        server: LanguageServer,
        after: Mapping[Path, str | None],
        mark: int,
        around: Mapping[Path, Raw],
        started: float,
    ) -> bool:
        """After a deletion: ask about the other open files until one is broken by it. Whether all have answered.

        Servers hear of a deletion through their file watchers, and look at it when they find the time: what is
        pulled at once is often about the time before.
        """
        now, answers = asyncio.get_running_loop().time, server.answers
        until = min(started + server.deadline_s(), now() + server.timing.deletion_s)

        def others() -> list[Path]:
            return [path for path in answers.documents if path not in after]

        def broken() -> bool:
            return any((answers.known(path) or ()) != around.get(path, ()) for path in others())

        while now() < until and not server.gone and not broken():
            await server.look_around(after.keys(), until)
            if not broken():
                await server.quiet(min(until, now() + server.timing.quiet_s / 2))
        self._observer.spawn(self._look_once_more(server, after))
        return all(answers.heard(path, mark) for path in others())

    async def _look_once_more(self, server: LanguageServer, after: Mapping[Path, str | None]) -> None:
        # For what the server finds out after the report; it is told late, see Corrections.
        await asyncio.sleep(server.timing.deletion_s)
        if not server.gone:
            await server.look_around(after.keys(), asyncio.get_running_loop().time() + server.timing.answer_s)

    async def _answered(
        self, server: LanguageServer, versions: Mapping[Path, int], started: float
    ) -> set[Path]:
        """The files about which there is a fresh answer before the one deadline of all."""
        deadline = started + server.deadline_s()
        answered = await server.answered(versions, deadline)
        # One that has begun to answer meanwhile is not cold any more: it has more time, from the same beginning.
        if len(answered) < len(versions) and started + server.deadline_s() > deadline:
            answered = await server.answered(versions, started + server.deadline_s())
        return answered

    async def _judge(
        self, server: LanguageServer, path: Path, before: str | None, after: str, known: Raw | None, raw: Raw
    ) -> tuple[list[Problem], bool]:
        """What is new in one file, and whether that is sure."""
        late, least = self._observer.late, self._observer.least
        item = late.get(server, path)
        if item is not None and (item.known is not None or item.before is None):
            before, known = item.before, item.known
        if known is None and before is not None and severe(raw, least):
            # Nobody knows what was there before: only what stands on changed lines can be told now.
            found = await on_new_lines(path, before, after, raw, least)
            found = item.untold(found) if item is not None else found
            late.note(server, path, Unjudged(before, None, told=tuple(found)))
            self._owed.setdefault(server, set()).add(path)
            return found, False
        late.judged(server, path)
        found = await news(path, before, after, known, raw, least)
        return (item.untold(found) if item is not None else found), True

    def _send(self, server: LanguageServer, after: Mapping[Path, str | None]) -> dict[Path, int]:
        """Tell ``server`` the new contents, all in one breath. Returns the versions to wait for."""
        versions: dict[Path, int] = {}
        for path, text in after.items():
            if text is None:
                server.close_document(path)
                server.watched(path, "update" if path.exists() else "delete")
                self._observer.late.forget(path)
                continue
            # A created file is announced first: other files that import it are looked at again.
            created = self._before[path] is None
            server.watched(path, "create" if created else "update")
            versions[path] = server.sync(path, text)
            server.saved(path)
        return versions
