"""The resource usage of language servers, and its limits."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """Usage of a server and its child processes."""

    memory_bytes: int
    """Resident; what its processes share is counted for each."""
    cpu_s: float
    """Processor time since their starts."""


@dataclass(frozen=True, slots=True)
class UsageLimits:
    """Beyond these a server is stopped."""

    memory_bytes: int = 4 << 30
    cpu_share: float = 0.9
    """Share of one core, between two measurements,"""
    cpu_s: float = 600.0
    """for this many seconds without any request."""


def usage_of(leaders: Collection[int]) -> dict[int, ProcessUsage]:
    """Usage by process id, with that of the processes below. Those that have ended are left out. Blocks for some
    10 ms."""
    import psutil

    found: dict[int, ProcessUsage] = {}
    for pid in leaders:
        memory, cpu_s = 0, 0.0
        with contextlib.suppress(psutil.Error, OSError):
            leader = psutil.Process(pid)
            for process in (leader, *leader.children(recursive=True)):
                with contextlib.suppress(psutil.Error, OSError):  # each may end while it is read
                    times = process.cpu_times()
                    memory, cpu_s = memory + process.memory_info().rss, cpu_s + times.user + times.system
            found[pid] = ProcessUsage(memory, cpu_s)
    return found


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
