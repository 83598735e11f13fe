"""A real Ray cluster of two nodes for tests, and its processes."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from tests.support.programs import ray_nodes

_FORKED_S = 5.0
"""After so long a process is no fork any more that has yet to become a program, with variables of its own."""


class RayNodes:
    """Two nodes on this machine, each with a private folder of its own."""

    def __init__(self, cpus: float = 4) -> None:
        self._known: dict[psutil.Process, bool] = {}
        """Whether a process belongs to the nodes, as all that these start do."""
        # Short, because sockets are in it.
        self.folder = Path(tempfile.mkdtemp(prefix="gw-ray-"))
        self._process = subprocess.Popen(
            [sys.executable, ray_nodes.__file__, str(self.folder), str(cpus)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        assert self.address, "Ray did not start"

    def end(self) -> None:
        """Stop the nodes, and remove their folder."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.communicate("", timeout=30)
        for process in self._ours():
            with contextlib.suppress(psutil.Error):
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def workers(self) -> list[psutil.Process]:
        """The processes in which branches work."""
        found = [one for one in self._ours() if "branch_worker" in " ".join(_words(one))]
        waiting: set[int] = set()  # processes that remove what a killed one leaves
        for one in found:
            with contextlib.suppress(psutil.Error):
                waiting.add(one.ppid())
        return [one for one in found if one.pid not in waiting]

    def actors(self) -> list[psutil.Process]:
        """The processes of Ray that pass their bytes."""
        return [one for one in self._ours() if "BranchActor" in " ".join(_words(one))]

    def left(self) -> list[str]:
        """Files of branches that are still there."""
        runs = (self.folder / node / "cluster" / "runs" for node in ("one", "two"))
        packs = (self.folder / node / "cluster" / "packs" for node in ("one", "two"))
        return [str(path) for place in (*runs, *packs) if place.is_dir() for path in place.iterdir()]

    def forget(self) -> None:
        """Have the nodes lack every base."""
        for node in ("one", "two"):
            shutil.rmtree(self.folder / node, ignore_errors=True)

    def _ours(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if (ours := self._known.get(process)) is None:
                    ours = process.environ().get("GOALWRIGHT_HOME", "").startswith(str(self.folder))
                    if time.time() > process.create_time() + _FORKED_S:
                        self._known[process] = ours
                if ours:
                    yield process


def _words(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def on_ray(nodes: RayNodes, **more: Any) -> dict[str, Any]:
    """The user's settings for branches there."""
    return {"explore_on": "ray", "ray_address": nodes.address, "ray_fallback": "fail", **more}
