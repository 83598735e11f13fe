"""Many events to many clients of the trace API's WebSocket: the real server, and real clients in other processes."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from daemon.model.events import Event, MessagePartAdded, ToolStarted, TraceCompleted
from daemon.model.messages import TextPart, ToolCallPart, ToolResultPart
from daemon.store.files import FileTraceStore
from tests.evals.benchmarks.measures import Baseline, Measure
from tests.evals.benchmarks.stage import Stage
from tests.support.drivers.watched import TRACE, Watched, watched

CLIENTS = 10
EVENTS = 5_000
_PROCESSES = 2
_PART = 25
"""Events between two breaths of the event loop: what happens in a session happens in bursts."""
_TEXT = "The total is computed in src/shop/cart.py, where a Decimal is rounded twice. " * 3


async def measure(stage: Stage) -> list[Measure]:
    """Seconds for 5 000 events to arrive at ten clients, with their steps and without; and to be stored at all."""
    stored = [await _stored() for _ in range(stage.runs)]
    baseline = Baseline("storing them", min(stored))
    found: list[Measure] = []
    for events, what in (("all", "with steps"), ("goals", "for the graph")):
        runs = [await _told(events) for _ in range(stage.runs)]
        note = (
            f"as fast as they can be stored, to the last one at {CLIENTS} clients in {_PROCESSES} processes"
        )
        times, processor = tuple(run[0] for run in runs), tuple(run[1] for run in runs)
        found += [
            Measure(f"watch: 5 000 events to 10 clients ({what})", "s", times, 1.0, baseline, note),
            # Clients and server share the machine: this is what the server takes of it, storing included.
            Measure(f"watch: the server's processor time for them ({what})", "s", processor),
        ]
    return found


def _happens(bench: Watched) -> Iterator[Event]:
    """A session at work, as fast as never."""
    number = 0
    while True:
        if number % 50 == 0:
            goal_id = str(number // 50 + 1)
            yield bench.goal(goal_id)
            yield bench.focus(goal_id)
        goal_id = str(number // 50 + 1)
        call = ToolCallPart(id=f"c{number}", name="read", input='{"file_path": "src/shop/cart.py"}')
        text = TextPart(text=_TEXT)
        for index, part in enumerate((text, call)):
            message_id = f"msg_{number:06}_aaaaaa"
            yield MessagePartAdded(
                trace_id=TRACE, time=bench.time(), message_id=message_id, index=index, part=part
            )
        yield bench.message(text, call, goal_id=goal_id)
        yield ToolStarted(trace_id=TRACE, time=bench.time(), tool_call_id=call.id, name="read")
        result = ToolResultPart(tool_call_id=call.id, name="read", content=_TEXT, title="src/shop/cart.py")
        yield bench.message(result, role="tool", goal_id=goal_id)
        number += 1


async def _stored() -> float:
    """Without anybody who watches."""
    with tempfile.TemporaryDirectory() as folder:
        async with watched(FileTraceStore(Path(folder) / ".trace")) as bench:
            return await _play(bench)


async def _play(bench: Watched) -> float:
    """Seconds for the events to happen."""
    begin = time.perf_counter()
    happens = _happens(bench)
    for number in range(EVENTS):
        event = next(happens)
        bench.happens(event)
        if number % _PART == 0:
            await asyncio.sleep(0)
    bench.happens(TraceCompleted(trace_id=TRACE, time=bench.time(), status="completed"))
    return time.perf_counter() - begin


async def _told(events: str) -> tuple[float, float]:
    """Seconds until all have the events, and of processor time that this process took."""
    with tempfile.TemporaryDirectory() as folder:
        async with watched(FileTraceStore(Path(folder) / ".trace")) as bench:
            each = CLIENTS // _PROCESSES
            query = f"deltas=false&events={events}&since_event_id=0"
            command = (sys.executable, "-m", "tests.evals.benchmarks.watch", bench.url(query), str(each))
            clients = [
                await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
                for _ in range(_PROCESSES)
            ]
            lines = [client.stdout for client in clients if client.stdout is not None]
            await asyncio.gather(*(line.readline() for line in lines))  # "here"
            begin, busy = time.perf_counter(), time.process_time()
            await _play(bench)
            told = await asyncio.gather(*(line.readline() for line in lines))
            taken, processor = time.perf_counter() - begin, time.process_time() - busy
            await asyncio.gather(*(client.wait() for client in clients))
            heard = [int(number) for line in told for number in line.split()]
            if len(heard) != CLIENTS or (events == "all" and min(heard) < EVENTS):
                raise RuntimeError(f"not all clients have heard everything: {heard}")
            return taken, processor


async def _client(url: str, here: asyncio.Event) -> int:
    heard = 0
    async with connect(url, max_size=None, compression=None) as socket:
        await socket.recv()
        here.set()
        with suppress(ConnectionClosed):
            while True:
                text = await socket.recv(decode=False)
                heard += b'"event_id"' in text
                if b'"event":"trace_completed"' in text:
                    break
    return heard


async def _clients(url: str, count: int) -> None:
    here = [asyncio.Event() for _ in range(count)]
    tasks = [asyncio.create_task(_client(url, event)) for event in here]
    await asyncio.gather(*(event.wait() for event in here))
    print("here", flush=True)
    print(*await asyncio.gather(*tasks), flush=True)


if __name__ == "__main__":
    asyncio.run(_clients(sys.argv[1], int(sys.argv[2])))
