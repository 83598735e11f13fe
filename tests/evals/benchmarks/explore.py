"""Explorations: what eight branches at once take more than one of them alone (target: at most a quarter)."""

from __future__ import annotations

import tempfile
from pathlib import Path

from daemon.model.events import BranchStarted, ExploreCompleted
from tests.evals.benchmarks.measures import Baseline, Measure
from tests.evals.benchmarks.stage import Stage
from tests.support.drivers.core import daemon
from tests.support.fakes.models import Call, Step
from tests.support.scenarios.branches import EDITS, BranchModels, explore, repository

LATENCY_S = 0.2
"""Duration of each answer of the model."""
BRANCHES = 8
_STEPS = 10
_TARGET = 1.25


async def measure(stage: Stage) -> list[Measure]:
    """Explorations of one branch and of eight; each branch reads and writes by turns, a file a step."""
    alone = [await _explored(1) for _ in range(stage.runs)]
    together = [await _explored(BRANCHES) for _ in range(stage.runs)]
    slowest = Baseline("one branch alone", sorted(alone)[len(alone) // 2])
    shares = tuple(value / slowest.value for value in together)
    note = f"{_STEPS} steps each, {round(LATENCY_S * 1000)} ms an answer"
    return [
        Measure("explore: 1 branch", "s", tuple(alone), note=note),
        Measure(f"explore: {BRANCHES} branches at once", "s", tuple(together), baseline=slowest),
        Measure(f"explore: {BRANCHES} branches to 1", "×", shares, target=_TARGET),
    ]


async def _explored(count: int) -> float:
    """Seconds from the first branch's start to the end of the last one."""
    names = [chr(ord("A") + n) for n in range(count)]
    with tempfile.TemporaryDirectory(prefix="gw-explore-") as name:
        folder = Path(name)
        repository(folder)
        models = BranchModels(
            [explore(*(f"way {n}" for n in names)), "Done."], {n: _steps() for n in names}, LATENCY_S
        )
        async with daemon(folder, models=models) as bench:
            session = bench.session(settings={**EDITS, "max_parallel": BRANCHES})
            result = await session.prompt("go")
            assert result.stop == "end_turn", result
            (ended,) = bench.events(ExploreCompleted)
            states = [branch.status for branch in session.state.children.branches.values()]
            assert states == ["completed"] * count
            return (ended.time - bench.events(BranchStarted)[0].time).total_seconds()


def _steps() -> list[Step]:
    steps: list[Step] = []
    for n in range(_STEPS // 2):
        steps.append(Call("read", {"file_path": "src/a.py"} if n % 2 else {"file_path": "README.md"}))
        steps.append(Call("write", {"file_path": f"made/f{n}.py", "content": f"x = {n}\n" * 40}))
    return [*steps[:-1], "It works."]
