"""One watched session: heard once, encoded once, told to all its clients.

The listener on the bus only puts events aside. A pump has them encoded in a thread, with what they did to the steps,
and adds them to a ring; each client follows the ring in a task of its own. Who is behind the ring is caught up from the
log, page by page, until the ring reaches back to where he is. So a slow client costs a place in the ring and what its
socket holds, and misses nothing but deltas.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from daemon.api.catching_up import Steps, as_logged, brought_up, read_page
from daemon.api.frames import EncodedItem, Wants, delta_entry, event_entry
from daemon.api.ring import Ring
from daemon.api.step_views import StepViews
from daemon.api.websocket import ClientLimits, Outlet, taken
from daemon.bus import Bus
from daemon.collector import COLLECTOR
from daemon.deltas import Deltas
from daemon.model.encoding import json_bytes
from daemon.model.events import Delta, Event
from daemon.model.meters import Metered
from daemon.store.base import TraceStore

log = logging.getLogger(__name__)

_BATCH = 400
_NOT_THERE = 2**62

T = TypeVar("T")


@dataclass(slots=True)
class HubClient:
    """Somebody who watches. ``event_id``: the last event that it has."""

    wants: Wants
    outlet: Outlet
    event_id: int
    came: int = 0
    """Place in the ring at which it came: of deltas before it, it may have heard by another connection."""
    steps: Steps | None = None
    """While it is caught up: the steps as they were after what was read of the log for it."""


@dataclass(frozen=True, slots=True)
class _Offer:
    """Steps that a client has come by, for all.

    ``answer``: the event that the client is brought to and the frames up to it; None when others were there first.
    """

    steps: Steps
    wants: Wants
    answer: asyncio.Future[tuple[int, tuple[bytes, ...]] | None]


class Hub:
    """See the module. Made and used on the event loop; ``open`` before anything else."""

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
        """``encoders`` run what is urgent, ``readers`` what reads the log."""
        self.session_id = session_id
        self.clients: list[HubClient] = []
        self._store = store
        self._views = views
        self._bus = bus
        self._limits = limits
        self._encoders = encoders
        self._readers = readers
        self._ring = Ring(0, frames=limits.ring_frames, size=limits.ring_bytes)
        self._pending: deque[tuple[Event | Delta, bytes | None]] = deque()
        """Events with their lines, when the store offers them."""
        self._dropped = 0
        """Id of the last event that did not find room in ``_pending``."""
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._deltas = Deltas()
        self._steps: Steps | None = None
        """Of the trace as the ring has it; None until a client wants them."""
        self._steps_from = _NOT_THERE
        """Events above this id stand in the ring with their steps."""
        self._offered: deque[_Offer] = deque()
        self._pump: asyncio.Task[None] | None = None

    @property
    def failed(self) -> bool:
        """A bug has ended it: who comes now needs another one."""
        return self._pump is not None and self._pump.done()

    async def open(self) -> None:
        """Begin to follow. Raises StoreError when there is no such trace."""
        self._bus.subscribe(self.session_id, self._heard)
        try:
            last = await self._read(self._store.last_event_id, self.session_id)
        except BaseException:
            self._bus.unsubscribe(self._heard)
            raise
        first = next((item.event_id for item, _ in self._pending if not isinstance(item, Delta)), last + 1)
        self._ring.reset(min(last, first - 1))
        self._pump = asyncio.create_task(self._pumping())
        self._pump.add_done_callback(lambda _: self._tell())

    async def close(self) -> None:
        """Stop following."""
        self._bus.unsubscribe(self._heard)
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)

    async def feed(self, client: HubClient) -> None:
        """Tell a client everything after ``client.event_id``, until it is gone (raises ClientDisconnected).

        Raises StoreError when the log cannot be read.
        """
        if self._pump is None:
            raise RuntimeError("the hub is not open")
        client.came = self._ring.end
        self.clients.append(client)
        try:
            while True:
                place = self._place(client)
                if place is None:
                    await self._catch_up(client)
                else:
                    self._let_go(client)
                    await self._follow(client, place)
        finally:
            self.clients.remove(client)
            self._let_go(client)

    # -- following --

    def _place(self, client: HubClient) -> int | None:
        if client.wants.steps and client.event_id < self._steps_from:
            return None
        return self._ring.place_after(client.event_id)

    async def _follow(self, client: HubClient, place: int) -> None:
        """From the ring, until it no longer reaches back that far."""
        limits = self._limits
        while True:
            now = self._ring.take(
                place,
                client.event_id,
                client.wants,
                size=limits.batch_bytes,
                delta_lag=limits.delta_lag,
                deltas_from=client.came,
            )
            if now is None:
                return
            if now.frames:
                await taken(client.outlet, now.frames, limits.stalled_s)
            place, client.event_id = now.next, now.event_id
            if place == self._ring.end:
                await self._something_new()
            else:
                await asyncio.sleep(0)  # the others are there, too

    async def _something_new(self) -> None:
        pump = self._pump
        if pump is not None and pump.done():
            await pump  # it failed, which it never should: this raises what happened
        await self._changed.wait()

    async def _catch_up(self, client: HubClient) -> None:
        """One page of the log."""
        limits = self._limits
        if client.wants.steps and client.steps is None:
            # The whole log is folded once for all, the REST endpoints included.
            fold = await self._read(self._views.fold_at, self.session_id, client.event_id)
            client.steps = Steps(self.session_id, fold)
        page = await self._read(
            read_page,
            self._store,
            self.session_id,
            client.event_id,
            client.wants,
            client.steps,
            limits.page_events,
            limits.batch_bytes,
        )
        for frames in page.frames:
            await taken(client.outlet, frames, limits.stalled_s)
        client.event_id = max(client.event_id, page.last)
        if not page.whole:
            return
        if client.steps is not None and self._steps is None:
            await self._offer(client, client.steps)
        elif not page.last:
            # What the ring does not reach back to is nothing that can be read.
            needed = self._steps_from if client.steps is not None else 0
            client.event_id = max(client.event_id, self._ring.floor, needed)

    async def _offer(self, client: HubClient, steps: Steps) -> None:
        """A client has read the whole log: the steps that it has now become those of the ring."""
        answer: asyncio.Future[tuple[int, tuple[bytes, ...]] | None] = (
            asyncio.get_running_loop().create_future()
        )
        self._offered.append(_Offer(steps, client.wants, answer))
        client.steps = None  # whether the client stays or not, they are the ring's to take
        self._wake.set()
        taken_over = await answer
        if taken_over is None:
            client.steps = steps
            return
        event_id, missed = taken_over
        for frames in missed:
            await taken(client.outlet, frames, self._limits.stalled_s)
        client.event_id = max(client.event_id, event_id)

    # -- pumping --

    def _heard(self, item: Event | Delta | Metered) -> None:
        if isinstance(item, Metered):
            return
        if isinstance(item, Delta) and not any(client.wants.deltas for client in self.clients):
            return
        if len(self._pending) >= self._limits.pending_events:
            if isinstance(item, Delta):
                return
            log.warning("watching %s: too much at once, its clients read the log", self.session_id)
            self._pending.clear()
            self._dropped = item.event_id
        else:
            # It was stored a moment ago, on this loop: encoding and looking for secrets need not be done twice.
            known = None if isinstance(item, Delta) else self._store.line(item)
            self._pending.append((item, known))
        self._wake.set()

    async def _pumping(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._pending or self._dropped or self._offered:
                if self._dropped:
                    self._ring.reset(self._dropped)
                    self._dropped, self._steps, self._steps_from = 0, None, _NOT_THERE
                if self._offered:
                    await self._adopt(self._offered.popleft())
                items = [self._pending.popleft() for _ in range(min(_BATCH, len(self._pending)))]
                if items:
                    entries = await self._encode(self._entries, items)
                    if not self._dropped:
                        self._ring.add(entries)
                self._tell()
                if items and not self._offered:
                    # What comes in the next moment is told at once to all: a write for each event and client costs more
                    # than the event.
                    await asyncio.sleep(self._limits.breath_s)

    async def _adopt(self, offer: _Offer) -> None:
        """Take over the steps that a client has come by, unless there are some."""
        answer: tuple[int, tuple[bytes, ...]] | None = None
        try:
            if self._steps is None:
                newest = self._ring.newest
                missed = await self._encode(
                    brought_up, self._store, self.session_id, offer.steps, newest, offer.wants
                )
                self._steps, self._steps_from = offer.steps, max(newest, offer.steps.event_id)
                answer = (self._steps_from, missed)
        except Exception as error:
            if not offer.answer.done():
                offer.answer.set_exception(error)
        if not offer.answer.done():  # else the client has gone
            offer.answer.set_result(answer)

    def _entries(self, items: Sequence[tuple[Event | Delta, bytes | None]]) -> list[EncodedItem]:
        """In a thread: as clients get them."""
        newest = self._ring.newest
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
            changes = () if self._steps is None else self._steps.changes(self._logged(item, line))
            found.append(event_entry(item, changes, line))
        flush()
        return found

    def _logged(self, event: Event, line: bytes | None) -> Event:
        """The event as the log has it: who reads it there hears of the same steps."""
        return as_logged(event, line if line is not None else json_bytes(event.stored()))

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _encode(self, work: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(
            self._encoders, partial(COLLECTOR.run, work, *args)
        )

    def _let_go(self, client: HubClient) -> None:
        """Of the steps of a client, which nobody else has."""
        if client.steps is not None:
            asyncio.get_running_loop().run_in_executor(self._readers, client.steps.let_go)
            client.steps = None

    async def _read(self, work: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(
            self._readers, partial(COLLECTOR.run, work, *args)
        )
