"""Whole turns in each mode: the real daemon core, a model that plays a script, failures and new plans."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from daemon.model.events import GoalAdded, GoalUpdated, Notice
from daemon.planner.driver import replan
from daemon.planner.next_action import MAX_REPLANS
from daemon.provider import openai_wire
from daemon.provider.model_calls import ModelRequest
from tests.support.drivers.core import ALLOW_ALL, daemon, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.model_messages import check_openai
from tests.support.fakes.models import USAGE, Call, Fail, Hold, Step
from tests.support.scenarios.plans import abandon, check_requests, done, notes, one_turn, plan, planned, tree


def last_words(request: ModelRequest) -> str:
    return "\n".join(p.text for p in request.messages[-1].content if p.type == "text" or p.type == "note")


# -- in_loop --


async def test_in_loop_is_the_plain_loop(tmp_path: Path) -> None:
    async with daemon(tmp_path, "Hello.") as bench:
        session = bench.session()
        assert (await session.prompt("hi")).stop == "end_turn"
        assert [m.role for m in session.state.messages] == ["user", "assistant"]


# -- layered --


async def test_layered_plans_and_works_on_each_step(tmp_path: Path) -> None:
    steps: list[Step] = [
        plan({"goal": "Look", "reason": "to know", "check": "a list"}, "Build"),
        [Call("ls", {"path": "."}), done("an empty folder")],
        "Looked.",
        [done("built")],
        "All is built.",
    ]
    async with daemon(tmp_path, *steps) as bench:
        session = planned(bench, "layered")
        result = await session.prompt("Build it")
        assert (result.stop, result.detail) == ("end_turn", "")
        assert tree(session) == ["x 1 Look", "x 2 Build"]
        assert session.state.plan.goals["1"].reason == "to know\nCheck: a list"
        assert notes(session)[1:] == ["Work on goal 1 Look", "Work on goal 2 Build"]
        assert session.state.messages[-1].text() == "All is built."
        assert bench.models.left == 0
        # Every call is counted, that for the plan too, and each message belongs to the goal that was worked on.
        assert session.state.trace.total_cost == pytest.approx(0.05)
        assert session.state.trace.usage.output == 5 * USAGE.output
        asked = next(m for m in session.state.messages if m.role == "assistant")
        assert (asked.goal_id, asked.cost, asked.usage) == (None, 0.01, USAGE)
        assert {m.goal_id for m in session.state.messages if m.role == "assistant"} == {None, "1", "2"}
        # What is done is its summary when the next step begins.
        assert "name='ls'" not in str(bench.models.requests[3].messages)
        assert "an empty folder" in str(bench.models.requests[3].messages)
        one_turn(bench)


async def test_a_question_is_not_forced_into_a_plan(tmp_path: Path) -> None:
    async with daemon(tmp_path, plan(), "It is 4.") as bench:
        session = planned(bench, "layered")
        assert (await session.prompt("What is 2 + 2?")).stop == "end_turn"
        assert not session.state.plan.goals
        assert session.state.messages[-1].text() == "It is 4."
        one_turn(bench)


async def test_nested_steps_run_in_order_and_complete_their_parent(tmp_path: Path) -> None:
    steps: list[Step] = [plan({"goal": "A", "steps": ["one", "two"]}, "B")]
    for text in ("one", "two", "B"):
        steps += [[done(f"did {text}")], f"{text}."]
    async with daemon(tmp_path, *steps) as bench:
        session = planned(bench, "layered")
        assert (await session.prompt("go")).stop == "end_turn"
        assert notes(session)[1:] == ["Work on goal 1.1 one", "Work on goal 1.2 two", "Work on goal 2 B"]
        assert tree(session) == ["x 1 A", "x 1.1 one", "x 1.2 two", "x 2 B"]


async def test_failed_step_is_replanned_and_done_steps_are_kept(tmp_path: Path) -> None:
    steps: list[Step] = [
        plan("A", "B", "C"),
        [done("A is there")],
        "A.",
        [Call("ls", {"path": "."}), abandon("B needs a license")],
        "B cannot be.",
        plan("B in another way", "C"),
        [done("B2")],
        "B.",
        [done("C is there")],
        "All done.",
    ]
    async with daemon(tmp_path, *steps) as bench:
        session = planned(bench, "layered")
        assert (await session.prompt("go")).stop == "end_turn"
        assert tree(session) == ["x 1 A", "x 2 B in another way", "x 3 C"]
        assert session.state.plan.goals["3"].description == "C", "the goal that was kept is the same one"
        asked = [note for note in notes(session) if "B needs a license" in note]
        assert asked == ['The goal "B" was abandoned: B needs a license.']
        assert bench.models.left == 0
        one_turn(bench)


@pytest.mark.usefixtures("chinese")
async def test_replan_note_is_english_for_model_and_localized_for_user(
    tmp_path: Path,
) -> None:
    steps: list[Step] = [plan("A"), "I am not sure.", "Still not.", "No plan.", "Still none."]
    async with daemon(tmp_path, *steps) as bench:
        session = planned(bench, "layered")
        result = await session.prompt("go")
        assert 'The goal "A" was not reached: the work on it ended too early.' in notes(session)
        assert result.detail == (
            "目标“A”没有达成: 它仍未结束时，对它的工作就结束了。 没有制定新计划: 模型的回答不能用作计划。"
        )


async def test_step_left_open_gets_one_reminder_and_then_fails(tmp_path: Path) -> None:
    steps: list[Step] = [plan("A"), "I am not sure.", "Still not.", plan("A again"), [done()], "Now."]
    async with daemon(tmp_path, *steps) as bench:
        session = planned(bench, "layered")
        assert (await session.prompt("go")).stop == "end_turn"
        assert tree(session) == ["x 1 A again"]
        assert session.state.plan.goals["1"].status == "abandoned"
        told = notes(session)
        assert told[1] == "Work on goal 1 A"
        assert told[2].startswith("Goal 1 A is still open.")
        assert "was not reached" in told[3]
        one_turn(bench)


async def test_reminder_suffices_for_a_step_left_open_by_mistake(tmp_path: Path) -> None:
    steps: list[Step] = [plan("A", "B"), "A is done.", [done()], "Yes.", [done()], "B too."]
    async with daemon(tmp_path, *steps) as bench:
        session = planned(bench, "layered")
        assert (await session.prompt("go")).stop == "end_turn"
        assert tree(session) == ["x 1 A", "x 2 B"]


async def test_step_that_asks_the_user_ends_the_turn(tmp_path: Path) -> None:
    async with daemon(tmp_path, plan("A", "B"), "Which of the two?", "**Red or blue?**") as bench:
        session = planned(bench, "layered")
        assert (await session.prompt("go")).stop == "end_turn"
        assert tree(session) == ["> 1 A", "  2 B"]
        one_turn(bench)


async def test_failed_step_without_replanning_ends_the_turn(tmp_path: Path) -> None:
    steps: list[Step] = [plan("A", "B"), [Call("ls", {"path": "."}), abandon("no license")], "A cannot be."]
    async with daemon(tmp_path, *steps) as bench:
        session = planned(bench, "layered", allow_replan=False)
        result = await session.prompt("go")
        assert result.stop == "error"
        assert result.detail == (
            'The goal "A" was abandoned: no license. The plan ends here because replanning is off (setting '
            "allow_replan). Open goals stay in the plan."
        )
        assert tree(session) == ["  1 B"]
        assert bench.models.left == 0
        # A plan that the user asks for is made all the same.
        bench.models.then(plan("B", "C"))
        assert (await replan(session)).stop == "end_turn"
        assert tree(session) == ["  1 B", "  2 C"]


async def test_on_demand_without_replanning_reports_the_error(tmp_path: Path) -> None:
    async with daemon(tmp_path, Fail(message="The model broke.")) as bench:
        session = planned(bench, "on_demand", allow_replan=False)
        result = await session.prompt("go")
        assert (result.stop, result.detail) == ("error", "The model broke.")


async def test_model_error_in_a_step_causes_a_replan(tmp_path: Path) -> None:
    steps: list[Step] = [plan("A", "B"), Fail(message="The model broke."), plan("A", "B")]
    steps += [[done()], "A.", [done()], "B."]
    async with daemon(tmp_path, *steps) as bench:
        session = planned(bench, "layered")
        assert (await session.prompt("go")).stop == "end_turn"
        assert tree(session) == ["x 1 A", "x 2 B"]
        assert any("The model broke." in note for note in notes(session))
        one_turn(bench)


async def test_model_failure_ends_the_turn_with_its_error(tmp_path: Path) -> None:
    async with daemon(tmp_path, plan("A"), Fail(message="No network."), Fail(message="Still none.")) as bench:
        session = planned(bench, "layered")
        result = await session.prompt("go")
        assert result.stop == "error"
        assert "No network." in result.detail
        assert "Still none." in result.detail
        assert tree(session) == ["> 1 A"]


async def test_turn_ends_with_an_error_after_three_replans(tmp_path: Path) -> None:
    steps: list[Step] = [plan("A", "Z")]
    for number in range(MAX_REPLANS):
        steps += [[abandon(f"blocked {number}")], "It failed.", plan(f"A{number}", "Z")]
    steps += [[abandon("no more")], "It failed."]
    async with daemon(tmp_path, *steps) as bench:
        session = planned(bench, "layered")
        result = await session.prompt("go")
        assert result.stop == "error"
        assert "3 times" in result.detail
        assert "no more" in result.detail
        assert tree(session) == ["  1 Z"]
        assert bench.models.left == 0
        one_turn(bench)


async def test_empty_new_plan_asks_the_model_for_a_closing_report(tmp_path: Path) -> None:
    steps: list[Step] = [plan("A", "B"), [abandon("forbidden")], "No.", plan(), "A is forbidden, so is B."]
    async with daemon(tmp_path, *steps) as bench:
        session = planned(bench, "layered")
        assert (await session.prompt("go")).stop == "end_turn"
        assert tree(session) == []
        assert notes(session)[-1].startswith("No steps are left.")


async def test_step_replaced_by_the_model_is_no_failure(tmp_path: Path) -> None:
    way = Call("goal", {"abandon": "A is slow", "add": "A2"})
    async with daemon(tmp_path, plan("A", "B"), [way], [done()], "A2.", [done()], "B.") as bench:
        session = planned(bench, "layered")
        assert (await session.prompt("go")).stop == "end_turn"
        assert tree(session) == ["x 1 A2", "x 2 B"]
        assert not any("abandoned" in note for note in notes(session))


async def test_a_goal_that_is_broken_down_is_worked_on_part_by_part(tmp_path: Path) -> None:
    parts = Call("goal", {"add": ["one", "two"]})
    async with daemon(tmp_path, plan("A"), [parts], "Split.", [done()], "1.", [done()], "2.") as bench:
        session = planned(bench, "layered")
        assert (await session.prompt("go")).stop == "end_turn"
        assert tree(session) == ["x 1 A", "x 1.1 one", "x 1.2 two"]


async def test_step_abandoned_by_the_user_is_no_failure(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, plan("A", "B"), [hold, "A?"], [done()], "B.") as bench:
        session = planned(bench, "layered")
        turn = prompted(session, "go")
        await hold.reached.wait()
        from daemon.loop.user_plan import UserPlan

        await UserPlan(session, "me").abandon("1", "I do not want it")
        hold.go.set()
        assert (await finish(turn)).stop == "end_turn"
        assert tree(session) == ["x 1 B"]


async def test_new_plan_covers_what_is_left_of_open_goals(tmp_path: Path) -> None:
    steps: list[Step] = [[Call("goal", {"add": ["Old", "Other"]})], "Planned."]
    steps += [plan({"keep": "1"}, "New"), [done()], "Old.", [done()], "New."]
    async with daemon(tmp_path, *steps) as bench:
        session = bench.session(settings=ALLOW_ALL)
        await session.prompt("plan")
        assert (await session.prompt("do the old one", planner="layered")).stop == "end_turn"
        assert tree(session) == ["x 1 Old", "  2 Other", "x 3 New"]
        check_requests(bench)


@pytest.mark.parametrize(
    "answer", ["Sure!", '{"steps": [{"goal": ', plan(*(f"Step no {n}" for n in range(20)))]
)
async def test_invalid_plan_is_requested_once_more(tmp_path: Path, answer: str) -> None:
    async with daemon(tmp_path, answer, plan("A"), [done()], "A.") as bench:
        session = planned(bench, "layered")
        assert (await session.prompt("go")).stop == "end_turn"
        assert tree(session) == ["x 1 A"]
        assert notes(session)[1].startswith("That plan cannot be used.")
        one_turn(bench)


@pytest.mark.parametrize("mode", ["layered", "signposts"])
async def test_two_invalid_plans_continue_the_turn_without_a_plan(tmp_path: Path, mode: str) -> None:
    async with daemon(tmp_path, "Sure!", "Yes!", "Done.") as bench:
        session = planned(bench, mode)
        assert (await session.prompt("go")).stop == "end_turn"
        (notice,) = [n for n in bench.events(Notice) if n.code == "plan_not_made"]
        assert notice.level == "warning"
        assert not session.state.plan.goals
        one_turn(bench)


async def test_calls_in_a_planning_answer_are_refused(tmp_path: Path) -> None:
    write = Call("write", {"file_path": "a.txt", "content": "x"})
    async with daemon(tmp_path, [write], [plan("A"), write], [done()], "A.") as bench:
        session = planned(bench, "layered")
        assert (await session.prompt("go")).stop == "end_turn"
        assert not (bench.workspace / "a.txt").exists()
        results = [r for m in session.state.messages if (r := m.tool_result()) and r.name == "write"]
        assert [r.metadata for r in results] == [{"not_run": True}] * 2
        assert tree(session) == ["x 1 A"]
        one_turn(bench)


async def test_goal_call_is_accepted_as_the_plan(tmp_path: Path) -> None:
    async with daemon(tmp_path, [Call("goal", {"add": ["A", "B"]})], [done()], "A.", [done()], "B.") as bench:
        session = planned(bench, "layered")
        assert (await session.prompt("go")).stop == "end_turn"
        assert tree(session) == ["x 1 A", "x 2 B"]
        one_turn(bench)


async def test_cancel_in_the_planning_call(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, ["{", hold, "}"], "Hello again.") as bench:
        session = planned(bench, "layered")
        turn = prompted(session, "go")
        await hold.reached.wait()
        assert session.cancel()
        assert (await finish(turn)).stop == "canceled"
        assert not session.state.plan.goals
        assert (await session.prompt("hi", planner="in_loop")).stop == "end_turn"
        check_requests(bench)


async def test_cancel_within_a_step_and_going_on(tmp_path: Path) -> None:
    hold = Hold()
    steps: list[Step] = [plan("A", "B"), [done()], "A.", ["x", hold], plan({"keep": "2"}), [done()], "B."]
    async with daemon(tmp_path, *steps) as bench:
        session = planned(bench, "layered")
        turn = prompted(session, "go")
        await hold.reached.wait()
        session.cancel()
        assert (await finish(turn)).stop == "canceled"
        assert tree(session) == ["x 1 A", "> 2 B"]
        assert (await session.prompt("go on")).stop == "end_turn"
        assert tree(session) == ["x 1 A", "x 2 B"]
        check_requests(bench)


async def test_rejection_in_a_step_ends_the_turn(tmp_path: Path) -> None:
    write = Call("write", {"file_path": "a.txt", "content": "x"})
    async with daemon(tmp_path, plan("A", "B"), [write]) as bench:
        session = bench.session(settings={"planner": "layered"})
        turn = prompted(session, "go")
        await bench.answer("reject")
        assert (await finish(turn)).stop == "permission_denied"
        assert tree(session) == ["> 1 A", "  2 B"]


async def test_the_budget_is_asked_before_the_plan_and_between_steps(tmp_path: Path) -> None:
    steps: list[Step] = [plan("A", "B"), [done()], "A.", [done()], "B."]
    async with daemon(tmp_path, *steps) as bench:
        session = planned(bench, "layered", budget_usd=0.03)
        turn = prompted(session, "go")
        (request,) = await bench.asked()
        assert request.permission == "budget"
        assert tree(session) == ["x 1 A", "> 2 B"]
        await bench.answer("reject")
        result = await finish(turn)
        assert (result.stop, bench.models.left) == ("permission_denied", 2)


async def test_steering_prompt_reaches_the_model_within_a_step(tmp_path: Path) -> None:
    hold = Hold()
    steps: list[Step] = [plan("A"), [hold, Call("ls", {"path": "."})], [done()], "A."]
    async with daemon(tmp_path, *steps) as bench:
        session = planned(bench, "layered")
        turn = prompted(session, "go")
        await hold.reached.wait()
        steered = prompted(session, "mind the gap", when_busy="steer")
        await until(lambda: bool(session.queued()))
        hold.go.set()
        assert (await finish(turn)).stop == "end_turn"
        assert (await finish(steered)).stop == "end_turn"
        assert "mind the gap" in str(bench.models.requests[2].messages[-1])
        one_turn(bench)


async def test_loop_in_a_step_triggers_loop_detection(tmp_path: Path) -> None:
    same = Call("ls", {"path": "."})
    async with daemon(tmp_path, plan("A"), same, same, same) as bench:
        session = bench.session(settings={"planner": "layered"})
        turn = prompted(session, "go")
        assert (await bench.asked())[0].permission == "doom_loop"
        await bench.answer("reject")
        assert (await finish(turn)).stop == "permission_denied"


async def test_the_plan_agent_and_children_do_not_carry_steps_out(tmp_path: Path) -> None:
    async with daemon(tmp_path, "I only look.") as bench:
        session = bench.session(agent="plan", settings={"planner": "layered"})
        assert (await session.prompt("go")).stop == "end_turn"
        assert notes(session) == []


# -- signposts --


async def test_signposts_are_goals_and_the_model_may_deviate(tmp_path: Path) -> None:
    other = Call("goal", {"abandon": "not needed", "add": "Something else"})
    focus = Call("goal", {"focus": "1"})
    steps: list[Step] = [
        plan("A", "B", "C"),
        [focus, Call("ls", {"path": "."})],
        [other],
        "I went elsewhere.",
    ]
    async with daemon(tmp_path, *steps) as bench:
        session = planned(bench, "signposts")
        assert (await session.prompt("go")).stop == "end_turn"
        assert tree(session) == ["> 1 Something else", "  2 B", "  3 C"]
        assert bench.models.left == 0
        one_turn(bench)


@pytest.mark.parametrize("mode", ["layered", "signposts"])
async def test_plan_request_preserves_the_cached_prefix(tmp_path: Path, mode: str) -> None:
    look = Call("ls", {"path": "."})
    async with daemon(tmp_path, "Hello.", "No plan.", plan("A"), [look], "Stuck?", "Stuck?") as bench:
        session = planned(bench, mode)
        await session.prompt("hi", planner="in_loop")
        await session.prompt("go")
        asked = [request.messages for request in bench.models.requests]
        assert len(asked) >= 5
        for before, after in itertools.pairwise(asked):
            assert after[: len(before)] == before


async def test_too_many_milestones_are_requested_once_more(tmp_path: Path) -> None:
    many = plan(*(f"Step no {n}" for n in range(6)))
    async with daemon(tmp_path, many, plan("A", "B", "C"), "Done.") as bench:
        session = planned(bench, "signposts")
        assert (await session.prompt("go")).stop == "end_turn"
        assert "at most 5" in notes(session)[1]
        assert len(session.state.plan.goals) == 3


# -- on_demand --


async def test_on_demand_adds_no_notes_while_the_loop_succeeds(tmp_path: Path) -> None:
    async with daemon(tmp_path, [Call("ls", {"path": "."})], "Done.") as bench:
        session = planned(bench, "on_demand")
        assert (await session.prompt("go")).stop == "end_turn"
        assert notes(session) == []


async def test_on_demand_replans_after_an_error(tmp_path: Path) -> None:
    async with daemon(
        tmp_path, Fail(message="Broken."), plan("A"), [Call("goal", {"focus": "1"})], "Ok."
    ) as bench:
        session = planned(bench, "on_demand")
        assert (await session.prompt("go")).stop == "end_turn"
        assert tree(session) == ["> 1 A"]
        assert notes(session) == [
            "The work stopped with an error: Broken.",
            "Continue the work by the current plan.",
        ]
        one_turn(bench)


async def test_on_demand_reports_the_first_error_if_planning_fails_too(tmp_path: Path) -> None:
    async with daemon(tmp_path, Fail(message="Broken."), Fail(message="Broken again.")) as bench:
        session = planned(bench, "on_demand")
        result = await session.prompt("go")
        assert result.stop == "error"
        assert result.detail.startswith("Broken. ")


async def test_on_demand_new_plans_are_bounded(tmp_path: Path) -> None:
    steps: list[Step] = []
    for number in range(MAX_REPLANS):
        steps += [Fail(message=f"Broken {number}."), plan(f"A{number}")]
    async with daemon(tmp_path, *steps, Fail(message="Broken for good.")) as bench:
        session = planned(bench, "on_demand")
        result = await session.prompt("go")
        assert (result.stop, result.detail, bench.models.left) == ("error", "Broken for good.", 0)


async def test_on_demand_replans_after_a_command_fails_three_times(tmp_path: Path) -> None:
    steps: list[Step] = []
    for number in range(3):
        steps += [Call("bash", {"command": "exit 3", "description": f"try {number}"})]
        steps += [Call("write", {"file_path": f"{number}.txt", "content": "x"})]
    steps[-1:] = [plan("Find out why"), "I think."]
    async with daemon(tmp_path, *steps) as bench:
        session = planned(bench, "on_demand", sandbox="off")
        assert (await session.prompt("go")).stop == "end_turn"
        assert notes(session)[0].startswith("The same command failed 3 times")
        assert notes(session)[0].endswith("exit 3")
        assert tree(session) == ["  1 Find out why"]
        one_turn(bench)


async def test_on_demand_loop_replans_first_and_then_asks(tmp_path: Path) -> None:
    same = Call("ls", {"path": "."})
    async with daemon(tmp_path, same, same, same, plan("Another way"), same, same, same) as bench:
        session = bench.session(settings={"planner": "on_demand"})
        turn = prompted(session, "go")
        (request,) = await bench.asked()
        assert request.permission == "doom_loop"
        assert "without progress" in notes(session)[0]
        results = [r for m in session.state.messages if (r := m.tool_result())]
        assert [r.metadata.get("not_run", False) for r in results] == [False, False, True, False, False]
        await bench.answer("reject")
        assert (await finish(turn)).stop == "permission_denied"
        one_turn(bench)


async def test_invalid_replan_lets_the_work_continue(tmp_path: Path) -> None:
    same = Call("ls", {"path": "."})
    async with daemon(tmp_path, same, same, same, "No.", "No!", "Done otherwise.") as bench:
        session = planned(bench, "on_demand")
        assert (await session.prompt("go")).stop == "end_turn"
        assert [n.code for n in bench.events(Notice)] == ["plan_not_made"]


# -- the record --


async def test_planned_steps_are_goals_of_the_model_the_user_can_edit(
    tmp_path: Path,
) -> None:
    from daemon.loop.user_plan import UserPlan

    async with daemon(tmp_path, plan("A", "B"), "…", "…", plan("A"), [done()], "A.") as bench:
        session = planned(bench, "layered")
        await session.prompt("go")
        assert [e.goal.description for e in bench.events(GoalAdded)] == ["A", "B"]
        assert {e.by for e in (*bench.events(GoalAdded), *bench.events(GoalUpdated))} == {""}
        UserPlan(session, "me").add("C")
        assert tree(session) == ["x 1 A", "  2 C"]
        window = session.request_builder.window()
        check_openai({"messages": openai_wire.to_messages(ModelRequest("m", (), window.messages))})


async def test_turn_stopped_by_budget_before_planning_plans_on_restart(tmp_path: Path) -> None:
    layered = {"planner": "layered", "budget_usd": 0.01, **ALLOW_ALL}
    async with daemon(tmp_path, "Hello.", command_line=layered) as bench:
        session = bench.session()
        await session.prompt("hi", planner="in_loop")
        turn = prompted(session, "go")
        assert (await bench.asked())[0].permission == "budget"
    assert (await finish(turn)).stop == "canceled"
    async with daemon(tmp_path, plan("A"), [done()], "A.", command_line=layered) as bench:
        session = await bench.opened(session.session_id)
        session.policy.use(default_model="fake/model")
        assert session.resume()
        await bench.answer("always")
        await until(lambda: not session.running, within_s=20)
        assert tree(session) == ["x 1 A"]


async def test_turn_stopped_at_a_request_resumes_its_step_on_restart(tmp_path: Path) -> None:
    write = Call("write", {"file_path": "a.txt", "content": "x\n"})
    async with daemon(tmp_path, plan("A", "B"), [write]) as bench:
        session = bench.session(settings={"planner": "layered"})
        turn = prompted(session, "go")
        await bench.asked()
    assert (await finish(turn)).stop == "canceled"
    async with daemon(tmp_path, [done()], "A.", [done()], "B.") as bench:
        session = await bench.opened(session.session_id)
        session.policy.use(default_model="fake/model")
        assert session.resume()
        await bench.answer("once")
        await until(lambda: not session.running, within_s=20)
        assert (bench.workspace / "a.txt").read_text() == "x\n"
        assert tree(session) == ["x 1 A", "x 2 B"]
        assert bench.models.left == 0
        check_requests(bench)
