"""Requests about stored traces: rebuild, import, export, prune, delete, search."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from daemon.model.branches import root_of
from daemon.model.maintenance import TraceImportResult, TracePruneResult, TraceRebuildResult
from daemon.store.pruning import PruneLimits
from lsp_bridge.protocol import traces as p
from lsp_bridge.protocol.handshake import RequestError
from lsp_bridge.protocol.sessions import Empty, SessionParams
from lsp_bridge.server.requests.declaration import request
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.trace_maintenance import TraceMaintenance


class TraceMaintenanceRequests:
    """The requests of one connection."""

    def __init__(self, trace_maintenance: Callable[[], TraceMaintenance]) -> None:
        """``trace_maintenance``: of the daemon, or of the command line where none runs."""
        self._trace_maintenance = trace_maintenance

    @request("goalwright/trace/rebuild", changes=False)
    async def rebuild(self, params: p.TraceRebuildParams) -> TraceRebuildResult:
        """Rebuild the data derived from a trace's log."""
        return await self._trace_maintenance().rebuild(params.trace_id)

    @request("goalwright/trace/import", changes=False)
    async def take_in(self, params: p.TraceImportParams) -> TraceImportResult:
        """Import an archive."""
        archive = _absolute(params.archive)
        return await self._trace_maintenance().take_in(archive, params.max_mb)

    @request("goalwright/trace/export", changes=False)
    async def export(self, params: p.TraceExportParams) -> p.TraceExportResult:
        """Write a session to an archive."""
        archive = _absolute(params.archive)
        done = await self._trace_maintenance().export(params.session_id, archive)
        return p.TraceExportResult(archive=str(done.path), files=done.files, size=done.size)

    @request("goalwright/session/delete", changes=False)
    async def delete(self, params: SessionParams) -> Empty:
        """Delete a session with its branches and sub-agents. One that is at work is refused."""
        await self._trace_maintenance().delete(params.session_id)
        return Empty()

    @request("goalwright/session/search", changes=False)
    async def search(self, params: p.SessionSearchParams) -> p.SessionSearchResult:
        """Find sessions by title, messages, goals and names of changed files."""
        maintenance = self._trace_maintenance()
        found = await maintenance.search(params.query, params.limit, everywhere=params.everywhere)
        return p.SessionSearchResult(
            hits=tuple(
                p.SessionHit(
                    session_id=root_of(one.trace_id),
                    excerpt="" if one.kind == "title" else one.excerpt,
                    title=one.title,
                    folder=None if one.owner is None else one.folder,
                    user=one.owner or "",
                )
                for one in found
            )
        )

    @request("goalwright/trace/prune", changes=False)
    async def prune(self, params: p.TracePruneParams) -> TracePruneResult:
        """Delete old traces; with ``dryRun`` only report them."""
        settings = self._trace_maintenance().limits()
        given = PruneLimits(params.keep_days, params.max_mb, params.keep)
        # An explicit limit applies alone: together with the settings it would delete more.
        limits = given if given.any else settings
        return await self._trace_maintenance().prune(limits, dry_run=params.dry_run)


def _absolute(archive: str) -> Path:
    path = Path(archive)
    if not path.is_absolute():
        raise RequestError(t("{archive} is not an absolute path.", archive=archive))
    return path
