"""kill -9 while sub-agents work: everything that was at work has ended, what they took is counted, work goes on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from daemon.loop.session import ReadOnlySessionError
from daemon.loop.undo import Restorer
from daemon.store.files import FileTraceStore
from tests.support.drivers.core import check_pairs, check_record, daemon
from tests.support.drivers.waiting import until
from tests.support.examples import in_full
from tests.support.programs import subagents_child
from tests.support.scenarios.children_at_rest import check_children, check_numbers, check_told_as_ended

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")

EVERY = in_full(3, 7)
"""Kill at each so many-th event."""


@pytest.fixture
async def victims() -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, subagents_child.__file__, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    yield process
    assert process.stdin is not None
    process.stdin.close()
    await process.wait()


async def start(victims: asyncio.subprocess.Process, folder: Path, die_at: int = 0) -> int:
    (folder / "workspace").mkdir(parents=True)
    assert victims.stdin is not None
    assert victims.stdout is not None
    order = {"folder": str(folder), "die_at": die_at, "how": "after", "ask": False}
    victims.stdin.write(json.dumps(order).encode() + b"\n")
    return int(await victims.stdout.readline())


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def logs(folder: Path) -> list[Path]:
    return list((folder / "workspace" / ".trace").rglob("events.jsonl"))


def events_in(folder: Path) -> int:
    return sum(log.read_bytes().count(b"\n") for log in logs(folder))


async def whole_run(victims: asyncio.subprocess.Process, folder: Path) -> int:
    pid = await start(victims, folder)
    # The main line, two sub-agents, and one of theirs.
    await until(
        lambda: sum(log.read_bytes().count(b'"event":"turn_ended"') for log in logs(folder)) == 4,
        "the end of the run",
        within_s=60,
    )
    os.kill(pid, signal.SIGKILL)
    await until(lambda: gone(pid))
    return events_in(folder)


async def reopened(folder: Path) -> int:
    """Everything that must hold after the kill; returns how many sub-agents were broken off."""
    (session_id,) = FileTraceStore(folder / "workspace" / ".trace").trace_ids()
    broken = 0
    await check_told_as_ended(FileTraceStore(folder / "workspace" / ".trace"), session_id)
    async with daemon(folder, "Here I am again.") as bench:
        session = await bench.opened(session_id)
        session.policy.use(default_model="fake/model")
        check_pairs(session.state)
        assert session.state.turn is None
        assert bench.core.permissions.pending() == []
        known = session.state.children.subagents
        assert [meta.status for meta in known.values() if meta.status == "running"] == []
        broken = sum(meta.status == "failed" for meta in known.values())
        await check_children(bench.core.store, session)
        for name in known:
            child_id = f"{session_id}:{name}"
            if (folder / "workspace" / ".trace" / session_id / "agents" / name / "events.jsonl").exists():
                child = await bench.opened(child_id)
                assert child.state.turn is None
                assert all(meta.status != "running" for meta in child.state.children.subagents.values())
                check_record(bench.core.store, child_id, child.state)
                with pytest.raises(ReadOnlySessionError):
                    await child.prompt("more")
        # What was written can be taken back in the main line, whoever wrote it.
        while (await Restorer(session).overview()).undo is not None:
            await Restorer(session).undo(by="test")
        assert not list((folder / "workspace").glob("*o*.txt"))
        assert (await session.prompt("go on")).stop == "end_turn"
        check_numbers(bench.core.store, session_id)
    return broken


@pytest.mark.timeout(300)
async def test_killed_at_each_stage(victims: asyncio.subprocess.Process, tmp_path: Path) -> None:
    total = await whole_run(victims, tmp_path / "whole")
    broken = 0
    for number in range(2, total, EVERY):
        folder = tmp_path / f"run{number}"
        pid = await start(victims, folder, number)
        await until(lambda pid=pid: gone(pid))
        broken += await reopened(folder)
    assert broken > 5
