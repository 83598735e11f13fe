"""Where an agent is measured: a home and a repository that it has never seen, and all processes that it starts."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.evals.benchmarks.agents.summary import Memory

_KEPT = ("PATH", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR")
_PR_SET_CHILD_SUBREAPER = 36
"""Option of ``prctl``, see linux/prctl.h."""
_END_S = 5.0
_SAMPLE_S = 0.05


class AgentFailedError(Exception):
    """An agent did not do the work. The message has its command, and what it printed last."""


@dataclass(frozen=True, slots=True)
class Stand:
    """A home and a repository. Everything that ``run`` starts ends with it."""

    home: Path
    repository: Path

    def env(self, more: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of an agent: nothing of the developer's own settings and keys."""
        return {name: os.environ[name] for name in _KEPT if name in os.environ} | {
            "HOME": str(self.home),
            **more,
        }

    @property
    def output(self) -> Path:
        """What the last command printed."""
        return self.home.parent / "output.txt"

    async def run(
        self, argv: Sequence[str], env: Mapping[str, str], within_s: float = 180.0
    ) -> tuple[float, float]:
        """Run a command in the repository to its end. Raises AgentFailedError when it fails or does not end.

        Returns when it was spawned and when it had ended, in seconds of ``time.monotonic()``.
        """
        with self.output.open("wb") as output:
            began = time.monotonic()
            process = await asyncio.create_subprocess_exec(
                *argv,
                cwd=self.repository,
                env=self.env(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                async with asyncio.timeout(within_s):
                    code = await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
                code = None
            ended = time.monotonic()
        if code != 0:
            said = self.output.read_text("utf-8", "replace")[-2000:]
            how = f"did not end within {within_s:g} s" if code is None else f"ended with exit code {code}"
            raise AgentFailedError(f"{' '.join(argv)} {how}:\n{said}")
        return began, ended


@asynccontextmanager
async def stand(repository: Path) -> AsyncGenerator[Stand]:
    """A new home, and a copy of ``repository``. At the end, all processes that were started there are ended, too."""
    # Not in /tmp: codex does without parts of itself there. The path is short, because sockets may be in the home.
    lasting = Path("/var/tmp")
    folder = Path(tempfile.mkdtemp(prefix="gwb-", dir=lasting if lasting.is_dir() else None)).resolve()
    try:
        home = folder / "home"
        home.mkdir(mode=0o700)
        place = Stand(home, folder / "shop")
        await asyncio.to_thread(shutil.copytree, repository, place.repository, symlinks=True)
        yield place
    finally:
        await asyncio.to_thread(_end_all)
        shutil.rmtree(folder, ignore_errors=True)


def adopt_orphans() -> None:
    """Become the parent of every process whose parent ends (Linux), so that daemons of agents are found."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def cpu_s() -> float:
    """Processor time of all processes that this one has started, those that have ended included, in seconds."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = ended.ru_utime + ended.ru_stime
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


class MemoryPeak:
    """The largest sum of the memory of all processes that this one has started."""

    def __init__(self) -> None:
        self.memory = Memory(None, 0)

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """Look at it for as long as the block lasts. This stalls the processes: times measured meanwhile are worse."""
        task = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            task.cancel()
            self._look()

    async def _watch(self) -> None:
        while True:
            await asyncio.to_thread(self._look)
            await asyncio.sleep(_SAMPLE_S)

    def _look(self) -> None:
        found: list[float] = []
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error, AttributeError):  # macOS has no PSS
                found.append(process.memory_full_info().pss / 1024**2)
        if found and sum(found) > (self.memory.mb or 0):
            self.memory = Memory(sum(found), len(found))


def _end_all() -> None:
    """End every process that this one has started: asked to at first, killed when that does not help."""
    for act in (psutil.Process.terminate, psutil.Process.kill):
        left = psutil.Process().children(recursive=True)
        for process in left:
            with contextlib.suppress(psutil.Error):
                act(process)
        # Also takes the exit codes of those that were adopted; whoever waits for its own child has it by now.
        _, alive = psutil.wait_procs(left, _END_S)
        if not alive:
            return
