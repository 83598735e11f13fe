"""What a change broke, seen by everybody who looks: the editors' extensions and the daemon's own language servers.

Implements the Diagnostics port of the tools. A file whose language an editor looks after is not given to the daemon's
servers, so none is started for it. All are asked in parallel, and each keeps its own deadline.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from typing import TYPE_CHECKING, Any, Protocol

from lsp_bridge.language_client.diagnostics.merging import in_order, merge_reports, without_doubles
from lsp_bridge.language_client.diagnostics.verdict import bounded
from lsp_bridge.server.editor.diagnostics import EditorDiagnostics, EditorRun, EditorVerdict
from tools.language import (
    CurrentProblems,
    Diagnostics,
    DiagnosticsReport,
    DiagnosticsRun,
    Severity,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine, Sequence
    from pathlib import Path


class Servers(Diagnostics, Protocol):
    """The daemon's own language servers."""

    async def close(self) -> None:
        """Stop everything."""
        ...


class Eyes:
    """The Diagnostics port on all sources."""

    def __init__(
        self, servers: Servers, editors: EditorDiagnostics, *, logger: logging.Logger | None = None
    ) -> None:
        self._servers = servers
        self._editors = editors
        self._log = logger or logging.getLogger("goalwright.editor")
        self._tasks: set[asyncio.Task[None]] = set()
        self._warming: set[Path] = set()

    def warm(self, path: Path) -> None:
        """See the port. With an editor attached a server is started only after it is clear that the editor has none."""
        if not self._editors.attached or self._editors.remembered(path) is False:
            self._servers.warm(path)
        elif path not in self._warming:
            self._warming.add(path)
            self._spawn(self._warm(path))

    async def begin(self, paths: Sequence[Path]) -> DiagnosticsRun:
        """See the port."""
        if not self._editors.attached:
            return await self._servers.begin(paths)
        run = EyesRun(self._servers, self._editors, self._log)
        await run.extend(paths)
        return run

    async def changed(self, path: Path) -> None:
        """See the port. An editor sees the disk itself."""
        self._editors.replaced.changed(path)
        await self._servers.changed(path)

    def buffer_changed(self, path: Path) -> None:
        """The text of ``path`` in an editor changed, or is not unsaved any more."""
        self._editors.replaced.changed(path)
        self._servers.buffer_changed(path)

    async def overdue(self, paths: Sequence[Path]) -> DiagnosticsReport | None:
        """See the port."""
        reports = [await self._servers.overdue(paths)]
        try:
            found = await self._editors.overdue(paths)
        except Exception:  # the port never raises
            self._log.exception("late diagnostics of the editor failed")
            found = None
        if found is not None:
            problems, left_out = bounded(found, paths)
            verdict = "problems" if problems else "clean"
            reports.append(DiagnosticsReport(verdict, problems, left_out=left_out))
        told = [report for report in reports if report is not None]
        return _merged(told, paths) if told else None

    async def current(self, paths: Sequence[Path], least: Severity = "warning") -> CurrentProblems:
        """See the port."""
        if not self._editors.attached:
            return await self._servers.current(paths, least)
        try:
            seen = await self._editors.current(paths, least)
        except Exception:  # the port never raises
            self._log.exception("the editor's problems could not be read")
            return await self._servers.current(paths, least)
        if not seen.watched and not seen.problems:
            return await self._servers.current(paths, least)
        rest = [path for path in paths if path not in seen.watched]
        own = await self._servers.current(rest, least) if rest else CurrentProblems(())
        silent = (*seen.silent, *(name for name in own.silent if name not in seen.silent))
        return CurrentProblems(
            in_order(without_doubles([*own.problems, *seen.problems])),
            (*seen.answered, *own.servers),
            silent,
            own.unwatched,
            own.left_out + seen.left_out,
        )

    async def close(self) -> None:
        """Stop what happens in the background, and the servers."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._editors.close()
        await self._servers.close()

    async def _warm(self, path: Path) -> None:
        try:
            if not await self._editors.covers(path):
                self._servers.warm(path)
        except Exception:  # warm() promises never to raise, and nobody waits for this
            self._log.exception("could not warm up for %s", path)
        finally:
            self._warming.discard(path)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            task = asyncio.get_running_loop().create_task(work)
        except RuntimeError:  # no event loop: nothing to warm up for
            work.close()
            return
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class EyesRun:
    """One change under observation by the editors, and by the daemon's servers where no editor looks."""

    def __init__(self, servers: Servers, editors: EditorDiagnostics, logger: logging.Logger) -> None:
        self._servers = servers
        self._log = logger
        self._editor_run = EditorRun(editors)
        self._server_run: DiagnosticsRun | None = None
        self._paths: dict[Path, None] = {}
        self._theirs: set[Path] = set()
        """Files that the daemon's servers were given; it stays so until the report."""

    async def extend(self, paths: Sequence[Path]) -> None:
        """See the port."""
        added = [path for path in dict.fromkeys(paths) if path not in self._paths]
        self._paths.update(dict.fromkeys(added))
        try:
            await self._editor_run.extend(added)
        except Exception:  # the write that follows must not fail because of its eyes
            self._log.exception("the editor could not be asked")
        rest = [path for path in added if path not in self._editor_run.covered]
        self._theirs.update(rest)
        if not rest:
            return
        if self._server_run is None:
            self._server_run = await self._servers.begin(rest)
        else:
            await self._server_run.extend(rest)

    async def report(self) -> DiagnosticsReport:
        """See the port. Never raises."""
        own, seen = await asyncio.gather(self._of_servers(), self._of_editors())
        return _merged([report for report in (own, seen) if report is not None], self._paths)

    def drop(self) -> None:
        """See the port."""
        if self._server_run is not None:
            self._server_run.drop()

    async def _of_servers(self) -> DiagnosticsReport | None:
        # Those that run all the same know these files too, and see others by them.
        for path in self._paths.keys() - self._theirs:
            await self._servers.changed(path)
        return None if self._server_run is None else await self._server_run.report()

    async def _of_editors(self) -> DiagnosticsReport:
        try:
            verdict = await self._editor_run.report()
        except Exception:  # the edit has been applied, whatever happens here
            self._log.exception("the editor's diagnostics failed")
            verdict = EditorVerdict(silent=["the editor"] if self._editor_run.covered else [])
        problems, left_out = bounded(verdict.problems, self._paths)
        answered = tuple(name for name in dict.fromkeys(verdict.answered) if name not in verdict.silent)
        silent = tuple(dict.fromkeys(verdict.silent))
        if problems:
            return DiagnosticsReport("problems", problems, answered, silent, left_out)
        if silent:
            return DiagnosticsReport("no_fresh_answer", (), answered, silent)
        covered = self._editor_run.covered
        # A spell checker that found nothing does not make a file clean.
        return (
            DiagnosticsReport("clean", (), answered)
            if answered and covered
            else DiagnosticsReport("no_server")
        )


def _merged(reports: Sequence[DiagnosticsReport], changed: Collection[Path]) -> DiagnosticsReport:
    merged = merge_reports(reports)
    # Each source is bounded by itself; together they may be too many again.
    problems, more = bounded(merged.problems, tuple(changed))
    return dataclasses.replace(merged, problems=problems, left_out=merged.left_out + more)
