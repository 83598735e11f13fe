from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from daemon.model import notice_codes
from daemon.model.events import Notice, PermissionAsked
from daemon.model.traces import Budget
from tests.support.drivers.core import ALLOW_ALL, Bench, daemon
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call

# Each call of the fake model costs one cent and 1 160 tokens.


async def test_reached_budget_asks_even_if_everything_is_allowed(
    tmp_path: Path,
) -> None:
    async with daemon(tmp_path, Call("ls", {}), Call("ls", {"path": "."}), "Done.") as bench:
        session = bench.session(settings={**ALLOW_ALL, "budget_usd": 0.02})
        turn = asyncio.create_task(session.prompt("go"))
        asked = (await bench.asked())[0]
        assert asked.permission == "budget"
        assert asked.title == "This session has used $0.02 of $0.02. Continue?"
        assert len(bench.models.requests) == 2
        await bench.answer("once")
        assert (await turn).stop == "end_turn"


async def test_once_gives_the_same_amount_again(tmp_path: Path) -> None:
    async with daemon(tmp_path, *(Call("ls", {"path": "." * (n % 2)}) for n in range(4)), "Done.") as bench:
        session = bench.session(settings={**ALLOW_ALL, "budget_tokens": 2_000})
        turn = asyncio.create_task(session.prompt("go"))
        await bench.answer("once")
        await bench.answer("once")
        assert (await turn).stop == "end_turn"
        assert len(bench.events(PermissionAsked)) == 2


async def test_always_lifts_the_budget_and_reject_ends_the_turn(tmp_path: Path) -> None:
    async with daemon(tmp_path, "One.", "Two.", "Three.") as bench:
        session = bench.session(settings={"budget_usd": 0.01})
        await session.prompt("go")
        turn = asyncio.create_task(session.prompt("more"))
        await bench.answer("reject")
        result = await turn
        assert result.stop == "permission_denied"
        assert "budget" in result.detail
        assert "$0.01 of $0.01" in result.detail
        turn = asyncio.create_task(session.prompt("more, whatever it costs"))
        await bench.answer("always")
        assert (await turn).stop == "end_turn"
        assert (await session.prompt("and more")).stop == "end_turn"
        assert [m.text() for m in session.state.messages if m.role == "user"] == [
            "go", "more", "more, whatever it costs", "and more"
        ]  # fmt: skip


async def test_a_goals_limit_names_the_goal(tmp_path: Path) -> None:
    steps = (Call("goal", {"add": "Small one", "focus": "1"}), Call("ls", {}), "Done.")
    async with daemon(tmp_path, *steps) as bench:
        session = bench.session(settings={**ALLOW_ALL, "goal_budget_usd": 0.01})
        turn = asyncio.create_task(session.prompt("go"))
        asked = (await bench.asked())[0]
        assert asked.title == 'The goal "Small one" has used $0.01 of $0.01. Continue?'
        assert asked.goal_id == session.state.plan.find("1").id
        await bench.answer("once")
        assert (await turn).stop == "end_turn"


async def test_cancel_while_the_budget_is_asked_ends_the_turn(tmp_path: Path) -> None:
    async with daemon(tmp_path, "One.") as bench:
        session = bench.session(settings={"budget_usd": 0.01})
        await session.prompt("go")
        turn = asyncio.create_task(session.prompt("more"))
        await bench.asked()
        session.cancel()
        assert (await turn).stop == "canceled"
        assert bench.core.permissions.pending() == []


async def test_session_budget_survives_a_restart_and_asks_again(tmp_path: Path) -> None:
    async with daemon(tmp_path, "One.", "Two.") as bench:
        session = bench.session(settings={"budget_usd": 0.01})
        await session.prompt("go")
        turn = asyncio.create_task(session.prompt("more"))
        await bench.answer("always")
        await turn
        bench.core.update_session(session, {"budget": Budget(session_usd=0.02).model_dump()})
        session_id = session.session_id
    async with daemon(tmp_path, "Three.") as bench:
        session = await bench.opened(session_id)
        assert session.state.budget == Budget(session_usd=0.02)
        turn = asyncio.create_task(session.prompt("go on"))
        asked = (await bench.asked())[0]
        assert "$0.02 of $0.02" in asked.title
        await bench.answer("once")
        assert (await turn).stop == "end_turn"


