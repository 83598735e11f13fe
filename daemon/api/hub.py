"""One watched session: received once, encoded once, and put into the bounded queue of each of its clients.

The listener on the bus only stores events. A pump has them encoded in a thread, with their changes of steps, and puts
them into the queues. A client whose queue overflows loses the queue and is brought up to date from the log, page by
page. So a slow client costs at most a full queue and its socket's buffer, and misses nothing but deltas.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from daemon.api.frames import EncodedItem, Subscription, delta_entry, event_entry
from daemon.api.step_views import CUT, StepViews
from daemon.bus import Bus
from daemon.deltas import Deltas
from daemon.gc_tuning import COLLECTOR
from daemon.model.encoding import json_bytes
from daemon.model.events import Delta, Event
from daemon.model.meters import Metered
from daemon.state.projection import Projection
from daemon.store.migrations import event_of
from daemon.store.trace_store import TraceStore

if TYPE_CHECKING:
    from daemon.model.traces import ViewUpdate
    from daemon.steps.fold import StepAdded, StepFold, StepUpdated

log = logging.getLogger(__name__)

_BATCH = 400
_LAST = 2**62

T = TypeVar("T")


class ClientLimits(Struct, frozen=True):
    """The limits of one daemon's API for its clients. Sizes in bytes, times in seconds."""

    clients: int = 256
    """The most clients at the same time, over all traces."""
    clients_per_trace: int = 128
    frame_bytes: int = 4096
    """The largest message that a client may send. It is never read."""
    frames_from_client: int = 100
    """How many messages a client may send before it is disconnected."""
    queue_frames: int = 4096
    queue_bytes: int = 4 * 1024 * 1024
    """Limits of a client's queue. A client that exceeds one is caught up from the log."""
    pending_events: int = 20_000
    """How many events may wait to be encoded. With more, all clients are caught up from the log."""
    delta_lag: int = 256
    """Events and deltas that may wait for a client and still get deltas behind them."""
    batch_bytes: int = 128 * 1024
    """Bytes sent to a client before other clients get their turn."""
    pause_s: float = 0.005
    """The pause between two batches of events."""
    page_events: int = 500
    """Read from the log at once."""
    stalled_s: float = 600.0
    """After this time without taking a batch a client is cut off; it can come back with its last event id."""
    close_s: float = 2.0
    """Seconds for a client to receive the reason of the close."""
    ping_s: float = 30.0
    ping_timeout_s: float = 300.0
    """Clients that read slowly answer late; those that are gone are found in the end."""


class StalledError(Exception):
    """A client takes nothing."""


