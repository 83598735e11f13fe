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
            fields = _status(int(folder.name))
            if fields[0] != "Z":
                entries[int(folder.name)] = int(fields[1]), int(fields[3])
    found = {number for number, (_, session) in entries.items() if session == pid or number == pid}
    while more := {n for n, (parent, _) in entries.items() if parent in found} - found:
        found |= more
    return sorted(found)


def stopped(pids: Collection[int]) -> bool:
    """Tell whether all of them are stopped or gone."""
    states: list[str] = []
    for pid in pids:
        with contextlib.suppress(OSError, IndexError):
            states.append(_status(pid)[0])
    return set(states) <= {"T", "Z", "X"}


def _status(pid: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` behind the name, the state first. Raises OSError."""
    return Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace").rpartition(")")[2].split()


def send(pids: Collection[int], kind: signal.Signals) -> None:
    """Send a signal to each; those that have gone meanwhile are passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, kind)
