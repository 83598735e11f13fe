"""``goalwright run`` from spawn to the arrival of its first request at the model, the daemon being up."""

from __future__ import annotations

from tests.evals.benchmarks.measures import Measure
from tests.evals.benchmarks.stage import Stage
from tests.support.drivers.goalwright import installed
from tests.support.fakes.model_server import ModelServer


async def measure(stage: Stage) -> list[Measure]:
    """A run before the measured ones starts the daemon and makes it import the SDK."""
    values: list[float] = []
    async with ModelServer(lambda request: "Done.") as server, installed(url=server.url) as goalwright:
        (await goalwright.run("Warm up.")).check()
        for _ in range(stage.runs):
            before = len(server.requests)
            done = (await goalwright.run("Say that it is done.")).check()
            assert len(server.requests) == before + 1
            values.append(server.requests[before].received_at - done.started_at)
    return [
        Measure(
            "run: spawn to first model request",
            "s",
            tuple(values),
            target=0.25,
            baseline=await stage.baselines.python(),
            note="daemon up and its SDK imported by a run before; Anthropic wire",
        )
    ]
