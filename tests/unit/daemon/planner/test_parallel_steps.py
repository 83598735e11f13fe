"""Plans with dependencies: whole turns in which sub-agents do independent steps at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from daemon.loop.session import Session
from daemon.loop.undo import Restorer
from daemon.loop.user_plan import UserPlan
from daemon.model.events import GoalUpdated, SubagentCompleted
from daemon.plan.tree import PlanError
from daemon.planner.driver import replan
from tests.support.drivers.core import ALLOW_ALL, Bench, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import USAGE, Call, Fail, Hold, Step
from tests.support.scenarios.plans import abandon, check_wire, done, notes, plan, step, tree
from tests.support.scenarios.subagents import results, subagents, with_subagents

LAYERED = {"planner": "layered", **ALLOW_ALL}
BOTH = [step("a", "Front", parallel=True), step("b", "Back", parallel=True)]


def write(name: str) -> list[Call]:
    return [Call("write", {"file_path": name, "content": f"{name}\n"})]


async def run(
    folder: Path, main: Iterable[Step], agents: Mapping[str, Iterable[Step]], **settings: Any
) -> tuple[Session, str, str]:
    async with with_subagents(folder, main, agents, command_line={**LAYERED, **settings}) as (bench, _):
        session = bench.session()
        result = await session.prompt("Build the shop")
        assert bench.models.left == 0
        check_wire(bench)
        return session, result.stop, result.detail


async def test_independent_steps_run_in_parallel_before_dependent_ones(
    tmp_path: Path,
) -> None:
    """Both sub-agents are at work before one of them ends, and the step that needs both sees what came of them."""
    front, back = Hold(), Hold()
    main = [
        plan(step("p", "Prepare"), *[dict(one, needs=["p"]) for one in BOTH], step("c", "Join", "a", "b")),
        [done("the folder is there")],
        "Prepared.",
        [*write("joined"), done("joined")],
        "All is built.",
    ]
    agents: dict[str, list[Step]] = {
        "s1": [[front, *write("front")], "front is on port 80"],
        "s2": [[back, *write("back")], "back is on port 81"],
    }
    async with with_subagents(tmp_path, main, agents, command_line=LAYERED) as (bench, models):
        session = bench.session()
        turn = prompted(session, "Build the shop")
        await front.reached.wait()
        await back.reached.wait()
        assert tree(session) == ["x 1 Prepare", "> 2 Front", "> 3 Back", "  4 Join"]
        back.go.set()
        front.go.set()
        assert (await finish(turn)).stop == "end_turn"
        assert tree(session) == ["x 1 Prepare", "x 2 Front", "x 3 Back", "x 4 Join"]
        goals = session.state.plan.goals
        assert (goals["2"].summary, goals["3"].summary) == ("front is on port 80", "back is on port 81")
        assert (goals["4"].needs, goals["2"].needs, goals["1"].needs) == (["2", "3"], ["1"], [])
        assert notes(session)[1:] == [
            "Work on goal 1 Prepare",
            "Sub-agents work on goals 2, 3 at the same time, as the plan says. Their answers become the "
            "summaries of these goals. Goals that need them come later.",
            "Work on goal 4 Join",
        ]
        # A sub-agent knows what it must: its step, the request, what came before, and what others do.
        prompt = next(iter(subagents(session).values())).prompt
        for words in ("Front", "Build the shop", "Prepare: the folder is there", "leave it to them\n- Back"):
            assert words in prompt
        titles = [result.title for result in results(session) if result.name == "task"]
        assert titles == ["general: Front", "general: Back"]
        assert bench.core.store.trace(f"{session.session_id}:s1").title == "Front"
        # What needs them is asked for when their results are there.
        last = models.requests[-2]
        assert "front is on port 80" in str(last.messages)
        assert "back is on port 81" in str(last.messages)
        # What they took and changed is their goal's.
        assert goals["2"].cumulative_stats.total_tokens == 2 * USAGE.total
        changes = {c.change_id: c for c in (await Restorer(session).overview()).changes}
        by_goal = {m.tool_call_id: m.goal_id for m in session.state.messages if m.role == "tool"}
        assert sorted(str(by_goal[change]) for change in changes) == ["2", "3", "4"]
        check_wire(bench)


async def test_plan_without_needs_runs_in_order_without_sub_agents(tmp_path: Path) -> None:
    main = [plan("Front", "Back"), [done()], "Front.", [done()], "Back."]
    session, stop, _ = await run(tmp_path, main, {})
    assert (stop, subagents(session)) == ("end_turn", {})


async def test_single_parallel_step_needs_no_sub_agent(tmp_path: Path) -> None:
    main = [plan("Front", {"goal": "Back", "parallel": True}, "Join")]
    for name in ("Front", "Back", "Join"):
        main += [[done()], name]  # type: ignore[list-item]  # steps
    session, stop, _ = await run(tmp_path, main, {})
    assert (stop, subagents(session)) == ("end_turn", {})


async def test_without_sub_agents_parallel_steps_run_in_sequence(tmp_path: Path) -> None:
    main = [plan(*BOTH), [done()], "Front.", [done()], "Back."]
    session, stop, _ = await run(tmp_path, main, {}, max_depth=0)
    assert (stop, tree(session)) == ("end_turn", ["x 1 Front", "x 2 Back"])
    assert '"parallel"' not in str(session.state.messages[1].content)


async def test_closing_report_follows_last_steps_of_sub_agents(tmp_path: Path) -> None:
    main = [plan(*BOTH), "The shop is there."]
    session, stop, _ = await run(tmp_path, main, {"s1": ["F."], "s2": ["B."]})
    assert (stop, session.state.messages[-1].text()) == ("end_turn", "The shop is there.")
    assert notes(session)[-1].startswith("No steps are left.")


async def test_a_failed_step_stops_only_what_needs_it(tmp_path: Path) -> None:
    """Paint needs only Back, so it is done before the new plan for Front and Join, which cannot go on."""
    main = [
        plan(*BOTH, step("c", "Join", "a", "b"), step("d", "Paint", "b")),
        [done("painted")],
        "Painted.",
        plan({"goal": "Front by hand"}, {"keep": "3"}),
        [done("by hand")],
        "Front.",
        [done("joined")],
        "All is there.",
    ]
    session, stop, _ = await run(tmp_path, main, {"s1": [Fail(message="It broke.")], "s2": ["B."]})
    assert stop == "end_turn"
    assert tree(session) == ["x 1 Back", "x 2 Front by hand", "x 3 Join", "x 4 Paint"]
    asked = [note for note in notes(session) if "was not reached" in note]
    assert len(asked) == 1
    assert asked[0].startswith(
        'The goal "Front" was not reached: The sub-agent s1 (general) did not finish: It broke.'
    )


async def test_failed_step_in_the_main_session_blocks_only_dependents(tmp_path: Path) -> None:
    main = [
        plan(step("a", "Look"), step("b", "Ask"), step("c", "Use", "a")),
        [Call("ls", {"path": "."}), abandon("nothing to see")],
        "No.",
        [done("asked")],
        "Asked.",
        plan(),
        "I could not look.",
    ]
    session, stop, _ = await run(tmp_path, main, {})
    assert stop == "end_turn"
    assert tree(session) == ["x 1 Ask"]


async def test_without_replanning_independent_steps_still_finish(tmp_path: Path) -> None:
    main = [plan(*BOTH, step("c", "Join", "a", "b"), step("d", "Paint", "b")), [done("painted")], "Painted."]
    agents = {"s1": [Fail(message="It broke.")], "s2": ["B."]}
    session, stop, detail = await run(tmp_path, main, agents, allow_replan=False)
    assert stop == "error"
    assert detail.endswith(
        "The plan ends here because replanning is off (setting allow_replan). Open goals stay in the plan."
    )
    assert tree(session) == ["> 1 Front", "x 2 Back", "  3 Join", "x 4 Paint"]


async def test_a_refusal_in_a_subagent_ends_the_turn(tmp_path: Path) -> None:
    agents: dict[str, list[Step]] = {"s1": [write("front")], "s2": ["B."]}
    settings = {"planner": "layered"}
    async with with_subagents(tmp_path, [plan(*BOTH, "Join")], agents, command_line=settings) as (bench, _):
        session = bench.session()
        turn = prompted(session, "go")
        await bench.answer("reject")
        result = await finish(turn)
        assert result.stop == "permission_denied"
        assert tree(session) == ["> 1 Front", "x 2 Back", "  3 Join"]


async def test_cancel_ends_all_parallel_steps_and_keeps_done_ones(tmp_path: Path) -> None:
    hold = Hold()
    agents: dict[str, list[Step]] = {"s1": [[hold, "F."]], "s2": ["B."]}
    async with with_subagents(tmp_path, [plan(*BOTH, "Join")], agents, command_line=LAYERED) as (bench, _):
        session = bench.session()
        turn = prompted(session, "go")
        while not any(e.subagent.status == "completed" for e in bench.events(SubagentCompleted)):
            await next_event(bench)
        session.cancel()
        assert (await finish(turn)).stop == "canceled"
        assert tree(session) == ["> 1 Front", "x 2 Back", "  3 Join"]
        assert [result.is_error for result in results(session)] == [True, False]


async def next_event(bench: Bench) -> None:
    heard = len(bench.heard)
    await until(lambda: len(bench.heard) > heard, "another event")


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([step("a", "A", "b"), step("b", "B", "a")], 'need each other in a circle: "A" needs "B" needs "A"'),
        ([step("a", "A", "a")], '"A" needs itself'),
        ([step("a", "A", "zz")], '"A" needs "zz", but no step has that id. Ids: a.'),
        ([step("a", "A"), step("a", "B")], 'Two steps have the id "a"'),
    ],
)
async def test_a_plan_that_cannot_be_is_asked_for_once_more(
    tmp_path: Path, steps: list[dict[str, Any]], words: str
) -> None:
    main = [plan(*steps), plan("A"), [done()], "A."]
    session, stop, _ = await run(tmp_path, main, {})
    assert (stop, tree(session)) == ("end_turn", ["x 1 A"])
    assert words in notes(session)[1]


async def test_sub_agents_blocked_by_the_budget_start_after_a_restart(
    tmp_path: Path,
) -> None:
    settings = {**LAYERED, "budget_usd": 0.01}
    async with with_subagents(tmp_path, [plan(*BOTH)], {}, command_line=settings) as (bench, _):
        session = bench.session()
        turn = prompted(session, "go")
        assert (await bench.asked())[0].permission == "budget"
    assert (await finish(turn)).stop == "canceled"
    agents: dict[str, list[Step]] = {"s1": ["F."], "s2": ["B."]}
    async with with_subagents(tmp_path, ["All done."], agents, command_line=settings) as (bench, _):
        session = await bench.opened(session.session_id)
        session.policy.use(default_model="fake/model")
        assert session.resume()
        await bench.answer("always")
        await until(lambda: not session.running, within_s=20)
        assert tree(session) == ["x 1 Front", "x 2 Back"]
        assert session.state.messages[-1].text() == "All done."


async def test_replan_request_waits_until_sub_agents_have_ended(tmp_path: Path) -> None:
    hold = Hold()
    agents: dict[str, list[Step]] = {"s1": [[hold, "F."]], "s2": ["B."]}
    main = [plan(*BOTH, "Join"), plan("Sell"), [done()], "Sold."]
    async with with_subagents(tmp_path, main, agents, command_line=LAYERED) as (bench, _):
        session = bench.session()
        turn = prompted(session, "go")
        await hold.reached.wait()
        replan_request = asyncio.create_task(replan(session, "sell it"))
        await until(lambda: session.turn.replan_request is not None)
        hold.go.set()
        assert (await finish(turn)).stop == "end_turn"
        assert (await replan_request).stop == "end_turn"
        assert tree(session) == ["x 1 Front", "x 2 Back", "x 3 Sell"]


async def test_a_question_before_a_subagent_starts_can_be_refused(tmp_path: Path) -> None:
    settings = {"planner": "layered", "permission": {"*": "allow", "task": "ask"}}
    async with with_subagents(tmp_path, [plan(*BOTH)], {}, command_line=settings) as (bench, _):
        session = bench.session()
        turn = prompted(session, "go")
        await bench.asked(2)
        await bench.answer("reject")
        assert (await finish(turn)).stop == "permission_denied"
        assert tree(session) == ["> 1 Front", "> 2 Back"]


# -- another order while the plan runs --


async def test_the_user_moves_a_step_forward_while_the_plan_runs(tmp_path: Path) -> None:
    hold = Hold()
    main = [plan("A", "B", "C", "D"), [hold, done()], "A.", [done()], "C.", [done()], "B.", [done()], "D."]
    async with with_subagents(tmp_path, main, {}, command_line=LAYERED) as (bench, _):
        session = bench.session()
        turn = prompted(session, "go")
        await hold.reached.wait()
        UserPlan(session, "me").move("3", None, "2")
        hold.go.set()
        assert (await finish(turn)).stop == "end_turn"
        assert [note for note in notes(session) if note.startswith("Work on")] == [
            "Work on goal 1 A",
            "Work on goal 2 C",
            "Work on goal 3 B",
            "Work on goal 4 D",
        ]
        assert tree(session) == ["x 1 A", "x 2 C", "x 3 B", "x 4 D"]
        check_wire(bench)


async def test_the_model_moves_a_step_forward_while_the_plan_runs(tmp_path: Path) -> None:
    main = [
        plan("A", "B", "C"),
        [Call("goal", {"goal": "g3", "before": "g2"}), done()],
        "C comes first now.",
        [done()],
        "C.",
        [done()],
        "B.",
    ]
    session, stop, _ = await run(tmp_path, main, {})
    assert (stop, tree(session)) == ("end_turn", ["x 1 A", "x 2 C", "x 3 B"])


async def test_move_that_violates_a_dependency_is_refused(tmp_path: Path) -> None:
    hold = Hold()
    why = "Goal 3 C depends on goal 2 B, which must come before it and not above or below it:"
    main = [
        plan(step("a", "A"), step("b", "B", "a"), step("c", "C", "b")),
        [hold, Call("goal", {"goal": "g3", "before": "g2"}), done()],
        "A.",
        [done()],
        "B.",
        [done()],
        "C.",
    ]
    async with with_subagents(tmp_path, main, {}, command_line=LAYERED) as (bench, _):
        session = bench.session()
        turn = prompted(session, "go")
        await hold.reached.wait()
        with pytest.raises(PlanError, match=why):
            UserPlan(session, "me").move("3", None, "2")
        with pytest.raises(PlanError, match="depends on goal 2 B"):
            UserPlan(session, "me").move("3", "2")
        hold.go.set()
        assert (await finish(turn)).stop == "end_turn"
        refused = results(session)[0]
        assert refused.is_error
        assert refused.content.startswith(why)
        assert "3. C  [needs g2]  (g3)" in refused.content
        assert tree(session) == ["x 1 A", "x 2 B", "x 3 C"]


async def test_steps_moved_while_sub_agents_run_are_done_once(tmp_path: Path) -> None:
    hold = Hold()
    main = [plan(*BOTH, step("c", "Join", "a"), step("d", "Tell")), [done()], "Told.", [done()], "Joined."]
    agents: dict[str, list[Step]] = {"s1": [[hold, "F."]], "s2": ["B."]}
    async with with_subagents(tmp_path, main, agents, command_line=LAYERED) as (bench, _):
        session = bench.session()
        turn = prompted(session, "go")
        await hold.reached.wait()
        mine = UserPlan(session, "me")
        mine.move("4", None, "1")
        mine.move("1", None, "3")
        hold.go.set()
        assert (await finish(turn)).stop == "end_turn"
        assert tree(session) == ["x 1 Tell", "x 2 Back", "x 3 Front", "x 4 Join"]
        assert len(subagents(session)) == 2
        ended = [e.goal_id for e in bench.events(GoalUpdated) if e.updates.get("status") == "completed"]
        assert sorted(ended) == ["1", "2", "3", "4"]


async def test_step_ended_by_the_user_during_its_sub_agent_stays_ended(
    tmp_path: Path,
) -> None:
    hold = Hold()
    agents: dict[str, list[Step]] = {"s1": [[hold, "F."]], "s2": ["B."]}
    main = [plan(*BOTH, "Join"), [done()], "Joined."]
    async with with_subagents(tmp_path, main, agents, command_line=LAYERED) as (bench, _):
        session = bench.session()
        turn = prompted(session, "go")
        await hold.reached.wait()
        UserPlan(session, "me").done("1", "I did it myself")
        hold.go.set()
        assert (await finish(turn)).stop == "end_turn"
        assert session.state.plan.goals["1"].summary == "I did it myself"
        check_wire(bench)
