"""Running programs so that nothing of them is left: own session, no stdin (or ours), everything killed at the end.

On Linux what left the session (``setsid``, a daemon that forks twice) is found by a mark in its environment, or
as the child of a process that is found. Out of reach is what clears its environment *and* has lost its parent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from tools.shielding import finish

_log = logging.getLogger(__name__)

KILL_GRACE_S = 3.0
"""Time between TERM and KILL (source: conventions.md, "Limits")."""
LINGER_S = 0.3
"""How long background children of a finished command may go on writing before they are stopped."""

MARK = "GOALWRIGHT_CALL"
"""Environment variable of everything that ``run`` starts: the marks of the calls it is part of, joined by ``:``."""

_SECRET = re.compile(r".*_(API_KEY|TOKEN|SECRET)|(ANTHROPIC|OPENAI|GOALWRIGHT)_.*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended. ``exit_code`` is negative for a signal (POSIX)."""

    exit_code: int
    timed_out: bool = False
    stopped_background: bool = False
    """Children outlived the program and were stopped."""


def scrubbed_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without keys and tokens, and set so that nothing pages, prompts or colours."""
    kept = {name: value for name, value in environment.items() if not _SECRET.fullmatch(name)}
    quiet = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "TERM": "dumb", "NO_COLOR": "1"}
    return kept | quiet


def find_program(name: str, workspace: Path) -> str | None:
    """A program on PATH that does not lie in the workspace, whose files are untrusted."""
    found = shutil.which(name)
    if found is None:
        return None
    real = Path(os.path.realpath(found))
    inside = real.is_relative_to(workspace) or Path(found).absolute().is_relative_to(workspace)
    return None if inside else str(Path(found).absolute())


class _Protocol(asyncio.SubprocessProtocol):
    """Tells the end of the process from the end of its pipes: a background child keeps the pipes open."""

    def __init__(self, on_output: Callable[[int, bytes], bool | None], pipes: int) -> None:
        self._on_output = on_output
        self._open = pipes
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()
        self.enough = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        if not self.enough.is_set() and self._on_output(fd, cast("bytes", data)) is False:
            self.enough.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 0:
            return  # it does not read (any more) what it is fed
        self._open -= 1
        if self._open == 0:
            self.closed.set()

    def process_exited(self) -> None:
        self.exited.set()


@dataclass(slots=True)
class _Family:
    """The processes of one call. ``known`` are those found before, with their time of birth: a number may be
    given to another process, and one that lost its parent is not found a second time."""

    mark: str
    session: int = 0
    known: dict[int, int] = field(default_factory=dict[int, int])


async def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    on_output: Callable[[int, bytes], bool | None],
    timeout_s: float | None,
    merge_stderr: bool = False,
    grace_s: float = KILL_GRACE_S,
    feed: Callable[[asyncio.WriteTransport], None] | None = None,
) -> Ended:
    """Run a program to its end, or until ``timeout_s``, ``on_output`` returning False, or cancellation.

    ``on_output(fd, data)`` gets stdout (1) and stderr (2) as they come. ``feed`` is given its stdin as soon as it
    runs, to write to and to close; what it does not read is dropped. Without ``feed`` there is no stdin. When this
    returns or raises, the program and all processes that it started are dead (see the module). Raises OSError when
    it cannot be started.
    """
    family = _Family(uuid.uuid4().hex)
    # A Goalwright started by Goalwright keeps the marks above it: what it starts belongs to both.
    marks = ":".join(filter(None, [os.environ.get(MARK), family.mark]))
    loop = asyncio.get_running_loop()
    windows = sys.platform == "win32"
    starting = asyncio.ensure_future(
        loop.subprocess_exec(
            lambda: _Protocol(on_output, 1 if merge_stderr else 2),
            *argv,
            stdin=subprocess.DEVNULL if feed is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge_stderr else subprocess.PIPE,
            cwd=cwd,
            env={**env, MARK: marks},
            start_new_session=not windows,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
    )
    # Not to be canceled half-way: the program may run already, with children, and nobody would know its id.
    canceled = await finish(starting)
    transport, protocol = starting.result()
    pid = family.session = transport.get_pid()
    background = False
    try:
        if canceled:
            raise asyncio.CancelledError
        if feed is not None:
            feed(cast("asyncio.WriteTransport", transport.get_pipe_transport(0)))
        timed_out = not await _first([protocol.exited, protocol.enough], timeout_s)
        if protocol.exited.is_set():
            await _first([protocol.closed, protocol.enough], LINGER_S)
            background = not protocol.closed.is_set() if windows else bool(await _members(family))
    finally:
        # A second cancellation must not stop the killing half-way.
        killing = asyncio.ensure_future(_kill_all(family, protocol, grace_s))
        await finish(killing)
        if (error := killing.exception()) is not None:
            _log.error("processes of session %s may be left", pid, exc_info=error)
        transport.close()
    code = transport.get_returncode()
    return Ended(-signal.SIGTERM if code is None else code, timed_out, background)


async def _first(events: Sequence[asyncio.Event], timeout_s: float | None) -> bool:
    """Whether one of the events came in time."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        done, _ = await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        for wait in waits:
            wait.cancel()


