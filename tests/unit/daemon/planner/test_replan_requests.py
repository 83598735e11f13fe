"""Plans that the user asks for: whole turns with the real daemon core."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from daemon.model import notice_codes
from daemon.model.events import Notice
from daemon.model.messages import Usage
from daemon.model.traces import PromptPlanner
from daemon.planner.driver import REPLAN, replan
from tests.support.drivers.core import ALLOW_ALL, daemon, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, End, Fail, Hold, Step
from tests.support.scenarios.plans import check_requests, done, notes, one_turn, plan, planned, tree

# -- the person's wish --


@pytest.mark.parametrize("mode", ["in_loop", "on_demand", "layered", "signposts"])
async def test_replan_of_an_idle_session_makes_a_plan_and_stops(tmp_path: Path, mode: str) -> None:
    async with daemon(tmp_path, plan("A", "B")) as bench:
        session = planned(bench, mode)
        result = await replan(session, "tests first")
        assert (result.stop, result.detail) == ("end_turn", "Replanned: 2 steps left.")
        assert session.state.messages[0].text() == f"{REPLAN} tests first"
        assert tree(session) == ["  1 A", "  2 B"]
        assert [n.text for n in bench.events(Notice)] == ["Replanned: 2 steps left."]
        one_turn(bench)


async def test_replan_of_an_idle_session_keeps_done_and_named_goals(tmp_path: Path) -> None:
    steps: list[Step] = [
        [Call("goal", {"add": ["A", "B", "C"], "focus": "1"})],
        [done()],
        "A.",
        plan("C", "D"),
    ]
    async with daemon(tmp_path, *steps) as bench:
        session = planned(bench, "in_loop")
        await session.prompt("go")
        await replan(session)
        assert tree(session) == ["x 1 A", "  2 C", "  3 D"]


@pytest.mark.parametrize("mode", ["in_loop", "on_demand", "signposts"])
async def test_replan_during_a_turn_happens_between_two_steps(tmp_path: Path, mode: str) -> None:
    hold = Hold()
    first: list[Step] = [plan()] if mode == "signposts" else []
    async with daemon(
        tmp_path,
        *first,
        [hold, Call("ls", {"path": "."})],
        plan("A"),
        [Call("goal", {"focus": "1"})],
        "Done.",
    ) as bench:
        session = planned(bench, mode)
        turn = prompted(session, "go")
        await hold.reached.wait()
        replan_request = asyncio.create_task(replan(session, "think first"))
        await until(lambda: session.turn.replan_request is not None)
        hold.go.set()
        assert (await finish(replan_request)).detail == "Replanned: 1 step left."
        assert (await finish(turn)).stop == "end_turn"
        assert any(note.endswith("and wrote: think first") for note in notes(session))
        assert tree(session) == ["> 1 A"]
        one_turn(bench)


async def test_replan_during_a_layered_step_changes_the_next_steps(tmp_path: Path) -> None:
    hold = Hold()
    steps: list[Step] = [plan("A", "B"), [hold, done()], plan("C"), [done()], "C is there."]
    async with daemon(tmp_path, *steps) as bench:
        session = planned(bench, "layered")
        turn = prompted(session, "go")
        await hold.reached.wait()
        replan_request = asyncio.create_task(replan(session))
        await until(lambda: session.turn.replan_request is not None)
        hold.go.set()
        assert (await finish(replan_request)).stop == "end_turn"
        assert (await finish(turn)).stop == "end_turn"
        assert tree(session) == ["x 1 A", "x 2 C"]
        one_turn(bench)


async def test_replan_as_the_model_stops_happens_in_the_same_turn(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, "Done."], plan("A")) as bench:
        session = planned(bench, "in_loop")
        turn = prompted(session, "go")
        await hold.reached.wait()
        replan_request = asyncio.create_task(replan(session))
        await until(lambda: session.turn.replan_request is not None)
        hold.go.set()
        assert (await finish(replan_request)).stop == "end_turn"
        assert (await finish(turn)).stop == "end_turn"
        assert tree(session) == ["  1 A"]
        one_turn(bench)


async def test_replan_request_ends_with_a_canceled_turn(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, "Done."]) as bench:
        session = planned(bench, "in_loop")
        turn = prompted(session, "go")
        await hold.reached.wait()
        first = asyncio.create_task(replan(session))
        await until(lambda: session.turn.replan_request is not None)
        second = asyncio.create_task(replan(session, "no, so"))
        assert (await finish(first)).detail.startswith("A later request for a plan replaced this one.")
        session.cancel()
        assert (await finish(second)).stop == "canceled"
        assert (await finish(turn)).stop == "canceled"
        assert session.turn.replan_request is None


async def test_abandoned_replan_request_is_withdrawn(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, Call("ls", {"path": "."})], "Done.") as bench:
        session = planned(bench, "in_loop")
        turn = prompted(session, "go")
        await hold.reached.wait()
        replan_request = asyncio.create_task(replan(session))
        await until(lambda: session.turn.replan_request is not None)
        replan_request.cancel()
        await asyncio.wait({replan_request})
        assert replan_request.cancelled()
        hold.go.set()
        assert (await finish(turn)).stop == "end_turn"
        assert (notes(session), tree(session)) == ([], [])


async def test_canceled_earlier_replan_does_not_cancel_the_later_one(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, Call("ls", {"path": "."})], plan("A"), "Done.") as bench:
        session = planned(bench, "in_loop")
        turn = prompted(session, "go")
        await hold.reached.wait()
        first = asyncio.create_task(replan(session))
        await until(lambda: session.turn.replan_request is not None)
        earlier = session.turn.replan_request
        second = asyncio.create_task(replan(session, "so"))
        await until(lambda: session.turn.replan_request is not earlier)
        first.cancel()
        hold.go.set()
        assert (await finish(second)).stop == "end_turn"
        assert (await finish(turn)).stop == "end_turn"
        assert tree(session) == ["  1 A"]


async def test_replan_ends_when_its_prompt_is_removed(tmp_path: Path) -> None:
    async with daemon(tmp_path, "Hello.") as bench:
        session = planned(bench, "in_loop")
        async with session.files.lock:  # as during a compaction
            replan_request = asyncio.create_task(replan(session))
            await until(lambda: bool(session.queued()))
            assert session.edit_queued(session.queued()[0].prompt_id, None)
            assert (await finish(replan_request)).stop == "canceled"
        assert (await finish(prompted(session, "hello"))).stop == "end_turn"
        assert (notes(session), tree(session)) == ([], [])


async def test_replan_request_ends_when_all_that_waits_is_held(tmp_path: Path) -> None:
    async with daemon(tmp_path, "Hello.") as bench:
        session = planned(bench, "in_loop")
        async with session.files.lock:  # as during a compaction
            turn = prompted(session, "hello")
            await until(lambda: bool(session.queued()))
            replan_request = asyncio.create_task(replan(session))
            await until(lambda: session.turn.replan_request is not None)
            session.cancel(hold_queue=True)
        assert (await finish(replan_request)).stop == "canceled"
        session.send_queue()
        assert (await finish(turn)).stop == "end_turn"
        assert (notes(session), tree(session)) == ([], [])


async def test_canceled_turn_ends_the_request_that_it_plans_for_too(tmp_path: Path) -> None:
    hold, planning = Hold(), Hold()
    async with daemon(tmp_path, [hold, Call("ls", {"path": "."})], [planning, "- A"]) as bench:
        session = planned(bench, "in_loop")
        turn = prompted(session, "go")
        await hold.reached.wait()
        first = asyncio.create_task(replan(session))
        await until(lambda: session.turn.replan_request is not None)
        hold.go.set()
        await planning.reached.wait()
        second = asyncio.create_task(replan(session, "no, so"))
        await until(lambda: session.turn.replan_request is not None)
        session.cancel()
        assert [(await finish(one)).stop for one in (first, second, turn)] == ["canceled"] * 3


@pytest.mark.parametrize("mode", ["layered", "signposts", "on_demand"])
async def test_plan_agent_ignores_the_planner_mode_of_the_prompt(tmp_path: Path, mode: PromptPlanner) -> None:
    add = Call("goal", {"add": "A, B"})
    async with daemon(tmp_path, [add], "That is the plan.") as bench:
        session = bench.session(agent="plan", settings=ALLOW_ALL)
        assert (await session.prompt("plan it", planner=mode)).stop == "end_turn"
        assert (notes(session), tree(session)) == ([], ["  1 A", "  2 B"])
        (told,) = [event.text for event in bench.events(Notice) if event.code == notice_codes.PLAN_OTHER_MODE]
        assert told.startswith(f"The planner {mode} is not used: the plan agent")


async def test_plan_agent_replans_on_user_request(tmp_path: Path) -> None:
    async with daemon(tmp_path, plan("A")) as bench:
        session = bench.session(agent="plan", settings=ALLOW_ALL)
        assert (await replan(session)).stop == "end_turn"
        assert tree(session) == ["  1 A"]
        assert not [event for event in bench.events(Notice) if event.code == notice_codes.PLAN_OTHER_MODE]


@pytest.mark.parametrize("mode", ["layered", "signposts"])
async def test_list_that_answers_a_question_becomes_no_plan(tmp_path: Path, mode: str) -> None:
    answer = "Three files matter:\n\n- `a.py` reads it\n- `b.py` writes it\n- `c.py` tests it"
    async with daemon(tmp_path, answer, plan(), "As I said: three.") as bench:
        session = planned(bench, mode)
        assert (await session.prompt("Which files matter?")).stop == "end_turn"
        assert tree(session) == []
        assert notes(session)[1].startswith("That plan cannot be used. There was no plan in the answer")


async def test_list_in_the_second_answer_is_the_plan(tmp_path: Path) -> None:
    async with daemon(tmp_path, "I shall see.", "- A\n- B", [done()], "…", [done()], "Done.") as bench:
        session = planned(bench, "layered")
        assert (await session.prompt("go")).stop == "end_turn"
        assert tree(session) == ["x 1 A", "x 2 B"]


async def test_compaction_within_a_step_keeps_plan_and_position(tmp_path: Path) -> None:
    lists = ("requests_and_rulings", "decisions", "findings", "files_changed", "failed_attempts")
    summary = {
        "current_work": "A.",
        **{name: [] for name in lists},
        "pending_actions": ["A"],
        "key_paths": {},
    }
    free = End(usage=Usage())
    reads: list[Step] = [[Call("read", {"file_path": f"f{n}.txt"}), free] for n in range(4)]
    overflow: list[Step] = [Fail("overflow", "prompt is too long"), [json.dumps(summary), free]]
    steps: list[Step] = [plan("A", "B"), *reads, *overflow, [done("A did")], "…", [done()], "Both."]
    async with daemon(tmp_path, *steps) as bench:
        for n in range(4):
            (bench.workspace / f"f{n}.txt").write_text(f"file {n}: some words\n" * 350)
        session = planned(bench, "layered", compact_at_tokens=100_000, keep_steps=2)
        assert (await session.prompt("go")).stop == "end_turn"
        assert {mark.reason for m in session.state.messages if (mark := m.compaction())} == {"overflow"}
        assert tree(session) == ["x 1 A", "x 2 B"]
        assert [note for note in notes(session) if note.startswith("Work on goal")] == [
            "Work on goal 1 A",
            "Work on goal 2 B",
        ]
        assert bench.models.left == 0
        one_turn(bench)
        check_requests(bench)


async def test_replan_without_a_plan_in_the_answer_is_an_error(tmp_path: Path) -> None:
    async with daemon(tmp_path, "No.", "No!") as bench:
        session = planned(bench, "in_loop")
        result = await replan(session)
        assert result.stop == "error"
        assert "no plan in the answer" in result.detail
