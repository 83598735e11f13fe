"""The queue of a client: bounded, and without gaps while it listens."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from daemon.api.frames import EncodedItem, Subscription
from daemon.api.hub import ClientLimits, Hub, HubClient
from daemon.api.step_views import StepViews
from daemon.bus import Bus
from tests.support.drivers.waiting import until
from tests.support.fakes.memory_store import MemoryTraceStore


def entry(event_id: int, size: int = 1) -> EncodedItem:
    return EncodedItem(event_id, "notice" if event_id else "delta", str(event_id) * size)


@dataclass
class Sent:
    frames: list[str] = field(default_factory=list[str])

    async def send(self, frame: str) -> None:
        self.frames.append(frame)


def client_of(limits: ClientLimits, event_id: int = 0) -> HubClient:
    return HubClient(Subscription(), Sent().send, event_id, limits)


@given(st.data())
def test_a_client_gets_every_event_once_or_is_to_read_the_log(data: st.DataObject) -> None:
    limits = ClientLimits(
        queue_frames=data.draw(st.integers(1, 6)), batch_bytes=data.draw(st.integers(1, 300))
    )
    client = client_of(limits)
    newest = 0
    read: list[int] = []
    for _ in range(data.draw(st.integers(0, 40), "steps")):
        action = data.draw(st.sampled_from(["add", "add", "delta", "take", "log"]))
        if action == "add":
            newest += 1
            client.put(entry(newest))
        elif action == "delta":
            client.put(entry(0))
        elif not client.listening:
            client.listen(newest)
        elif action == "log" or client.event_id < client.floor:
            # The log has what is missing: some of it, or also what is queued.
            to = data.draw(st.integers(max(client.floor, client.event_id), newest))
            read += range(client.event_id + 1, to + 1)
            client.event_id = to
            client.caught_up()
        elif client.queue:
            read += [int(frame) for frame in asyncio.run(client.take()) if frame != "0"]
        assert len(client.queue) <= limits.queue_frames
        assert read == list(range(1, client.event_id + 1))


def test_queue_of_a_stalled_client_is_dropped_at_its_limit() -> None:
    client = client_of(ClientLimits(queue_bytes=1_000))
    client.listen(0)
    for event_id in range(1, 5):
        client.put(entry(event_id, 100))
    assert (client.listening, len(client.queue)) == (True, 4)
    for event_id in range(5, 100):
        client.put(entry(event_id, 100))
    assert (client.listening, len(client.queue)) == (False, 0)


async def test_single_entry_is_queued_whatever_its_size() -> None:
    client = client_of(ClientLimits(queue_bytes=50))
    client.listen(0)
    client.put(entry(1, 1_000))
    assert await client.take() == ["1" * 1_000]


async def test_lagging_client_receives_no_deltas() -> None:
    client = client_of(ClientLimits(delta_lag=2))
    client.listen(0)
    for event_id in (1, 0, 2, 0, 3, 0):
        client.put(entry(event_id))
    assert await client.take() == ["1", "0", "2", "3"]


async def test_deltas_from_before_what_was_read_of_the_log_are_dropped() -> None:
    client = client_of(ClientLimits())
    client.listen(0)
    for event_id in (1, 0, 2, 0, 3):
        client.put(entry(event_id))
    client.event_id = 2
    client.caught_up()
    assert await client.take() == ["0", "3"]


class SlowStore(MemoryTraceStore):
    """Reads where a log ends when ``go`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go = threading.Event(), threading.Event()

    def last_event_id(self, trace_id: str) -> int:
        self.asked.set()
        self.go.wait(60)
        return 0


async def test_a_hub_that_is_closed_while_it_opens_leaves_no_task() -> None:
    store = SlowStore()
    before = asyncio.all_tasks()
    with ThreadPoolExecutor(1) as threads:
        hub = Hub(
            "t", store, Bus(), ClientLimits(), views=StepViews(store), encoders=threads, readers=threads
        )
        await until(store.asked.is_set, "the question for the end of the log")
        await hub.close()
        store.go.set()
        await asyncio.wait({hub.opened})
    assert asyncio.all_tasks() == before