class HubClient:
    """A client and its queue."""

    def __init__(
        self, wants: Subscription, send: Callable[[str], Awaitable[None]], event_id: int, limits: ClientLimits
    ) -> None:
        """``event_id``: the last event that it has."""
        self.wants = wants
        self.event_id = event_id
        self.floor = 0
        """Each event above this id was or will be put into the queue, while ``listening``."""
        self.listening = False
        self.steps: Steps | None = None
        """While it is caught up: the steps at or before the read position in the log."""
        self.wake = asyncio.Event()
        self._send = send
        self._limits = limits
        self.queue: deque[EncodedItem] = deque()
        """Entries that wait for it."""
        self._size = 0

    async def send(self, frames: Iterable[str]) -> None:
        """Send frames. Raises StalledError, and what the connection raises when the client has left."""
        try:
            async with asyncio.timeout(self._limits.stalled_s):
                for frame in frames:
                    await self._send(frame)
        except TimeoutError:
            raise StalledError from None
        await asyncio.sleep(0)  # let other clients run

    def listen(self, floor: int) -> None:
        """Receive all further events, which are those above the event ``floor``."""
        self.floor = floor
        self.listening = True

    def put(self, entry: EncodedItem) -> None:
        """Queue an entry; if it does not fit, it has to be read from the log, with everything that waits."""
        if not self.listening or 0 < entry.event_id <= self.event_id:
            return
        if not entry.event_id and len(self.queue) >= self._limits.delta_lag:
            return
        self.queue.append(entry)
        self._size += entry.size
        many = len(self.queue) > self._limits.queue_frames
        if many or (self._size > self._limits.queue_bytes and len(self.queue) > 1):
            self.overflow()
        self.wake.set()

    def overflow(self) -> None:
        """Forget what waits: the client is to be caught up from the log."""
        self.queue.clear()
        self._size = 0
        self.listening = False
        self.wake.set()

    def caught_up(self) -> None:
        """Drop entries that were read from the log meanwhile, and earlier deltas."""
        known = (at for at, entry in enumerate(self.queue, 1) if 0 < entry.event_id <= self.event_id)
        for _ in range(max(known, default=0)):
            self._size -= self.queue.popleft().size

    async def take(self) -> list[str]:
        """Wait for queued entries, and return about a batch of them; empty when the queue is lost."""
        while not self.queue and self.listening:
            self.wake.clear()
            await self.wake.wait()
        frames: list[str] = []
        size = 0
        while self.queue and size < self._limits.batch_bytes:
            entry = self.queue.popleft()
            self._size -= entry.size
            size += entry.size
            self.event_id = max(self.event_id, entry.event_id)
            frames += entry.of(self.wants)
        return frames


