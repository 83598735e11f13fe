"""How long the event loop is kept from its work while the trace API answers for a long trace."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Iterator
from contextlib import suppress
from pathlib import Path

from websockets.asyncio.client import connect

from daemon.gc_tuning import COLLECTOR
from daemon.model.messages import TextPart, ToolCallPart, ToolResultPart
from daemon.store.files import FileTraceStore
from tests.evals.benchmarks.measures import Baseline, Measure, percentile
from tests.evals.benchmarks.stage import Stage
from tests.support.drivers.trace_page import TOKEN, PageBench, page_bench
from tests.support.drivers.watched import TRACE

MESSAGES, GOALS = 10_000, 2_000
_TEXT = "The total is computed in src/shop/cart.py, where a Decimal is rounded twice. " * 8
_BEAT_S = 0.001
_QUIET_S = 2.0
_LOOKS = (
    ("GET /api/traces/{id}, live", "http", ""),
    ("the first GET …/node/root", "http", "/node/root"),
    ("a first watch with steps", "ws", "/watch?"),
    ("a watch of everything, from the first event on", "ws", "/watch?since_event_id=0&"),
)


async def measure(stage: Stage) -> list[Measure]:
    """Longest and 99th percentile of the delays of a task that wants to run each millisecond. One run."""
    with tempfile.TemporaryDirectory() as folder:
        stage.say(f"a live trace of {MESSAGES} messages and {GOALS} goals")
        COLLECTOR.install()
        try:
            async with page_bench(FileTraceStore(Path(folder) / ".trace")) as bench:
                if TRACE not in bench.states:
                    bench.begin(TRACE)
                for _ in _happens(bench):
                    await asyncio.sleep(0)
                return await _measured(bench)
        finally:
            COLLECTOR.uninstall()


async def _measured(bench: PageBench) -> list[Measure]:
    # What other processes and the heartbeat itself do to it.
    idle = await _delays(asyncio.sleep(_QUIET_S))
    found: list[Measure] = []
    for name, scheme, path in _LOOKS:
        url = f"{scheme}://127.0.0.1:{bench.port}/api/traces/{TRACE}{path}"
        command = (sys.executable, "-m", "tests.evals.benchmarks.lag", url)
        client = await asyncio.create_subprocess_exec(*command)
        delays = await _delays(client.wait())
        for what, share in (("longest", 1.0), ("99th percentile", 0.99)):
            baseline = Baseline("idle", percentile(idle, share))
            found.append(
                Measure(
                    f"lag of the loop, {what}: {name}", "ms", (percentile(delays, share),), None, baseline
                )
            )
    return found


async def _delays(work: Awaitable[object]) -> list[float]:
    delays: list[float] = []

    async def beat() -> None:
        while True:
            begin = time.perf_counter()
            await asyncio.sleep(_BEAT_S)
            delays.append((time.perf_counter() - begin - _BEAT_S) * 1000)

    beating = asyncio.create_task(beat())
    await work
    beating.cancel()
    return delays


def _happens(bench: PageBench) -> Iterator[None]:
    for number in range(MESSAGES // 2):
        goal_id = str(number * 2 * GOALS // MESSAGES + 1)
        if goal_id not in bench.states[TRACE].plan.goals:
            bench.happens(bench.goal(goal_id, session_id=TRACE))
            bench.happens(bench.focus(goal_id, TRACE))
        call = ToolCallPart(id=f"c{number}", name="read", input='{"file_path": "src/shop/cart.py"}')
        bench.happens(bench.message(TextPart(text=_TEXT), call, goal_id=goal_id, session_id=TRACE))
        result = ToolResultPart(tool_call_id=call.id, name="read", content=_TEXT, title="src/shop/cart.py")
        bench.happens(bench.message(result, role="tool", goal_id=goal_id, session_id=TRACE))
        yield


async def _watch(url: str) -> None:
    async with connect(f"{url}token={TOKEN}", max_size=None, compression=None) as socket:
        with suppress(TimeoutError):
            while True:
                await asyncio.wait_for(socket.recv(decode=False), _QUIET_S)


def _client(url: str) -> None:
    if url.startswith("ws"):
        asyncio.run(_watch(url))
    else:
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()


if __name__ == "__main__":
    _client(sys.argv[1])
