"""One run of an agent against the model server, and what was observed from outside."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
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


async def play(agent: Agent, place: Stand, work: Sequence[Call], server: ModelServer) -> Run:
    """Have the agent do the work, and check that it did. Raises AgentFailedError when it did not."""
    server.begin(())
    server.choose = _replies(agent, work, place.repository)
    before = cpu_s()
    with _undisturbed():
        began, ended = await place.run([*agent.command, *agent.arguments()], agent.env(server.url))
    busy = cpu_s() - before
    asked = main_requests(server)
    _check(agent, place, work, server, asked)
    gaps = _gaps(asked)
    return Run(
        start_s=asked[0].received_at - began,
        reads_ms=tuple(gap for gap, call in zip(gaps, work, strict=True) if call.kind == "read"),
        edits_ms=tuple(gap for gap, call in zip(gaps, work, strict=True) if call.kind == "edit"),
        work_s=ended - began,
        cpu_s=busy,
        request_bytes=int(asked[0].headers.get("content-length", 0)) or len(json.dumps(asked[0].json)),
    )


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


def _replies(agent: Agent, work: Sequence[Call], root: Path) -> Callable[[Json, str], ReplyLike]:
    left = iter(work)

    def choose(request: Json, wire: str) -> ReplyLike:
        if not request.get("tools"):
            return Reply(text="Limits of the shop")
        call = next(left, None)
        if call is None:
            return Reply(text=SAID_LAST)
        return Reply(text=f"Now I {call.kind} {call.path}.", tool_calls=(agent.tool(call, root),))

    return choose


def _gaps(asked: Sequence[Recorded]) -> list[float]:
    """Milliseconds from the end of each answer to the arrival of the next request."""
    found: list[float] = []
    for before, after in itertools.pairwise(asked):
        assert before.ended_at is not None
        found.append((after.received_at - before.ended_at) * 1000)
    return found


def _check(
    agent: Agent, place: Stand, work: Sequence[Call], server: ModelServer, asked: Sequence[Recorded]
) -> None:
    """Whether what was measured is the work."""
    wrong = [*server.rejected, *server.problems]
    if len(asked) != len(work) + 1:
        wrong.append(f"{len(asked)} requests instead of {len(work) + 1}")
    wrong += [f"{path} was not edited" for path in unfinished(place.repository, list(work))]
    # Each line must have come back with the request after the read, before any edit names it.
    for call, request in zip(work, asked[1:], strict=False):
        if call.kind == "read" and call.old not in json.dumps(request.json):
            wrong.append(f"what was read of {call.path} was not sent to the model")
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
