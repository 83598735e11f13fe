"""What servers have left open: changes without a fresh answer, judged when one comes at last.

Of each server and file the text and the problems before the first change that it did not answer about are kept, so
that what that change broke is still news later, and told once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsp_bridge.language_client.diagnostics.corrections import Corrections, words_of
from lsp_bridge.language_client.diagnostics.verdict import Raw, bounded_aside, newly_broken, news
from tools.language import DiagnosticsReport, Problem, Severity

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence

    from lsp_bridge.language_client.pool.server_pool import LanguageServers
    from lsp_bridge.language_client.server.language_server import LanguageServer

_PATIENCE_S = 30.0
"""For a baseline that is taken after the change: nobody waits for it."""
_MAX_OPEN = 200

Key = tuple[str, Path]
"""A server's name (it may have been started again meanwhile), and a file."""


@dataclass(slots=True)
class Around:
    """What a server had said about all files before a change that it has not answered about yet."""

    mark: int
    before: dict[Path, Raw]
    passed_over: Callable[[], Collection[Path]] = tuple[Path, ...]
    """Files that other changes are told about."""


@dataclass(slots=True)
class Unjudged:
    """One file that one server owes an answer about."""

    before: str | None
    """The text before the first unjudged change; None: there was no file."""
    known: Raw | None
    """What the server said about that text; None: nothing yet."""
    server: LanguageServer | None = None
    version: int | None = None
    """The version of the newest text, when ``server`` has been told it."""
    around: Around | None = None
    told: tuple[Problem, ...] = ()
    """What was told already, because it is news whatever was there before."""

    def untold(self, problems: Sequence[Problem]) -> list[Problem]:
        """``problems`` without those told already, wherever they stand now."""
        told = Counter(map(words_of, self.told))
        found: list[Problem] = []
        for problem in problems:
            if told[words_of(problem)] > 0:
                told[words_of(problem)] -= 1
            else:
                found.append(problem)
        return found


