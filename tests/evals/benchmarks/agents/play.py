"""One run of an agent against the model server, and what was observed from outside."""

from __future__ import annotations

import asyncio
import functools
import gc
import itertools
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.evals.benchmarks.agents.adapters import Agent
from tests.evals.benchmarks.agents.stand import AgentFailedError, MemoryPeak, Stand, cpu_s
from tests.evals.benchmarks.agents.summary import Memory, Run
from tests.evals.benchmarks.agents.workload import SAID_LAST, Call, unfinished
from tests.support.fakes.model_replies import Reply, ReplyLike
from tests.support.fakes.model_server import ModelServer, Recorded

Json = dict[str, Any]
_CLIENT = Path(__file__).with_name("null_client.py")
_LAST = 4
"""How many of the last messages of a request can have what the last call has read."""
Starter = Callable[[Agent, Stand, str], Awaitable[tuple[float, float]]]
"""Has an agent do its task, for the base URL of the model server. Returns when it began and ended, as ``Stand.run``."""


async def play(
    agent: Agent,
    place: Stand,
    work: Sequence[Call],
    server: ModelServer,
    start: Starter | None = None,
    *,
    keep: bool = False,
) -> Run:
    """Have the agent do the work, and check that it did. Raises AgentFailedError when it did not.

    ``start``: by default its command. With ``keep`` the server remembers what was in the requests: those of a thousand
    calls would fill the memory.
    """
    start = start or functools.partial(_command, within_s=180.0 + len(work))
    begin(agent, place, work, server, keep=keep)
    before = cpu_s()
    with _undisturbed():
        began, ended = await start(agent, place, server.url)
    busy = cpu_s() - before
    asked = main_requests(server)
    check(agent, place, work, server)
    gaps = _gaps(asked)
    return Run(
        start_s=asked[0].received_at - began,
        reads_ms=tuple(gap for gap, call in zip(gaps, work, strict=True) if call.kind == "read"),
        edits_ms=tuple(gap for gap, call in zip(gaps, work, strict=True) if call.kind == "edit"),
        work_s=ended - began,
        cpu_s=busy,
        request_bytes=int(asked[0].headers.get("content-length", 0)) or len(json.dumps(asked[0].json)),
        unjudged=agent.unjudged(place.repository) if work else None,
    )


async def _command(agent: Agent, place: Stand, url: str, *, within_s: float) -> tuple[float, float]:
    return await place.run([*agent.command, *agent.arguments()], agent.env(url), within_s)


async def play_for_memory(agent: Agent, place: Stand, work: Sequence[Call], server: ModelServer) -> Memory:
    """Have it do the same for nothing but the memory."""
    peak = MemoryPeak()
    async with peak.watching():
        await play(agent, place, work, server)
    return peak.memory


async def wire_alone(bodies: Sequence[Json]) -> list[float]:
    """Milliseconds from the end of an answer to the next request of a client that only sends: the error of the measure.

    The requests are those of an agent, so that as many bytes are sent.
    """
    async with ModelServer(lambda request: Reply(text=SAID_LAST)) as server:
        with _undisturbed():
            client = await asyncio.create_subprocess_exec(
                sys.executable, "-I", str(_CLIENT), server.url, stdin=subprocess.PIPE
            )
            await client.communicate(json.dumps(bodies).encode())
        assert client.returncode == 0, "the client that only sends has failed"
        return _gaps(server.requests)


def main_requests(server: ModelServer) -> list[Recorded]:
    """The requests of the work itself. Some agents also ask for a title, without tools."""
    return [request for request in server.requests if request.json.get("tools")]


def begin(
    agent: Agent, place: Stand, work: Sequence[Call], server: ModelServer, *, keep: bool = False
) -> None:
    """Have the server ask for the work from now on, and look at what comes back."""
    left = iter(work)
    beside = agent.beside
    read: Call | None = None

    def choose(request: Json, wire: str) -> ReplyLike:
        nonlocal beside, read
        if not keep and len(server.requests) > 1:
            server.requests[-2].json = {"tools": bool(server.requests[-2].json.get("tools"))}
        if not request.get("tools"):
            return Reply(text="Limits of the shop")
        # Each line must have come back with the request after the read, before any edit names it.
        told: list[Any] = request.get("messages") or request.get("input") or []
        if read is not None and read.old not in json.dumps(told[-_LAST:]):
            server.rejected.append(f"what was read of {read.path} was not sent to the model")
        call = next(left, None)
        read = call if call is not None and call.kind == "read" else None
        if call is None:
            return Reply(text=SAID_LAST)
        calls, beside = (*beside, agent.tool(call, place.repository)), ()
        return Reply(text=f"Now I {call.kind} {call.path}.", tool_calls=calls)

    server.begin(())
    server.choose = choose


def _gaps(asked: Sequence[Recorded]) -> list[float]:
    """Milliseconds from the end of each answer to the arrival of the next request."""
    found: list[float] = []
    for before, after in itertools.pairwise(asked):
        assert before.ended_at is not None
        found.append((after.received_at - before.ended_at) * 1000)
    return found


def check(agent: Agent, place: Stand, work: Sequence[Call], server: ModelServer) -> None:
    """Raise AgentFailedError when what was measured is not the work."""
    asked = main_requests(server)
    wrong = [*server.rejected, *server.problems]
    if len(asked) != len(work) + 1:
        wrong.append(f"{len(asked)} requests instead of {len(work) + 1}")
    wrong += [f"{path} was not edited" for path in unfinished(place.repository, list(work))]
    wrong += [f"status {request.status} was answered" for request in asked if request.status != 200]
    wrong += ["it did not wait for the end of an answer" for before in asked[:-1] if before.ended_at is None]
    if wrong:
        raise AgentFailedError(f"{agent.name} did not do the work: {'; '.join(wrong[:5])}")


@contextmanager
def _undisturbed() -> Generator[None]:
    """Keep Python's garbage collector out of the server's times."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
