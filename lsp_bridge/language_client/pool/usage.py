"""The resource usage of language servers, and its limits."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Collection


class ProcessUsage(Struct, frozen=True):
    """Usage of a server and its child processes."""

    memory_bytes: int
    """Resident; what its processes share is counted for each."""
    cpu_s: float
    """Processor time since their starts."""


class UsageLimits(Struct, frozen=True):
    """Beyond these a server is stopped."""

    memory_bytes: int = 4 << 30
    cpu_share: float = 0.9
    """Share of one core, between two measurements,"""
    cpu_s: float = 600.0
    """for this many seconds without any request."""


def usage_of(leaders: Collection[int]) -> dict[int, ProcessUsage]:
    """Usage by process id: that of the processes of its session or group, and below. Blocks for some 10 ms."""
    if not leaders:
        return {}
    import psutil

    parents: dict[int, int] = {}
    owners: dict[int, int] = {}
    measured: dict[int, ProcessUsage] = {}
    for process in psutil.process_iter():
        # Other users' processes may be hidden, and each may end while it is read.
        with contextlib.suppress(psutil.Error, OSError), process.oneshot():
            pid, times = process.pid, process.cpu_times()
            parents[pid] = process.ppid()
            measured[pid] = ProcessUsage(process.memory_info().rss, times.user + times.system)
            groups = (os.getpgid(pid), os.getsid(pid)) if sys.platform != "win32" else ()
            owners.update((pid, leader) for leader in (pid, *groups) if leader in leaders)
    total = dict.fromkeys(leaders, ProcessUsage(0, 0.0))
    for pid, usage in measured.items():
        owner = _owner(pid, parents, owners)
        if owner is not None:
            so_far = total[owner]
            total[owner] = ProcessUsage(so_far.memory_bytes + usage.memory_bytes, so_far.cpu_s + usage.cpu_s)
    return {pid: usage for pid, usage in total.items() if pid in measured}


def _owner(pid: int, parents: dict[int, int], owners: dict[int, int]) -> int | None:
    seen: set[int] = set()
    while pid not in owners:
        seen.add(pid)
        pid = parents.get(pid, 0)
        if pid <= 1 or pid in seen:
            return None
    return owners[pid]


class UsageWatch:
    """Judges one server by looks at its usage."""

    def __init__(self) -> None:
        self.latest: ProcessUsage | None = None
        self._at = 0.0
        self._hot_since: float | None = None

    def look(self, usage: ProcessUsage | None, now: float, limits: UsageLimits) -> None:
        """Take in its usage at ``now`` (seconds); None: unknown."""
        before, since = self.latest, self._at
        self.latest, self._at = usage, now
        hot = False
        if usage is not None and before is not None and now > since:
            hot = (usage.cpu_s - before.cpu_s) / (now - since) >= limits.cpu_share
        if not hot:
            self._hot_since = None
        elif self._hot_since is None:
            self._hot_since = since

    def too_much_memory(self, limits: UsageLimits) -> str | None:
        """Return why it has to be restarted."""
        used = self.latest.memory_bytes if self.latest is not None else 0
        if used <= limits.memory_bytes:
            return None
        return f"used {used >> 20} MB of memory, more than {limits.memory_bytes >> 20} MB"

    def spins(self, limits: UsageLimits, now: float, used_at: float) -> str | None:
        """Return why it has to be stopped: it keeps a processor busy without any request since ``used_at``."""
        if self._hot_since is None or now - max(self._hot_since, used_at) < limits.cpu_s:
            return None
        return f"kept a processor busy for {limits.cpu_s:.0f} s while nobody asked it anything"
