"""Telemetry of all sessions of a daemon: the event loop only queues events, a thread makes and sends spans."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from typing import TYPE_CHECKING

from daemon.model.events import Delta, Event, MessageAdded, SessionUpdated, TurnStarted
from daemon.model.meters import Metered
from daemon.store.trace_store import StoreError
from daemon.telemetry.spans import SessionSpans, measured
from daemon.telemetry.target import DEFAULT_ENDPOINT, BadTargetError, check_address, target_of
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from daemon.bus import Bus
    from daemon.store.trace_store import TraceStore
    from daemon.telemetry.exporter import Exporter

log = logging.getLogger(__name__)

MOST_QUEUED = 10_000
"""Events; more are read from the log again."""
MOST_SESSIONS = 50
"""Sessions whose steps are kept in memory."""
CLOSE_S = 2.0

_Item = tuple[Event, str]


class Telemetry:
    """Follows all sessions. Made and used on the event loop."""

    def __init__(
        self,
        store: TraceStore,
        bus: Bus,
        *,
        endpoint: str | None,
        content: bool,
        caller: Callable[[str], tuple[str, Mapping[str, str]]],
        tell: Callable[[str], None],
    ) -> None:
        """``caller``: the model (``provider/model``) and the client's variables of a session. ``tell``: tells the user
        something once."""
        self._store = store
        self._bus = bus
        self._endpoint = endpoint
        self._content = content
        self._caller = caller
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._items: queue.Queue[_Item | None] = queue.Queue(MOST_QUEUED)
        self._thread: threading.Thread | None = None
        self._sessions: dict[str, SessionSpans] = {}
        self._parents: dict[str, int] = {}
        self._failed = False
        bus.subscribe_to_all(self._heard)
        try:
            check_address(endpoint or DEFAULT_ENDPOINT)
        except BadTargetError as error:
            tell(str(error))  # the first turn may be over when the packages are loaded

    async def close(self) -> None:
        """Send what is left, within seconds."""
        self._bus.unsubscribe(self._heard)
        if self._thread is None:
            return
        try:
            self._items.put_nowait(None)
        except queue.Full:
            return
        await asyncio.to_thread(self._thread.join, 3 * CLOSE_S)

    def _heard(self, item: Event | Delta | Metered) -> None:
        if isinstance(item, Delta | Metered):
            return
        model = ""
        if isinstance(item, MessageAdded | SessionUpdated | TurnStarted):
            model, env = self._caller(item.trace_id)
            if self._thread is None and isinstance(item, TurnStarted):
                self._thread = threading.Thread(target=self._run, args=(env,), name="telemetry", daemon=True)
                self._thread.start()
        try:
            self._items.put_nowait((item, model))
        except queue.Full:
            pass  # the next event finds the gap, and the log is read

    # -- in the thread --

    def _run(self, env: Mapping[str, str]) -> None:
        try:
            from daemon.telemetry.exporter import Exporter

            exporter = Exporter(target_of(self._endpoint, env), self._not_sent)
        except (ImportError, BadTargetError) as error:
            missing = t("Telemetry is on, but its packages are missing: install goalwright[otel].")
            self._say(missing if isinstance(error, ImportError) else str(error))
            while self._items.get() is not None:
                pass
            return
        while (item := self._items.get()) is not None:
            try:
                self._take(exporter, *item)
            except Exception:
                log.exception("telemetry of an event failed")
        for spans in self._sessions.values():
            exporter.export(spans.rest())
        exporter.close(CLOSE_S)

    def _take(self, exporter: Exporter, event: Event, model: str) -> None:
        if (call := measured(event, model)) is not None:
            exporter.measure(call)
        session_id = event.trace_id
        spans = self._sessions.pop(session_id, None)
        if spans is None:
            spans = self._opened(exporter, session_id, event.event_id)
        self._sessions[session_id] = spans  # now the last in order
        if event.event_id > spans.fold.last_event_id + 1:
            for missed in self._read(session_id, spans.fold.last_event_id, event.event_id):
                exporter.export(spans.apply(missed))
        exporter.export(spans.apply(event, model))
        self._parents |= spans.children
        spans.children.clear()

    def _opened(self, exporter: Exporter, session_id: str, event_id: int) -> SessionSpans:
        while len(self._sessions) >= MOST_SESSIONS:
            exporter.export(self._sessions.pop(next(iter(self._sessions))).rest())
        parent = self._parents.pop(session_id, None)
        spans = SessionSpans(session_id, parent=parent, content=self._content)
        for earlier in self._read(session_id, 0, event_id):
            spans.skip(earlier)
        return spans

    def _read(self, session_id: str, after: int, before: int) -> list[Event]:
        if before <= after + 1:
            return []
        try:
            return [one for one in self._store.events(session_id, after=after) if one.event_id < before]
        except StoreError as error:
            log.warning("telemetry: the log of %s cannot be read: %s", session_id, error)
            return []

    def _not_sent(self) -> None:
        if not self._failed:
            self._failed = True
            self._say(
                t(
                    "Telemetry cannot be sent: the collector does not answer or refuses. Sessions go on without it; "
                    "this is said once."
                )
            )

    def _say(self, text: str) -> None:
        log.warning("%s", text)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell, text)
