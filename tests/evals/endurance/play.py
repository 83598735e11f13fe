"""A day of a daemon: sessions that work one after the other, editors that come and go, language servers that crash.

Everything is real but the model and the time: the daemon's process, its clients over the socket, commands, copies of
the working tree. Each step is some minutes: turns run at the speed of the machine, then the daemon's clock jumps.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsp_bridge.cli.client import Client, Greeting
from tests.evals.endurance import clocked_daemon, editor
from tests.evals.endurance.model import Worker
from tests.evals.endurance.samples import Sample, children_of, look
from tests.support.drivers.goalwright import Goalwright, installed
from tests.support.drivers.waiting import until
from tests.support.fakes.model_server import ModelServer
from tests.support.programs import language_server

_STEP_S = 300.0
_EDITORS = 3
_AT_ONCE = 3
"""Sessions that work at the same time."""
_CALLS_OF_A_TURN = 7.9
"""Calls to the model; a few turns have more than the others."""
_CRASH_EVERY = 6
"""Steps between two crashes of language servers."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much, and in what time. A block is work and then quiet; the daemon is compared with itself when quiet."""

    hours: float = 24.0
    sessions: int = 20
    calls: int = 20_000
    block_steps: int = 36
    quiet_steps: int = 6
    seed: int = 19

    @property
    def steps(self) -> int:
        """Of five minutes each."""
        return round(self.hours * 3600 / _STEP_S)

    def works(self, step: int) -> bool:
        """Whether the sessions work and editors may be there."""
        return step % self.block_steps < self.block_steps - self.quiet_steps

    def ends_quiet(self, step: int) -> bool:
        """Whether it is the last step of a block."""
        return step % self.block_steps == self.block_steps - 1


class Day:
    """One run. Made by ``play``."""

    def __init__(self, plan: Plan, goalwright: Goalwright, server: ModelServer) -> None:
        self.plan = plan
        self.calls = 0
        self.stops: dict[str, int] = {}
        """How the turns ended."""
        self._goalwright = goalwright
        self._server = server
        server.choose = self._answer
        self._workers = [Worker(number, goalwright.workspace) for number in range(plan.sessions)]
        self._by_model = {worker.model: worker for worker in self._workers}
        self._ids: dict[str, str] = {}
        self._editors: list[asyncio.subprocess.Process | None] = [None] * _EDITORS
        self._random = random.Random(plan.seed)
        self._turn = 0

    def _answer(self, request: dict[str, Any], _: str) -> Any:
        self.calls += 1
        return self._by_model[request["model"]].answer(request)

    async def step(self, number: int, daemon: _Daemon) -> None:
        """The work of one step; its time has yet to pass."""
        working = [step for step in range(self.plan.steps) if self.plan.works(step)]
        await self._come_and_go(number if self.plan.works(number) else None)
        if not self.plan.works(number):
            return
        if number % _CRASH_EVERY == _CRASH_EVERY - 1:
            daemon.crash_language_servers()
        turns = round(self.plan.calls / _CALLS_OF_A_TURN)
        due = turns * (working.index(number) + 1) // len(working)
        async with self._chat() as chat:
            while self._turn < due:
                begun = range(self._turn, min(self._turn + _AT_ONCE, due))
                self._turn = begun.stop
                await asyncio.gather(*(self._work(chat, turn, turns) for turn in begun))
        self._server.requests.clear()

    async def leave(self) -> None:
        """All editors go."""
        await self._come_and_go(None)

    @asynccontextmanager
    async def _chat(self) -> AsyncGenerator[Client]:
        address = self._goalwright.paths.read_address()
        assert address is not None
        chat = await Client.connect(address, timeout=60)
        try:
            env = dict(self._goalwright.provider)
            workspace = self._goalwright.workspace
            await chat.initialize(workspace, Greeting(client="vscode", trusted=True, env=env), 60)
            yield chat
        finally:
            await chat.close()

    async def _work(self, chat: Client, turn: int, turns: int) -> None:
        at = turn * self.plan.sessions // turns
        worker = self._workers[max(0, at - turn % _AT_ONCE)]
        async with worker.at_work:  # three turns at once, and fewer sessions at the beginning
            await self._turn_of(worker, chat, turn)

    async def _turn_of(self, worker: Worker, chat: Client, turn: int) -> None:
        worker.begin(turn)
        if worker.model not in self._ids:
            given = {"mode": "auto", "model": f"anthropic/{worker.model}"}
            begun = await chat.request("goalwright/session/new", given)
            self._ids[worker.model] = begun["session"]["trace"]["traceId"]
        session = {"sessionId": self._ids[worker.model]}
        done = await chat.request("goalwright/session/prompt", {**session, "text": f"Do part {turn}."})
        self.stops[done["stopReason"]] = self.stops.get(done["stopReason"], 0) + 1

    async def _come_and_go(self, step: int | None) -> None:
        """Editors of a step; None: none is there."""
        for slot in range(_EDITORS):
            wanted = step is not None and (step + 5 * slot) // 7 % 3 != slot
            there = self._editors[slot]
            if wanted and there is None:
                self._editors[slot] = await self._editor(slot)
            elif there is not None and not wanted:
                self._editors[slot] = None
                await self._leave(there)
            elif there is not None and there.stdin is not None:
                there.stdin.write(f"typed in step {step}\n".encode())

    async def _editor(self, slot: int) -> asyncio.subprocess.Process:
        files = [self._goalwright.workspace / "notes" / f"{slot}-{number}.txt" for number in range(5)]
        paths = self._goalwright.paths
        found = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            editor.__file__,
            str(paths.address_file),
            str(self._goalwright.workspace),
            *map(str, files),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert found.stdout is not None
        assert await found.stdout.readline() == b"there\n"
        return found

    async def _leave(self, there: asyncio.subprocess.Process) -> None:
        if self._random.random() < 0.5:
            there.kill()
        else:
            assert there.stdin is not None
            there.stdin.close()
        await there.wait()

    @property
    def editors(self) -> int:
        """How many are there."""
        return sum(one is not None for one in self._editors)


