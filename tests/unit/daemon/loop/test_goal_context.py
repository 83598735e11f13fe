"""A session whose model works by goals: what the model is sent, call by call."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daemon.loop.session import Session
from daemon.loop.user_plan import UserPlan
from daemon.model.events import ContextMarked
from daemon.model.messages import NotePart, TextPart, ToolCallPart, ToolResultPart
from daemon.model.meters import Metered
from daemon.provider.model_calls import ModelRequest
from tests.support.drivers.core import ALLOW_ALL, Bench, daemon
from tests.support.fakes.models import Call, Hold


def goal(**arguments: object) -> Call:
    return Call("goal", dict(arguments))


def sent(request: ModelRequest) -> str:
    """All of a request's messages as text."""
    lines: list[str] = []
    for message in request.messages:
        for part in message.content:
            match part:
                case TextPart() | NotePart():
                    lines.append(f"{message.role}: {part.text}")
                case ToolCallPart():
                    lines.append(f"{message.role}: {part.name} {part.input}")
                case ToolResultPart():
                    lines.append(f"{message.role}: {part.name} -> {part.content}")
                case _:
                    pass
    return "\n".join(lines)


def files(bench: Bench, **texts: str) -> None:
    for name, text in texts.items():
        (bench.workspace / f"{name}.txt").write_text(text)


def read(bench: Bench, name: str) -> Call:
    return Call("read", {"file_path": str(bench.workspace / f"{name}.txt")})


async def plan_a_then_b(bench: Bench) -> Session:
    """Play an example: plan A is tried and abandoned, and plan B takes its place."""
    files(bench, code="text of the code", deps="no such dependency", other="plan B's file")
    bench.models.then(
        goal(add="Analyse the code, Implement plan A, Test", focus="1"),
        read(bench, "code"),
        goal(done="The user model is in models/user.py, bcrypt.", focus="2"),
        [read(bench, "deps"), "Plan A it is."],
        ["It fails.", goal(abandon="Tried plan A: the dependency is missing.", add="Implement plan B")],
        read(bench, "other"),
        "Plan B works.",
    )
    session = bench.session(settings=ALLOW_ALL)
    await session.prompt("Build it. Rule: never touch setup.py.")
    return session


