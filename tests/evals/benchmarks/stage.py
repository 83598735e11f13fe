"""The common parts of the benchmarks: how often to measure, the baselines, and the session that two of them look at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from daemon.runtime import Address
from tests.evals.benchmarks.baselines import Baselines
from tests.evals.benchmarks.process import has_litellm, memory_mb
from tests.support.drivers.goalwright import Goalwright, installed
from tests.support.fakes.model_server import ModelServer

TOOL_CALLS = 40
_LINES = 40


@dataclass(frozen=True, slots=True)
class Played:
    """A session of TOOL_CALLS calls, each in a step of its own, on a daemon of its own."""

    gaps_ms: tuple[float, ...]
    """From the end of each answer of the model to the arrival of the next request."""
    memory_mb: float
    """Resident memory of the daemon afterwards."""
    litellm: bool | None
    bodies: tuple[dict[str, Any], ...]
    """The requests."""


class Stage:
    """One run of the benchmarks."""

    def __init__(self, runs: int, say: Callable[[str], None]) -> None:
        self.runs = runs
        self.say = say
        self.baselines = Baselines(runs)
        self._sessions: dict[str, list[Played]] = {}

    async def sessions(self, suffix: str) -> list[Played]:
        """``runs`` sessions that read files named ``*suffix``; ``.py`` files wake the language servers."""
        if suffix not in self._sessions:
            self.say(f"playing {self.runs} sessions of {TOOL_CALLS} reads (*{suffix})")
            self._sessions[suffix] = [await _play(suffix) for _ in range(self.runs)]
        return self._sessions[suffix]


async def _play(suffix: str) -> Played:
    names = [f"part_{number:02}{suffix}" for number in range(TOOL_CALLS)]
    replies: list[Any] = [
        {"text": f"Now {name}.", "tool_calls": [{"name": "read", "input": {"file_path": name}}]}
        for name in names
    ]
    async with ModelServer([*replies, "All read."]) as server, installed(url=server.url) as goalwright:
        for number, name in enumerate(names):
            lines = [f"value_{number}_{line} = {line}  # line {line} of {name}" for line in range(_LINES)]
            (goalwright.workspace / name).write_text("\n".join(lines) + "\n")
        done = (await goalwright.run("Read all parts.", "--yes")).check()
        assert len(server.requests) == TOOL_CALLS + 1, done.stdout
        pid = address(goalwright).pid
        return Played(
            tuple(gap * 1000 for gap in server.gaps()),
            memory_mb(pid),
            has_litellm(pid),
            tuple(request.json for request in server.requests),
        )


def address(goalwright: Goalwright) -> Address:
    """The address of its running daemon."""
    found = goalwright.paths.read_address()
    assert found is not None, "the daemon is not running"
    return found
