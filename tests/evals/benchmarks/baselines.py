"""Times that this machine needs for unavoidable work. Compare the numbers of two machines by the ratio to these."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.evals.benchmarks.measures import Baseline
from tests.evals.benchmarks.process import memory_mb
from tests.support.drivers.goalwright import CLOSED_PORT, KEY, finished
from tests.support.fakes.model_server import ModelServer

_ROOT = Path(__file__).resolve().parents[3]
_SERVER = """
import asyncio

async def answer(reader, writer):
    writer.write(await reader.readline())
    await writer.drain()

async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""
_CLIENT = f"import anthropic; anthropic.AsyncAnthropic(api_key={KEY!r}, base_url={CLOSED_PORT!r}).messages"


class Baselines:
    """Each is measured once, when it is first asked for."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._known: dict[str, Baseline] = {}

    async def python(self) -> Baseline:
        """Seconds from spawn to end of a Python that does nothing."""
        return await self._median("python -c pass", _python_pass)

    async def socket_server(self) -> Baseline:
        """Seconds from spawn of an asyncio server to its first answer."""
        return await self._median("empty asyncio server", _socket_server)

    async def sdk_memory(self) -> Baseline:
        """Resident MB of a Python with nothing but the SDK and a client of it."""
        return await self._median("python + anthropic SDK", _sdk_memory)

    async def sdk_gap(self, bodies: Sequence[dict[str, Any]]) -> Baseline:
        """Median milliseconds from the end of an answer to the arrival of the next request of the mere SDK.

        ``bodies`` are the requests of a real session, so that as many bytes are packed and sent.
        """
        return await self._median("SDK alone, same requests", lambda: _sdk_gap(bodies))

    async def _median(self, name: str, measure: Callable[[], Awaitable[float]]) -> Baseline:
        if name not in self._known:
            values = [await measure() for _ in range(self._runs)]
            self._known[name] = Baseline(name, statistics.median(values))
        return self._known[name]


async def _python_pass() -> float:
    done = (await finished([sys.executable, "-c", "pass"], {}, _ROOT)).check()
    return done.ended_at - done.started_at


async def _socket_server() -> float:
    start = time.monotonic()
    async with _running(_SERVER) as process:
        assert process.stdout is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", int(await process.stdout.readline()))
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"
        took = time.monotonic() - start
        writer.close()
    return took


async def _sdk_memory() -> float:
    async with _running(f"{_CLIENT}\nprint(flush=True)\ninput()") as process:
        assert process.stdout is not None
        await process.stdout.readline()
        return memory_mb(process.pid)


@asynccontextmanager
async def _running(code: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c", code, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.terminate()
        await process.wait()


async def _sdk_gap(bodies: Sequence[dict[str, Any]]) -> float:
    async with ModelServer(["Reading on."] * len(bodies)) as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.evals.benchmarks.bare_sdk",
            server.url,
            stdin=subprocess.PIPE,
            cwd=_ROOT,
            env={},
        )
        await process.communicate(json.dumps(bodies).encode())
        assert process.returncode == 0
        return statistics.median(server.gaps()) * 1000