async def test_ended_goal_leaves_the_context_and_its_summary_stays(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        await plan_a_then_b(bench)
        before, after = sent(bench.models.requests[4]), sent(bench.models.requests[5])
    assert "no such dependency" in before
    assert "Plan A it is." in before
    assert "text of the code" not in before  # done meanwhile
    assert "models/user.py" in before
    for text in ("no such dependency", "Plan A it is.", "It fails."):
        assert text not in after
    assert "Tried plan A: the dependency is missing." in after
    assert "models/user.py" in after
    assert "Rule: never touch setup.py." in after


async def test_successor_of_an_abandoned_goal_starts_with_the_reason(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        await plan_a_then_b(bench)
        last = sent(bench.models.requests[6])
    told = last.rindex("Tried plan A: the dependency is missing.")
    assert told < last.index("plan B's file")
    assert last.count("Tried plan A") == 2
    assert "[→] 2. Implement plan B  (g4)  ← current" in bench.models.requests[6].tail
    assert "plan A" not in bench.models.requests[6].tail


async def test_the_prefix_before_a_goal_that_ends_keeps_its_bytes(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        await plan_a_then_b(bench)
        requests = bench.models.requests
    for earlier, later, ended in (
        (1, 2, None),
        (2, 3, "Analyse"),
        (3, 4, None),
        (4, 5, "plan A"),
        (5, 6, None),
    ):
        before, after = sent(requests[earlier]), sent(requests[later])
        common = next(
            (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b),
            min(len(before), len(after)),
        )
        kept = len(before) if ended is None else before.index("assistant: read")
        assert common >= kept, (earlier, later)
    assert all(request.system == requests[0].system for request in requests)


async def test_call_after_a_focus_change_belongs_to_the_new_goal(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        files(bench, one="text of one", two="text of two")
        bench.models.then(
            goal(add="First\nSecond", focus="1"),
            read(bench, "one"),
            ["Next.", goal(done="One is read.", focus="2"), read(bench, "two")],
            "I have both.",
        )
        session = bench.session(settings=ALLOW_ALL)
        await session.prompt("go")
        last = sent(bench.models.requests[3])
        second = session.state.plan.find("2").id
        result = session.state.messages[-2]
    assert "text of one" not in last
    assert "Next." not in last
    assert "text of two" in last
    assert result.goal_id == second


async def test_a_session_without_any_goal_is_a_plain_conversation(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        files(bench, one="text of one")
        bench.models.then(read(bench, "one"), "Read.", "And again.")
        session = bench.session(settings=ALLOW_ALL)
        await session.prompt("read it")
        await session.prompt("and now?")
        last = bench.models.requests[2]
    assert last.tail == ""
    assert sent(last).splitlines()[0] == "user: read it"
    assert "text of one" in sent(last)
    assert sent(last).splitlines()[-1] == "user: and now?"


async def test_plan_edit_by_the_user_is_noted_before_the_next_step(
    tmp_path: Path,
) -> None:
    async with daemon(tmp_path) as bench:
        hold = Hold()
        bench.models.then(goal(add="First\nSecond", focus="1"), [hold, Call("ls", {})], "Done.")
        session = bench.session(settings=ALLOW_ALL)
        turn = asyncio.create_task(session.prompt("go"))
        await hold.reached.wait()
        UserPlan(session, "Ann").rename(session.state.plan.find("2").id, "Another second")
        hold.go.set()
        await turn
        told = sent(bench.models.requests[2])
    assert 'renamed the goal "Second" to "Another second"' in told
    assert "Another second" in bench.models.requests[2].tail


async def test_past_turns_become_history_when_the_cache_is_cold(tmp_path: Path) -> None:
    clock = [datetime(2026, 1, 1, tzinfo=UTC)]
    async with daemon(tmp_path, now=lambda: clock[0]) as bench:
        for name in "abcdefgh":
            files(bench, **{name: f"{name} line\n" * 1_900})
        bench.models.then(*(read(bench, name) for name in "abcdefgh"), "All read.", "Warm.", "Cold.")
        session = bench.session(settings=ALLOW_ALL)
        await session.prompt("read them")
        clock[0] += timedelta(seconds=200)
        await session.prompt("still there?")
        warm = sent(bench.models.requests[-1])
        clock[0] += timedelta(seconds=400)
        await session.prompt("and now?")
        cold = sent(bench.models.requests[-1])
    assert "a line" in warm
    assert "a line" not in cold
    assert "h line" in cold  # the last steps stay whole
    assert "user: read them" in cold
    marks = bench.events(ContextMarked)
    assert len(marks) == 1
    assert marks[0].freed_tokens >= 20_000


async def test_meter_is_published_and_calibrated_by_provider_counts(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        bench.models.then(goal(add="Only", focus="1"), Call("ls", {}), "Done.")
        session = bench.session(settings=ALLOW_ALL)
        await session.prompt("go")
        meter = bench.meter
        only = session.state.plan.find("1").id
    assert meter.usage == session.state.trace.usage
    assert meter.usage.total == 3 * 1_160
    assert meter.cost == session.state.trace.total_cost
    assert session.state.calibration != 1.0
    assert 0 < meter.context_tokens < meter.compact_at < meter.context_window
    assert [goal.goal_id for goal in meter.goals] == [only]
    assert meter.goals[0].usage.total == 2 * 1_160


async def test_numbers_are_computed_only_for_listeners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon(tmp_path) as bench:
        bench.models.then(goal(add="One, Two", focus="1"), "Done.", goal(done="Yes.", focus="2"), "Done.")
        session = bench.session(settings=ALLOW_ALL)
        bench.core.bus.unsubscribe(bench.heard.append)
        builder = session.request_builder
        with monkeypatch.context() as patch:
            patch.setattr(builder, "meter", None)
            await session.prompt("go")
        usage = session.state.trace.usage
        one, two = (session.state.plan.find(number).id for number in ("1", "2"))
        bench.core.bus.subscribe(session.session_id, bench.heard.append)
        await session.prompt("go on")
        first = next(item.meter for item in bench.heard if isinstance(item, Metered))
    assert first.usage == usage
    assert {number.goal_id for item in bench.heard if isinstance(item, Metered) for number in item.meter.goals} == {
        one, two,
    }  # fmt: skip
