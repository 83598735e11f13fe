"""What a client can ask of the daemon about stored traces: rebuild, import, export, prune, delete, search."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from daemon.keeping import InUseError, Keeping
from daemon.store.pruning import PruneLimits
from lsp_bridge.protocol import methods as p
from lsp_bridge.protocol import traces as k
from lsp_bridge.protocol.handshake import BUSY, INVALID_PARAMS, RequestError
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from daemon.model.base import Model
    from daemon.store.rebuild import Rebuilt


class KeepingRequests:
    """The requests of one connection."""

    def __init__(self, keeping: Callable[[], Keeping]) -> None:
        """``keeping``: of the daemon, or of the command line where none runs."""
        self._keeping = keeping
        self.handlers: Mapping[str, Callable[[Any], Awaitable[Model]]] = {
            "goalwright/trace/rebuild": self.rebuild,
            "goalwright/trace/import": self.take_in,
            "goalwright/trace/export": self.export,
            "goalwright/trace/prune": self.prune,
            "goalwright/session/delete": self.delete,
            "goalwright/session/search": self.search,
        }

    async def rebuild(self, params: k.TraceRebuildParams) -> k.TraceRebuildResult:
        """Make what is derived from a trace's log anew. Raises RequestError, StoreError."""
        try:
            done = await self._keeping().rebuild(params.trace_id)
        except InUseError as error:
            raise RequestError(BUSY, str(error)) from error
        return k.TraceRebuildResult(trace_id=done.trace_id, sessions=_sessions(done), failed=done.failed)

    async def take_in(self, params: k.TraceImportParams) -> k.TraceImportResult:
        """Import an archive. Raises RequestError, StoreError."""
        archive = _absolute(params.archive)
        try:
            done = await self._keeping().take_in(archive, params.max_mb)
        except InUseError as error:
            raise RequestError(BUSY, str(error)) from error
        return k.TraceImportResult(
            trace_id=done.trace_id,
            title=done.title,
            files=done.files,
            size=done.size,
            sessions=_sessions(done.rebuilt),
            left_out=done.left_out,
            dropped=done.dropped,
        )

    async def export(self, params: k.TraceExportParams) -> k.TraceExportResult:
        """Write a session to an archive. Raises RequestError, StoreError."""
        archive = _absolute(params.archive)
        done = await self._keeping().export(params.session_id, archive)
        return k.TraceExportResult(archive=str(done.path), files=done.files, size=done.size)

    async def delete(self, params: k.SessionDeleteParams) -> p.Empty:
        """Delete a session. Raises RequestError, StoreError."""
        try:
            await self._keeping().delete(params.session_id)
        except InUseError as error:
            raise RequestError(BUSY, str(error)) from error
        return p.Empty()

    async def search(self, params: k.SessionSearchParams) -> k.SessionSearchResult:
        """Find sessions by title and messages."""
        hits = await self._keeping().search(params.query, params.limit)
        return k.SessionSearchResult(
            hits=tuple(k.SessionHit(session_id=hit.trace_id, excerpt=hit.excerpt) for hit in hits)
        )

    async def prune(self, params: k.TracePruneParams) -> k.TracePruneResult:
        """Delete old traces."""
        settings = self._keeping().limits()
        given = PruneLimits(params.keep_days, params.max_mb, params.keep)
        # A limit that somebody names is meant alone: what the settings say beside it would delete more.
        limits = given if given.any else settings
        done = await self._keeping().prune(limits, dry_run=params.dry_run)
        return k.TracePruneResult(
            deleted=tuple(
                k.PrunedTrace(
                    trace_id=one.stored.trace_id,
                    title=one.stored.title,
                    used=one.stored.used,
                    size=one.stored.size,
                    reason=one.reason,
                )
                for one in done.deleted
            ),
            kept=done.kept,
            kept_bytes=done.kept_bytes,
            freed=done.freed,
            limited=limits.any,
            problems=done.problems,
            dry_run=done.dry_run,
        )


def _absolute(archive: str) -> Path:
    path = Path(archive)
    if not path.is_absolute():
        raise RequestError(INVALID_PARAMS, t("{archive} is not an absolute path.", archive=archive))
    return path


def _sessions(done: Rebuilt) -> tuple[k.RebuiltSession, ...]:
    return tuple(
        k.RebuiltSession(
            session_id=session.session_id,
            events=session.events,
            messages=session.messages,
            goals=session.goals,
            repaired=session.repaired,
            problems=session.problems,
            failed=session.failed,
        )
        for session in done.sessions
    )
