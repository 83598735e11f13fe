"""Undoing a session's changes: the cost must follow the changes, not the tree."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from daemon.core import Daemon
from daemon.loop.session import Session
from daemon.loop.undo import Restorer
from tests.evals.benchmarks.measures import Baseline, Measure
from tests.evals.benchmarks.stage import Stage
from tests.support.fakes.models import FakeModels
from tests.support.fakes.tool_context import FakeDiagnostics
from tools.tool import FileChange
from tools.writing import atomic

SMALL, LARGE = 1_000, 100_000
FEW, MANY = 10, 1_000
_A_FOLDER = 100


async def measure(stage: Stage) -> list[Measure]:
    """Ten files and a thousand on a large tree, ten on a small one."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        stage.say(f"making trees of {SMALL} and {LARGE} files")
        for size in (SMALL, LARGE):
            await asyncio.to_thread(_plant, root / str(size) / "workspace", size)
        few_small = await _restores(stage, root, SMALL, FEW)
        few = await _restores(stage, root, LARGE, FEW)
        many = await _restores(stage, root, LARGE, MANY)
    each = Baseline(f"{FEW} files on {LARGE}, times {MANY // FEW}", statistics.median(few) * MANY / FEW)
    tree = Baseline(f"the same on {SMALL}", statistics.median(few_small))
    note = "plan, three-way check against the disk, file history, write; no edits of the user in between"
    return [
        Measure(f"restore of {FEW} files, tree of {SMALL}", "ms", tuple(few_small)),
        Measure(f"restore of {FEW} files, tree of {LARGE}", "ms", tuple(few), baseline=tree, note=note),
        Measure(f"restore of {MANY} files, tree of {LARGE}", "ms", tuple(many), baseline=each),
    ]


def _plant(root: Path, count: int) -> None:
    for number in range(count):
        path = _path(root, number)
        if number % _A_FOLDER == 0:
            path.parent.mkdir(parents=True)
        path.write_bytes(_text(number, 0))


def _path(root: Path, number: int) -> Path:
    return root / f"part{number // _A_FOLDER}" / f"file{number}.py"


def _text(number: int, version: int) -> bytes:
    return f"# file {number}\nversion = {version}\nend = True\n".encode() * 4


async def _restores(stage: Stage, root: Path, size: int, count: int) -> list[float]:
    """Milliseconds of each undo of one change of ``count`` files, spread over the tree."""
    folder = root / str(size)
    core = Daemon(
        folder / "workspace", diagnostics=FakeDiagnostics(), models=FakeModels(), state_folder=folder / "home"
    )
    try:
        session = core.new_session(model="fake/model")
        paths = [_path(core.workspace, number) for number in range(0, size, size // count)]
        took: list[float] = []
        for run in range(stage.runs):
            await _change(session, paths, f"call_{run}")
            start = time.perf_counter()
            outcome = await Restorer(session).undo(f"call_{run}")
            took.append((time.perf_counter() - start) * 1000)
            assert len(outcome.files) == count
        return took
    finally:
        await core.close()


async def _change(session: Session, paths: Sequence[Path], call: str) -> None:
    plan = [FileChange(path, data := path.read_bytes(), data.replace(b"= 0", b"= 1")) for path in paths]
    versions = await session.files.history.keep(plan, call)
    await asyncio.to_thread(atomic.write_all, plan)
    session.files.history.written(versions)
