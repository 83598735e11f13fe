"""Sub-agents: what they are given, what they may do, what comes back, and how they end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from daemon.loop.session import ReadOnlySessionError, Session
from daemon.model.events import FileChanged, PermissionAsked, SubagentCompleted, SubagentStarted, ToolStarted
from daemon.model.messages import SubtaskPart, TextPart
from daemon.store.replay import replayed
from tests.support.drivers.core import ALLOW_ALL, Bench, check_record, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Fail, Hold
from tests.support.scenarios.subagents import results, subagents, task, with_subagents

WRITE = Call("write", {"file_path": "a.txt", "content": "by a sub-agent\n"})


def child_of(bench: Bench, session: Session, name: str = "s1") -> Session:
    child = bench.core.live(f"{session.session_id}:{name}")
    assert child is not None
    return child


async def test_task_runs_in_its_own_session_and_returns_its_last_text(tmp_path: Path) -> None:
    main = ["Let me ask.", task("Find the entry point.", "explore")], "It is main.py."
    async with with_subagents(tmp_path, main, {"s1": [["I look.", Call("ls", {})], "main.py:1 is it."]}) as (
        bench,
        models,
    ):
        (bench.workspace / "main.py").write_text("print(1)\n")
        session = bench.session()
        assert (await session.prompt("Where does it start?")).stop == "end_turn"
        (result,) = results(session)
        assert (result.content, result.is_error) == ("main.py:1 is it.", False)
        assert result.title == "explore: Find the entry point."
        child_id = f"{session.session_id}:s1"
        meta = result.metadata
        assert (meta["subagent_id"], meta["agent"], meta["session_id"]) == ("s1", "explore", child_id)
        assert (meta["steps"], meta["stop_reason"], meta["cost"]) == (2, "end_turn", pytest.approx(0.02))
        assert meta["tokens"] == 2 * 1160
        started, ended = bench.events(SubagentStarted), bench.events(SubagentCompleted)
        assert [(e.trace_id, e.subagent.status) for e in (*started, *ended)] == [
            (session.session_id, "running"),
            (session.session_id, "completed"),
        ]
        assert ended[0].subagent.summary == "main.py:1 is it."
        assert ended[0].subagent.tool_call_id == result.tool_call_id
        # Its whole session is stored below its parent's, and can be read.
        check_record(bench.core.store, child_id)
        record = await bench.opened(child_id)
        first = record.state.messages[0]
        assert first.content == (SubtaskPart(agent="explore", prompt="Find the entry point."),)
        assert record.state.plan.mission == "Find the entry point."
        with pytest.raises(ReadOnlySessionError):
            await record.prompt("more")
        # What it took is in the totals once, now and after a restart.
        assert session.state.trace.total_cost == pytest.approx(0.04)
        assert replayed(bench.core.store, session.session_id).trace.total_cost == pytest.approx(0.04)
        (request, _) = models.seen_by("s1")
        assert request.messages[0].content == (TextPart(text="Find the entry point."),)
        assert "exploring sub-agent" in request.system[0].text
        assert (request.env["GOALWRIGHT_BRANCH"], request.env["GOALWRIGHT_AGENT"]) == ("s1", "explore")


async def test_explore_agent_has_read_only_tools(tmp_path: Path) -> None:
    main = [task("Change it.", "explore")], "Done."
    agents = {"s1": [[WRITE], [Call("bash", {"command": "touch b"})], [task("Do it.")], "I cannot."]}
    async with with_subagents(tmp_path, main, agents, command_line=ALLOW_ALL) as (bench, models):
        session = bench.session()
        await session.prompt("go")
        names = {tool.name for tool in models.seen_by("s1")[0].tools}
        assert names == {"read", "ls", "glob", "grep", "symbols", "diagnostics"}
        record = await bench.opened(f"{session.session_id}:s1")
        said = [result.content for result in results(record)]
        assert [text.split(".")[0] for text in said] == [
            "There is no tool named 'write'",
            "There is no tool named 'bash'",
            "There is no tool named 'task'",
        ]
        assert list(bench.workspace.glob("*.txt")) == []


async def test_sub_agent_asks_in_the_parent_inbox_and_shares_its_undo(
    tmp_path: Path,
) -> None:
    from daemon.loop.undo import Restorer

    async with with_subagents(tmp_path, ([task("Write it.")], "Done."), {"s1": [[WRITE], "Written."]}) as (
        bench,
        _,
    ):
        session = bench.session()
        turn = prompted(session, "go")
        (request,) = await bench.asked()
        assert (request.trace_id, request.branch_id) == (session.session_id, "s1")
        assert [event.trace_id for event in bench.events(PermissionAsked)] == [session.session_id]
        await bench.answer("once")
        assert (await finish(turn)).stop == "end_turn"
        assert (bench.workspace / "a.txt").read_text() == "by a sub-agent\n"
        (change,) = (await Restorer(session).overview()).changes
        assert change.change_id == results(session)[0].tool_call_id
        assert [event.trace_id for event in bench.events(FileChanged)] == [session.session_id]
        await Restorer(session).undo(by="test")
        assert not (bench.workspace / "a.txt").exists()


async def test_rejection_ends_the_sub_agent_and_the_parent_goes_on(tmp_path: Path) -> None:
    main = [task("Write it.")], "Then I shall not."
    async with with_subagents(tmp_path, main, {"s1": [[WRITE]]}) as (bench, _):
        session = bench.session()
        turn = prompted(session, "go")
        await bench.answer("reject")
        assert (await finish(turn)).stop == "end_turn"
        (result,) = results(session)
        assert result.is_error
        assert "s1 (general) did not finish: Rejected in test: Create a.txt" in result.content
        assert "Do not try it in another way:" in result.content
        assert subagents(session)["s1"].stop_reason == "permission_denied"
        assert not (bench.workspace / "a.txt").exists()


async def test_failed_sub_agent_reports_its_error_and_last_text(tmp_path: Path) -> None:
    agents = {"s1": [["I begin.", Call("ls", {})], [Fail("bad_request", "No such model.")]]}
    async with with_subagents(tmp_path, ([task("Look.")], "Well."), agents) as (bench, _):
        session = bench.session()
        assert (await session.prompt("go")).stop == "end_turn"
        (result,) = results(session)
        assert result.is_error
        assert "did not finish: No such model." in result.content
        assert result.content.endswith("Its last message:\nI begin.")


async def test_the_rules_of_a_read_only_parent_bind_its_subagents(tmp_path: Path) -> None:
    agents = {"s1": [[WRITE], "It is not possible."]}
    async with with_subagents(
        tmp_path, ([task("Write it.")], "Planned."), agents, command_line=ALLOW_ALL
    ) as (bench, models):
        session = bench.session(agent="plan")
        await session.prompt("go")
        assert not (bench.workspace / "a.txt").exists()
        assert "edit" not in {tool.name for tool in models.seen_by("s1")[0].tools}
        record = await bench.opened(f"{session.session_id}:s1")
        assert results(record)[0].content.startswith("Permission denied.")


async def test_sub_agent_nesting_stops_at_the_configured_depth(tmp_path: Path) -> None:
    agents = {
        "s1": [[task("Part.")], "Both done."],
        "s1.s1": [[task("Deeper.")], "Mine is done."],
    }
    async with with_subagents(
        tmp_path, ([task("All.")], "Done."), agents, command_line={"max_parallel": 1}
    ) as (bench, models):
        session = bench.session()
        async with asyncio.timeout(30):  # one place for all of them: nobody waits for who waits for him
            await session.prompt("go")
        assert results(session)[0].content == "Both done."
        offered = {name: {t.name for t in models.seen_by(name)[0].tools} for name in agents}
        assert "task" in offered["s1"]
        assert "task" not in offered["s1.s1"]
        assert not offered["s1"] & {"explore", "hand_over", "question"}
        inner = await bench.opened(f"{session.session_id}:s1.s1")
        assert "There is no tool named 'task'" in results(inner)[0].content
        assert session.state.trace.total_cost == pytest.approx(0.06)


async def test_task_tool_is_not_offered_at_depth_zero(tmp_path: Path) -> None:
    async with with_subagents(tmp_path, ["Alone."], {}, command_line={"max_depth": 0}) as (bench, models):
        await bench.session().prompt("go")
        assert "task" not in {tool.name for tool in models.requests[0].tools}


async def test_task_for_unsuitable_agent_is_refused_naming_the_others(
    tmp_path: Path,
) -> None:
    calls = [task("x", name) for name in ("reviewer", "build", "compaction", "../general", "*")]
    async with with_subagents(tmp_path, (calls, "Well."), {}) as (bench, _):
        session = bench.session()
        await session.prompt("go")
        said = [result.content for result in results(session)]
        assert all(text.endswith("Agents that take tasks: general, explore.") for text in said)
        assert said[0].startswith("There is no agent 'reviewer'.")
        assert said[1].startswith("build does not take tasks.")
        assert subagents(session) == {}


async def test_long_answer_is_saved_whole_in_a_file(tmp_path: Path) -> None:
    answer = "first\n" + "x" * 50_000 + "\nlast"
    async with with_subagents(tmp_path, ([task("Tell all.")], "Fine."), {"s1": [answer]}) as (bench, _):
        session = bench.session()
        await session.prompt("go")
        (result,) = results(session)
        assert len(result.content) < 31_000
        assert result.content.startswith("first")
        assert result.content.endswith("last")
        where = Path(result.metadata["output"])
        assert where.as_posix() in result.content
        assert where.read_text() == answer


async def test_canceling_the_parent_ends_the_whole_subtree(tmp_path: Path) -> None:
    hold = Hold()
    agents = {"s1": [[task("Part.")]], "s1.s1": [["So far.", hold]]}
    async with with_subagents(tmp_path, [[task("All.")]], agents) as (bench, _):
        session = bench.session()
        turn = prompted(session, "go")
        await hold.reached.wait()
        assert session.cancel()
        assert (await finish(turn)).stop == "canceled"
        assert bench.core.running == []
        assert all(bench.core.live(f"{session.session_id}:{name}") is None for name in agents)
        (result,) = results(session)
        assert result.metadata == {"canceled": True}
        assert (subagents(session)["s1"].status, subagents(session)["s1"].stop_reason) == (
            "failed",
            "canceled",
        )
        for name in ("s1", "s1.s1"):
            check_record(bench.core.store, f"{session.session_id}:{name}")


async def test_canceled_sub_agent_is_reported_and_the_parent_continues(tmp_path: Path) -> None:
    hold = Hold()
    async with with_subagents(tmp_path, ([task("All.")], "I do it myself."), {"s1": [["So far.", hold]]}) as (
        bench,
        _,
    ):
        session = bench.session()
        turn = prompted(session, "go")
        await hold.reached.wait()
        child = child_of(bench, session)
        with pytest.raises(ReadOnlySessionError):
            await child.prompt("and more")
        assert child.cancel()
        assert (await finish(turn)).stop == "end_turn"
        (result,) = results(session)
        assert "did not finish: the user canceled it." in result.content
        assert "So far." in result.content


async def test_tasks_run_in_parallel_and_answer_in_call_order(
    tmp_path: Path,
) -> None:
    holds = Hold(), Hold()
    calls = [task("One."), task("Two."), Call("ls", {}), task("Three.")]
    agents = {"s1": [[holds[0], "First."]], "s2": [[holds[1], "Second."]], "s3": ["Third."]}
    async with with_subagents(tmp_path, (calls, "Done."), agents) as (bench, _):
        session = bench.session()
        turn = prompted(session, "go")
        await asyncio.gather(*(hold.reached.wait() for hold in holds))
        holds[1].go.set()
        await until(lambda: subagents(session)["s2"].status == "completed")
        assert results(session) == []
        assert set(subagents(session)) == {"s1", "s2"}
        holds[0].go.set()
        assert (await finish(turn)).stop == "end_turn"
        assert [result.content for result in results(session)][::3] == ["First.", "Third."]
        assert [result.name for result in results(session)] == ["task", "task", "ls", "task"]
        assert results(session)[1].content == "Second."
        assert [event.name for event in bench.events(ToolStarted)] == ["task", "task", "ls", "task"]
        durations = [m.duration_ms for m in session.state.messages if m.role == "tool"]
        assert all(duration is not None for duration in durations)


async def test_parallel_sub_agents_are_limited_by_the_setting(tmp_path: Path) -> None:
    holds = [Hold() for _ in range(3)]
    agents = {f"s{n}": [[hold, "Done."]] for n, hold in enumerate(holds, 1)}
    calls = [task(f"Part {n}.") for n in range(3)]
    async with with_subagents(tmp_path, (calls, "Done."), agents, command_line={"max_parallel": 2}) as (
        bench,
        _,
    ):
        session = bench.session()
        turn = prompted(session, "go")
        await asyncio.gather(*(hold.reached.wait() for hold in holds[:2]))
        assert set(subagents(session)) == {"s1", "s2"}
        holds[0].go.set()
        await holds[2].reached.wait()
        assert set(subagents(session)) == {"s1", "s2", "s3"}
        for hold in holds:
            hold.go.set()
        assert (await finish(turn)).stop == "end_turn"


async def test_sub_agent_ids_follow_the_order_of_calls(tmp_path: Path) -> None:
    calls = [task("One."), task("Two.", "nobody"), task("Three.", "explore"), task("Four.", "explore")]
    agents = {"s1": ["I am one."], "s3": ["I am three."], "s4": ["I am four."], "s5": ["I am five."]}
    rules = {"permission": {"task": {"general": "ask"}}}
    main = (calls, [task("Five.", "explore")], "Done.")
    async with with_subagents(tmp_path, main, agents, command_line=rules) as (bench, _):
        session = bench.session()
        turn = prompted(session, "go")
        await bench.asked()
        # The third and the fourth work while the person thinks about the first.
        await until(lambda: [m.status for m in subagents(session).values()] == ["completed", "completed"])
        assert list(subagents(session)) == ["s3", "s4"]
        await bench.answer("once")
        assert (await finish(turn)).stop == "end_turn"
        said = [result.content for result in results(session)]
        assert (said[0], said[2:]) == ("I am one.", ["I am three.", "I am four.", "I am five."])
        assert "Agents that take tasks:" in said[1]


async def test_canceled_task_waiting_for_a_slot_reports_nothing_done(tmp_path: Path) -> None:
    hold = Hold()
    calls = [task("One."), task("Two.")]
    async with with_subagents(
        tmp_path, (calls,), {"s1": [[hold, "Never."]]}, command_line={"max_parallel": 1}
    ) as (bench, _):
        session = bench.session()
        turn = prompted(session, "go")
        await hold.reached.wait()
        session.cancel()
        assert (await finish(turn)).stop == "canceled"
        one, two = (result.content for result in results(session))
        assert "It is unknown how much the tool did;" in one
        assert two == "Canceled by the user. It had not started: nothing was done."


async def test_rejecting_one_sub_agent_leaves_the_other_pending(
    tmp_path: Path,
) -> None:
    def write(name: str) -> Call:
        return Call("write", {"file_path": name, "content": "x"})

    agents = {"s1": [[write("one.txt")]], "s2": [[write("two.txt")], "Two is there."]}
    async with with_subagents(tmp_path, ([task("One."), task("Two.")], "Half."), agents) as (bench, _):
        session = bench.session()
        turn = prompted(session, "go")
        one, two = sorted(await bench.asked(2), key=lambda request: request.branch_id or "")
        assert [one.branch_id, two.branch_id] == ["s1", "s2"]
        assert session.status == "waiting"
        reply = bench.core.permissions.reply
        reply(one.request_id, "reject", None, "test")
        assert [request.request_id for request in bench.core.permissions.pending()] == [two.request_id]
        reply(two.request_id, "once", None, "test")
        assert (await finish(turn)).stop == "end_turn"
        assert [result.is_error for result in results(session)] == [True, False]
        assert {path.name for path in bench.workspace.glob("*.txt")} == {"two.txt"}


async def test_cancel_gives_each_of_several_calls_its_one_result(tmp_path: Path) -> None:
    hold = Hold()
    calls = [task("One."), task("Two."), task("Three."), Call("ls", {})]
    agents = {"s1": ["First."], "s2": [[hold]], "s3": ["Third."]}
    async with with_subagents(tmp_path, [calls], agents) as (bench, _):
        session = bench.session()
        turn = prompted(session, "go")
        await hold.reached.wait()
        await until(lambda: subagents(session)["s3"].status == "completed" and len(results(session)) == 1)
        session.cancel()
        assert (await finish(turn)).stop == "canceled"
        said = [result.content.split(".")[0] for result in results(session)]
        assert said == ["First", "Canceled by the user", "Third", "Not run: canceled by the user"]


async def test_rejected_task_ends_the_turn_after_the_others_finish(
    tmp_path: Path,
) -> None:
    calls = [task("Look.", "explore"), task("Do."), Call("ls", {})]
    rules = {"permission": {"task": {"general": "ask"}}}
    async with with_subagents(tmp_path, [calls], {"s1": ["Seen."]}, command_line=rules) as (bench, _):
        session = bench.session()
        turn = prompted(session, "go")
        (request,) = await bench.asked()
        assert (request.permission, request.targets, request.branch_id) == ("task", ("general",), None)
        await bench.answer("reject")
        assert (await finish(turn)).stop == "permission_denied"
        assert [result.title for result in results(session)] == ["explore: Look.", "rejected", "rejected"]
        said = [m.stop_reason() for m in session.state.messages if m.role == "tool"]
        assert said == [None, "permission_denied", None]


async def test_equal_parallel_tasks_are_no_loop_but_repeated_ones_are(tmp_path: Path) -> None:
    same = [task("Roll the dice.") for _ in range(4)]
    main = (same, same, same, "Enough.")
    agents = {f"s{n}": ["Six."] for n in range(1, 13)}
    async with with_subagents(tmp_path, main, agents) as (bench, _):
        session = bench.session()
        turn = prompted(session, "go")
        (request,) = await bench.asked()
        assert (request.permission, len(results(session))) == ("doom_loop", 8)
        await bench.answer("once")
        assert (await finish(turn)).stop == "end_turn"
        assert len(results(session)) == 12
        assert len(bench.events(PermissionAsked)) == 1


async def test_sub_agent_ids_continue_after_a_restart(tmp_path: Path) -> None:
    async with with_subagents(tmp_path, ([task("One.")], "Done."), {"s1": ["First."]}) as (bench, _):
        session = bench.session()
        await session.prompt("go")
    async with with_subagents(tmp_path, ([task("Two.")], "Done."), {"s2": ["Second."]}) as (bench, _):
        again = await bench.opened(session.session_id)
        again.policy.use(default_model="fake/model")
        await again.prompt("go on")
        assert list(subagents(again)) == ["s1", "s2"]


async def test_child_shares_the_budget_and_stops_with_it(tmp_path: Path) -> None:
    agents = {"s1": [[Call("ls", {})], "never"]}
    async with with_subagents(
        tmp_path, [[task("All.")]], {"s1": agents["s1"][:1]}, command_line={"budget_usd": 0.02}
    ) as (bench, _):
        session = bench.session()
        turn = prompted(session, "go")
        (request,) = await bench.asked()
        assert request.permission == "budget"
        await bench.answer("reject")
        assert (await finish(turn)).stop == "permission_denied"
        (result,) = results(session)
        assert "Stopped at the budget" in result.content


async def test_sub_agents_of_a_dead_daemon_are_closed_with_their_cost(tmp_path: Path) -> None:
    import shutil

    folder, copy = tmp_path / "one", tmp_path / "copy"
    folder.mkdir()
    hold = Hold()
    agents = {"s1": [["One step.", Call("ls", {})], ["Half", hold]]}
    async with with_subagents(folder, [[task("All."), task("Other.")]], {**agents, "s2": [[WRITE]]}) as (
        bench,
        _,
    ):
        session = bench.session()
        turn = prompted(session, "go")
        await hold.reached.wait()
        await bench.asked()
        shutil.copytree(folder, copy)
        session.cancel()
        await turn
    shutil.rmtree(folder)
    copy.rename(folder)
    async with with_subagents(folder, ["Here again."], {}) as (bench, _):
        again = await bench.opened(session.session_id)
        again.policy.use(default_model="fake/model")
        assert bench.core.permissions.pending() == []
        assert [meta.status for meta in subagents(again).values()] == ["failed", "failed"]
        assert subagents(again)["s1"].cost == pytest.approx(0.01)
        assert [result.title for result in results(again)] == ["interrupted", "interrupted"]
        assert (await again.prompt("go on")).stop == "end_turn"
        record = await bench.opened(f"{session.session_id}:s1")
        assert record.state.turn is None
        with pytest.raises(ReadOnlySessionError):
            await record.prompt("more")
