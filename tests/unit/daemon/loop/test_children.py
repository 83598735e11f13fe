"""Children of a session: where they are stored, whose rules and money they use, who sees their questions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from daemon.agents.loader import load_agent
from daemon.loop.children import close_child, open_child
from daemon.loop.session import ReadOnlySessionError, Session
from daemon.model.branches import BranchMeta
from daemon.model.events import (
    BranchCompleted,
    BranchGoalAdded,
    BranchMessageAdded,
    BranchStarted,
    Event,
    PermissionAsked,
    PermissionReplied,
)
from daemon.model.goals import Goal, GoalStats
from daemon.model.messages import Message, TextPart, Usage
from daemon.model.traces import BranchTrace
from daemon.store.replay import read_state, replayed
from tests.support.drivers.core import Bench, daemon
from tests.support.fakes.models import Call


def branch(bench: Bench, parent: Session, name: str = "A") -> Session:
    agent = load_agent("build")
    child = open_child(parent, name, agent, explore_start_id="1", description="the first way")
    bench.core.bus.subscribe(child.session_id, bench.heard.append)
    return child


async def test_branch_is_stored_below_its_main_session_and_readable(tmp_path: Path) -> None:
    async with daemon(tmp_path, "Done.") as bench:
        main = bench.session()
        child = branch(bench, main)
        await child.prompt("go")
        await close_child(child)
        folder = bench.core.store.root / main.session_id / "branches" / "A"
        assert {path.name for path in folder.iterdir()} >= {
            "meta.json",
            "goal.json",
            "messages",
            "events.jsonl",
        }
        state = read_state(bench.core.store, f"{main.session_id}:A")
        assert [(m.trace_id, m.branch_id) for m in state.messages] == [(main.session_id, "A")] * 2
        assert isinstance(state.trace, BranchTrace)
        assert (state.trace.id, state.trace.explore_start_id) == ("A", "1")
        assert [trace.trace_id for trace in bench.core.store.traces(limit=10)] == [main.session_id]


async def test_ended_branch_accepts_no_prompt(tmp_path: Path) -> None:
    async with daemon(tmp_path, "Done.") as bench:
        main = bench.session()
        child = branch(bench, main)
        await child.prompt("go")
        await close_child(child)
        again = await bench.opened(child.session_id)
        assert len(again.state.messages) == 2
        with pytest.raises(ReadOnlySessionError, match="Continue in the session that started it"):
            await again.prompt("more")


async def test_branch_request_is_in_both_logs_and_always_covers_all(tmp_path: Path) -> None:
    async with daemon(
        tmp_path, Call("write", {"file_path": "a.txt", "content": "1"}), "Done.", "Other.", "Main."
    ) as bench:
        main = bench.session()
        one, two = branch(bench, main), branch(bench, main, "B")
        turn = asyncio.create_task(one.prompt("go"))
        await bench.answer("always")
        await turn
        asked = bench.events(PermissionAsked)
        assert [event.trace_id for event in asked] == [main.session_id, one.session_id]
        assert {(e.request.trace_id, e.request.branch_id) for e in asked} == {(main.session_id, "A")}
        assert [e.trace_id for e in bench.events(PermissionReplied)] == [main.session_id, one.session_id]
        assert main.state.pending == one.state.pending == {}
        for session in (main, one, two):
            assert session.rules.decide("edit", "a.txt").action == "allow"


async def test_children_share_the_budget_and_one_rejection_stops_all(tmp_path: Path) -> None:
    async with daemon(tmp_path, "One.", "Two.", "Three.") as bench:
        main = bench.session(settings={"budget_usd": 0.01})
        await main.prompt("go")
        one, two = branch(bench, main), branch(bench, main, "B")
        turns = [asyncio.create_task(child.prompt("go")) for child in (one, two)]
        request = (await bench.asked())[0]
        assert (request.permission, request.branch_id) == ("budget", None)
        await bench.answer("reject")
        assert [(await turn).stop for turn in turns] == ["permission_denied"] * 2
        assert len(bench.events(PermissionAsked)) == 1


def message(number: int, cost: float = 0.5) -> Message:
    return Message.model_validate(
        {
            "message_id": f"msg_{number:06d}_0",
            "trace_id": "t",
            "branch_id": "A",
            "role": "assistant",
            "sequence": number,
            "content": (TextPart(text="hello"),),
            "created_at": 0,
            "tokens": 10,
            "cost": cost,
            "usage": Usage(input=100, output=10),
        }
    )


async def test_main_session_counts_branch_usage_across_restarts(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        main = bench.session()
        known: dict[str, Any] = {"trace_id": main.session_id, "time": bench.core.now()}
        meta = BranchMeta(id="A", explore_start_id="1", description="x")
        happened: list[Event] = [
            BranchStarted(**known, explore_start_id="1", branch=meta),
            BranchGoalAdded(**known, branch_id="A", goal=Goal(id="1", description="look")),
            BranchMessageAdded(**known, branch_id="A", message=message(1)),
            BranchMessageAdded(**known, branch_id="A", message=message(2)),
            BranchCompleted(
                **known,
                branch_id="A",
                summary="done",
                cumulative_stats=GoalStats(message_count=2, total_tokens=20, total_cost=1.0),
                usage=Usage(input=1_200, output=30),
                cost=1.5,
            ),
        ]
        for event in happened:
            main.emit(event)
        assert main.state.trace.total_cost == pytest.approx(1.5)
        assert main.state.trace.usage == Usage(input=1_200, output=30)
        (known_branch,) = main.state.children.branches.values()
        assert (known_branch.status, known_branch.goal_count, known_branch.summary) == (
            "completed",
            1,
            "done",
        )
        assert known_branch.last_message == message(2)
        main.record.snapshot()
        for state in (
            read_state(bench.core.store, main.session_id),
            replayed(bench.core.store, main.session_id),
        ):
            assert state.children == main.state.children
            assert state.trace.total_cost == pytest.approx(1.5)
            assert state.trace.usage == main.state.trace.usage