class LateAnswers:
    """All that is unjudged in one workspace."""

    def __init__(
        self,
        servers: LanguageServers,
        read: Callable[[Path], Awaitable[str | None]],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        held: Callable[[Path], bool],
        logger: logging.Logger,
    ) -> None:
        """``held``: whether a change of the file is under way, so that its text must not be sent now."""
        self._servers = servers
        self._read = read
        self._spawn = spawn
        self._held = held
        self._log = logger
        self._open: dict[Key, Unjudged] = {}
        self.corrections = Corrections(servers.workspace)
        self._catching_up: dict[LanguageServer, set[Path]] = {}

    def get(self, server: LanguageServer, path: Path) -> Unjudged | None:
        """What is open there."""
        return self._open.get((server.name, path))

    def unjudged(self, server: LanguageServer) -> set[Path]:
        """The files that ``server`` owes an answer about: whatever it says of them belongs to their own changes."""
        return {path for name, path in self._open if name == server.name}

    def catching_up(self, path: Path) -> bool:
        """Whether some server is being asked about an older text of ``path``."""
        return any(path in paths for paths in self._catching_up.values())

    def note(self, server: LanguageServer, path: Path, item: Unjudged) -> None:
        """``server`` has not answered about a change of ``path``. What was open there before stays the older part."""
        older = self._open.get((server.name, path))
        if older is not None:
            older.server, older.version, older.around = server, item.version, item.around
            if older.known is None and older.before == item.before:
                older.known = item.known
            older.told += item.told
            return
        if len(self._open) >= _MAX_OPEN:
            del self._open[next(iter(self._open))]
        self._open[server.name, path] = item

    def judged(self, server: LanguageServer, path: Path) -> None:
        """An answer about ``path`` has been judged: nothing is open there any more."""
        self._open.pop((server.name, path), None)

    def forget(self, path: Path) -> None:
        """The file is gone."""
        for key in [key for key in self._open if key[1] == path]:
            del self._open[key]

    async def overdue(
        self, paths: Collection[Path], workspace: Path, least: Severity
    ) -> DiagnosticsReport | None:
        """See the Diagnostics port. Waits for nobody."""
        wanted = set(paths)
        mine = [(key, item) for key, item in self._open.items() if key[1] in wanted]
        problems, answered = await self.corrections.due(wanted)
        for (name, path), item in mine:
            try:
                found = await self._judge(path, item, workspace, least)
            except Exception:  # one server's answer must not take the others' along
                self._log.exception("the late answer of %s could not be judged", name)
                found = None
            if found is not None:
                problems += found
                answered.append(name)
                self._open.pop((name, path), None)
        if not answered:
            return None
        open_still = tuple(dict.fromkeys(name for (name, path), _ in mine if (name, path) in self._open))
        shown, left_out = await bounded_aside(problems, tuple(dict.fromkeys(path for (_, path), _ in mine)))
        servers = tuple(name for name in dict.fromkeys(answered) if name not in open_still)
        if not shown and open_still:
            return DiagnosticsReport("no_fresh_answer", (), servers, open_still)
        return DiagnosticsReport("problems" if shown else "clean", shown, servers, open_still, left_out)

    async def _judge(
        self, path: Path, item: Unjudged, workspace: Path, least: Severity
    ) -> list[Problem] | None:
        server, version = item.server, item.version
        if server is None or version is None or self._held(path) or self.catching_up(path):
            return None
        document = server.answers.documents.get(path)
        if document is None or document.version < version:
            return None
        settled = server.answers.settled_at(path, document.version, pull=server.pulls(path))
        if settled is None or settled > asyncio.get_running_loop().time():
            return None
        text, raw = document.text, server.answers.known(path, document.version) or ()
        as_before = text == item.before  # an undo, say: then nothing in it is new
        if item.known is None and item.before is not None and raw and not as_before:
            return None  # what was there before is not known: it would all look new
        around, item.around = item.around, None
        found = [] if as_before else await news(path, item.before, text, item.known, raw, least)
        if around is not None:
            found += await newly_broken(
                server,
                around.mark,
                around.before,
                passed_over={path, *around.passed_over()},
                within=workspace,
                least=least,
            )
        return item.untold(found)

    def catch_up(self, server: LanguageServer, paths: Iterable[Path]) -> None:
        """In the background: ask ``server`` about the texts before the changes, then about those of now.

        For changes that came before it was ready, or before it had answered about what was there before.
        """
        waiting = self._catching_up.get(server)
        if waiting is not None:
            waiting.update(paths)
            return
        self._catching_up[server] = set(paths)
        self._spawn(self._catch_up(server))

    async def _catch_up(self, server: LanguageServer) -> None:
        now = asyncio.get_running_loop().time
        paths = self._catching_up[server]
        try:
            if not await server.ready(now() + server.timing.initialize_s):
                return
            versions: dict[Path, int] = {}
            for path in paths:
                item = self._open.get((server.name, path))
                if (
                    item is not None
                    and item.known is None
                    and item.before is not None
                    and not self._held(path)
                ):
                    versions[path] = server.sync(path, item.before)
            for path in await server.answered(versions, now() + _PATIENCE_S):
                item, document = self._open.get((server.name, path)), server.answers.documents.get(path)
                if item is not None and document is not None and document.version == versions[path]:
                    item.known = server.answers.known(path, versions[path]) or ()
        except Exception:  # nobody waits for this; what is open stays open
            self._log.exception("%s could not be asked about what was there before", server.name)
        finally:
            done = self._catching_up.pop(server, set())
        await self._send_newest(server, done)

    async def _send_newest(self, server: LanguageServer, paths: set[Path]) -> None:
        for path in paths:
            item = self._open.get((server.name, path))
            text = await self._read(path) if item is not None and not self._held(path) else None
            if item is not None and text is not None and not self._held(path):
                item.server, item.version = server, server.sync(path, text)