class _Daemon:
    """The daemon's process, and the socket over which its clock is set."""

    def __init__(self, process: asyncio.subprocess.Process, orders: socket.socket) -> None:
        self.process = process
        self._orders = orders
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def jump(self, seconds: float) -> dict[str, Any]:
        """Let time pass. Returns what it tells of itself."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(sock=self._orders, limit=1 << 20)
        reader, writer = self._streams
        writer.write(f"{seconds}\n".encode())
        told: dict[str, Any] = json.loads(await reader.readline())
        return told

    def crash_language_servers(self) -> None:
        for pid in children_of(self.process.pid):
            with contextlib.suppress(OSError):
                if language_server.__file__ in Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace"):
                    os.kill(pid, signal.SIGKILL)


@asynccontextmanager
async def _served(goalwright: Goalwright) -> AsyncGenerator[_Daemon]:
    ours, its = socket.socketpair()
    ours.setblocking(False)
    arguments = ("serve", "--workspace", str(goalwright.workspace), "--idle-timeout", "0")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        clocked_daemon.__file__,
        str(its.fileno()),
        *arguments,
        env=goalwright.env,
        pass_fds=[its.fileno()],
        stdin=subprocess.DEVNULL,
    )
    its.close()
    try:
        await until(lambda: goalwright.paths.read_address() is not None, "the daemon", within_s=60)
        yield _Daemon(process, ours)
        process.terminate()
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        ours.close()


def _settings() -> dict[str, Any]:
    server = {"command": [sys.executable, language_server.__file__], "languages": {".endured": "endured"}}
    return {"language_servers": {"endured": server}, "context_window": 32_000, "test_command": ""}


async def play(plan: Plan, told: Callable[[Sample], None] = lambda sample: None) -> list[Sample]:
    """Run it. Raises AssertionError when a turn went wrong or when something is left after the daemon's end."""
    async with ModelServer() as server, installed(url=server.url) as goalwright:
        workspace = goalwright.workspace
        (workspace / "notes").mkdir()
        for slot in range(_EDITORS):
            for number in range(5):
                (workspace / "notes" / f"{slot}-{number}.txt").write_text("a note\n")
        day = Day(plan, goalwright, server)
        for arguments in (("init", "-q"), ("add", "."), ("commit", "-qm", "begin")):
            names = ("-c", "user.name=a", "-c", "user.email=a@b.c")
            await asyncio.to_thread(subprocess.run, ["git", *names, *arguments], cwd=workspace, check=True)
        goalwright.configure(**_settings())
        copies = goalwright.home / "gw" / "branches"
        samples: list[Sample] = []
        async with _served(goalwright) as daemon:
            for number in range(plan.steps):
                await day.step(number, daemon)
                known: dict[str, Any] = {"quiet": plan.ends_quiet(number), "editors": day.editors}
                answer = await daemon.jump(_STEP_S)
                known |= {"hour": (number + 1) * _STEP_S / 3600, "calls": day.calls}
                samples.append(look(daemon.process.pid, copies, answer, **known))
                told(samples[-1])
            await day.leave()
            below = children_of(daemon.process.pid)
        assert day.stops.keys() == {"end_turn"}, day.stops
        await until(lambda: not [pid for pid in below if Path(f"/proc/{pid}").exists()], "no process is left")
        assert not goalwright.paths.is_locked()
        assert not goalwright.paths.address_file.exists()
        assert not [*copies.glob("*/*/")]
        return samples
