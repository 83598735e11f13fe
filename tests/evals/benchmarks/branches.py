"""Opening a branch: a copy of the working tree as it is. The cost beyond git's own checkout must follow the changes."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from daemon.explore.copy_manager import copies_for
from tests.evals.benchmarks.measures import Baseline, Measure
from tests.evals.benchmarks.stage import Stage

FILES = 20_000
CHANGED = (0, 10, 1_000)
AT_ONCE = 8
_TARGET_MS = 1500.0
_ENV = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


async def measure(stage: Stage) -> list[Measure]:
    """One branch with some files changed, and eight at once."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        top = root / "workspace"
        stage.say(f"making a repository of {FILES} files")
        await asyncio.to_thread(_plant, top)
        worktree = Baseline("git worktree add", await asyncio.to_thread(_worktree, stage, root, top))
        found: list[Measure] = []
        for changed in CHANGED:
            stage.say(f"branches with {changed} changed files")
            for number in range(changed):
                _path(top, number * (FILES // changed)).write_text(f"changed = {changed}\n")
            name = f"branch of {FILES} files, {changed} changed"
            took = [await _opened(root, top, run) for run in range(stage.runs)]
            found.append(
                Measure(name, "ms", tuple(took), _TARGET_MS, worktree, "looking at it and opening one")
            )
        eight = [await _eight(root, top) for _ in range(min(3, stage.runs))]
        one = Baseline(f"one, times {AT_ONCE}", statistics.median(found[0].values) * AT_ONCE)
        found.append(Measure(f"{AT_ONCE} branches at once", "ms", tuple(eight), baseline=one))
    return found


def _path(top: Path, number: int) -> Path:
    return top / f"part{number // 400}" / f"inner{number // 20 % 20}" / f"file{number}.py"


def _plant(top: Path) -> None:
    for number in range(FILES):
        path = _path(top, number)
        if number % 20 == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# file {number}\n" + "value = 1\n" * (50 + number % 300))
    _git(top, "init", "-q")
    _git(top, "add", "-A")
    _git(top, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "all")


def _git(top: Path, *args: str) -> None:
    subprocess.run(["git", *args], cwd=top, env=_ENV, check=True, capture_output=True)


def _worktree(stage: Stage, root: Path, top: Path) -> float:
    """Median, in milliseconds."""
    took: list[float] = []
    for run in range(min(3, stage.runs)):
        place = root / f"worktree{run}"
        start = time.perf_counter()
        _git(top, "worktree", "add", "-q", "--detach", str(place))
        took.append((time.perf_counter() - start) * 1000)
        _git(top, "worktree", "remove", "--force", str(place))
    return statistics.median(took)


async def _opened(root: Path, top: Path, run: int) -> float:
    copies = copies_for(top, root / "state", ())
    start = time.perf_counter()
    base = await copies.base()
    copy = await copies.open(f"run{run}:A", base)
    took = (time.perf_counter() - start) * 1000
    await copy.close()
    await copies.done(base)
    return took


async def _eight(root: Path, top: Path) -> float:
    copies = copies_for(top, root / "state", ())
    start = time.perf_counter()
    base = await copies.base()
    opened = await asyncio.gather(*(copies.open(f"x:{number}", base) for number in range(AT_ONCE)))
    took = (time.perf_counter() - start) * 1000
    for copy in opened:
        await copy.close()
    await copies.done(base)
    return took
