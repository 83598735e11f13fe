from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence

import pytest

from daemon.api.hub import ClientLimits
from daemon.model.events import Event, ModelRetry
from daemon.store.paging import events_after, transcript_events
from daemon.store.trace_store import all_events
from tests.support.drivers.watched import TRACE, Watched
from tests.support.fakes.memory_store import MemoryTraceStore


class Noting(MemoryTraceStore):
    def __init__(self) -> None:
        super().__init__()
        self.read: list[tuple[int, int]] = []

    def events(self, trace_id: str, *, after: int = 0, limit: int | None = None) -> Sequence[Event]:
        found = super().events(trace_id, after=after, limit=limit)
        self.read.append((threading.get_ident(), len(found)))
        return found


@pytest.mark.parametrize("count", [0, 1, 499, 500, 1200])
async def test_log_is_read_in_pages_off_the_event_loop(count: int) -> None:
    store = Noting()
    bench = Watched(store, ClientLimits())
    bench.begin()
    bench.notices(count)
    found = await events_after(store, TRACE, 1)
    assert [event.event_id for event in found] == list(range(2, count + 2))
    assert all(thread != threading.get_ident() and size <= 500 for thread, size in store.read)


def test_log_of_equal_ids_is_read_to_an_end() -> None:
    class Forged(Noting):
        def events(self, trace_id: str, *, after: int = 0, limit: int | None = None) -> Sequence[Event]:
            # As in a database whose rows are numbered, and whose bodies all have the same id.
            return [one.model_copy(update={"event_id": 1}) for one in super().events(trace_id, limit=limit)]

    store = Forged()
    bench = Watched(store, ClientLimits())
    bench.begin()
    bench.notices(3)
    found = list(itertools.islice(all_events(store.events, TRACE), 1_000))
    assert len(found) == len(store.events(TRACE)) * 2


@pytest.mark.parametrize("between", [0, 3, 700])
async def test_transcript_events_follow_the_message_before_them(between: int) -> None:
    store = Noting()
    bench = Watched(store, ClientLimits())
    bench.begin()
    for _ in range(4):
        bench.emit(bench.message())
        bench.notices(1)
        retry = ModelRetry(trace_id=TRACE, time=bench.time(), attempt=1, delay_s=1, reason="x")
        bench.emit(*[retry] * between)
    sequences = [message.sequence for message in store.messages(TRACE)]
    told = await transcript_events(store, TRACE, 0)
    assert [after for after, _ in told.events] == sequences
    assert told.last_id == store.last_event_id(TRACE)
    assert [after for after, _ in (await transcript_events(store, TRACE, sequences[2])).events] == sequences[
        2:
    ]
    page = await transcript_events(store, TRACE, sequences[1], before=sequences[3])
    assert [after for after, _ in page.events] == sequences[1:3]
