"""Plays all agents in all situations, in turns, and reports."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lsp_bridge.cli.preloaded import preloader_paths
from tests.evals.benchmarks.agents import adapters, summary
from tests.evals.benchmarks.agents.adapters import Agent
from tests.evals.benchmarks.agents.editor import first_prompt
from tests.evals.benchmarks.agents.installation import installed_program, without_byte_code
from tests.evals.benchmarks.agents.play import main_requests, play, play_for_memory, wire_alone
from tests.evals.benchmarks.agents.stand import AgentFailedError, Stand, adopt_orphans, stand
from tests.evals.benchmarks.agents.summary import (
    EDITOR,
    JUST_STARTED,
    NO_BYTE_CODE,
    NO_DAEMON,
    PRELOADED,
    SECOND,
    USED_HOME,
    Row,
)
from tests.evals.benchmarks.agents.workload import calls, files_for, plant
from tests.support.drivers.waiting import until
from tests.support.fakes.model_server import ModelServer

GROUPS = ("floor", "no-byte-code", "goalwright", "as-shipped", "peers")
"""What can be chosen: the floor, Goalwright just installed, without and with diagnostics, and the peers' file."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure."""

    runs: int = 3
    calls: int = 40
    groups: Collection[str] = GROUPS
    peers: Path = adapters.PEERS_FILE


@dataclass(slots=True)
class Compared:
    """What came of it."""

    rows: list[Row]
    versions: dict[str, str] = field(default_factory=dict[str, str])
    not_installed: list[str] = field(default_factory=list[str])
    wire_ms: list[float] = field(default_factory=list[float])
    """From the end of an answer to the next request of a client that does nothing else."""

    @property
    def failed(self) -> bool:
        """Whether one of those that are always here did not do the work."""
        return any(row.problem and row.agent in (summary.GOALWRIGHT, summary.FLOOR) for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """All of it; Any because it is JSON."""
        return {
            "rows": [summary.to_json(row) for row in self.rows],
            "targets": [summary.target_json(target) for target in summary.targets(self.rows)],
            "versions": self.versions,
            "notInstalled": self.not_installed,
            "wireAloneMs": self.wire_ms,
        }

    def __str__(self) -> str:
        """For people."""
        shown = summary.report(self.rows, summary.targets(self.rows), self.wire_ms)
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        left_out = ", ".join(self.not_installed)
        shown += f"\n\nversions: {versions}" if versions else ""
        return shown + (f"\n\nnot installed, so not measured: {left_out}" if left_out else "")


async def compare(options: Options, say: Callable[[str], None]) -> Compared:
    """Measure everything. Raises ValueError when the file of the peers is wrong."""
    others = adapters.peers(options.peers) if "peers" in options.groups else []
    present = [agent for agent in others if shutil.which(agent.command[0])]
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="gwb-") as folder:
        repository = Path(folder) / "shop"
        plant(repository, files_for(options.calls))
        async with ModelServer() as server:
            bench = _Bench(options, server, repository, say)
            for turn in range(options.runs):
                say(f"run {turn + 1} of {options.runs}")
                if "floor" in options.groups:
                    await bench.floor()
                if "no-byte-code" in options.groups:
                    await bench.just_installed()
                if "goalwright" in options.groups:
                    await bench.goalwright(diagnostics=False)
                if "as-shipped" in options.groups:
                    await bench.goalwright(diagnostics=True)
                for agent in present:
                    await bench.peer(agent)
    return Compared(
        list(bench.rows.values()),
        {agent.name: _version(agent) for agent in present},
        [agent.name for agent in others if agent not in present],
        bench.wire_ms,
    )


