"""Copies what a daemon stores into a database, in the background.

The files stay the place where a session is written: nothing waits for the database. What the database has not yet is
read from the log again, so a connection that is lost loses nothing, and neither does a daemon that is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from itertools import chain
from typing import TYPE_CHECKING

from daemon.model.events import Delta
from daemon.model.meters import Metered
from daemon.store.trace_store import StoreError, UnknownTraceError, UnreachableError, with_children
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from daemon.bus import Bus
    from daemon.model.events import Event
    from daemon.store.files import FileTraceStore
    from daemon.store.searching import Found
    from daemon.store.sql.store import SqlTraceStore

log = logging.getLogger(__name__)

_EVERY_S = 0.5
"""Shortest time between two copies, so that a busy session costs few transactions."""
_SAVED_S = 2.0
"""Time after the last event of a session until its metadata is on disk, with the title; a record takes one second."""
_LONGEST_WAIT_S = 60.0
_END_S = 3.0
"""Time for the last events when the daemon ends; the next one copies the rest."""
_SILENT_S = 60
"""Seconds without an answer after which the database counts as lost."""


class Replica:
    """The database that has a copy of this user's sessions in one workspace. Lives on the event loop."""

    def __init__(self, store: FileTraceStore, bus: Bus, own: Callable[[], Collection[str]], url: str) -> None:
        """``own``: ids of the sessions that were begun here; others are not copied."""
        self.url = url
        self.problem = ""
        """Why the database is behind, for the user; empty when it is not."""
        self._store = store
        self._bus = bus
        self._own = own
        self._database: SqlTraceStore | None = None
        self._opening = threading.Lock()
        self._changed: set[str] = set()
        self._due: dict[str, asyncio.TimerHandle] = {}
        """Sessions that are copied again when their metadata is on disk."""
        self._wake = asyncio.Event()
        self._ending = asyncio.Event()
        self._work: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Copy what is missing, and everything that happens from now on."""
        self._bus.subscribe_to_all(self._heard)
        self._work = asyncio.create_task(self._run(), name="copies to the database")

    async def close(self) -> None:
        """Copy the rest, within three seconds."""
        self._bus.unsubscribe(self._heard)
        for trace_id in list(self._due):
            self._copy_soon(trace_id)
        self._ending.set()
        self._wake.set()
        if self._work is not None:
            await asyncio.wait([self._work], timeout=_END_S)
            self._work.cancel()
            if self._database is not None:
                self._database.cut()
            await asyncio.gather(self._work, return_exceptions=True)
        if self._database is not None:
            await asyncio.to_thread(self._database.close)

    async def search(self, query: str, limit: int) -> list[Found]:
        """Find sessions of every folder in the database, see ``daemon.store.sql.search``. Raises StoreError."""
        from daemon.store.sql.search import search

        return await asyncio.to_thread(lambda: search(self._opened(), query, limit=limit))

    def _heard(self, item: Event | Delta | Metered) -> None:
        if not isinstance(item, Delta | Metered):
            self._copy_soon(item.trace_id)
            later = asyncio.get_running_loop().call_later
            self._due[item.trace_id] = later(_SAVED_S, self._copy_soon, item.trace_id)

    def _copy_soon(self, trace_id: str) -> None:
        if (due := self._due.pop(trace_id, None)) is not None:
            due.cancel()
        self._changed.add(trace_id)
        self._wake.set()

    async def _run(self) -> None:
        own = await asyncio.to_thread(self._own)
        self._changed |= await asyncio.to_thread(lambda: set(with_children(self._store, own)))
        wait_s = _EVERY_S
        while True:
            self._wake.clear()
            wanted, self._changed = self._changed, set()
            try:
                if wanted:
                    await asyncio.to_thread(self._copy, wanted)
                self.problem, wait_s = "", _EVERY_S
            except StoreError as error:
                self._changed |= wanted
                self.problem = str(error)
                log.warning("sessions wait to be copied: %s", error)
                wait_s = min(2 * max(wait_s, 1.0), _LONGEST_WAIT_S)
            if self._ending.is_set() and (self.problem or not self._changed):
                return
            if not self._changed:
                await self._wake.wait()
            await _passed(self._ending, wait_s)

    def _copy(self, wanted: Collection[str]) -> None:
        """Copy what the database does not have of these sessions. Raises StoreError.

        One that the database refuses does not keep others from it.
        """
        own = self._own()
        refused: StoreError | None = None
        for trace_id in sorted(wanted):  # parents before their children
            if trace_id.partition(":")[0] not in own:
                continue
            try:
                copy_session(self._store, self._opened(), trace_id)
            except UnknownTraceError:
                continue  # it was deleted meanwhile
            except UnreachableError:
                raise
            except StoreError as error:
                refused = error
            except Exception as error:  # no record, however damaged, may end the copying of the others
                log.exception("session %s cannot be copied", trace_id)
                refused = StoreError(
                    t(
                        "Session {trace_id} cannot be copied ({name}); the log has the details.",
                        trace_id=trace_id,
                        name=type(error).__name__,
                    )
                )
        if refused is not None:
            raise refused

    def _opened(self) -> SqlTraceStore:
        with self._opening:
            if self._database is None:
                from daemon.store.sql.store import SqlTraceStore

                self._database = SqlTraceStore.open(self.url, silent_s=_SILENT_S)
            return self._database


def copy_session(files: FileTraceStore, database: SqlTraceStore, trace_id: str) -> None:
    """Copy what a database does not have of one session. Blocking. Raises UnknownTraceError, StoreError."""
    snapshot, last = files.snapshot(trace_id), database.copied(trace_id)
    lines = files.lines(trace_id, after=last)
    first = next(lines, None)
    if not last and first is None:
        return  # without events it is no session yet, and could not be copied back
    if not last or database.snapshot(trace_id) != snapshot:
        database.put_trace(trace_id, *snapshot)
    if first is not None:
        database.put_log(trace_id, chain([first], lines))


async def _passed(event: asyncio.Event, seconds: float) -> None:
    """Wait for ``seconds``, or until ``event``."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
