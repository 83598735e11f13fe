from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from daemon.api.limits import Limits
from daemon.model.events import Event
from daemon.store.memory import MemoryTraceStore
from daemon.store.paging import events_after
from tests.fakes.watched import TRACE, Watched


class Noting(MemoryTraceStore):
    def __init__(self) -> None:
        super().__init__()
        self.read: list[tuple[int, int]] = []

    def events(self, trace_id: str, *, after: int = 0, limit: int | None = None) -> Sequence[Event]:
        found = super().events(trace_id, after=after, limit=limit)
        self.read.append((threading.get_ident(), len(found)))
        return found


@pytest.mark.parametrize("count", [0, 1, 499, 500, 1200])
async def test_a_log_is_read_in_pages_beside_the_event_loop(count: int) -> None:
    store = Noting()
    bench = Watched(store, Limits())
    bench.begin()
    bench.notices(count)
    found = await events_after(store, TRACE, 1)
    assert [event.event_id for event in found] == list(range(2, count + 2))
    assert all(thread != threading.get_ident() and size <= 500 for thread, size in store.read)