class _Bench:
    def __init__(
        self, options: Options, server: ModelServer, repository: Path, say: Callable[[str], None]
    ) -> None:
        self.rows: dict[tuple[str, str, bool | None], Row] = {}
        self.wire_ms: list[float] = []
        self._server = server
        self._repository = repository
        self._say = say
        self._work = calls(options.calls)
        # For a second run in the same repository: files that are as they were.
        self._more_work = calls(options.calls, len(self._work) // 2 + 1)

    async def just_installed(self) -> None:
        """The first start of all: only of it, because it compiles every module."""
        row = self._row(adapters.goalwright(installed_program(), diagnostics=False), NO_BYTE_CODE, False)
        self._say(f"  {row.name}")
        with tempfile.TemporaryDirectory(prefix="gwb-") as folder:
            cold = adapters.goalwright(without_byte_code(Path(folder)), diagnostics=False)
            async with self._attempt(cold, row) as place:
                row.runs.append(await play(cold, place, (), self._server))

    async def goalwright(self, *, diagnostics: bool) -> None:
        """Every other situation once."""
        agent = adapters.goalwright(installed_program(), diagnostics=diagnostics)
        await self._alone(agent, self._row(agent, NO_DAEMON, diagnostics))
        started = self._row(agent, JUST_STARTED, diagnostics)
        second = self._row(agent, SECOND, diagnostics)
        self._say(f"  {started.name}, then the second")
        async with self._attempt(agent, started, second) as place:
            await place.run([*agent.command, "start"], agent.env(self._server.url))
            started.runs.append(await play(agent, place, self._work, self._server))
            second.runs.append(await play(agent, place, self._more_work, self._server))
        if diagnostics:
            return
        await self._editor(agent, self._row(agent, EDITOR, diagnostics))
        if sys.platform == "linux":
            await self._preloaded(agent, self._row(agent, PRELOADED, diagnostics))

    async def _editor(self, agent: Agent, row: Row) -> None:
        """Only the start: an editor has no command that ends."""
        self._say(f"  {row.name}")
        async with self._attempt(agent, row) as place:
            row.runs.append(await play(agent, place, (), self._server, first_prompt))

    async def _preloaded(self, agent: Agent, row: Row) -> None:
        """As when a daemon has ended, or another folder had one: the preloader that it left is there."""
        self._say(f"  {row.name}")
        async with self._attempt(agent, row) as place:
            await place.run([*agent.command, "start"], agent.env(self._server.url))
            await until(lambda: preloader_paths(place.home / ".goalwright").read_address())
            await place.run([*agent.command, "stop"], agent.env(self._server.url))
            row.runs.append(await play(agent, place, self._work, self._server))

    async def floor(self) -> None:
        """The agent that does no more than it must; its requests are also those of the wire alone."""
        agent = adapters.floor()
        await self._alone(agent, self._row(agent), keep=True)
        self.wire_ms += await wire_alone([request.json for request in main_requests(self._server)])

    async def peer(self, agent: Agent) -> None:
        """Another agent: in a new home, and once more in the home that it then has set up."""
        if self._row(agent).problem:
            return  # it fails again, and some take minutes for it
        await self._alone(agent, self._row(agent), self._row(agent, USED_HOME))

    async def _alone(self, agent: Agent, row: Row, again: Row | None = None, *, keep: bool = False) -> None:
        """A run for the memory and one for the times, each in a home that the agent has never seen."""
        self._say(f"  memory of {row.name}")
        async with self._attempt(agent, row) as place:
            row.memory.append(await play_for_memory(agent, place, self._work, self._server))
        self._say(f"  {row.name}")
        async with self._attempt(agent, row, *([] if again is None else [again])) as place:
            row.runs.append(await play(agent, place, self._work, self._server, keep=keep))
            if again is not None:
                again.runs.append(await play(agent, place, self._more_work, self._server))

    @asynccontextmanager
    async def _attempt(self, agent: Agent, *rows: Row) -> AsyncGenerator[Stand]:
        """A new home with the agent's settings. When the agent fails, its rows say so and the others go on."""
        async with stand(self._repository) as place:
            agent.prepare(place.home, self._server.url)
            try:
                yield place
            except AgentFailedError as error:
                for row in rows:
                    row.problem = str(error)
                self._say(f"  {error}")

    def _row(self, agent: Agent, situation: str = "", diagnostics: bool | None = None) -> Row:
        key = (agent.name, situation, diagnostics)
        return self.rows.setdefault(key, Row(agent.name, situation, diagnostics))


def _version(agent: Agent) -> str:
    """What it says its version is."""
    with tempfile.TemporaryDirectory(prefix="gwb-") as home:
        asked = subprocess.run(
            [*agent.command, "--version"],
            env={"PATH": os.environ["PATH"], "HOME": home},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    return (asked.stdout or asked.stderr).strip().rpartition("\n")[2]