class Hub:
    """The events of one watched session for all of its clients. Made and used on the event loop."""

    def __init__(
        self,
        session_id: str,
        store: TraceStore,
        bus: Bus,
        limits: ClientLimits,
        *,
        views: StepViews,
        encoders: Executor,
        readers: Executor,
    ) -> None:
        """``encoders`` run urgent work, ``readers`` read the log."""
        self.session_id = session_id
        self.users = 0
        """How many need it: those that are joining, and its clients."""
        self.clients: list[HubClient] = []
        self._store = store
        self._views = views
        self._bus = bus
        self._limits = limits
        self._encoders = encoders
        self._readers = readers
        self._pending: deque[tuple[Event | Delta, bytes | None]] = deque()
        """Events with their lines, when the store offers them."""
        self._newest = 0
        """Each event above this id will be put into the queues."""
        self._wake = asyncio.Event()
        self._encoding = asyncio.Lock()
        self._deltas = Deltas()
        self._steps: Steps | None = None
        """At the newest event that was encoded, or after it; None until a client wants them."""
        self._steps_from = 0
        """Events above this id are encoded with their steps."""
        self._pump: asyncio.Task[None] | None = None
        self.opened = asyncio.create_task(self._open())
        """Ends when it follows the session. Raises StoreError when there is no such trace."""

    @property
    def failed(self) -> bool:
        """Whether a bug has ended it: new clients then need another hub."""
        return self._pump is not None and self._pump.done()

    async def _open(self) -> None:
        self._bus.subscribe(self.session_id, self._heard)
        try:
            last = await self._read(self._store.last_event_id, self.session_id)
        except BaseException:
            self._bus.unsubscribe(self._heard)
            raise
        first = next((item.event_id for item, _ in self._pending if not isinstance(item, Delta)), last + 1)
        self._newest = max(self._newest, min(last, first - 1))
        self._bus.known(self.session_id, last)
        self._pump = asyncio.create_task(self._pumping())
        self._pump.add_done_callback(lambda _: self._lose_queues())

    async def close(self) -> None:
        """Stop following."""
        self.opened.cancel()  # it may still be reading, and would begin to follow afterwards
        self._bus.unsubscribe(self._heard)
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)

    def join(self, client: HubClient) -> None:
        """Queue further events for a client that will be fed."""
        self.clients.append(client)
        client.listen(self._newest)

    def leave(self, client: HubClient) -> None:
        """Forget a client."""
        self.clients.remove(client)
        self._drop_client(client)

    async def feed(self, client: HubClient) -> None:
        """Send a client everything after ``client.event_id``, until it is gone; what that raises is raised here.

        Raises StoreError when the log cannot be read.
        """
        if self._pump is None:
            raise RuntimeError("the hub is not open")
        while True:
            if self._pump.done():
                await self._pump  # it failed, which it never should: this raises what happened
            if not client.listening:
                client.listen(self._newest)
            if client.wants.steps and self._steps is None:
                await self._make_steps(client)
            elif client.event_id < client.floor or (
                client.wants.steps and client.event_id < self._steps_from
            ):
                await self._catch_up(client)
            else:
                self._drop_client(client)
                client.caught_up()
                while client.listening:
                    await client.send(await client.take())

    async def _make_steps(self, client: HubClient) -> None:
        async with self._encoding:  # no event is encoded meanwhile, so each later one has its steps
            if client.steps is None:
                await self._client_steps(client)  # before the shared steps are read
            while self._steps is None:
                newest = self._newest
                steps = await self._read(self._steps_at, newest)
                if newest == self._newest:  # otherwise events were dropped, and only the log has them
                    self._steps, self._steps_from = steps, max(steps.event_id, newest)

    def _steps_at(self, event_id: int) -> Steps:
        """Return the steps at an event, or later ones where only those are known."""
        fold = self._views.fold_at(self.session_id, event_id) or self._views.fold_at(self.session_id, _LAST)
        return Steps(self.session_id, fold, broken=fold is None)

    async def _client_steps(self, client: HubClient) -> None:
        # The whole log is folded once for everyone, including the REST endpoints.
        fold = await self._read(self._views.fold_at, self.session_id, client.event_id)
        client.steps = Steps(self.session_id, fold)

    async def _catch_up(self, client: HubClient) -> None:
        """Send one page of the log."""
        if client.wants.steps and client.steps is None:
            await self._client_steps(client)
        page = await self._read(
            read_page,
            self._store,
            self.session_id,
            client.event_id,
            client.wants,
            client.steps,
            self._limits.page_events,
        )
        await client.send(page.frames)
        client.event_id = max(client.event_id, page.last)
        if page.whole and not page.last:
            # Events that are in neither the queue nor the log cannot be sent.
            client.event_id = max(client.event_id, client.floor, self._steps_from if client.steps else 0)

    # -- pumping --

    def _heard(self, item: Event | Delta | Metered) -> None:
        if isinstance(item, Metered):
            return
        if isinstance(item, Delta) and not any(client.wants.deltas for client in self.clients):
            return
        if len(self._pending) < self._limits.pending_events:
            # The event was just stored on this loop, so reuse its encoding and redaction.
            known = None if isinstance(item, Delta) else self._store.line(item)
            self._pending.append((item, known))
            self._wake.set()
        elif not isinstance(item, Delta):
            log.warning("watching %s: too much at once, its clients read the log", self.session_id)
            self._pending.clear()
            self._newest, self._steps = item.event_id, None
            self._lose_queues()

    def _lose_queues(self) -> None:
        for client in self.clients:
            client.overflow()

    async def _pumping(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._pending:
                async with self._encoding:
                    items = [self._pending.popleft() for _ in range(min(_BATCH, len(self._pending)))]
                    work = partial(self._entries, items, self._steps)
                    entries = await _run(self._encoders, work)
                    for entry in entries:
                        self._newest = max(self._newest, entry.event_id)
                        for client in self.clients:
                            client.put(entry)
                # Encode the events of the next moment together, because a batch costs little more than an event.
                await asyncio.sleep(self._limits.pause_s)

    def _entries(
        self, items: Sequence[tuple[Event | Delta, bytes | None]], steps: Steps | None
    ) -> list[EncodedItem]:
        """Encode a batch, in a thread."""
        newest = self._newest
        found: list[EncodedItem] = []
        deltas: list[Delta] = []

        def flush() -> None:
            found.extend(map(delta_entry, self._deltas.told(deltas)))
            deltas.clear()

        for item, line in items:
            if isinstance(item, Delta):
                deltas.append(item)
                continue
            flush()
            self._deltas.stored(item)
            if item.event_id <= newest:
                continue  # it was in the log before the pump began
            line = json_bytes(item.stored()) if line is None else line
            changes = () if steps is None else steps.changes(as_logged(item, line))
            view = None if steps is None else steps.view
            found.append(event_entry(item, changes, line, view))
        flush()
        return found

    def _drop_client(self, client: HubClient) -> None:
        if client.steps is not None:
            self._readers.submit(client.steps.let_go)
            client.steps = None

    async def _read(self, work: Callable[..., T], *args: object) -> T:
        return await _run(self._readers, partial(work, *args))


async def _run(executor: Executor, work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(executor, COLLECTOR.run, work)


# -- what a client missed, from the log page by page. It blocks: it runs in a thread --

_REDACTED = b"[redacted"
_LOST_CHARACTER = "\N{REPLACEMENT CHARACTER}".encode()
STEP_TEXT = CUT
"""Characters of a text in a step, as in ``/tree`` and ``/node``."""


class Steps:
    """The steps of one session up to an event."""

    def __init__(self, session_id: str, fold: StepFold | None = None, *, broken: bool = False) -> None:
        """``fold``: of the session, with texts cut to STEP_TEXT, to continue from; nothing else changes it.

        ``broken``: steps cannot be derived.
        """
        from daemon.steps.fold import StepFold

        self._fold = fold or StepFold(session_id, cut=STEP_TEXT)
        self._broken = broken
        self._projection = Projection(self._fold.head, self._fold.plan)
        self.view: ViewUpdate | None = None
        """The change of the last event for clients that show the session."""
        self.event_id = self._fold.last_event_id

    def changes(self, event: Event) -> Sequence[StepAdded | StepUpdated]:
        """Apply an event and return the changes; none when it was applied before."""
        self.view = None
        if event.event_id <= self.event_id:
            return ()
        self.event_id = event.event_id
        if self._broken:
            return ()
        try:
            changes = self._fold.apply(event)
            self.view = self._projection.changes(event)
            return changes
        except Exception:
            # A forged log may trigger a bug in a derived view, but the events themselves must arrive.
            log.exception("the steps of a trace cannot be derived from event %d on", event.event_id)
            self._broken = True
            return ()

    def let_go(self) -> None:
        """Free them. Call it in a thread, see ``StepTree.let_go``."""
        self._fold.tree.let_go()


def as_logged(event: Event, line: bytes) -> Event:
    """Return an event of a live session as in the log, whose ``line`` is its encoding: without secrets.

    Views derived from the two must be equal: a text that is cut before its secrets are removed differs, and may have a
    part of a secret.
    """
    if _REDACTED not in line and _LOST_CHARACTER not in line:
        return event  # nothing was redacted
    return event_of(line)


class Page(Struct, frozen=True):
    """A page of the log for one client."""

    frames: tuple[str, ...]
    last: int
    """Id of its last event; 0 when it has none."""
    whole: bool
    """The log had no more."""


def read_page(
    store: TraceStore, session_id: str, after: int, wants: Subscription, steps: Steps | None, limit: int
) -> Page:
    """Return the next frames from a log for a client that has the events up to ``after``.

    ``steps``: their state at ``after`` or before it; the page's events are applied to them. Raises StoreError.
    """
    events = store.events(session_id, after=after if steps is None else steps.event_id, limit=limit)
    frames: list[str] = []
    for event in events:
        changes = steps.changes(event) if steps is not None else ()
        if event.event_id > after:
            view = None if steps is None else steps.view
            frames += event_entry(event, changes, view=view).of(wants)
    return Page(tuple(frames), events[-1].event_id if events else 0, len(events) < limit)
