"""The daemon's own language servers as a source of diagnostics.

The baseline is taken before the write. Until the change is over the servers have the old texts of its files: then one
deadline, counted from the end of the write, applies to all servers, which are asked in parallel.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from lsp_bridge.language_client.diagnostics.current_problems import survey
from lsp_bridge.language_client.diagnostics.sources import (
    Change,
    FreshDiagnostics,
    Observer,
    OtherFile,
    Source,
    SourceWatch,
    Texts,
)
from lsp_bridge.language_client.diagnostics.verdict import Raw
from lsp_bridge.language_client.text.positions import TextOf, no_buffers, read_source
from tools.language_ports import CurrentProblems, Severity
from tools.process.background import Background

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lsp_bridge.language_client.pool.server_pool import LanguageServers
    from lsp_bridge.language_client.server.language_server import LanguageServer

_log = logging.getLogger("goalwright.lsp_client")

_BASELINE_SHARE = 0.6
"""Part of the deadline that may go into waiting for the baseline; the rest is for the answer itself."""
_BASELINE_PATIENCE_S = 30.0
"""Seconds for a baseline while a user reviews the proposed change, or when it is taken after the change."""
_MAX_OTHERS = 500
_READ_AGAIN = 5
"""How often a file is read that changes all the time."""


class _Unchanged:
    """The time in which a file is read and does not change."""


class ServerSource(Source):
    """The language servers of a workspace."""

    def __init__(self, servers: LanguageServers, *, text_of: TextOf = no_buffers) -> None:
        """``text_of``: the unsaved text of a file in an editor."""
        self.servers = servers
        self._text_of = text_of
        self.background = Background("telling language servers", level=logging.ERROR, logger=_log)
        self._watches: weakref.WeakSet[ServerWatch] = weakref.WeakSet()
        self._missed: set[Path] = set()
        """Files that changed while a change of ours was under way: the servers are notified when it is over."""
        self._looking_back: Counter[Path] = Counter()
        """Files of which some server is being asked about an older text."""
        self._unchanged: weakref.WeakValueDictionary[Path, _Unchanged] = weakref.WeakValueDictionary()
        """Files that are being read, and have not changed since."""

    async def read(self, path: Path) -> str | None:
        """Return the text of ``path``; None: it cannot be shown. It is read again when it changes meanwhile, so that of
        two readers none goes on with an older text after the other."""
        text: str | None = None
        for _ in range(_READ_AGAIN):
            unchanged = self._unchanged.setdefault(path, _Unchanged())
            text = await read_source(path, self._text_of)
            if self._unchanged.get(path) is unchanged:
                break
        return text

    def begin(self, change: Change) -> ServerWatch:
        watch = ServerWatch(self, change)
        self._watches.add(watch)
        return watch

    async def warm(self, path: Path) -> bool:
        """Start the servers of ``path`` and open the file there."""
        if self.held(path):
            return True
        servers = self.servers.for_path(path).servers
        for server in servers:
            until = asyncio.get_running_loop().time() + server.timing.initialize_s
            # Not read before the server is ready: the file may change until then.
            text = await self.read(path) if await server.ready(until) else None
            if text is not None and not self.held(path):
                server.sync(path, text)
        return bool(servers)

    async def changed(self, path: Path, *, buffer: bool = False) -> None:
        """Tell the servers that run; none is started.

        While a change of ours is under way they stay with the old text of its files, which is the baseline.
        """
        self._unchanged.pop(path, None)
        if self.changing(path):
            self._missed.add(path)
            return
        text = await self.read(path)
        # Unsaved text is not on disk, so servers must receive it for the files that use it.
        unsaved = buffer and self._text_of(path) is not None
        # Do not wait: a starting server opens files when it is asked about them, and takes no message before.
        for server in [server for server in self.servers.alive() if server.is_ready]:
            shown = path in server.answers.documents or (
                unsaved and server.spec.language_of(path) is not None
            )
            if text is not None and shown and not self.held(path):
                server.sync(path, text)
            if not buffer:
                self._changed_on_disk(server, path, text)

    def _changed_on_disk(self, server: LanguageServer, path: Path, text: str | None) -> None:
        if text is None:
            server.documents.close(path)
            server.documents.watched(path, "delete")
        elif not server.documents.on_disk(path, text):  # our own writes are announced when they are made
            server.documents.watched(path, "update")
            if self._text_of(path) is None:
                server.documents.note_on_disk(path, text)

    async def current(self, paths: Sequence[Path], least: Severity) -> CurrentProblems:
        try:
            return await survey(self.servers, self.read, paths, least)
        except Exception:  # nothing is known, which differs from "nothing found"
            _log.exception("diagnostics failed")
            return CurrentProblems((), (), tuple(server.name for server in self.servers.alive()))

    async def close(self) -> None:
        """Stop what happens in the background, and all servers. Returns when nothing is left."""
        await self.background.close()
        await self.servers.close()

    # ---- interface for the watches

    def changing(self, path: Path) -> bool:
        """Return whether a change of ``path`` is under way."""
        return any(path in watch.texts for watch in self._watches)

    def held(self, path: Path) -> bool:
        """Return whether servers must not receive the newest text of ``path`` now."""
        return self.changing(path) or self._looking_back[path] > 0

    def ended(self, watch: ServerWatch) -> None:
        """Report to the servers what has happened to the files of ``watch`` meanwhile."""
        self._watches.discard(watch)
        missed = self._missed.intersection(watch.texts)
        self._missed -= missed
        for path in missed:
            self.background.start(self.changed(path))

    async def look_back(self, server: LanguageServer, texts: Texts) -> dict[Path, Raw]:
        """Ask ``server`` about older texts, then about the current ones: for changes that came before it was ready, or
        before it had reported the earlier problems."""
        now, known = asyncio.get_running_loop().time, dict[Path, Raw]()
        self._looking_back.update(texts.keys())
        try:
            if not await server.ready(now() + server.timing.initialize_s):
                return {}
            old = {path: text for path, text in texts.items() if text is not None and not self.changing(path)}
            versions = {path: server.sync(path, text) for path, text in old.items()}
            for path in await server.answered(versions, now() + _BASELINE_PATIENCE_S):
                known[path] = server.answers.known(path, versions[path]) or ()
        finally:
            self._looking_back -= Counter(texts.keys())
        for path in texts:
            text = None if self.held(path) else await self.read(path)
            if text is not None and not self.held(path):
                server.sync(path, text)
        return known


class ServerWatch(SourceWatch):
    """A change of one or several files."""

    def __init__(self, source: ServerSource, change: Change) -> None:
        self.texts: dict[Path, str | None] = {}
        """The files whose old texts the servers are to know, with these texts."""
        self._source = source
        self._change = change
        self._observers: dict[LanguageServer, ServerObserver] = {}

    async def extend(self, texts: Texts) -> Collection[Path]:
        self.texts.update(texts)
        asked: dict[LanguageServer, dict[Path, str | None]] = {}
        for path, text in texts.items():
            for server in self._source.servers.for_path(path).servers:
                asked.setdefault(server, {})[path] = text
        for server, files in asked.items():
            self._observer(server).take_baseline(files)
        return self.texts.keys()

    async def observers(self, after: Texts) -> tuple[list[ServerObserver], list[str]]:
        """Return the observers; a server may have restarted since the baseline was taken."""
        watched: dict[LanguageServer, set[Path]] = {}
        resting: list[str] = []
        for path in after:
            if path not in self.texts:
                # Running servers know the other files too, and report theirs in relation to them.
                self._source.background.start(self._source.changed(path))
                continue
            lookup = self._source.servers.for_path(path)
            resting += lookup.resting
            for server in lookup.servers:
                watched.setdefault(server, set()).add(path)
        for server, paths in watched.items():
            self._observer(server).files = paths
        return [self._observers[server] for server in watched], resting

    def end(self) -> None:
        for observer in self._observers.values():
            observer.end_baselines()
        self._source.ended(self)
        for path in {path for observer in self._observers.values() for path in observer.left_behind()}:
            self._source.background.start(self._source.changed(path, buffer=True))

    def _observer(self, server: LanguageServer) -> ServerObserver:
        if server not in self._observers:
            self._observers[server] = ServerObserver(self._source, server, self._change, self.texts)
        return self._observers[server]


class ServerObserver(Observer):
    """One server and one change."""

    follows = True

    def __init__(self, source: ServerSource, server: LanguageServer, change: Change, before: Texts) -> None:
        """``before``: the texts before the change."""
        super().__init__(server.name, (server.name, server.root))  # by the next change another process
        self.files: set[Path] = set()
        self._source = source
        self._server = server
        self._change = change
        self._before = before
        self._versions: dict[Path, int] = {}
        """Those of the baseline's texts."""
        self._known: dict[Path, Raw] = {}
        self._baselines: list[asyncio.Task[None]] = []
        self._closed = False
        """Too late for the baseline: old texts must not follow newer ones."""
        self._mark: int | None = None
        """The number of the last thing before the new texts were sent; None: they were not."""
        self._around: Mapping[Path, Raw] = {}
        """Diagnostics of all files before the change."""

    @property
    def gone(self) -> bool:
        return self._server.gone

    # ---- before the change

    def take_baseline(self, texts: Texts) -> None:
        """Ask about these texts in the background."""
        self.baseline.update(texts)
        self._baselines.append(self._source.background.start(self._ask_about_old(dict(texts))))

    async def _ask_about_old(self, texts: dict[Path, str | None]) -> None:
        server, now = self._server, asyncio.get_running_loop().time
        if not await server.ready(now() + server.timing.initialize_s) or self._closed:
            return
        asked: dict[Path, int] = {}
        for path, newest in texts.items():
            older = self._change.older(self.key, path, path not in server.answers.documents)
            text = self.baseline[path] = newest if older is None else older
            if text is not None and server.spec.language_of(path) is not None:
                asked[path] = self._versions[path] = server.sync(path, text)
                server.ask_again(path)
        for path in await server.answered(asked, now() + _BASELINE_PATIENCE_S):
            # Keep them here, because the server forgets the file when too many others are opened meanwhile.
            self._known[path] = server.answers.known(path, asked[path]) or ()
        # Files just changed by an undo or a user have a baseline too: the diagnostics of their current texts.
        recent, documents = now() - server.deadline_s(), server.answers.documents
        unsettled = [
            path
            for path in server.unsettled()
            if path not in asked and documents[path].changed and documents[path].sent_at > recent
        ]
        await server.answered_last(unsettled, now() + server.deadline_s())

    def _newest(self, path: Path) -> Raw | None:
        """Return the newest settled answer about the baseline of ``path``; None when there is none."""
        version = self._versions.get(path)
        if version is not None and self._server.settled(path, version):
            return self._server.answers.known(path, version) or ()
        return self._known.get(path)

    # ---- after the change

    async def ask(self, after: Texts, started: float) -> FreshDiagnostics:
        server, now = self._server, asyncio.get_running_loop().time
        files = {path: after[path] for path in after if path in self.files}
        there = {path: text for path, text in files.items() if text is not None}
        deleted = [path for path in files.keys() - there.keys() if self._was_deleted(path)]
        await self._close_baselines(started)
        if not await server.ready(started + server.deadline_s()):
            server.answers.unanswered += 1
            return FreshDiagnostics(missing=there, complete=False, asked=bool(there or deleted))
        # No await from here until everything is sent, so that the known diagnostics and the change are one moment.
        heard = FreshDiagnostics(known={path: self._newest(path) for path in files})
        everything, mark = server.answers.snapshot(), server.answers.count
        self._mark = mark
        # Diagnostics of an older text are no baseline, because its lines may have changed since.
        unsettled = server.unsettled()
        self._around = {path: raw for path, raw in everything.items() if path not in unsettled}
        self.since = self._change.sent(self.key, files, everything)
        versions = self._send(files)
        # Together with the changed files, but not while it is still loading for its first answer.
        around = server.ask_around(after.keys()) if versions and server.answers.has_answered else {}
        answered = await server.answered(versions, started + server.deadline_s())
        heard.fresh = {
            path: (there[path], server.answers.known(path, versions[path]) or ()) for path in answered
        }
        heard.missing = versions.keys() - answered
        heard.complete = not heard.missing
        heard.asked = bool(there or deleted)
        if versions:
            server.answers.unanswered = 0 if heard.complete else server.answers.unanswered + 1
        if deleted:
            others = any(path not in after for path in server.answers.documents)
            looked = others and await self._look_for_importers(after, everything, mark, started)
            heard.complete = heard.complete and (looked or bool(versions))
            # When no other file is open, no server can be asked: neither clean nor a missing answer.
            heard.asked = others or bool(versions)
        elif heard.complete:
            await server.heard(around, min(started + server.deadline_s(), now() + server.timing.around_s))
        return heard

    def _was_deleted(self, path: Path) -> bool:
        """Return whether a file was deleted; not if it was too large to show, or appeared and vanished."""
        return self._before[path] is not None and not path.exists()

    async def _close_baselines(self, started: float) -> None:
        under_way = [task for task in self._baselines if not task.done()]
        if under_way:
            until = started + self._server.deadline_s() * _BASELINE_SHARE
            await asyncio.wait(under_way, timeout=max(0.0, until - asyncio.get_running_loop().time()))
        self.end_baselines()

    def end_baselines(self) -> None:
        """Send no older texts from now on: the new ones follow, or the change was dropped and others may."""
        for task in self._baselines:
            task.cancel()
        self._closed = True

    def left_behind(self) -> list[Path]:
        """Return the files that the server was left with in an older state than before the change."""
        if self._mark is not None:
            return []
        return [path for path in self._versions if self.baseline[path] != self._before[path]]

    def _send(self, files: Texts) -> dict[Path, int]:
        """Tell the new texts, all in one breath. Returns the versions to wait for."""
        server, versions = self._server, dict[Path, int]()
        for path, text in files.items():
            if text is None:
                server.documents.close(path)
                server.documents.watched(path, "update" if path.exists() else "delete")
                continue
            # Announce a created file first, because servers then check files that import it again.
            server.documents.watched(path, "create" if self._before[path] is None else "update")
            versions[path] = server.sync(path, text)
            server.documents.saved(path)
            server.documents.note_on_disk(path, text)
        return versions

    async def _look_for_importers(
        self, after: Texts, around: Mapping[Path, Raw], mark: int, started: float
    ) -> bool:
        """After a deletion, ask about the other open files until one is broken by it. Returns whether all have
        answered.

        Servers learn of a deletion through their file watchers, and process it later: an immediate pull is often about
        the time before.
        """
        server, now, answers = self._server, asyncio.get_running_loop().time, self._server.answers
        until = min(started + server.deadline_s(), now() + server.timing.deletion_s)

        def others() -> list[Path]:
            return [path for path in answers.documents if path not in after]

        def broken() -> bool:
            return any((answers.known(path) or ()) != around.get(path, ()) for path in others())

        async def look_once_more() -> None:
            # These findings arrive after the report, and are reported late.
            await asyncio.sleep(server.timing.deletion_s)
            if not server.gone:
                await server.heard(server.ask_around(after.keys()), now() + server.timing.answer_s)

        while now() < until and not server.gone and not broken():
            await server.heard(server.ask_around(after.keys()), until)
            if not broken():
                await server.quiet(min(until, now() + server.timing.quiet_s / 2))
        self._source.background.start(look_once_more())
        return all(answers.heard(path, mark) for path in others())

    async def others(self, said: Mapping[Path, Raw] | None = None) -> list[OtherFile]:
        answers, found = self._server.answers, list[OtherFile]()
        if (mark := self._mark) is None:
            return found
        for path in answers.said_after(mark)[:_MAX_OTHERS]:
            document = answers.documents.get(path)
            raw = answers.known(path) if said is None else said.get(path)
            # It was just opened, or changed by an undo or a user, so this change did not cause its problems.
            if document is not None and (path not in self._around or document.version > mark):
                continue
            if raw:
                text = document.text if document is not None else ""
                found.append(OtherFile(path, text, self._around.get(path, ()), raw))
        return found

    # ---- late reports

    async def again(self, texts: Mapping[Path, str]) -> dict[Path, Raw]:
        """Asks the server that has this one's place now."""
        found: dict[Path, Raw] = {}
        for server in self._source.servers.alive():
            for path, text in texts.items():
                document = server.answers.documents.get(path)
                if (server.name, server.root) != self.key or document is None or self._source.held(path):
                    continue
                if document.text == text and server.settled(path, document.version):
                    found[path] = server.answers.known(path, document.version) or ()
        return found

    def said(self, path: Path) -> tuple[str | None, Raw]:
        document = self._server.answers.documents.get(path)
        return None if document is None else document.text, self._server.answers.known(path) or ()

    async def look_back(self, texts: Texts) -> Mapping[Path, Raw]:
        return await self._source.look_back(self._server, texts)
