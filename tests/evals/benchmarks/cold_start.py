"""``goalwright serve`` from spawn to its answer to ``initialize``."""

from __future__ import annotations

import asyncio
import subprocess
import time

from lsp_bridge.cli.client import Client
from tests.evals.benchmarks.measures import Measure
from tests.evals.benchmarks.process import cpu_s
from tests.evals.benchmarks.stage import Stage
from tests.support.drivers.goalwright import Goalwright, installed

_DEADLINE_S = 30.0
_POLL_S = 0.001


async def measure(stage: Stage) -> list[Measure]:
    """Each run has a home and a workspace that no daemon has seen."""
    values: list[float] = []
    busy: list[float] = []
    for _ in range(stage.runs):
        async with installed() as goalwright:
            took, cpu = await _answers(goalwright)
        values.append(took)
        busy += [] if cpu is None else [cpu]
    found = [
        Measure(
            "serve: cold process to initialize",
            "s",
            tuple(values),
            target=0.7,
            baseline=await stage.baselines.socket_server(),
            note="a new process with a new GOALWRIGHT_HOME each time; Python's bytecode caches are warm",
        )
    ]
    if busy:
        # Tells a slow start from a busy machine.
        found.append(Measure("serve: processor time of that", "s", tuple(busy)))
    return found


async def _answers(goalwright: Goalwright) -> tuple[float, float | None]:
    """Seconds until the answer, and how many of them the process was computing."""
    start = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *goalwright.argv("serve"),
        env=goalwright.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        paths = goalwright.paths
        while not paths.address_file.exists():
            assert process.returncode is None, f"it ended at once; see {paths.log_file}"
            assert time.monotonic() - start < _DEADLINE_S, "no daemon.json in time"
            await asyncio.sleep(_POLL_S)
        address = paths.read_address()
        assert address is not None
        client = await Client.connect(address)
        await client.initialize(client="benchmark", workspace=goalwright.workspace)
        took = time.monotonic() - start
        cpu = cpu_s(process.pid)
        await client.close()
        return took, cpu
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
