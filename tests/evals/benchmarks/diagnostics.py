"""The time that language servers add to an edit, and must not add to anything else."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from lsp_bridge.language_client.diagnostics.diagnostics_diff import new_problems
from lsp_bridge.language_client.diagnostics.server_source import ServerSource
from lsp_bridge.language_client.diagnostics.service import DiagnosticsService
from lsp_bridge.language_client.pool.server_choice import ServerChoice
from lsp_bridge.language_client.pool.server_pool import LanguageServers
from lsp_bridge.language_client.specs.settings import DEFAULT_SPECS
from tests.evals.benchmarks.measures import Measure
from tests.evals.benchmarks.stage import Stage
from tools.language_ports import Problem

EDITS = 9
PROBLEMS = 10_000
_TICK_S = 0.001
_CODE = "".join(
    f"def part_{n}(value: int) -> int:\n    result = value * {n}\n    return result\n\n\n" for n in range(60)
)


async def measure(stage: Stage) -> list[Measure]:
    """The verdict on a write, 10 000 problems compared, and the event loop while a server starts."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        return [*await _writes(stage, root), _compared(stage)]


async def _writes(stage: Stage, root: Path) -> list[Measure]:
    path, clean, broken = root / "shop.py", _CODE, _CODE + "print(absent)\n"
    path.write_text(clean, encoding="utf-8")
    spec = next(spec for spec in DEFAULT_SPECS if spec.name == "pyright")
    choice = ServerChoice((spec,), least_severity="hint")
    late: list[float] = []
    took: list[float] = []
    verdicts: list[str] = []
    for _ in range(stage.runs):
        servers = LanguageServers(root, lambda: choice)
        diagnostics = DiagnosticsService(root, [ServerSource(servers)])
        pauses = _Pauses()
        await asyncio.sleep(0)
        diagnostics.warm(path)
        while not (alive := list(servers.alive())) or alive[0].answers.known(path) is None:  # noqa: ASYNC110  # no event
            await asyncio.sleep(0.01)
        late.append(await pauses.stop())
        for number in range(EDITS):
            run = await diagnostics.begin([path])
            path.write_text(broken if number % 2 == 0 else clean, encoding="utf-8")
            began = time.perf_counter()
            report = await run.report()
            if number:  # the first one is about a file that has only just been opened
                took.append(time.perf_counter() - began)
                verdicts.append(report.verdict)
        path.write_text(clean, encoding="utf-8")
        await diagnostics.close()
    unanswered = verdicts.count("no_fresh_answer")
    note = f"{EDITS - 1} edits a run, every other one with a new error; {unanswered} without a fresh answer"
    return [
        Measure("a write: until the verdict of warm basedpyright", "s", tuple(took), 0.6, note=note),
        Measure(
            "first warm-up: longest pause of the event loop",
            "ms",
            tuple(late),
            note="the server's start beside a turn: what its first model request can be late by at most",
        ),
    ]


class _Pauses:
    """Watches how much later than asked for the event loop wakes."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._task = asyncio.create_task(self._watch())

    async def stop(self) -> float:
        """The longest pause so far, in milliseconds."""
        self._task.cancel()
        await asyncio.wait({self._task})
        return self.longest_s * 1000

    async def _watch(self) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(_TICK_S)
            self.longest_s = max(self.longest_s, time.perf_counter() - began - _TICK_S)


def _compared(stage: Stage) -> Measure:
    """Every problem moves by a line, and one is new."""
    path = Path("/workspace/long.py")
    lines = [f"value_{n} = missing_{n % 500}" for n in range(PROBLEMS)]
    before, after = "\n".join(lines), "\n".join(["# moved", *lines, "print(absent)"])
    old = [
        Problem(path, n + 1, 9, "error", f"missing_{n % 500} is not defined", "ty") for n in range(PROBLEMS)
    ]
    new = [
        Problem(path, n + 2, 9, "error", f"missing_{n % 500} is not defined", "ty") for n in range(PROBLEMS)
    ]
    new.append(Problem(path, PROBLEMS + 2, 7, "error", "absent is not defined", "ty"))
    took: list[float] = []
    for _ in range(stage.runs):
        began = time.perf_counter()
        found = new_problems(before, after, old, new)
        took.append((time.perf_counter() - began) * 1000)
        assert found == new[-1:]
    return Measure(f"{PROBLEMS} problems compared", "ms", tuple(took), 50.0)