async def _kill_all(family: _Family, protocol: _Protocol, grace_s: float) -> None:
    pid = family.session
    if sys.platform == "win32":
        if not (protocol.exited.is_set() and protocol.closed.is_set()):
            killer = await asyncio.create_subprocess_exec(
                "taskkill", "/F", "/T", "/PID", str(pid), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            await killer.wait()
        return
    loop = asyncio.get_running_loop()
    for kind, patience in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 2.0)):
        alive = await _members(family)
        if not alive and protocol.exited.is_set():
            return
        _signal(pid, alive, kind)
        deadline, pause = loop.time() + patience, 0.005
        while loop.time() < deadline:
            alive = await _members(family)
            if protocol.exited.is_set() and not alive:
                return
            if kind == signal.SIGKILL:
                # What was forked between looking and killing.
                _signal(pid, alive, kind)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.1)


def _signal(pid: int, members: Sequence[int], kind: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, kind)
    # Job control (``set -m``) gives children groups of their own in the same session.
    for member in members:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(member, kind)


async def _members(family: _Family) -> list[int]:
    # Reading /proc takes milliseconds on a busy machine.
    return await asyncio.to_thread(_members_now, family)


def _members_now(family: _Family) -> list[int]:
    """Living processes of a session, with its mark, or below one of these (on Linux); else of its first group.

    Zombies are dead.
    """
    session = family.session
    proc = Path("/proc")
    if not (proc / "self/stat").exists():
        try:
            os.killpg(session, 0)
        except (ProcessLookupError, PermissionError):
            return []
        return [session]
    found: set[int] = set()
    parents: dict[int, int] = {}
    births: dict[int, int] = {}
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_bytes()
        except OSError:
            continue
        # The name in brackets may contain anything, so the fields are counted from its end.
        fields = stat[stat.rindex(b")") + 2 :].split()
        state, parent, group, its_session = fields[:4]
        if state in (b"Z", b"X"):
            continue
        pid = int(entry.name)
        parents[pid], births[pid] = int(parent), int(fields[19])
        if (
            session in (int(group), int(its_session))
            or family.known.get(pid) == births[pid]
            or _has_mark(entry, family.mark)
        ):
            found.add(pid)
    while below := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= below
    family.known = {pid: births[pid] for pid in found}
    return sorted(found)


def _has_mark(process: Path, mark: str) -> bool:
    try:
        environment = (process / "environ").read_bytes()
    except OSError:
        # Another user's, or gone.
        return False
    name = f"{MARK}=".encode()
    values = [entry for entry in environment.split(b"\0") if entry.startswith(name)]
    return any(mark.encode() in value for value in values)
