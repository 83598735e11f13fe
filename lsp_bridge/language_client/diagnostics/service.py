"""What a change broke, as the language servers see it: implements the Diagnostics port of the tools.

The rules (sources: conventions.md, "Diagnostics after a write", and known failures of other agents): the
baseline is taken before the write; only answers about the text after it count; "no answer in time" is never
"clean"; and only what the change made worse is reported. A change is observed in ``language/observation``, what
servers leave open is kept in ``language/late``, and ``language/survey`` asks about everything at once.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from lsp_bridge.language_client.diagnostics.change_diagnostics import (
    ServerDiagnosticsRun as ServerDiagnosticsRun,
)
from lsp_bridge.language_client.diagnostics.current_problems import survey
from lsp_bridge.language_client.diagnostics.late_diagnostics import LateAnswers
from lsp_bridge.language_client.text.positions import TextOf, no_buffers, read_source
from tools.language import CurrentProblems, DiagnosticsReport, Severity

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Sequence
    from pathlib import Path

    from lsp_bridge.language_client.pool.server_pool import LanguageServers

_MAX_SENT = 500


class ServerDiagnostics:
    """The Diagnostics port on the language servers of a workspace."""

    def __init__(
        self,
        servers: LanguageServers,
        *,
        text_of: TextOf = no_buffers,
        least: Severity = "warning",
        logger: logging.Logger | None = None,
    ) -> None:
        """``text_of``: the unsaved text of a file in an editor. ``least``: the mildest problems that changes report."""
        self.servers = servers
        self.least: Severity = least
        self._text_of = text_of
        self._log = logger or logging.getLogger("goalwright.lsp_client")
        self._tasks: set[asyncio.Task[Any]] = set()
        self._warming: set[Path] = set()
        self._runs: weakref.WeakSet[ServerDiagnosticsRun] = weakref.WeakSet()
        self._missed: set[Path] = set()
        """Files that changed while a change of ours was under way: the servers are told when it is over."""
        self._sent: deque[tuple[int, ServerDiagnosticsRun, Path]] = deque(maxlen=_MAX_SENT)
        """The files whose new contents were sent last, by whom, numbered."""
        self._sent_count = 0
        self.late = LateAnswers(servers, self.read, self.spawn, self._changing, self._log)

    def warm(self, path: Path) -> None:
        """Somebody works on ``path``: start its servers in the background and open the file there."""
        try:
            if path in self._warming or self._held(path):
                return
            self._warming.add(path)
            self.spawn(self._warm(path)).add_done_callback(lambda _: self._warming.discard(path))
        except RuntimeError:  # no event loop: nothing to warm up for
            self._warming.discard(path)

    async def begin(self, paths: Sequence[Path]) -> ServerDiagnosticsRun:
        """Capture the baseline of ``paths``; call while the old content is on disk. Waits for no server."""
        run = ServerDiagnosticsRun(self, self._log)
        self._runs.add(run)
        await run.extend(paths)
        return run

    async def changed(self, path: Path) -> None:
        """``path`` was changed on disk by somebody else: tell the servers that run. Never raises.

        While a change of ours is under way they stay with the old text of its files, which is the baseline.
        """
        try:
            if self._changing(path):
                self._missed.add(path)
                return
            text = await self.read(path)
            for server in self.servers.alive():
                was_open = path in server.answers.documents
                if text is None:
                    server.close_document(path)
                elif was_open and not self._held(path):
                    server.sync(path, text)
                server.watched(path, "update" if text is not None else "delete")
        except Exception:  # a port that never raises: a tool's work must not fail because of its eyes
            self._log.exception("language servers were not told about %s", path)

    def buffer_changed(self, path: Path) -> None:
        """The text of ``path`` in an editor changed, or is not unsaved any more: the servers that run are told.

        Starts no server and returns at once. To be called once for many keystrokes: the whole text is compared.
        """
        try:
            self.spawn(self._take_buffer(path))
        except RuntimeError:  # no event loop: no servers either
            return

    async def overdue(self, paths: Sequence[Path]) -> DiagnosticsReport | None:
        """See the port. Waits for nobody, and never raises."""
        try:
            return await self.late.overdue(paths, self.servers.workspace, self.least)
        except Exception:  # as ``changed``
            self._log.exception("late diagnostics failed")
            return None

    async def current(self, paths: Sequence[Path], least: Severity = "warning") -> CurrentProblems:
        """See the port."""
        try:
            return await survey(self.servers, self.read, paths, least)
        except Exception:  # as ``changed``; nothing is known, which is not the same as nothing found
            self._log.exception("diagnostics failed")
            return CurrentProblems((), (), tuple(server.name for server in self.servers.alive()))

    async def close(self) -> None:
        """Stop what happens in the background, and all servers. Returns when nothing is left."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.servers.close()

    # ---- for the runs, see Observer

    async def read(self, path: Path) -> str | None:
        """The text of ``path`` as servers see it."""
        return await read_source(path, self._text_of)

    def sent(self, run: ServerDiagnosticsRun, paths: Iterable[Path]) -> int:
        """``run`` sends the new contents of ``paths`` now. Returns the moment, for ``others``."""
        self._sent_count += 1
        self._sent.extend((self._sent_count, run, path) for path in paths)
        return self._sent_count

    def others(self, run: ServerDiagnosticsRun, since: int) -> set[Path]:
        """The files that other runs are changing, or have changed after the moment ``since``: theirs to tell about."""
        busy = {path for other in self._runs if other is not run and not other.over for path in other.paths}
        return busy | {path for number, other, path in self._sent if number > since and other is not run}

    def ended(self, run: ServerDiagnosticsRun) -> None:
        """``run`` is over: what happened to its files meanwhile is told to the servers now."""
        missed = self._missed.intersection(run.paths)
        self._missed -= missed
        for path in missed:
            self.spawn(self.changed(path))

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

    # ----

    def _changing(self, path: Path) -> bool:
        return any(path in run.paths for run in self._runs if not run.over)

    def _held(self, path: Path) -> bool:
        """The servers must not be told the newest text of ``path`` now."""
        return self._changing(path) or self.late.catching_up(path)

    async def _take_buffer(self, path: Path) -> None:
        if self._changing(path):
            self._missed.add(path)
            return
        try:
            text = await self.read(path)
            unsaved = self._text_of(path) is not None
            for server in self.servers.alive():
                # Unsaved text is on no disk: a server must be shown it, for the sake of the files that use it.
                mine = unsaved and server.spec.language_of(path) is not None
                if text is None or not (mine or path in server.answers.documents):
                    continue
                # Not waited for: one that starts opens what it is asked about.
                if await server.ready(asyncio.get_running_loop().time()) and not self._held(path):
                    server.sync(path, text)
        except Exception:  # nobody waits for this
            self._log.exception("language servers were not told about the buffer of %s", path)

    async def _warm(self, path: Path) -> None:
        try:
            servers = self.servers.for_path(path).servers
            text = await self.read(path) if servers else None
            for server in servers:
                until = asyncio.get_running_loop().time() + server.timing.initialize_s
                if text is not None and await server.ready(until) and not self._held(path):
                    server.sync(path, text)
        except Exception:  # warm() promises never to raise, and nobody waits for this
            self._log.exception("could not warm up for %s", path)
