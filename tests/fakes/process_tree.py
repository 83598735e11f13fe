"""All processes of a server: to freeze, to kill, and to see that none is left."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection
from pathlib import Path


def family(pid: int) -> list[int]:
    """``pid``, those of its session, and all below them, as far as the system tells (Linux); zombies left out."""
    entries: dict[int, tuple[int, int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (folder / "stat").read_text("ascii", errors="replace").rpartition(")")[2].split()
            if fields[0] != "Z":
                entries[int(folder.name)] = int(fields[1]), int(fields[3])
    found = {number for number, (_, session) in entries.items() if session == pid or number == pid}
    while more := {n for n, (parent, _) in entries.items() if parent in found} - found:
        found |= more
    return sorted(found)


def stopped(pids: Collection[int]) -> bool:
    """Whether all of them are stopped, or gone."""
    states: list[str] = []
    for pid in pids:
        with contextlib.suppress(OSError, IndexError):
            status = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace")
            states.append(status.rpartition(")")[2].split()[0])
    return set(states) <= {"T", "Z", "X"}


def send(pids: Collection[int], kind: signal.Signals) -> None:
    """Send a signal to each; those that have gone meanwhile are passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, kind)
