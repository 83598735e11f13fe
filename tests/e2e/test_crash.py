"""kill -9 at any point: the session loads, every call has its result, and work goes on (mission M1)."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from daemon.model.events import PermissionAsked, QueueChanged, TurnEnded
from daemon.store.files import FileTraceStore
from tests.support.drivers.core import check_pairs, daemon
from tests.support.drivers.waiting import until
from tests.support.examples import in_full
from tests.support.programs import crash_child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")

POINTS = in_full(30, 10)
"""Kills from outside, at random moments of the run."""


class Victims:
    """Starts daemons that are going to be killed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def start(self, folder: Path, die_at: int = 0, how: str = "after", *, ask: bool = False) -> int:
        (folder / "workspace").mkdir(parents=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"folder": str(folder), "die_at": die_at, "how": how, "ask": ask}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        return int(await self._process.stdout.readline())


@pytest.fixture
async def victims() -> AsyncIterator[Victims]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, crash_child.__file__),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    yield Victims(process)
    assert process.stdin is not None
    process.stdin.close()
    await process.wait()


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def events_in(folder: Path) -> int:
    logs = list((folder / "workspace" / ".trace").glob("*/events.jsonl"))
    return logs[0].read_bytes().count(b"\n") if logs else 0


def watch_for(folder: Path, count: int) -> None:
    """Return at once when there are so many events: this is a race that the kill is to win."""
    deadline = time.monotonic() + 60
    while events_in(folder) < count:
        assert time.monotonic() < deadline


async def whole_run(victims: Victims, folder: Path) -> int:
    """Events of a run that nobody disturbs."""
    pid = await victims.start(folder)
    log = folder / "workspace" / ".trace"

    def finished() -> bool:
        return sum(p.read_bytes().count(b'"event":"turn_ended"') for p in log.glob("*/events.jsonl")) == 2

    await until(finished, "the end of the run", within_s=60)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: gone(pid))
    return events_in(folder)


async def reopened(folder: Path) -> None:
    """Everything that must hold after the kill. ``daemon`` checks the whole record at its end."""
    store = FileTraceStore(folder / "workspace" / ".trace")
    (session_id,) = store.trace_ids()
    stored = store.events(session_id)
    async with daemon(folder) as bench:
        session = await bench.opened(session_id)
        assert [t.trace_id for t in await bench.core.traces(limit=5)] == [session_id]
        check_pairs(session.state)
        assert session.state.turn is None
        assert not session.running
        assert bench.core.permissions.pending() == []
        broken_off = bool(bench.events(TurnEnded))
        assert (session.state.trace.last_stop_reason == "error") == broken_off
        waiting = [prompt.text for prompt in session.queued()]
        bench.models.then(*["Here I am again."] * (1 + len(waiting)))
        assert (await session.prompt("go on")).stop == "end_turn"
        await until(lambda: not session.running)
        said = [m.text() for m in session.state.messages if m.role == "user"]
        assert said == [*said[: len(said) - 1 - len(waiting)], "go on", *waiting]
        # No prompt that was stored is lost, and none is worked on twice.
        queued = {p.prompt_id: p.text for e in stored if isinstance(e, QueueChanged) for p in e.queue}
        assert all(said.count(text) == 1 for text in (*said, *queued.values()))


@pytest.mark.timeout(300)
async def test_killed_at_random_moments(victims: Victims, tmp_path: Path) -> None:
    total = await whole_run(victims, tmp_path / "whole")
    chance = random.Random(20250101)
    killed_in_the_middle = 0
    for number in range(POINTS):
        folder = tmp_path / f"run{number}"
        after = chance.randrange(1, total)
        pid = await victims.start(folder)
        await asyncio.to_thread(watch_for, folder, after)
        os.kill(pid, signal.SIGKILL)
        await until(lambda pid=pid: gone(pid))
        killed_in_the_middle += events_in(folder) < total
        await reopened(folder)
    assert killed_in_the_middle > POINTS // 2


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["after", "half"])
async def test_killed_right_at_an_event(victims: Victims, tmp_path: Path, how: str) -> None:
    total = await whole_run(victims, tmp_path / "whole")
    # Half of the first event is no session yet.
    for number in range(1 if how == "after" else 2, total, in_full(2, 7)):
        folder = tmp_path / f"run{number}"
        pid = await victims.start(folder, number, how)
        await until(lambda pid=pid: gone(pid))
        assert events_in(folder) == (number if how == "after" else number - 1)
        await reopened(folder)


@pytest.mark.timeout(120)
async def test_a_question_that_waits_outlives_the_kill(victims: Victims, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    pid = await victims.start(folder, ask=True)
    log = folder / "workspace" / ".trace"

    def waits() -> bool:
        return any(b'"event":"permission_asked"' in p.read_bytes() for p in log.glob("*/events.jsonl"))

    await until(waits, "the question", within_s=60)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: gone(pid))
    store = FileTraceStore(log)
    (session_id,) = store.trace_ids()
    before = [event for event in store.events(session_id) if isinstance(event, PermissionAsked)]
    steps = crash_child.STEPS
    async with daemon(folder, *steps[4:]) as bench:
        session = await bench.opened(session_id)
        assert session.status == "waiting"
        assert (folder / "workspace" / "a.txt").read_text() == "old\n"
        assert session.resume()
        # The edits of a step are asked about together.
        requests = await bench.asked(2)
        assert before[0].request.tool_call_id == requests[0].tool_call_id
        assert before[0].request.request_id not in {request.request_id for request in requests}
        assert [file.path for request in requests for file in request.files] == ["a.txt", "b.txt"]
        for _ in ("edit", "write", "bash"):
            await bench.answer("once")
        await until(lambda: bench.events(TurnEnded) != [], "the end of the turn")
        assert bench.events(TurnEnded)[0].stop_reason == "end_turn"
        assert (folder / "workspace" / "a.txt").read_text() == "new\n"
        assert (folder / "workspace" / "b.txt").read_text() == "made\n"
        await until(lambda: not session.running)  # the prompt that waited is worked on, too
        assert [m.text() for m in session.state.messages if m.role == "user"] == list(crash_child.PROMPTS)
