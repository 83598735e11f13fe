"""The tools of the plan ask for the permission ``goal`` like every tool for its own (docs/planning.md)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest

from daemon.loop.session import Session
from daemon.model.messages import ToolResultPart
from daemon.model.permissions import PermissionRequest
from tests.support.drivers.core import Bench, daemon
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call
from tests.support.scenarios.branches import explore, exploring, ran
from tests.support.scenarios.subagents import task, with_subagents

PLANNED = {
    "goal": Call("goal", {"add": ["P1", "P2"], "focus": "1"}),
    "step": Call("step", {"plan": ["P1", "[ ] P2"], "focus": "P1"}),
}
ASK = {"*": "allow", "goal": "ask"}


def results(session: Session) -> list[ToolResultPart]:
    found = (message.tool_result() for message in session.state.messages)
    return [result for result in found if result is not None]


def goals(session: Session) -> list[str]:
    return [goal.description for goal in session.state.plan.goals.values()]


async def asked(bench: Bench) -> PermissionRequest:
    await until(lambda: bench.core.permissions.pending() != [], "a question")
    (request,) = bench.core.permissions.pending()
    return request


def answer(
    bench: Bench,
    request: PermissionRequest,
    reply: Literal["once", "always", "reject"],
    said: str | None = None,
) -> None:
    bench.core.permissions.reply(request.request_id, reply, said, "test")


@pytest.mark.parametrize("rules", [{"goal": "ask"}, {"step": "ask"}, {"*": "ask"}], ids=str)
@pytest.mark.parametrize("front", ["goal", "step"])
async def test_ask_rule_delays_planning_until_approval(
    tmp_path: Path, front: str, rules: dict[str, Any]
) -> None:
    async with daemon(tmp_path, [PLANNED[front]], "Done.") as bench:
        session = bench.session(settings={"plan_front": front, "permission": rules})
        turn = asyncio.create_task(session.prompt("go"))
        request = await asked(bench)
        assert (request.permission, request.tool, set(request.targets)) == ("goal", front, {"add", "focus"})
        assert "P1" in request.title
        assert "P2" in request.detail
        assert not goals(session)
        answer(bench, request, "once")
        await turn
        assert goals(session) == ["P1", "P2"]


@pytest.mark.parametrize("front", ["goal", "step"])
async def test_rejection_feedback_on_a_plan_reaches_the_model(tmp_path: Path, front: str) -> None:
    async with daemon(tmp_path, [PLANNED[front]], "As you like.") as bench:
        session = bench.session(settings={"plan_front": front, "permission": ASK})
        turn = asyncio.create_task(session.prompt("go"))
        answer(bench, await asked(bench), "reject", "no plan for this, please")
        assert (await turn).stop == "end_turn"
        (result,) = results(session)
        assert result.is_error
        assert "The user rejected this call and wrote: no plan for this, please" in result.content
        assert not goals(session)


async def test_rejection_without_feedback_ends_the_turn(tmp_path: Path) -> None:
    async with daemon(tmp_path, [PLANNED["step"]]) as bench:
        session = bench.session(settings={"plan_front": "step", "permission": ASK})
        turn = asyncio.create_task(session.prompt("go"))
        answer(bench, await asked(bench), "reject")
        assert (await turn).stop == "permission_denied"
        assert not goals(session)


async def test_always_is_for_all_that_follows(tmp_path: Path) -> None:
    steps = [[PLANNED["goal"]], [Call("goal", {"done": "found"})], [Call("read_progress")], "Done."]
    async with daemon(tmp_path, *steps) as bench:
        session = bench.session(settings={"permission": ASK})
        turn = asyncio.create_task(session.prompt("go"))
        answer(bench, await asked(bench), "always")
        await turn
        assert [result.is_error for result in results(session)] == [False] * 3


@pytest.mark.parametrize(
    ("front", "done"),
    [
        ("goal", Call("goal", {"done": "s"})),
        ("step", Call("step", {"complete": True, "summary": "s"})),
    ],
)
async def test_rules_can_name_plan_actions_of_either_tool(tmp_path: Path, front: str, done: Call) -> None:
    rules = {"*": "allow", "goal": {"*": "allow", "done": "deny", "read": "deny"}}
    async with daemon(tmp_path, [PLANNED[front]], [done, Call("read_progress")], "Well.") as bench:
        session = bench.session(settings={"plan_front": front, "permission": rules})
        await session.prompt("go")
        assert [result.is_error for result in results(session)] == [False, True, True]
        assert all("Permission denied" in result.content for result in results(session)[1:])
        assert {goal.status for goal in session.state.plan.goals.values()} == {"in_progress", "pending"}


@pytest.mark.parametrize("mode", ["ask", "plan", "accept-edits"])
@pytest.mark.parametrize("front", ["goal", "step"])
async def test_planning_asks_nothing_by_default_in_any_mode(tmp_path: Path, front: str, mode: str) -> None:
    async with daemon(tmp_path, [PLANNED[front]], [Call("read_progress")], "Done.") as bench:
        session = bench.session(settings={"plan_front": front, "mode": mode})
        await session.prompt("go")
        assert [result.is_error for result in results(session)] == [False, False]
        assert goals(session) == ["P1", "P2"]


@pytest.mark.parametrize("permission", [{}, ASK], ids=str)
async def test_sub_agent_planning_asks_only_under_a_rule(tmp_path: Path, permission: dict[str, str]) -> None:
    child = [[PLANNED["goal"]], "Found it."]
    main = [[task("look around")], "Done."]
    async with with_subagents(tmp_path, main, {"s1": child}) as (bench, _):
        session = bench.session(settings={"permission": permission})
        turn = asyncio.create_task(session.prompt("go"))
        if permission:
            request = await asked(bench)
            assert (request.branch_id, request.permission) == ("s1", "goal")
            answer(bench, request, "once")
        await turn
        assert "Found it." in results(session)[0].content


async def test_branch_planning_asks_under_a_rule(tmp_path: Path) -> None:
    way = [[PLANNED["goal"], Call("write", {"file_path": "x.py", "content": "x = 1\n"})], "It works."]
    main = [[Call("goal", {"add": ["find a way"], "focus": "1"})], explore("use a list", "use a dict"), "A."]
    told = {"permission": {"*": "allow", "goal": {"*": "ask"}}}
    async with exploring(tmp_path, main, {"A": way, "B": way}, command_line=told) as bench:
        turn = asyncio.create_task(ran(bench))
        seen: set[str | None] = set()
        while not turn.done():
            for request in bench.core.permissions.pending():
                assert request.permission == "goal"
                seen.add(request.branch_id)
                answer(bench, request, "once")
            await until(
                lambda: turn.done() or bench.core.permissions.pending() != [], "a question or the end"
            )
        await turn
        assert seen == {None, "A", "B"}