async def test_zero_budget_asks_before_the_first_call(
    tmp_path: Path,
) -> None:
    async with daemon(tmp_path, "One.") as bench:
        session = bench.session()
        bench.core.update_session(session, {"budget": Budget(session_tokens=0).model_dump()})
        turn = asyncio.create_task(session.prompt("go"))
        await bench.asked()
        assert bench.models.requests == []
        await bench.answer("once")
        assert (await turn).stop == "end_turn"


async def test_new_limit_withdraws_the_question_about_the_old_one(tmp_path: Path) -> None:
    async with daemon(tmp_path, "One.", "Two.") as bench:
        session = bench.session(settings={"budget_usd": 0.01})
        await session.prompt("go")
        turn = asyncio.create_task(session.prompt("more"))
        await bench.asked()
        bench.core.update_session(session, {"budget": Budget(session_tokens=100).model_dump()})
        await until(lambda: any("tokens" in r.title for r in bench.core.permissions.pending()), "asked anew")
        assert len(bench.models.requests) == 1
        bench.core.update_session(session, {"budget": Budget(session_usd=5).model_dump()})
        assert (await turn).stop == "end_turn"
        assert bench.core.permissions.pending() == []


async def test_the_same_limit_once_more_raises_nothing(tmp_path: Path) -> None:
    async with daemon(tmp_path, "One.") as bench:
        session = bench.session()
        bench.core.update_session(session, {"budget": Budget(session_usd=0.01).model_dump()})
        await session.prompt("go")
        turn = asyncio.create_task(session.prompt("more"))
        before = await bench.asked()
        bench.core.update_session(session, {"budget": Budget(session_usd=0.01).model_dump()})
        await until(lambda: bench.core.permissions.pending() not in ([], before), "asked anew")
        assert session.state.raised_limits == {}
        await bench.answer("reject")
        assert (await turn).stop == "permission_denied"


async def test_raised_limit_survives_a_restart(tmp_path: Path) -> None:
    async with daemon(tmp_path, "One.", "Two.") as bench:
        session = bench.session(settings={"budget_usd": 0.02})
        await session.prompt("go")
        bench.core.update_session(session, {"budget": Budget(session_tokens=1_160).model_dump()})
        turn = asyncio.create_task(session.prompt("more"))
        await bench.answer("once")
        await turn
        session_id = session.session_id
    async with daemon(tmp_path, "Three.") as bench:
        session = await bench.opened(session_id)
        turn = asyncio.create_task(session.prompt("go on"))
        asked = (await bench.asked())[0]
        assert asked.title == "This session has used 2,320 of 2,320 tokens. Continue?"
        await bench.answer("once")
        assert (await turn).stop == "end_turn"


@pytest.mark.parametrize("limit", [{"budget_usd": 0.5}, {"goal_budget_tokens": 10}, {}])
async def test_below_the_limits_nothing_is_asked(tmp_path: Path, limit: dict[str, float]) -> None:
    async with daemon(tmp_path, "One.", "Two.") as bench:
        session = bench.session(settings=limit)
        await session.prompt("go")
        assert (await session.prompt("more")).stop == "end_turn"
        assert bench.events(PermissionAsked) == []


def cost_notices(bench: Bench) -> list[str]:
    """Return the notices about the cost."""
    return [notice.text for notice in bench.events(Notice) if notice.code == notice_codes.COST]


async def test_session_without_budget_warns_at_each_cost_step(
    tmp_path: Path,
) -> None:
    said = "This session has cost ${} so far. To pause it before it costs more, set a budget."
    settings = {"budget_warning_usd": 0.03}
    async with daemon(tmp_path, *"1234567") as bench:
        session = bench.session(settings=settings)
        for _ in range(7):
            assert (await session.prompt("go")).stop == "end_turn"
        assert cost_notices(bench) == [said.format("0.03"), said.format("0.06")]
        session_id = session.session_id
    # A daemon that was started anew does not repeat itself.
    async with daemon(tmp_path, *"89") as bench:
        session = await bench.opened(session_id)
        session.policy.use(config=session.config.overlaid(settings, "editor", "test"))
        await session.prompt("go")
        assert cost_notices(bench) == []
        await session.prompt("go")
        assert cost_notices(bench) == [said.format("0.09")]


async def test_cost_warning_is_off_with_a_budget_or_zero_setting(tmp_path: Path) -> None:
    async with daemon(tmp_path, "One.", "Two.") as bench:
        await bench.session(settings={"budget_warning_usd": 0.01, "budget_usd": 1.0}).prompt("go")
        await bench.session(settings={"budget_warning_usd": 0}).prompt("go")
        assert cost_notices(bench) == []
