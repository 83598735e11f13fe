"""Clients that lose their connection anywhere and come back: nothing is missed, nothing comes twice."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import ClientConnection

from daemon.api.frames import GRAPH_EVENTS
from daemon.api.hub import ClientLimits
from daemon.model.events import TraceCompleted
from daemon.steps.fold import StepFold
from tests.support.drivers.watched import TRACE, Json, Watched, hear, watched
from tests.support.examples import examples

LIMITS = st.builds(
    ClientLimits,
    queue_frames=st.integers(1, 30),
    queue_bytes=st.sampled_from([1, 5_000, 10**6]),
    pending_events=st.sampled_from([3, 20, 1000]),
    batch_bytes=st.sampled_from([1, 2_000, 10**5]),
    page_events=st.integers(1, 20),
    delta_lag=st.sampled_from([0, 5, 1000]),
)
WHAT = st.sampled_from(["all", "goals", "steps"])
DOINGS = st.lists(
    st.one_of(
        st.tuples(st.just("work"), st.integers(1, 12)),
        st.tuples(st.just("deltas"), st.integers(1, 5)),
        st.tuples(st.just("notices"), st.integers(1, 40)),
        st.tuples(st.just("read"), st.integers(1, 30)),
        st.tuples(st.just("cut"), st.just(0)),
        st.tuples(st.just("leave"), st.just(0)),
        st.tuples(st.just("wait"), st.just(0)),
    ),
    max_size=14,
)


@dataclass
class Reader:
    """A client as anybody would write it: it keeps the last ``event_id``, and steps by their id."""

    bench: Watched
    events: str
    seen: int | None = 0
    heard: list[int] = field(default_factory=list[int])
    steps: dict[str, Json] = field(default_factory=dict[str, Json])
    socket: ClientConnection | None = None

    async def connected(self) -> ClientConnection:
        if self.socket is None:
            self.socket = await self.bench.watch(
                f"since_event_id={self.seen}&events={self.events}", max_queue=2
            )
            (first,) = await hear(self.socket, count=1)
            assert first["event"] == "connected"
        return self.socket

    def took(self, frame: Json) -> None:
        """A frame. Steps may come again when the connection was cut before their event came."""
        if frame["event"] == "step_added":
            self.steps[frame["step"]["step_id"]] = dict(frame["step"])
        elif frame["event"] == "step_updated":
            known = self.steps[frame["step_id"]]
            known.update({name: value for name, value in frame["updates"].items() if name in known})
        if "event_id" in frame:
            assert not self.heard or frame["event_id"] > self.heard[-1]
            self.seen = frame["event_id"]
            self.heard.append(frame["event_id"])

    async def read(self, count: int) -> None:
        """Some frames, as many as there are within a moment."""
        socket = await self.connected()
        try:
            async with asyncio.timeout(0.02):
                for _ in range(count):
                    self.took((await hear(socket, count=1))[0])
        except TimeoutError:
            pass

    async def cut(self) -> None:
        """The connection breaks; what was on the way is lost."""
        if self.socket is not None:
            self.socket.transport.abort()
            self.socket = None

    async def to_the_end(self, last: int) -> None:
        socket = await self.connected()
        while self.seen != last:
            self.took((await hear(socket, count=1))[0])


async def play(limits: ClientLimits, events: str, doings: list[tuple[str, int]]) -> None:
    async with watched(limits=limits) as bench:
        reader = Reader(bench, events)
        for what, count in doings:
            if what == "work":
                bench.work(count)
            elif what == "deltas":
                for number in range(count):
                    bench.delta(f"word {number} ")
            elif what == "notices":
                bench.notices(count)
            elif what == "read":
                await reader.read(count)
            elif what == "wait":
                await reader.connected()
            elif what == "cut":
                await reader.cut()
            elif reader.socket is not None:
                await reader.socket.close()
                reader.socket = None
        (last,) = bench.emit(TraceCompleted(trace_id=TRACE, time=bench.time(), status="completed"))
        await reader.to_the_end(last.event_id)
        await reader.cut()
        check(bench, reader)


def check(bench: Watched, reader: Reader) -> None:
    stored = list(bench.store.events(TRACE))
    fold = StepFold(TRACE, cut=4_000)
    changed = [event for event in stored if fold.apply(event) or event.event == "trace_completed"]
    expected = {
        "all": [event.event_id for event in stored],
        "goals": [event.event_id for event in stored if event.event in GRAPH_EVENTS],
        "steps": [event.event_id for event in changed],
    }[reader.events]
    assert reader.heard == expected
    if reader.events != "goals":
        assert reader.steps == {step.step_id: step.stored() for step in all_steps(fold)}


def all_steps(fold: StepFold) -> list[Any]:
    found: list[Any] = []
    waiting = list(fold.tree.children(None))
    while waiting:
        step = waiting.pop()
        found.append(step)
        waiting += fold.tree.children(step.step_id)
    return found


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(LIMITS, WHAT, DOINGS)
def test_reconnects_anywhere_miss_no_event_and_repeat_none(
    limits: ClientLimits, events: str, doings: list[tuple[str, int]]
) -> None:
    asyncio.run(play(limits, events, doings))
