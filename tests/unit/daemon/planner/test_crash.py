"""kill -9 at every point of a layered turn: the session loads, and the next prompt goes on with the open goals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.provider import anthropic_wire, openai_wire
from daemon.store.files import FileTraceStore
from tests.support.drivers.core import ALLOW_ALL, check_pairs, daemon
from tests.support.drivers.waiting import until
from tests.support.examples import in_full
from tests.support.fakes.model_messages import check_anthropic, check_openai
from tests.support.fakes.models import Call, Step
from tests.support.programs import planner_child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")


def events_in(folder: Path) -> int:
    logs = list((folder / "workspace" / ".trace").glob("*/events.jsonl"))
    return logs[0].read_bytes().count(b"\n") if logs else 0


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def run_on(folder: Path) -> None:
    """Open it again, and let a model that does its steps work on what is open."""
    (session_id,) = FileTraceStore(folder / "workspace" / ".trace").trace_ids()
    async with daemon(folder) as bench:
        session = await bench.opened(session_id)
        session.policy.use(default_model="fake/model")
        session.policy.use(
            config=session.config.overlaid({**ALLOW_ALL, "planner": "layered"}, "editor", "test")
        )
        assert session.state.turn is None
        check_pairs(session.state)
        plan = session.state.plan
        done = {goal.id for goal in plan.goals.values() if goal.status == "completed"}
        leaves = [
            g for g in plan.goals.values() if plan.ended_root(g.id) is None and not plan.next_open(g.id)
        ]
        numbers = plan.numbers()
        rest = sorted(
            (numbers[goal.id] for goal in leaves), key=lambda number: [*map(int, number.split("."))]
        )
        steps: list[dict[str, str]] = [{"keep": number} for number in rest] or [{"goal": "Look"}]
        answers: list[Step] = [json.dumps({"steps": steps})]
        for _ in steps:
            answers += [[Call("goal", {"done": "now"})], "So."]
        bench.models.then(*answers)
        result = await session.prompt("go on")
        assert (result.stop, bench.models.left) == ("end_turn", 0), result.detail
        assert {goal.status for goal in plan.goals.values()} <= {"completed", "abandoned"}
        assert done <= {goal.id for goal in plan.goals.values() if goal.status == "completed"}
        for request in bench.models.requests:
            body = anthropic_wire.build(request)
            check_anthropic(body, anthropic_wire.version_for(body))
            check_openai({"messages": openai_wire.to_messages(request)})


@pytest.mark.timeout(280)
async def test_killed_right_at_an_event_of_a_layered_turn(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, planner_child.__file__), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    orders, answers = process.stdin, process.stdout
    assert orders is not None
    assert answers is not None

    async def start(folder: Path, die_at: int) -> int:
        (folder / "workspace").mkdir(parents=True)
        order = {"folder": str(folder), "die_at": die_at, "how": "after", "ask": False}
        orders.write(json.dumps(order).encode() + b"\n")
        return int(await answers.readline())

    whole = tmp_path / "whole"
    pid = await start(whole, 0)
    log = whole / "workspace" / ".trace"
    await until(
        lambda: any(b'"event":"turn_ended"' in p.read_bytes() for p in log.glob("*/events.jsonl")),
        "the end of the run",
        within_s=60,
    )
    os.kill(pid, signal.SIGKILL)
    total = events_in(whole)
    assert total > 60
    for number in range(3, total, in_full(4, 9)):
        folder = tmp_path / f"run{number}"
        pid = await start(folder, number)
        await until(lambda pid=pid: gone(pid), within_s=30)
        assert events_in(folder) == number
        await run_on(folder)
    orders.close()
    await process.wait()
