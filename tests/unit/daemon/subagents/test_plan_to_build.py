"""The plan agent hands its plan over to build, after the user's approval."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from daemon.agents.loader import AgentProfile, Agents
from daemon.loop.queue import TurnResult
from daemon.loop.session import BusyError, Session
from daemon.loop.user_plan import UserPlan
from daemon.model.events import SessionUpdated
from daemon.model.messages import ToolResultPart
from daemon.plan.tree import PlanError
from daemon.subagents.session_handover import BUILD_PROMPT, hand_over_plan
from tests.support.drivers.core import ALLOW_ALL, Bench, daemon, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Hold, Step

PLAN = Call("goal", {"add": ["Read the cart", "Mend the sum"], "reason": "the sum is wrong"})
OVER = Call("hand_over", {"report": "Two small steps in cart.py."})
WRITE = Call("write", {"file_path": "cart.py", "content": "x = 1\n"})
WORDS = "You are Goalwright in planning mode"


def planning(bench: Bench, **settings: Any) -> Session:
    return bench.session(agent="plan", settings=settings or None)


def results(session: Session) -> list[ToolResultPart]:
    return [found for m in session.state.messages if m.role == "tool" and (found := m.tool_result())]


def offered(bench: Bench, at: int = -1) -> set[str]:
    return {tool.name for tool in bench.models.requests[at].tools}


def system(bench: Bench, at: int = -1) -> str:
    return bench.models.requests[at].system[0].text


async def test_approved_plan_continues_as_build_in_the_same_turn(
    tmp_path: Path,
) -> None:
    async with daemon(tmp_path, PLAN, OVER, WRITE, "Built.") as bench:
        session = planning(bench, permission={"edit": "allow"})
        turn = prompted(session, "mend the cart")
        (request,) = await bench.asked()
        assert (request.permission, request.tool, request.targets) == ("hand_over", "hand_over", ("build",))
        assert request.title == "Build this plan?"
        assert request.suggestions == ()
        for words in ("[ ] 1. Read the cart", "[ ] 2. Mend the sum", "Two small steps in cart.py."):
            assert words in request.detail
        assert session.agent.name == "plan"
        await bench.answer("once")
        assert (await finish(turn)).stop == "end_turn"
        assert (bench.workspace / "cart.py").read_text() == "x = 1\n"
        assert (session.agent.name, session.state.trace.agent) == ("build", "build")
        assert len(bench.models.requests) == 4
        assert ["edit" in offered(bench, at) for at in range(4)] == [False, False, True, True]
        assert ["hand_over" in offered(bench, at) for at in range(4)] == [True, True, False, False]
        assert [WORDS in system(bench, at) for at in range(4)] == [True, True, False, False]
        assert [r.env["GOALWRIGHT_AGENT"] for r in bench.models.requests] == ["plan"] * 2 + ["build"] * 2
        tree = session.state.plan
        assert tree.current_id == tree.next_open(None).id  # type: ignore[union-attr]  # there is one
        assert "You are now the build agent:" in results(session)[1].content
        assert "Focus: 1 Read the cart" in results(session)[1].content


async def test_plan_edited_during_the_question_is_built_as_edited(tmp_path: Path) -> None:
    async with daemon(tmp_path, PLAN, OVER, "Built.") as bench:
        session = planning(bench)
        turn = prompted(session, "mend the cart")
        await bench.asked()
        person = UserPlan(session, "VS Code")
        first, second = session.state.plan.children(None)
        person.rename(second.id, "Mend the tax")
        person.move(second.id, None, first.id)
        await person.abandon(first.id, "not needed")
        await bench.answer("once")
        await finish(turn)
        assert session.state.plan.current_id == second.id
        assert "Focus: 1 Mend the tax" in results(session)[1].content
        assert "follow the current plan." in results(session)[1].content


async def test_plan_emptied_during_the_question_is_not_built(tmp_path: Path) -> None:
    async with daemon(tmp_path, PLAN, OVER, "What do you want?") as bench:
        session = planning(bench)
        turn = prompted(session, "mend the cart")
        await bench.asked()
        for goal in list(session.state.plan.children(None)):
            await UserPlan(session, "VS Code").abandon(goal.id, "no")
        await bench.answer("once")
        await finish(turn)
        assert session.agent.name == "plan"
        assert results(session)[1].is_error
        assert "no open goals" in results(session)[1].content


async def test_rejection_with_feedback_replans_and_without_ends_turn(tmp_path: Path) -> None:
    steps: tuple[Step, ...] = (PLAN, OVER, Call("goal", {"add": ["Test it"]}), OVER)
    async with daemon(tmp_path, *steps) as bench:
        session = planning(bench)
        turn = prompted(session, "mend the cart")
        await bench.answer("reject", "tests are missing")
        await until(lambda: len(bench.models.requests) == 4, "the fourth step")
        assert "tests are missing" in results(session)[1].content
        await bench.asked()
        assert "[ ] 3. Test it" in bench.core.permissions.pending()[0].detail
        await bench.answer("reject")
        assert (await finish(turn)).stop == "permission_denied"
        assert (session.agent.name, session.state.trace.agent) == ("plan", "plan")


@pytest.mark.parametrize("mode", ["accept-edits", "auto"])
async def test_plan_approval_is_asked_in_every_mode_and_rule(tmp_path: Path, mode: str) -> None:
    async with daemon(tmp_path, PLAN, OVER, "Built.") as bench:
        session = planning(bench, permission={"*": "allow"}, mode=mode)
        turn = prompted(session, "mend the cart")
        await bench.answer("once")
        await finish(turn)


async def test_always_approves_this_plan_only(tmp_path: Path) -> None:
    async with daemon(tmp_path, PLAN, OVER, "Built.") as bench:
        session = planning(bench)
        turn = prompted(session, "mend the cart")
        await bench.answer("always")
        await finish(turn)
        assert session.agent.name == "build"
        assert session.state.granted == []


async def test_hand_over_rule_approves_a_plan_except_in_plan_mode(tmp_path: Path) -> None:
    rules = {"permission": {"hand_over": "allow"}}
    async with daemon(tmp_path, PLAN, OVER, "Built.", PLAN, OVER, "Built.") as bench:
        session = planning(bench, **rules)
        assert (await session.prompt("mend the cart")).stop == "end_turn"
        assert session.agent.name == "build"
        other = planning(bench, **rules)
        bench.core.update_session(other, {"mode": "plan"})
        turn = prompted(other, "mend the cart")
        (request,) = await bench.asked()
        assert "If you accept, plan mode ends:" in request.notes[0]
        await bench.answer("once")
        await finish(turn)


@pytest.mark.parametrize(("where", "after"), [("session", None), ("settings", "ask")])
async def test_approving_a_plan_ends_plan_mode(tmp_path: Path, where: str, after: str | None) -> None:
    async with daemon(tmp_path, PLAN, OVER, WRITE, "Built.") as bench:
        session = planning(bench, **({"mode": "plan"} if where == "settings" else {"mode": "ask"}))
        if where == "session":
            bench.core.update_session(session, {"mode": "plan"})
        turn = prompted(session, "mend the cart")
        await bench.answer("once")
        await bench.answer("once")  # the edit, as rules say
        await finish(turn)
        assert (session.state.trace.mode, session.mode) == (after, "ask")
        assert (bench.workspace / "cart.py").exists()


async def test_rejection_keeps_plan_mode(tmp_path: Path) -> None:
    async with daemon(tmp_path, PLAN, OVER) as bench:
        session = planning(bench)
        bench.core.update_session(session, {"mode": "plan"})
        turn = prompted(session, "mend the cart")
        await bench.answer("reject")
        await finish(turn)
        assert session.mode == "plan"


async def test_hand_over_without_goals_asks_nothing(tmp_path: Path) -> None:
    async with daemon(tmp_path, OVER, "I see.") as bench:
        session = planning(bench)
        await session.prompt("mend the cart")
        assert "no open goals" in results(session)[0].content
        assert session.agent.name == "plan"


async def test_hand_over_is_not_offered_to_other_agents(tmp_path: Path) -> None:
    async with daemon(tmp_path, OVER, "I see.") as bench:
        session = bench.session(settings={"permission": {"*": "allow", "hand_over": "allow"}})
        await session.prompt("go")
        assert "hand_over" not in offered(bench)
        assert results(session)[0].metadata["denied"] is True


async def test_after_a_restart_the_session_is_still_build_s(tmp_path: Path) -> None:
    async with daemon(tmp_path, PLAN, OVER, "Built.") as bench:
        session = planning(bench)
        turn = prompted(session, "mend the cart")
        await bench.answer("once")
        await finish(turn)
    async with daemon(tmp_path, "More.") as bench:
        again = await bench.opened(session.session_id)
        again.policy.use(default_model="fake/model")
        await again.prompt("more")
        assert again.agent.name == "build"
        assert "edit" in offered(bench)


async def test_pending_plan_approval_is_asked_again_after_a_kill(tmp_path: Path) -> None:
    folder, copy = tmp_path / "here", tmp_path / "copy"
    folder.mkdir()
    async with daemon(folder, PLAN, OVER, check=False) as bench:
        session = planning(bench)
        turn = prompted(session, "mend the cart")
        await bench.asked()
        shutil.copytree(folder, copy)
        session.cancel()
        await turn
    shutil.rmtree(folder)
    copy.rename(folder)
    async with daemon(folder, "Built.") as bench:
        again = await bench.opened(session.session_id)
        again.policy.use(default_model="fake/model")
        assert again.resume()
        await bench.answer("once")
        await again.rest()
        assert again.agent.name == "build"
        assert again.state.trace.last_stop_reason == "end_turn"


async def test_user_hands_over_a_plan_of_an_idle_session(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, PLAN, [hold, "Planned."], "Built.") as bench:
        session = planning(bench)
        bench.core.update_session(session, {"mode": "plan"})
        turn = prompted(session, "mend the cart")
        await hold.reached.wait()
        with pytest.raises(BusyError):
            await hand_over_plan(session, "VS Code")
        hold.go.set()
        await finish(turn)
        assert await hand_over_plan(session, "VS Code") == BUILD_PROMPT
        assert (session.agent.name, session.mode) == ("build", "ask")
        assert bench.events(SessionUpdated)[-1].updates["agent"] == "build"
        await session.prompt(BUILD_PROMPT)
        assert "edit" in offered(bench)
        with pytest.raises(PlanError, match="build agent"):
            await hand_over_plan(session, "VS Code")


async def test_plan_made_in_plan_mode_is_built_by_the_same_agent(tmp_path: Path) -> None:
    async with daemon(tmp_path, PLAN, "Planned.") as bench:
        session = bench.session(settings={"mode": "accept-edits"})
        bench.core.update_session(session, {"mode": "plan"})
        await finish(prompted(session, "mend the cart"))
        assert await hand_over_plan(session, "VS Code") == BUILD_PROMPT
        assert (session.agent.name, session.mode) == ("build", "accept-edits")
        with pytest.raises(PlanError, match="build agent"):
            await hand_over_plan(session, "VS Code")


async def test_plan_written_as_text_can_be_handed_over_by_the_user(tmp_path: Path) -> None:
    async with daemon(tmp_path, "1. Read the cart. 2. Mend the sum.", "Built.") as bench:
        session = planning(bench)
        await finish(prompted(session, "mend the cart"))
        assert await hand_over_plan(session, "VS Code") == BUILD_PROMPT
        assert session.agent.name == "build"
        assert session.state.plan.current_id is None
        await session.prompt(BUILD_PROMPT)
        assert "edit" in offered(bench)


async def test_session_without_a_plan_cannot_be_handed_over(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        with pytest.raises(PlanError, match="no open goals"):
            await hand_over_plan(planning(bench), "VS Code")


async def test_a_cancel_while_the_question_waits_keeps_the_plan(tmp_path: Path) -> None:
    async with daemon(tmp_path, PLAN, OVER) as bench:
        session = planning(bench)
        turn = prompted(session, "mend the cart")
        await bench.asked()
        session.cancel()
        assert (await finish(turn)).stop == "canceled"
        assert session.agent.name == "plan"
        assert bench.core.permissions.pending() == []


async def test_plan_is_not_handed_over_under_a_turn_that_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, turns, loop = Hold(), list[asyncio.Task[TurnResult]](), asyncio.get_running_loop()
    async with daemon(tmp_path, [Call("goal", {"add": ["A"]})], "Planned.", [hold, "More."]) as bench:
        session = bench.session(agent="plan", settings=ALLOW_ALL)
        await session.prompt("plan it")
        find = Agents.find

        async def begin() -> None:  # another client does
            turns.append(prompted(session, "plan that, too"))
            await hold.reached.wait()

        def slow(*args: Any) -> AgentProfile:
            if not turns:
                asyncio.run_coroutine_threadsafe(begin(), loop).result(30)
            return find(*args)

        monkeypatch.setattr(Agents, "find", slow)
        with pytest.raises(BusyError):
            await hand_over_plan(session, "me")
        assert session.agent.name == "plan"
        hold.go.set()
        assert (await finish(turns[0])).stop == "end_turn"


async def test_goal_that_is_given_up_as_the_build_begins_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, given_up = asyncio.get_running_loop(), list[str]()
    async with daemon(tmp_path, PLAN, OVER, "Built.") as bench:
        session = planning(bench)
        turn = prompted(session, "mend the cart")
        await bench.asked()
        find = Agents.find

        def slow(*args: Any) -> AgentProfile:
            if not given_up:
                given_up.append("1")
                user = UserPlan(session, "me")
                asyncio.run_coroutine_threadsafe(user.abandon("1", "no"), loop).result(30)
            return find(*args)

        monkeypatch.setattr(Agents, "find", slow)
        await bench.answer("once")
        assert (await finish(turn)).stop == "end_turn"
        assert session.state.plan.current_id == "2"
        assert "1" not in session.state.plan.goals
