"""The processes of one command as the daemon sees them: by session, by a mark in their environment, by descent.

The work of the wardens of ``supervisor`` is repeated here for processes that escaped them (a command may kill its
warden), and for tests. Out of reach is a process that cleared its environment *and* lost its parent *and* its warden.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tools.process.supervisor import has_mark, living

if TYPE_CHECKING:
    from collections.abc import Sequence

MARK = "GOALWRIGHT_CALL"
"""Environment variable of every started process: the marks of its calls, joined by ``:``."""
_ROUNDS = 100
_PAUSE_S = 0.02


@dataclass(slots=True)
class ProcessTree:
    """``known`` are those found before, with their time of birth: a number may be given to another process, and one
    that lost its parent is not found a second time."""

    mark: str
    session: int = 0
    known: dict[int, int] = field(default_factory=dict[int, int])


async def kill_tree(tree: ProcessTree, grace_s: float) -> bool:
    """TERM, and KILL after ``grace_s``. Whether there was anything, and it is gone or was killed."""
    loop = asyncio.get_running_loop()
    found = await members(tree)
    if not found:
        return False
    _signal(tree.session, found, signal.SIGTERM)
    deadline = loop.time() + grace_s
    while loop.time() < deadline and (found := await members(tree)):  # noqa: ASYNC110 - nobody tells us
        await asyncio.sleep(_PAUSE_S)
    for _ in range(_ROUNDS):
        if not (found := await members(tree)):
            break
        # Repeatedly: processes may fork between the check and the kill.
        _signal(tree.session, found, signal.SIGKILL)
        await asyncio.sleep(_PAUSE_S)
    return True


async def members(tree: ProcessTree) -> list[int]:
    """Return its living processes. Reading /proc takes milliseconds on a busy machine, so it is done in a thread."""
    return await asyncio.to_thread(members_now, tree)


def _signal(session: int, found: Sequence[int], kind: signal.Signals) -> None:
    if session > 1:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(session, kind)
    # Job control (``set -m``) gives children groups of their own in the same session.
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, kind)


def members_now(tree: ProcessTree) -> list[int]:
    """Living processes of a session, with its mark, or below one of these (on Linux); else of its first group.

    Zombies are dead.
    """
    session = tree.session
    if not Path("/proc/self/stat").exists():
        try:
            os.killpg(session, 0)
        except (ProcessLookupError, PermissionError):
            return []
        return [session]
    found: set[int] = set()
    parents: dict[int, int] = {}
    births: dict[int, int] = {}
    for pid, _, fields in living():
        parents[pid], births[pid] = int(fields[1]), int(fields[19])
        if (
            (session > 1 and session in (int(fields[2]), int(fields[3])))
            or tree.known.get(pid) == births[pid]
            or has_mark(pid, tree.mark)
        ):
            found.add(pid)
    while below := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= below
    tree.known = {pid: births[pid] for pid in found}
    return sorted(found)
