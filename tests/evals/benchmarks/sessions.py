"""Sessions as they grow, in the real daemon: the overhead of a turn, the memory, and the opening of a long one."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from daemon.model.events import MessageAdded, MessagePartAdded
from daemon.model.messages import Message, TextPart, ToolResultPart
from daemon.store.files import FileTraceStore
from lsp_bridge.cli.client import Client
from tests.evals.benchmarks.agents import adapters, editor
from tests.evals.benchmarks.agents.adapters import Agent
from tests.evals.benchmarks.agents.installation import installed_program
from tests.evals.benchmarks.agents.play import begin, check, play, wire_alone
from tests.evals.benchmarks.agents.stand import Stand, adopt_orphans, stand
from tests.evals.benchmarks.agents.summary import Run
from tests.evals.benchmarks.agents.workload import Call, calls, files_for, plant
from tests.evals.benchmarks.measures import Measure
from tests.evals.benchmarks.stage import Stage
from tests.support.fakes.model_server import ModelServer

LENGTHS = (300, 2_000)
"""Calls of a session."""
EDGE = 30
MOST_GROWN = 1.2
MESSAGES = 2_000
MOST_MB = 40.0
IDLE, TURNS, TURN_CALLS = 20, 3, 10
MOST_IDLE_MB = 1.0
LEFT_S = 8 * 60.0
"""The daemon closes what nobody has used for five minutes, and looks each minute."""
EVENTS = 50_000
MOST_OPENING_MS = 300.0
_PREVIEW_AFTER_S = 0.05
"""As ``PREVIEW_AFTER_MS`` of the extension."""
_PAGE = 200
_WARM = 2
"""Calls of a session before the measured one, so that the daemon has loaded all that it needs."""
# Nothing is compacted: the request of each call has all the calls before it. No preloader works beside the first ones.
_SETTINGS = {"context_window": 100_000_000, "compact_at_tokens": 90_000_000, "preload": False}
_TEXT = "def total(cart):\n    return sum(item.price for item in cart)\n" * 10


@dataclass(frozen=True, slots=True)
class _Bench:
    agent: Agent
    place: Stand
    server: ModelServer

    async def start(self) -> psutil.Process:
        """Have a daemon that has worked already."""
        _, address = await editor.start(self.agent, self.place, self.server.url)
        await self.play(calls(_WARM))
        return psutil.Process(address.pid)

    async def play(self, work: Sequence[Call]) -> Run:
        """A session of its own."""
        return await play(self.agent, self.place, work, self.server)


@asynccontextmanager
async def _bench(count: int, goal: str = "") -> AsyncGenerator[_Bench]:
    """A home that Goalwright has never seen, and a repository for ``count`` calls."""
    adopt_orphans()
    agent = adapters.goalwright(installed_program(), diagnostics=False, goal=goal, **_SETTINGS)
    with tempfile.TemporaryDirectory(prefix="gwb-") as folder:
        repository = Path(folder) / "shop"
        plant(repository, files_for(count))
        async with ModelServer() as server, stand(repository) as place:
            agent.prepare(place.home, server.url)
            yield _Bench(agent, place, server)


# -- length --


async def length(stage: Stage) -> list[Measure]:
    """The overhead of the last calls of a session over that of its first ones, without a goal and with one."""
    found: list[Measure] = []
    for goal in ("", "Raise the limits"):
        for count in LENGTHS:
            name = f"overhead of the last {EDGE} of {count} calls" + (", a goal in focus" if goal else "")
            stage.say(name)
            runs = 1 if count > LENGTHS[0] else min(3, stage.runs)  # a run of the long one takes minutes
            ends = [await _long_session(count, goal) for _ in range(runs)]
            ratios = tuple(one.last_ms / one.first_ms for one in ends)
            first, last, wire = (
                statistics.median(values)
                for values in zip(*((one.first_ms, one.last_ms, one.wire_ms) for one in ends), strict=True)
            )
            note = f"the first {EDGE}: {first:.1f} ms, the last: {last:.1f} ms, both without what the same requests"
            note += f" take on the wire alone (at the end {wire:.1f} ms for {ends[0].last_kb:.0f} KB)"
            found.append(Measure(name, "×", ratios, MOST_GROWN, note=note))
    return found


@dataclass(frozen=True, slots=True)
class _Ends:
    """The overhead of the first and of the last calls, without the wire's share."""

    first_ms: float
    last_ms: float
    wire_ms: float
    """Of the last request."""
    last_kb: float


