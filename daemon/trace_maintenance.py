"""Maintain stored traces: delete old ones, rebuild one from its log, import one.

A daemon does it between its sessions; the command line does it when no daemon runs, holding its lock. Either way traces
that are in use or watched are left alone; a session that is only in memory is unloaded.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from typing import TYPE_CHECKING

from daemon.bus import Bus
from daemon.gc_tuning import COLLECTOR
from daemon.loop.children import close_child
from daemon.model.branches import root_of
from daemon.model.maintenance import TracePruneResult
from daemon.store.files import FileTraceStore
from daemon.store.trace_index import UnreadableTrace, last_used, unreadable_traces
from daemon.store.trace_store import UNWRITABLE, StoreError
from tools.files.regular_files import os_errors
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Container, Sequence
    from datetime import datetime
    from pathlib import Path

    from daemon.config import Config
    from daemon.loop.forking import Fork
    from daemon.loop.session import Session
    from daemon.model.maintenance import PrunedTrace, TraceImportResult, TraceRebuildResult
    from daemon.store.archive import Exported
    from daemon.store.provenance import OwnSessions
    from daemon.store.pruning import PruneLimits
    from daemon.store.searching import Found
    from daemon.store.sql.replica import Replica

log = logging.getLogger(__name__)

_DAY_S = 24 * 60 * 60.0
_UNUSED_S = 5 * 60.0


def limits_of(config: Config) -> PruneLimits:
    """As the configuration has them; none when one of them cannot be read: it may be the one that protects the most."""
    from daemon.store.pruning import PruneLimits

    unread = (*config.blocking, *(why for name, why in config.unread.items() if name.startswith("trace_")))
    if unread:
        return PruneLimits(unread=unread)
    traces = config.settings.traces
    return PruneLimits(traces.trace_keep_days, traces.trace_max_mb, traces.trace_keep)


class InUseError(StoreError):
    """Raised when the trace is open; the message says what to do."""


class TraceMaintenance:
    """The traces of one workspace. All methods run on one event loop, what takes long in threads."""

    def __init__(
        self,
        store: FileTraceStore,
        own: OwnSessions,
        now: Callable[[], datetime],
        *,
        limits: Callable[[], PruneLimits],
        sessions: dict[str, Session] | None = None,
        opening: Collection[str] = (),
        bus: Bus | None = None,
        replica: Callable[[], Replica | None] = lambda: None,
    ) -> None:
        """``limits``: by the settings. ``sessions``: loaded ones, by id; unloaded ones are removed from it;
        ``opening``: ids of those that are being loaded. ``replica``: copies the sessions to a database, if there is
        one."""
        self._store = store
        self.own = own
        self._now = now
        self.limits = limits
        self._sessions = {} if sessions is None else sessions
        self._opening = opening
        self._bus = Bus() if bus is None else bus
        self._replica = replica
        self._held: set[str] = set()
        """Traces that are worked on here: they are not to be opened."""
        self._one = asyncio.Lock()
        self._unused_since: dict[str, float] = {}
        """Open main sessions that nobody uses, and since when."""
        self.unloading: dict[str, asyncio.Task[None]] = {}
        """Main sessions that are being closed, because nobody used them."""

    def refuse_held(self, session_id: str) -> None:
        """Before a session is opened. Raises InUseError while its record is being rebuilt or deleted."""
        if root_of(session_id) in self._held:
            raise InUseError(
                t(
                    "The data of session {session_id} is being cleaned up. Try again in a moment.",
                    session_id=session_id,
                )
            )

    def never_began(self, trace_id: str) -> None:
        """Remove a session whose start failed on disk: it would be the newest one, and contain nothing."""
        self._sessions.pop(trace_id, None)
        for undo in (self._store.delete, self.own.forget):
            with contextlib.suppress(StoreError):
                undo(trace_id)

    def in_use(self, trace_id: str, *, watched: bool = True) -> bool:
        """Return whether a trace is in use or, with ``watched``, watched; branches and sub-agents count."""
        looked_at = (*self._opening, *(self._bus.heard() if watched else ()))
        return any(root_of(session_id) == trace_id for session_id in looked_at) or any(
            session.running
            or session.state.pending
            or session.queued()
            or any(job.exit_code is None for job in session.commands.jobs.all())
            for session in self._at_hand(trace_id)
        )

    async def left_out(
        self, listed: Sequence[str], *, after: str | None, last: bool
    ) -> list[UnreadableTrace]:
        """Return the unreadable sessions that are missing from a page of a list. ``listed``: ids, newest first.

        ``after``: the id that the page follows on; ``last``: there are no further pages.
        """
        above = "" if last or not listed else listed[-1]
        own = self.own.all()
        return await asyncio.to_thread(unreadable_traces, self._store, own, listed, above=above, below=after)

    async def last_used(self) -> tuple[str, UnreadableTrace | None]:
        """Return the own session that was used last, and why it cannot be read, if so; empty when there is none."""
        return await asyncio.to_thread(last_used, self._store, self.own.by_use())

    async def rebuild(self, trace_id: str) -> TraceRebuildResult:
        """Rebuild all files that are derived from a trace's log. Raises UnknownTraceError, InUseError, StoreError."""
        from daemon.store.rebuild import rebuild

        if trace_id != root_of(trace_id):
            raise StoreError(
                t(
                    "{trace_id} is a branch or sub-agent. Rebuild the session it belongs to.",
                    trace_id=trace_id,
                )
            )
        async with self._one, self._hold(trace_id):
            await asyncio.to_thread(self._store.refuse_links, trace_id)
            return await asyncio.to_thread(rebuild, self._store, trace_id)

    async def take_in(self, archive: Path, max_mb: float | None = None) -> TraceImportResult:
        """Import an archive; the trace counts as imported. Raises ArchiveError, InUseError, StoreError."""
        from daemon.store.archive_import import MAX_MB, import_trace

        def coming(trace_id: str) -> None:
            if any(root_of(session_id) == trace_id for session_id in list(self._sessions)):
                # Its folder was deleted while it was loaded. Its late writes must not reach the imported trace.
                raise InUseError(
                    t(
                        "Session {trace_id} is open in the daemon. Run `goalwright stop` and try again.",
                        trace_id=trace_id,
                    )
                )
            self.own.forget(trace_id)

        async with self._one:
            return await asyncio.to_thread(
                import_trace, self._store, archive, self._now(), max_mb=max_mb or MAX_MB, coming=coming
            )

    async def prune(self, limits: PruneLimits | None = None, *, dry_run: bool = False) -> TracePruneResult:
        """Delete old traces, oldest first. ``limits`` None: those of the settings."""
        from daemon.store.pruning import still_too_much, stored_traces, traces_to_prune

        limits = limits or self.limits()
        async with self._one:
            # Sizes are needed for the report only, so measure nothing if nothing can be deleted.
            now = self._now()
            stored = await asyncio.to_thread(
                stored_traces, self._store, self.own.all(), now, sizes=limits.any
            )
            last, _ = await self.last_used()
            going = (
                traces_to_prune(stored, limits, now, lambda one: one == last or self.in_use(one))
                if limits.any
                else []
            )
            deleted: list[PrunedTrace] = []
            problems = list(limits.unread)
            for one in going:
                try:
                    if not dry_run:
                        await self._delete(one.trace_id)
                    deleted.append(one)
                except StoreError as error:
                    problems.append(str(error))
            freed = sum(one.size for one in deleted)
            left = sum(one.size for one in stored) - freed
            problems += filter(None, [still_too_much(left, limits)])
            return TracePruneResult(
                deleted=tuple(deleted),
                kept=len(stored) - len(deleted),
                kept_bytes=left if limits.any else None,
                freed=freed,
                limited=limits.any,
                problems=tuple(problems),
                dry_run=dry_run,
            )

    async def daily(self, pause_s: float = _DAY_S) -> None:
        """Prune now and each day, for as long as the daemon lives. Failures are logged."""
        from daemon.store.pruning import remove_leftovers, remove_unfinished

        while True:
            try:
                async with self._one:
                    await asyncio.to_thread(remove_leftovers, self._store.root)
                    own, now = self.own.all(), self._now()
                    await asyncio.to_thread(remove_unfinished, self._store.root, own, now)
                limits = self.limits()
                if limits.any or limits.unread:
                    pruned = await self.prune()
                    for doomed in pruned.deleted:
                        log.info("deleted session %s: %s", doomed.trace_id, doomed.reason)
                    for problem in pruned.problems:
                        log.warning("%s", problem)
            except (StoreError, OSError) as error:
                log.warning("old sessions could not be deleted: %s", error)
            await asyncio.sleep(pause_s)

    async def unload_unused(self, after_s: float = _UNUSED_S, look_s: float = 60.0) -> None:
        """Close sessions that nobody has used for ``after_s``, until canceled: they are opened again when needed."""
        while True:
            await asyncio.sleep(look_s)
            now = time.monotonic()
            rest = [key for key in {root_of(key) for key in self._sessions} if self._rests(key)]
            self._unused_since = {key: self._unused_since.get(key, now) for key in rest}
            for trace_id in [key for key, since in self._unused_since.items() if now - since >= after_s]:
                closing = asyncio.create_task(self._unload(trace_id), name=f"unload {trace_id}")
                self.unloading[trace_id] = closing
                closing.add_done_callback(lambda _, key=trace_id: self.unloading.pop(key))

    async def wanted(self, trace_id: str) -> None:
        """Somebody is about to use a main session: wait until it is closed, if it is being closed."""
        self._unused_since.pop(trace_id, None)
        if (closing := self.unloading.get(trace_id)) is not None:
            await asyncio.wait({closing})

    async def delete(self, trace_id: str) -> None:
        """Delete one trace, also while clients show it. Raises UnknownTraceError, InUseError, StoreError."""
        if trace_id != root_of(trace_id):
            raise StoreError(
                t("{trace_id} is a branch or sub-agent. Delete the session it belongs to.", trace_id=trace_id)
            )
        async with self._one:
            # It has to be there, but may be damaged, or have the format of a newer version.
            await asyncio.to_thread(self._store.children, trace_id)
            if self.in_use(trace_id, watched=False):
                raise InUseError(
                    t("Session {trace_id} is running. Stop it and try again.", trace_id=trace_id)
                )
            await self._delete(trace_id, watched=False)

    async def export(self, trace_id: str, target: Path) -> Exported:
        """Write a trace to an archive, replacing an existing file. Raises UnknownTraceError, StoreError."""
        from daemon.store.archive import export_trace

        return await asyncio.to_thread(export_trace, self._store, trace_id, target, replace=True)

    async def fork(self, session: Session, message: str | None = None) -> str:
        """Begin a session with the conversation of another one; return its id. Raises ForkError, InUseError,
        StoreError.

        ``message``: the prompt (its id or its number) before which the fork ends; None: with all that was said.
        """
        from daemon.loop.forking import Fork, ForkError

        state = session.state
        if session.parent is not None or session.session_id != root_of(session.session_id):
            raise ForkError(
                t("{id} is a branch or sub-agent. Fork the session it belongs to.", id=session.session_id)
            )
        if session.foreign:
            raise ForkError(t("This session was not started by you on this machine: it cannot be forked."))
        if message is None and state.turn is not None:
            raise InUseError(
                t("The session is running. Wait until it ends, or fork from one of your messages.")
            )
        now = self._now()
        fork = Fork(
            trace_id=new_trace_id(now, self._sessions),
            time=now,
            source_title=state.trace.title,
            mode=state.trace.mode,
            calibration=state.calibration,
        )
        async with self._one:
            self.own.add(fork.trace_id)
            try:
                await asyncio.to_thread(_write_fork, self._store, fork, session.session_id, message)
            except StoreError:
                with contextlib.suppress(StoreError):
                    self.own.forget(fork.trace_id)
                raise
        return fork.trace_id

    async def search(self, query: str, limit: int, *, everywhere: bool = False) -> list[Found]:
        """Find the newest sessions with ``query`` in title, messages, goals or names of changed files.

        ``everywhere``: then those that only the database of the settings has, if it can be reached.
        """
        from daemon.store.searching import search

        titles = {session_id: session.state.trace.title for session_id, session in self._sessions.items()}
        found = await asyncio.to_thread(search, self._store, query, limit=limit, titles=titles)
        replica = self._replica() if everywhere else None
        if replica is not None and not replica.problem:
            try:
                others = await replica.search(query, limit)
            except StoreError as error:
                log.warning("the database was not searched: %s", error)
            else:
                found += await asyncio.to_thread(lambda: [one for one in others if not self._is_here(one)])
        return found[:limit]

    def _is_here(self, found: Found) -> bool:
        return self._store.folder(root_of(found.trace_id)).is_dir()

    async def _delete(self, trace_id: str, *, watched: bool = True) -> None:
        async with self._hold(trace_id, watched=watched):
            await asyncio.to_thread(self._store.delete, trace_id)
            self.own.forget(trace_id)

    @contextlib.asynccontextmanager
    async def _hold(self, trace_id: str, *, watched: bool = True) -> AsyncGenerator[None]:
        """Keep a trace closed for the block: nothing opens it, and no session has its files open. Raises InUseError
        when in use."""
        if self.in_use(trace_id, watched=watched):
            raise InUseError(
                t(
                    "Session {trace_id} is open: somebody is working in it or viewing it. Close it there, "
                    "or stop the daemon with `goalwright stop`, and try again.",
                    trace_id=trace_id,
                )
            )
        # This is atomic with the check: a later caller finds it held, and opens it afterwards.
        self._held.add(trace_id)
        taken_out = self._take_out(trace_id)
        try:
            for session in taken_out:
                await session.close()
            yield
        finally:
            self._held.discard(trace_id)

    def _rests(self, trace_id: str) -> bool:
        return not self.in_use(trace_id) and not any(
            session.compacting or session.status == "waiting" for session in self._at_hand(trace_id)
        )

    async def _unload(self, trace_id: str) -> None:
        for session in self._take_out(trace_id):
            await close_child(session)
        COLLECTOR.died(-1)  # a session has cycles

    def _take_out(self, trace_id: str) -> list[Session]:
        """Forget the loaded sessions of a trace, and return them to be closed."""
        return [self._sessions.pop(session.session_id) for session in self._at_hand(trace_id)]

    def _at_hand(self, trace_id: str) -> list[Session]:
        return [session for key, session in self._sessions.items() if root_of(key) == trace_id]


def new_trace_id(now: datetime, taken: Container[str]) -> str:
    """Return an id for a new session, none of ``taken``. It sorts by age, also among sessions of the same second."""
    while (made := f"{now:%Y%m%d-%H%M%S-%f}{secrets.token_hex(2)}") in taken:
        pass
    return made


def _write_fork(store: FileTraceStore, fork: Fork, source: str, message: str | None) -> None:
    """Write a fork beside the sessions, and put it among them at once when it is complete. Raises StoreError."""
    from daemon.loop.forking import cut, write_fork
    from daemon.store.pruning import staged

    events = cut(store.events(source), message)
    with os_errors(StoreError, UNWRITABLE, path=store.root), staged(store.root) as staging:
        with contextlib.closing(FileTraceStore(staging)) as copies:
            write_fork(copies, fork, source, events)
        (staging / fork.trace_id).rename(store.root / fork.trace_id)
