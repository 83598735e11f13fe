"""Prompts to a running branch are part of its work; once its outcome is fixed, none is accepted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from daemon.explore.results import load_result
from daemon.loop.session import ReadOnlySessionError, Session
from daemon.loop.undo import Restorer
from tests.support.drivers.core import Bench
from tests.support.drivers.waiting import until
from tests.support.examples import in_full
from tests.support.fakes.models import Call, Hold
from tests.support.scenarios.branches import EDITS, explore, exploring, scripts


def write(name: str) -> Call:
    return Call("write", {"file_path": name, "content": "x\n"})


async def branch(bench: Bench, session: Session, name: str) -> Session:
    known = session.features.sessions
    await until(lambda: f"{session.session_id}:{name}" in known)
    child = known[f"{session.session_id}:{name}"]
    assert isinstance(child, Session)
    return child


def kept(bench: Bench, session: Session, name: str) -> list[str]:
    result = load_result(bench.core.store.folder(f"{session.session_id}:{name}") / "result")
    assert result is not None
    return [change.name for change in result.changes]


async def test_branch_works_off_queued_prompts_and_last_report_counts(tmp_path: Path) -> None:
    hold, later = Hold(), Hold()
    steps = {
        "A": [
            write("one.txt"),
            [hold, "First."],
            [later, write("two.txt")],
            "Second.",
            write("3.txt"),
            "Third.",
        ]
    }
    async with exploring(tmp_path, [explore("only"), "Done."], steps) as bench:
        session = bench.session(settings=EDITS)
        turn = asyncio.create_task(session.prompt("go"))
        child = await branch(bench, session, "A")
        await hold.reached.wait()
        queued = asyncio.create_task(child.prompt("also two"))
        await until(lambda: bool(child.queued()))
        hold.go.set()
        await later.reached.wait()
        more = asyncio.create_task(child.prompt("also three"))
        await until(lambda: bool(child.queued()))
        later.go.set()
        await turn
        assert [(await task).stop for task in (queued, more)] == ["end_turn", "end_turn"]
        meta = session.state.children.branches["A"]
        assert (meta.status, meta.summary) == ("completed", "Third.")
        assert kept(bench, session, "A") == ["3.txt", "one.txt", "two.txt"]
        assert meta.score is not None and meta.score.files == 3


async def test_prompt_waiting_for_a_branch_loses_its_trust_too(tmp_path: Path) -> None:
    hold = Hold()
    script = {"A": [[hold, "First."], "Second."]}
    async with exploring(tmp_path, [explore("only"), "Done."], script) as bench:
        session = bench.session(settings=EDITS)
        session.policy.use(trust="trusted")
        turn = asyncio.create_task(session.prompt("go"))
        child = await branch(bench, session, "A")
        await hold.reached.wait()
        waiting = asyncio.create_task(child.prompt("more", client=child.policy.client))
        await until(lambda: bool(child.queued()))
        session.restrict(session.config)
        hold.go.set()
        await turn
        assert (await waiting).stop == "end_turn"
        assert child.trust == "restricted"


async def test_branch_under_test_refuses_prompts_and_undo(tmp_path: Path) -> None:
    check = "ls *.txt > seen.new; mv seen.new seen; while [ ! -e go ]; do sleep 0.01; done"
    settings = {**EDITS, "test_command": check}
    async with exploring(tmp_path, [explore("only"), "Done."], {"A": [write("one.txt"), "First."]}) as bench:
        session = bench.session(settings=settings)
        turn = asyncio.create_task(session.prompt("go"))
        child = await branch(bench, session, "A")
        seen = child.services.workspace / "seen"
        await until(seen.exists)
        tree = seen.read_text().split()
        for change in (
            child.prompt("more"),
            child.prompt("more", when_busy="steer"),
            child.compact(),
            Restorer(child).undo(),
            Restorer(child).redo(),
            Restorer(child).restore(message_id="x"),
        ):
            with pytest.raises(ReadOnlySessionError, match="Branch A has ended"):
                await change
        (child.services.workspace / "go").touch()
        await turn
        meta = session.state.children.branches["A"]
        assert meta.summary == "First." and kept(bench, session, "A") == ["one.txt"]
        assert tree == ["new.txt", "one.txt"]
        assert meta.score is not None and meta.score.test is not None and meta.score.test.ok


async def test_prompt_at_the_end_of_a_branch_is_done_or_refused(tmp_path: Path) -> None:
    outcomes: set[str] = set()
    for steps in range(0, 12, in_full(1, 3)):
        hold = Hold()
        script = {"A": [[hold, "First."], write("two.txt"), "Second."]}
        async with exploring(tmp_path / str(steps), [explore("only"), "Done."], script) as bench:
            session = bench.session(settings=EDITS)
            turn = asyncio.create_task(session.prompt("go"))
            child = await branch(bench, session, "A")
            await hold.reached.wait()
            hold.go.set()
            await until(lambda child=child: not child.running or child.state.turn is None)
            for _ in range(steps):
                await asyncio.sleep(0)
            try:
                result = await child.prompt("also two")
                assert result.stop == "end_turn"
                outcome = "done"
            except ReadOnlySessionError:
                outcome = "refused"
            outcomes.add(outcome)
            await turn
            assert kept(bench, session, "A") == (["two.txt"] if outcome == "done" else [])
            scripts(bench).branches["A"].exhausted = False
    assert "refused" in outcomes


async def test_canceled_exploration_drops_prompts_queued_in_branches(tmp_path: Path) -> None:
    hold = Hold()
    async with exploring(tmp_path, [explore("only")], {"A": [[hold, "First."], "Second."]}) as bench:
        session = bench.session(settings=EDITS)
        turn = asyncio.create_task(session.prompt("go"))
        child = await branch(bench, session, "A")
        await hold.reached.wait()
        queued = asyncio.create_task(child.prompt("more"))
        await until(lambda: bool(child.queued()))
        assert session.cancel()
        assert (await queued).stop == "canceled"
        await turn
        assert session.state.children.branches["A"].status == "abandoned"
        assert len(scripts(bench).seen_by("A")) == 1


async def test_branch_without_a_report_gets_a_default_summary(tmp_path: Path) -> None:
    async with exploring(tmp_path, [explore("only"), "Done."], {"A": [[Call("ls", {})], " "]}) as bench:
        session = bench.session(settings=EDITS)
        await session.prompt("go")
        assert session.state.children.branches["A"].summary == "It ended without a report."