async def _long_session(count: int, goal: str) -> _Ends:
    async with _bench(count, goal) as bench:
        await bench.start()
        run = await bench.play(calls(count, _WARM // 2))
        last = bench.server.requests[-1]
    early = {**last.json, "messages": last.json["messages"][: EDGE + 1]}
    wire = [statistics.median(await wire_alone([body] * EDGE)) for body in (early, last.json)]
    first_ms, last_ms = edges(run)
    return _Ends(first_ms - wire[0], last_ms - wire[1], wire[1], int(last.headers["content-length"]) / 1024)


def edges(run: Run, count: int = EDGE) -> tuple[float, float]:
    """A typical call among the first ``count`` of a run, and among the last: half of them reads and half edits."""
    half = count // 2
    ends = (run.reads_ms[:half], run.edits_ms[:half]), (run.reads_ms[-half:], run.edits_ms[-half:])
    # An edit takes longer than a read: a median of both together would lie between two crowds.
    first, last = (statistics.fmean(map(statistics.median, kinds)) for kinds in ends)
    return first, last


# -- memory --


async def memory(stage: Stage) -> list[Measure]:
    """What the daemon's memory grows by in a long session, and for sessions that nobody looks at any more."""
    stage.say(f"a session of {MESSAGES} messages")
    async with _bench(MESSAGES // 2) as bench:
        daemon = await bench.start()
        before = _mb(daemon)
        await bench.play(calls(MESSAGES // 2, _WARM // 2))
        grown = _mb(daemon) - before
    how = "resident memory of the daemon, over that after a first small session"
    name = f"memory: a session of {MESSAGES} messages, just ended"
    return [Measure(name, "MB", (grown,), MOST_MB, note=how), *await _idle(stage)]


async def _idle(stage: Stage) -> list[Measure]:
    """A window shows one session after the other, works in each, and stays open."""
    async with _bench((IDLE + 1) * TURNS * TURN_CALLS) as bench:
        daemon = await bench.start()
        _, address = await editor.start(bench.agent, bench.place, bench.server.url)
        async with editor.window(bench.agent, bench.place, bench.server.url, address) as client:
            session_id = await _turns(bench, client, 0)  # a window needs more than a command does
            before = _mb(daemon)
            for number in range(1, IDLE + 1):
                stage.say(f"session {number} of {IDLE}")
                session_id = await _turns(bench, client, number, session_id)
            shown = (_mb(daemon) - before) / IDLE
            stage.say(f"{LEFT_S:g} s in which nobody uses them")
            await asyncio.sleep(LEFT_S)
            left = (_mb(daemon) - before) / IDLE
    what = f"{IDLE} sessions of {TURNS} turns and {TURNS * TURN_CALLS} calls each, shown in one window"
    return [
        Measure("memory: each, when all were shown", "MB", (shown,), note=what),
        Measure(f"memory: each, left for {LEFT_S:g} s", "MB", (left,), MOST_IDLE_MB, note=what),
    ]


async def _turns(bench: _Bench, client: Client, number: int, shown: str | None = None) -> str:
    """Begin a session instead of the one that is shown, and work in it. Returns its id."""
    session_id = await editor.new_session(client, shown)
    for turn in range(TURNS):
        first = (_WARM + (number * TURNS + turn) * TURN_CALLS) // 2
        work = calls(TURN_CALLS, first)
        begin(bench.agent, bench.place, work, bench.server)
        await editor.prompt(client, session_id)
        check(bench.agent, bench.place, work, bench.server)
    return session_id


def _mb(process: psutil.Process) -> float:
    return process.memory_info().rss / 1024**2


# -- opening --


async def opening(stage: Stage) -> list[Measure]:
    """A long session whose metadata is behind its log, as after a crash: its newest page, and all of it."""
    pages: list[float] = []
    whole: list[float] = []
    async with _bench(_WARM) as bench:
        await bench.start()
        await _stop(bench)
        stage.say(f"a session of {EVENTS} events")
        folder = await asyncio.to_thread(_grow, bench.place.repository / ".trace", EVENTS)
        stale = {path: path.read_bytes() for path in folder.glob("*.json")}
        for _ in range(stage.runs):
            for path, content in stale.items():
                path.write_bytes(content)
            _, address = await editor.start(bench.agent, bench.place, bench.server.url)
            async with editor.window(bench.agent, bench.place, bench.server.url, address) as client:
                page, all_of_it = await _opened(client, folder.name)
            pages.append(page)
            whole.append(all_of_it)
            await _stop(bench)
    name = f"opening: the newest page of {EVENTS} events, stale metadata"
    how = "as VS Code asks for it, of a daemon that has just started"
    return [
        Measure(name, "ms", tuple(pages), MOST_OPENING_MS, note=how),
        Measure("opening: all of that session, to go on", "ms", tuple(whole)),
    ]


async def _opened(client: Client, session_id: str) -> tuple[float, float]:
    """Milliseconds until the newest page is there, from the disk or with the whole session, and until that is open."""
    wanted = {"sessionId": session_id, "messages": _PAGE}
    began = time.perf_counter()

    async def ask(method: str) -> float:
        answer: dict[str, Any] = await client.request(f"goalwright/session/{method}", wanted)
        assert len(answer["messages"]) == _PAGE, f"{len(answer['messages'])} messages"
        return (time.perf_counter() - began) * 1000

    load = asyncio.create_task(ask("load"))
    await asyncio.wait({load}, timeout=_PREVIEW_AFTER_S)
    page = await ask("preview") if not load.done() else await load
    all_of_it = await load
    return min(page, all_of_it), all_of_it


async def _stop(bench: _Bench) -> None:
    await bench.place.run([*bench.agent.command, "stop"], bench.agent.env(bench.server.url))


def _grow(root: Path, events: int) -> Path:
    """Append events to the only session there, and nothing to its metadata. Returns its folder. Blocking."""
    now = datetime.now(UTC)
    with closing(FileTraceStore(root)) as store:
        [trace_id] = store.trace_ids()
        first = store.messages(trace_id)[-1].sequence + 1
        for sequence in range(first, first + events // 2):
            message = _message(trace_id, sequence, now)
            [part] = message.content
            store.append(
                MessagePartAdded(
                    trace_id=trace_id, time=now, message_id=message.message_id, index=0, part=part
                )
            )
            store.append(MessageAdded(trace_id=trace_id, time=now, message=message))
        return store.folder(trace_id)


def _message(trace_id: str, sequence: int, now: datetime) -> Message:
    tool = sequence % 2 == 0
    call = f"call_{sequence // 2}"
    part = ToolResultPart(tool_call_id=call, name="read", content=_TEXT) if tool else TextPart(text=_TEXT)
    return Message(
        message_id=f"msg_{sequence:06d}_{sequence:08x}",
        trace_id=trace_id,
        role="tool" if tool else "assistant",
        sequence=sequence,
        goal_id=None,
        tool_call_id=call if tool else None,
        content=(part,),
        description="read",
        created_at=now,
    )
