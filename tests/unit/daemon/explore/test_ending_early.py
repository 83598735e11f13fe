"""Cancel, the user's plan, budgets and hooks while branches are running: nothing of them is left."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from daemon.explore.results import load_result
from daemon.loop.user_plan import UserPlan
from daemon.model.events import BranchCompleted, ExploreCompleted, PermissionAsked
from daemon.plan.tree import PlanError
from tests.support.drivers.waiting import until
from tests.support.fakes.branch_copies import CopiedTrees
from tests.support.fakes.models import USAGE, Call, End, Hold
from tests.support.scenarios.branches import ASKED, EDITS, explore, exploring, left_over, scripts, told

TWO = [explore("one", "two"), "Done."]


ANYWHERE: dict[str, Any] = {
    **EDITS, "permission": {"edit": "allow", "bash": "allow", "external_directory": "allow"}
}  # fmt: skip


def running(tmp_path: Path) -> str:
    return f"sh {tmp_path}/hold.sh"


def alive(tmp_path: Path) -> list[int]:
    found: list[int] = []
    for line in (tmp_path / "pids").read_text().split():
        try:
            os.kill(int(line), 0)
            found.append(int(line))
        except ProcessLookupError:
            pass
    return found


async def test_canceling_the_main_turn_ends_branches_and_keeps_results(tmp_path: Path) -> None:
    write = Call("write", {"file_path": "half.py", "content": "x = 1\n"})
    steps = {
        "A": [write, Call("bash", {"command": running(tmp_path)})],
        "B": [Call("bash", {"command": running(tmp_path), "background": True}), [Hold()]],
    }
    async with exploring(tmp_path, TWO[:1], steps) as bench:
        # Outside of the sandbox, where processes have the numbers that the test sees.
        (tmp_path / "hold.sh").write_text(f"echo $$ >> {tmp_path}/pids; exec sleep 300\n")
        permission = {**ANYWHERE["permission"], "bash": {running(tmp_path): "allow"}}
        session = bench.session(settings={**ANYWHERE, "permission": permission, "sandbox": "off"})
        turn = asyncio.create_task(session.prompt("go"))
        await until(
            lambda: (tmp_path / "pids").exists() and len((tmp_path / "pids").read_text().split()) == 2
        )
        assert session.cancel()
        session.cancel()
        assert (await turn).stop == "canceled"
        assert left_over(tmp_path / "home") == []
        await until(lambda: alive(tmp_path) == [], "the end of the processes")
        ended = {event.branch_id: event for event in bench.events(BranchCompleted)}
        assert {event.status for event in ended.values()} == {"abandoned"}
        assert ended["A"].summary.startswith("Canceled before it finished.")
        assert session.state.plan.goals["1"].status == "abandoned"
        assert session.state.plan.current_id is None
        (completed,) = [e for e in bench.events(ExploreCompleted) if e.trace_id == session.session_id]
        assert completed.explore_merge_id is None
        result = load_result(bench.core.store.folder(f"{session.session_id}:A") / "result")
        assert result is not None
        assert [change.name for change in result.changes] == ["half.py"]
        child = await bench.opened(f"{session.session_id}:A")
        assert (child.state.turn, child.sealed != "") == (None, True)


async def test_repeated_cancel_during_cleanup_is_harmless(tmp_path: Path) -> None:
    async with exploring(tmp_path, TWO[:1], {"A": [[Hold()]], "B": [[Hold()]]}) as bench:
        session = bench.session(settings=EDITS)
        turn = asyncio.create_task(session.prompt("go"))
        await until(
            lambda: (
                len(scripts(bench).branches["A"].requests) + len(scripts(bench).branches["B"].requests) == 2
            )
        )
        working = [task for task in asyncio.all_tasks() if task.get_name().startswith("branch ")]
        assert len(working) == 2
        while not turn.done():
            session.cancel()
            for task in working:
                task.cancel()
            await asyncio.sleep(0)
        assert turn.result().stop == "canceled"
        assert all(branch.status == "abandoned" for branch in session.state.children.branches.values())


async def test_cancel_of_one_branch_ends_only_that_one(tmp_path: Path) -> None:
    a, b = Hold(), Hold()
    async with exploring(tmp_path, TWO, {"A": [[a]], "B": [[b, "B works."]]}) as bench:
        session = bench.session(settings=EDITS)
        turn = asyncio.create_task(session.prompt("go"))
        await asyncio.gather(a.reached.wait(), b.reached.wait())
        child = bench.core.live(f"{session.session_id}:A")
        assert child is not None
        assert child.cancel()
        await until(lambda: session.state.children.branches["A"].status == "abandoned")
        assert session.state.children.branches["B"].status == "exploring"
        b.go.set()
        assert (await turn).stop == "end_turn"
        assert "### Branch A: one\n(not finished)\nCanceled" in told(session).content
        assert "### Branch B: two\nB works." in told(session).content


@pytest.mark.parametrize("seen", [0, 1])
async def test_closing_the_daemon_during_an_exploration_leaves_nothing(tmp_path: Path, seen: int) -> None:
    question = Call("write", {"file_path": "a.txt", "content": "1"})
    async with exploring(tmp_path, TWO[:1], {"A": [question], "B": [[Hold()]]}) as bench:
        session = bench.session(settings=ASKED)
        asyncio.create_task(session.prompt("go"))  # noqa: RUF006 - it ends with the daemon
        await until(lambda: len(bench.models.requests) == 1)
        if seen:
            await bench.asked()
    async with exploring(tmp_path, ["Again."], {}) as bench:
        again = await bench.opened(session.session_id)
        assert all(branch.status == "abandoned" for branch in again.state.children.branches.values())
        assert (await again.prompt("go on")).stop == "end_turn"


async def test_branches_queued_for_a_slot_are_abandoned_on_cancel(tmp_path: Path) -> None:
    hold = Hold()
    main = [explore("one", "two", "three")]
    async with exploring(tmp_path, main, {"A": [[hold]], "B": ["no"], "C": ["no"]}) as bench:
        session = bench.session(settings={**EDITS, "max_parallel": 1})
        turn = asyncio.create_task(session.prompt("go"))
        await hold.reached.wait()
        assert scripts(bench).branches["B"].requests == []
        session.cancel()
        await turn
        ended = {event.branch_id: event.status for event in bench.events(BranchCompleted)}
        assert ended == {"A": "abandoned", "B": "abandoned", "C": "abandoned"}
        assert session.services.children.parallel.working == 0


async def test_max_parallel_of_one_runs_branches_in_sequence(tmp_path: Path) -> None:
    async with exploring(tmp_path, TWO, {"A": ["first."], "B": ["second."]}) as bench:
        session = bench.session(settings={**EDITS, "max_parallel": 1})
        assert (await session.prompt("go")).stop == "end_turn"
        assert [e.branch_id for e in bench.events(BranchCompleted) if e.trace_id == session.session_id] == [
            "A",
            "B",
        ]


async def test_failed_copy_ends_one_branch_and_failure_of_all_is_error(tmp_path: Path) -> None:
    def some(workspace: Path, folder: Path, links: object) -> CopiedTrees:
        return CopiedTrees(workspace, folder, fails=("A", "C", "D"))

    main = [explore("one", "two"), explore("three", "four"), "Done."]
    async with exploring(tmp_path, main, {"B": ["B works."]}, copies=some) as bench:
        session = bench.session(settings=EDITS)
        assert (await session.prompt("go")).stop == "end_turn"
        states = {branch.id: branch.status for branch in session.state.children.branches.values()}
        assert states == {"A": "abandoned", "B": "completed", "C": "abandoned", "D": "abandoned"}
        assert told(session).is_error
        assert "The disk is full: make room." in told(session).content


async def test_user_abandons_a_running_exploration(tmp_path: Path) -> None:
    hold = Hold()
    main = [[Call("goal", {"add": "find a way", "focus": "1"})], explore("one", "two"), "I see."]
    async with exploring(tmp_path, main, {"A": [[hold]], "B": ["B works."]}) as bench:
        session = bench.session(settings=EDITS)
        turn = asyncio.create_task(session.prompt("go"))
        await hold.reached.wait()
        await until(lambda: session.state.children.branches["B"].status == "completed")
        await UserPlan(session, "me").abandon("2", "I know the answer")
        assert (await turn).stop == "end_turn"
        goals = session.state.plan.goals
        assert (goals["2"].status, goals["2"].type, goals["2"].branch_ids) == (
            "abandoned",
            "explore_start",
            ["A", "B"],
        )
        assert not [goal for goal in goals.values() if goal.type == "explore_merge"]
        assert "The user stopped this exploration" in told(session).content
        assert "B works." in told(session).content
        assert session.state.children.branches["A"].status == "abandoned"


async def test_user_abandons_the_parent_of_an_exploration(tmp_path: Path) -> None:
    hold = Hold()
    begin = [
        Call("goal", {"add": "above", "focus": "1"}),
        Call("goal", {"add": "find a way", "focus": "1.1"}),
    ]
    async with exploring(
        tmp_path, [begin, explore("one", "two"), "I see."], {"A": [[hold]], "B": ["B works."]}
    ) as bench:
        session = bench.session(settings=EDITS)
        turn = asyncio.create_task(session.prompt("go"))
        await hold.reached.wait()
        await UserPlan(session, "me").abandon("1", "not needed any more")
        assert (await turn).stop == "end_turn"
        assert session.state.plan.goals["3"].status == "abandoned"


async def test_other_plan_edits_during_an_exploration_are_kept(tmp_path: Path) -> None:
    hold = Hold()
    main = [[Call("goal", {"add": "find a way, use it", "focus": "1"})], explore("one", "two"), "I see."]
    async with exploring(tmp_path, main, {"A": [[hold, "A works."]], "B": ["B works."]}) as bench:
        session = bench.session(settings=EDITS)
        turn = asyncio.create_task(session.prompt("go"))
        await hold.reached.wait()
        plan = UserPlan(session, "me")
        plan.rename("3", "The big question")
        plan.move("3", "2")
        plan.add("before", parent_id="2", before_id="3")
        behind = plan.add("behind", parent_id="2")
        for refused in (
            lambda: plan.done("3", "enough"),
            lambda: plan.add("below", parent_id="3"),
            lambda: plan.move("1", "3"),
            lambda: plan.done("2", "enough"),
        ):
            with pytest.raises(PlanError):
                refused()
        plan.focus("2")
        hold.go.set()
        assert (await turn).stop == "end_turn"
        tree = session.state.plan
        start, merge = tree.goals["3"], next(g for g in tree.goals.values() if g.type == "explore_merge")
        assert (start.description, start.status, start.parent_id) == ("The big question", "completed", "2")
        order = [goal.id for goal in tree.children("2")]
        assert order[order.index("3") + 1] == merge.id
        assert order[-1] == behind
        assert tree.current_id == "2"  # where the person put it
        assert merge.status == "pending"


async def test_two_branches_at_the_sessions_limit_ask_one_question(tmp_path: Path) -> None:
    dear = End("end_turn", usage=USAGE)
    look = Call("ls", {"path": "."})
    steps = {name: [[look], [look], ["Done.", dear]] for name in "AB"}
    async with exploring(tmp_path, TWO, steps) as bench:
        session = bench.session(settings={**EDITS, "budget_usd": 0.025})
        turn = asyncio.create_task(session.prompt("go"))
        (request,) = await bench.asked()
        assert (request.permission, request.branch_id) == ("budget", None)
        await bench.answer("always")
        assert (await turn).stop == "end_turn"
        asked = [e for e in bench.events(PermissionAsked) if e.trace_id == session.session_id]
        assert len(asked) == 1


async def test_rejection_at_the_budget_limit_ends_both_branches(tmp_path: Path) -> None:
    look = Call("ls", {"path": "."})
    steps = {name: [[look], [look], ["Done."]] for name in "AB"}
    async with exploring(tmp_path, TWO[:1], steps) as bench:
        session = bench.session(settings={**EDITS, "budget_usd": 0.025})
        turn = asyncio.create_task(session.prompt("go"))
        await bench.answer("reject")
        assert (await turn).stop == "permission_denied"
        states = [branch.status for branch in session.state.children.branches.values()]
        assert states == ["abandoned", "abandoned"]
        summary = session.state.children.branches["A"].summary
        assert summary is not None
        assert "Stopped at the budget" in summary
        assert all(steps.left for steps in scripts(bench).branches.values())


async def test_repeated_calls_in_a_branch_trigger_loop_detection(tmp_path: Path) -> None:
    look = Call("ls", {"path": "."})
    async with exploring(tmp_path, TWO, {"A": [look, look, look, "Stopped."], "B": ["Done."]}) as bench:
        session = bench.session(settings=EDITS)
        turn = asyncio.create_task(session.prompt("go"))
        (request,) = await bench.asked()
        assert (request.permission, request.branch_id) == ("doom_loop", "A")
        await bench.answer("reject", "no more of it")
        assert (await turn).stop == "end_turn"
        assert session.state.children.branches["A"].summary == "Stopped."
