"""The real daemon with a clock that jumps: ``python clocked_daemon.py DESCRIPTOR serve …``.

Monotonic time, wall time and the time of events run as they do, plus an offset. One JSON line on the socket DESCRIPTOR
says how many seconds are to pass; they pass in steps, between which timers fire, so each periodic task runs as often as
it would. The answer has the delays of the event loop since the last one, without those of the jump.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

STEP_S = 15.0
"""The shortest period of a task of the daemon that nobody waits for."""
_BEAT_S = 0.01
_LONGEST_MS = 1000

_monotonic, _wall, _run = time.monotonic, time.time, asyncio.run
_offset = 0.0


class Delays:
    """How late a task ran that wanted to run each 10 ms, counted by millisecond.

    ``own``: the part in which this process had the processor, so other programs on the machine do not count.
    """

    def __init__(self) -> None:
        self.own = [0] * (_LONGEST_MS + 1)
        self.all = [0] * (_LONGEST_MS + 1)
        self.paused = False

    async def beat(self) -> None:
        while True:
            began, used = time.perf_counter(), time.process_time()
            await asyncio.sleep(_BEAT_S)
            late = time.perf_counter() - began - _BEAT_S
            if not self.paused:
                self._count(self.all, late)
                self._count(self.own, min(late, time.process_time() - used))

    def _count(self, counts: list[int], seconds: float) -> None:
        counts[min(_LONGEST_MS, max(0, round(seconds * 1000)))] += 1

    def taken(self) -> dict[str, dict[int, int]]:
        found = {
            name: {ms: n for ms, n in enumerate(counts) if n}
            for name, counts in (("own", self.own), ("all", self.all))
        }
        self.own = [0] * (_LONGEST_MS + 1)
        self.all = [0] * (_LONGEST_MS + 1)
        return found


async def _jump(seconds: float) -> None:
    global _offset
    left = seconds
    while left > 0:
        _offset += min(STEP_S, left)
        left -= STEP_S
        for _ in range(4):
            await asyncio.sleep(0)
        await asyncio.sleep(0.002)


async def _obey(orders: socket.socket) -> None:
    delays = Delays()
    beating = asyncio.create_task(delays.beat())
    reader, writer = await asyncio.open_connection(sock=orders)
    while line := await reader.readline():
        delays.paused = True
        await _jump(json.loads(line))
        delays.paused = False
        told = {
            "delays": delays.taken(),
            "threads": threading.active_count(),
            "tasks": len(asyncio.all_tasks()),
        }
        writer.write(json.dumps(told).encode() + b"\n")
        await writer.drain()
    beating.cancel()


def main() -> int:
    """Serve until stopped."""
    orders = socket.socket(fileno=int(sys.argv.pop(1)))
    os.set_inheritable(orders.fileno(), False)
    time.monotonic = lambda: _monotonic() + _offset
    time.time = lambda: _wall() + _offset

    from daemon import core
    from daemon.__main__ import main as serve

    defaults = core.Daemon.__init__.__kwdefaults__
    assert defaults is not None
    defaults["now"] = lambda: datetime.now(UTC) + timedelta(seconds=_offset)

    def run(work: Coroutine[Any, Any, int]) -> int:
        async def both() -> int:
            obeying = asyncio.create_task(_obey(orders))
            try:
                return await work
            finally:
                obeying.cancel()

        return _run(both())

    asyncio.run = run
    return serve()


if __name__ == "__main__":
    sys.exit(main())
