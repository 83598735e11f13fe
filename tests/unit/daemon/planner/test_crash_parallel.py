"""kill -9 while sub-agents do steps of a plan: what is done stays done, and the rest is done once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.provider.call_ids import goal_of_step
from daemon.store.files import FileTraceStore
from tests.support.drivers.core import ALLOW_ALL, check_pairs, daemon
from tests.support.drivers.waiting import until
from tests.support.examples import in_full
from tests.support.fakes.models import FakeModels, Step
from tests.support.programs import parallel_steps_child
from tests.support.programs.parallel_steps_child import GOALS, leave
from tests.support.scenarios.branches import BranchModels
from tests.support.scenarios.plans import done, plan

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")


def logs(folder: Path) -> list[Path]:
    return list((folder / "workspace" / ".trace").rglob("events.jsonl"))


def events_in(folder: Path) -> int:
    return sum(log.read_bytes().count(b"\n") for log in logs(folder))


def ended(folder: Path) -> int:
    """How many sessions have come to the end of their turn: the main one, and two sub-agents."""
    return sum(log.read_bytes().count(b'"event":"turn_ended"') for log in logs(folder))


def effects(folder: Path) -> dict[str, str]:
    """Return the text that each step has written."""
    files = [folder / "workspace" / name for name in GOALS]
    return {file.name: file.read_text().strip() for file in files if file.exists()}


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def careful(folder: Path, name: str) -> list[Step]:
    """A sub-agent that checks how far an earlier one came, as its instructions say."""
    return (
        [f"{name} is there."] if name in effects(folder) else [[leave(name, "second")], f"{name} is built."]
    )


async def run_on(folder: Path) -> None:
    """Open it again, and do what is open."""
    found = FileTraceStore(folder / "workspace" / ".trace").trace_ids()
    before = effects(folder)
    models = BranchModels((), {})
    async with daemon(folder, models=models) as bench:
        session = await bench.opened(found[0])
        session.policy.use(default_model="fake/model")
        session.policy.use(
            config=session.config.overlaid({**ALLOW_ALL, "planner": "layered"}, "editor", "test")
        )
        assert session.state.turn is None
        check_pairs(session.state)
        tree, known = session.state.plan, session.state.children.subagents
        open_goals = [goal for goal in tree.goals.values() if goal.status != "completed"]
        done_by = [goal_of_step(m.tool_call_id) for m in known.values() if m.status == "completed"]
        # What a sub-agent has done is done, also when the kill came before its answer was in the record.
        assert not {goal.id for goal in open_goals} & set(done_by)
        open_names = [goal.description for goal in open_goals] if tree.goals else list(GOALS)
        keep = plan(*({"keep": f"g{goal.id}"} for goal in open_goals))
        main: list[Step] = [keep if tree.goals else parallel_steps_child.MAIN[0]]
        agents: dict[str, list[Step]] = {}
        apart = [name for name in open_names if name != "Join"]
        began = {goal_of_step(meta.tool_call_id) for meta in known.values()}
        if len(apart) == 2:
            last = max((int(name[1:]) for name in known), default=0)
            agents = {f"s{last + n}": careful(folder, name) for n, name in enumerate(apart, 1)}
            apart = []
        for name in (*apart, *(["Join"] if "Join" in open_names else [])):
            main += [
                [*([] if name in effects(folder) else [leave(name, "second")]), done(f"{name} is there")],
                name,
            ]
        if not open_names:
            main = ['{"steps": []}', "All is done already."]
        models.then(*main)
        models.branches.update({name: FakeModels(*steps) for name, steps in agents.items()})
        result = await session.prompt("go on")
        assert (result.stop, models.left) == ("end_turn", 0), result.detail
        assert [goal.status for goal in tree.goals.values()] == ["completed"] * len(GOALS)
        for name in agents:
            if goal_of_step(known[name].tool_call_id) in began:
                assert "Check how far it got, and do nothing twice." in known[name].prompt
    assert effects(folder) == {name: before.get(name, "second") for name in GOALS}


@pytest.mark.timeout(280)
async def test_killed_at_an_event_while_subagents_do_steps(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, parallel_steps_child.__file__), stdin=subprocess.PIPE, stdout=subprocess.PIPE
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
    await until(lambda: ended(whole) == 3, "the end of the run", within_s=60)
    os.kill(pid, signal.SIGKILL)
    total = events_in(whole)
    assert total > 60
    for number in range(6, total, in_full(3, 13)):
        folder = tmp_path / f"run{number}"
        pid = await start(folder, number)
        # How many events there are depends a little on what ends first: a run may come to its end.
        await until(lambda pid=pid, folder=folder: gone(pid) or ended(folder) == 3, within_s=60)
        if not gone(pid):
            os.kill(pid, signal.SIGKILL)
            await until(lambda pid=pid: gone(pid))
        await run_on(folder)
    orders.close()
    await process.wait()
