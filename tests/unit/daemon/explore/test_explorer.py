"""Explorations in one process: goals, events, storage, and the report to the main session."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from daemon.explore.results import load_result
from daemon.loop.forking import ForkError
from daemon.loop.session import ReadOnlySessionError
from daemon.model.events import (
    BranchCompleted,
    BranchGoalAdded,
    BranchMessageAdded,
    BranchStarted,
    ExploreCompleted,
    PermissionAsked,
)
from daemon.model.messages import ToolResultPart
from daemon.model.traces import BranchTrace
from daemon.state.children import Children
from daemon.steps.fold import StepFold
from daemon.store.replay import read_state, replayed
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Fail, Hold
from tests.support.scenarios.branches import ASKED, EDITS, explore, exploring, kinds, ran, scripts, told

MAIN = [
    [Call("goal", {"add": "find a way", "focus": "1"})],
    explore("use a list", "use a dict"),
    "I choose A.",
]
A = [
    Call("goal", {"add": "try, check", "focus": "1"}),
    Call("write", {"file_path": "list.py", "content": "x = []\n"}),
    "A list it is: short. Slow.",
]
B = [Call("write", {"file_path": "dict.py", "content": "x = {}\n"}), "A dict it is: quick. Long."]


async def test_exploration_is_recorded_in_events_of_the_main_session(tmp_path: Path) -> None:
    async with exploring(tmp_path, MAIN, {"A": A, "B": B}) as bench:
        session = await ran(bench)
        events = bench.core.store.events(session.session_id)
        said = kinds(events)
        assert said.index("goal_added") < said.index("branch_started")
        assert said.count("branch_started") == said.count("branch_completed") == 2
        assert said.index("explore_completed") > max(
            n for n, kind in enumerate(said) if kind == "branch_completed"
        )
        started = [event for event in events if isinstance(event, BranchStarted)]
        assert [(e.branch.id, e.branch.description, e.explore_start_id) for e in started] == [
            ("A", "use a list", "2"),
            ("B", "use a dict", "2"),
        ]
        messages = [e for e in events if isinstance(e, BranchMessageAdded) and e.branch_id == "A"]
        own = bench.core.store.messages(f"{session.session_id}:A")[-len(messages) :]
        assert [e.message for e in messages] == own
        assert {(m.trace_id, m.branch_id) for m in own} == {(session.session_id, "A")}
        goals = [(e.goal, e.goal_numbers) for e in events if isinstance(e, BranchGoalAdded)]
        assert [(goal.id, goal.description) for goal, _ in goals] == [("1", "try"), ("2", "check")]
        assert [numbers for _, numbers in goals] == [{"1": "1"}, {"2": "2"}]
        (done,) = [e for e in events if isinstance(e, BranchCompleted) and e.branch_id == "A"]
        assert (done.status, done.summary) == ("completed", "A list it is: short. Slow.")
        assert done.cumulative_stats.message_count == len(own)
        assert done.cumulative_stats.preview == "write"
        assert done.last_message == own[-1]
        working = Children()
        for event in events[: events.index(done)]:
            working.apply(event)
        assert working.branches["A"].cumulative_stats == done.cumulative_stats
        assert done.score is not None
        assert done.score.files == 1
        (ended,) = [e for e in events if isinstance(e, ExploreCompleted)]
        assert (ended.explore_start_id, ended.explore_merge_id) == ("2", "3")


async def test_explore_adds_start_and_merge_goals_with_branch_stats(
    tmp_path: Path,
) -> None:
    async with exploring(tmp_path, MAIN, {"A": A, "B": B}) as bench:
        session = await ran(bench)
        plan = session.state.plan
        first, start, merge = (plan.goals[number] for number in "123")
        assert (start.type, start.branch_ids, start.status, start.parent_id) == (
            "explore_start",
            ["A", "B"],
            "completed",
            None,
        )
        assert (merge.type, merge.explore_start_id, merge.status) == ("explore_merge", "2", "in_progress")
        assert plan.current_id == "3"
        assert first.status == "in_progress"
        branches = session.state.children.of("2")
        assert start.cumulative_stats.message_count == sum(b.cumulative_stats.message_count for b in branches)
        assert plan.numbers() == {"1": "1", "2": "2", "3": "3"}
        assert start.summary is not None
        assert "A (use a list): A list it is" in start.summary
        (ended,) = bench.events(ExploreCompleted)
        assert merge.merge_summary == ended.merge_summary == told(session).content
        # Its branches were at work at the same time: their goal took as long as all of them together, not their sum.
        took = start.cumulative_stats.duration_ms
        assert took == start.self_stats.duration_ms + ended.duration_ms
        assert ended.duration_ms >= max(branch.cumulative_stats.duration_ms for branch in branches)
        fold = StepFold(session.session_id)
        for event in bench.core.store.events(session.session_id):
            fold.apply(event)
        steps = [fold.tree.get(f"goal_{number}") for number in "23"]
        assert [(step and step.duration_ms) or 0 for step in steps] == [
            took,
            merge.cumulative_stats.duration_ms,
        ]


async def test_the_result_reads_as_in_the_design(tmp_path: Path) -> None:
    async with exploring(tmp_path, MAIN, {"A": A, "B": B}) as bench:
        session = await ran(bench)
        text = told(session).content
        assert text.startswith(
            "## Exploration results\n\n### Branch A: use a list\nA list it is: short. Slow.\n\n"
            "### Branch B: use a dict\nA dict it is: quick. Long.\n\n"
        )
        assert (
            '---\nNothing of this is in the workspace yet. Merge a branch with explore(select=["A"])' in text
        )
        assert not told(session).is_error


@pytest.mark.usefixtures("chinese")
async def test_an_exploration_has_the_labels_of_the_language(tmp_path: Path) -> None:
    async with exploring(tmp_path, MAIN, {"A": A, "B": B}) as bench:
        session = await ran(bench)
        plan = session.state.plan
        assert plan.goals["2"].description == "探索 2 个方案: use a list; use a dict"
        assert plan.goals["3"].description == "评估探索结果"
        text = told(session).content
        assert text.startswith(
            "## 探索结果\n\n### 分支 A: use a list\nA list it is: short. Slow.\n\n"
            "### 分支 B: use a dict\nA dict it is: quick. Long.\n\n| 分支 | 方向 | 问题 | 测试 |"
        )
        assert "\n---\n以上内容都还没有写入工作区，请选择一种继续。" in text


async def test_branches_leave_one_message_in_context_after_their_goal(
    tmp_path: Path,
) -> None:
    done = Call("goal", {"done": "A is best"})
    async with exploring(tmp_path, [*MAIN[:-1], done, "Chosen."], {"A": A, "B": B}) as bench:
        session = await ran(bench)
        assert session.state.plan.goals["3"].status == "completed"
        texts = [
            part.content
            for entry in session.request_builder.window().entries
            for part in entry.prompt.content
            if isinstance(part, ToolResultPart)
        ]
        assert len([text for text in texts if "A list it is" in text]) == 1  # in the goal that explored
        notes = json.dumps(
            [
                entry.prompt.content[0].model_dump(mode="json")
                for entry in session.request_builder.window().entries
            ]
        )
        assert "A list it is: short. Slow." in notes
        assert "x = []" not in notes


async def test_explore_result_stays_in_context_while_parent_is_open(tmp_path: Path) -> None:
    more = [Call("goal", {"add": "use it"}), Call("goal", {"focus": "1"})]
    main = [MAIN[0], MAIN[1], more, "Going on."]
    async with exploring(tmp_path, main, {"A": A, "B": B}) as bench:
        session = await ran(bench)
        assert session.state.plan.goals["2"].status == "completed"
        results = [
            part.content
            for entry in session.request_builder.window().entries
            for part in entry.prompt.content
            if isinstance(part, ToolResultPart) and part.name == "explore"
        ]
        assert results == [session.state.plan.goals["3"].merge_summary]


async def test_branch_session_and_result_are_readable_without_its_copy(tmp_path: Path) -> None:
    async with exploring(tmp_path, MAIN, {"A": A, "B": B}) as bench:
        session = await ran(bench)
        for name, file in (("A", "list.py"), ("B", "dict.py")):
            child = await bench.opened(f"{session.session_id}:{name}")
            with pytest.raises(ReadOnlySessionError):
                await child.prompt("more")
            assert isinstance(child.state.trace, BranchTrace)
            assert (child.state.trace.status, child.state.turn) == ("completed", None)
            assert child.state.trace.summary
            result = load_result(bench.core.store.folder(child.session_id) / "result")
            assert result is not None
            assert [(change.name, change.kind) for change in result.changes] == [(file, "create")]
            assert file.encode() in result.patch


async def test_exploration_state_is_restored_after_a_restart(tmp_path: Path) -> None:
    async with exploring(tmp_path, MAIN, {"A": A, "B": B}) as bench:
        session = await ran(bench)
        plan, children = session.state.plan.snapshot(), session.state.children
        messages = list(session.state.messages)
    async with exploring(tmp_path, ["On I go."], {}) as bench:
        again = await bench.opened(session.session_id)
        for state in (again.state, replayed(bench.core.store, session.session_id)):
            assert state.plan.snapshot() == plan
            assert state.children.branches == children.branches
            assert state.messages == messages
        own = read_state(bench.core.store, f"{session.session_id}:A")
        assert [goal.description for goal in own.plan.snapshot().goals] == ["try", "check"]
        assert (await again.prompt("and now?")).stop == "end_turn"


async def test_branch_ids_continue_across_explorations(tmp_path: Path) -> None:
    main = [explore("one", "two"), explore("three", "four"), "Done."]
    steps = {name: ["Nothing to do."] for name in "ABCD"}
    async with exploring(tmp_path, main, steps) as bench:
        session = await ran(bench)
        assert list(session.state.children.branches) == ["A", "B", "C", "D"]
        starts = [g for g in session.state.plan.goals.values() if g.type == "explore_start"]
        assert [goal.branch_ids for goal in starts] == [["A", "B"], ["C", "D"]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"branches": []}, "Give branches"),
        ({}, "Give branches"),
        ({"branches": ["a", " "]}, "One of the branches is empty"),
        ({"branches": ["  "]}, "branches is empty"),
        ({"branches": ["Use a list", "use  a LIST"]}, "same direction"),
        ({"branches": [f"way {n}" for n in range(9)]}, "9 branches are too many"),
        ({"branches": ["a" * 5_000, "b"]}, "too long"),
        ({"branches": ["a", "b"], "select": ["A"]}, "give one of the two"),
        ({"branches": ["a", "b"], "background": "x" * 100_001}, "summarize it."),
    ],
)
async def test_invalid_explore_call_is_an_error_and_starts_nothing(
    tmp_path: Path, arguments: dict[str, object], words: str
) -> None:
    async with exploring(tmp_path, [Call("explore", arguments), "I see."], {}) as bench:
        session = await ran(bench)
        assert told(session).is_error
        assert words in told(session).content
        assert not session.state.plan.goals
        assert not bench.events(BranchStarted)


async def test_single_direction_is_allowed_and_may_be_a_string(tmp_path: Path) -> None:
    async with exploring(
        tmp_path, [Call("explore", {"branches": "try it"}), "Done."], {"A": ["It works."]}
    ) as bench:
        session = await ran(bench)
        assert "### Branch A: try it\nIt works." in told(session).content


async def test_branches_are_not_offered_to_explore_themselves(tmp_path: Path) -> None:
    nested = {"A": [explore("deeper", "still deeper"), "It was refused."], "B": ["Done."]}
    async with exploring(tmp_path, [explore("a", "b"), "Done."], nested) as bench:
        session = await ran(bench)
        (request, _) = scripts(bench).branches["A"].requests
        assert "explore" not in {tool.name for tool in request.tools}
        assert "hand_over" not in {tool.name for tool in request.tools}
        assert "explore" in {tool.name for tool in bench.models.requests[0].tools}
        child = await bench.opened(f"{session.session_id}:A")
        assert told(child).is_error
        assert "cannot be used now" in told(child).content
        assert "to its end. Continue without it" in told(child).content


async def test_failed_branch_is_reported_and_others_continue(tmp_path: Path) -> None:
    failing = [Call("write", {"file_path": "half.py", "content": "x"}), Fail("bad_request", "No such model.")]
    async with exploring(tmp_path, [explore("a", "b"), "Done."], {"A": failing, "B": ["Works."]}) as bench:
        session = await ran(bench)
        a, b = session.state.children.branches.values()
        assert (a.status, b.status) == ("abandoned", "completed")
        assert a.summary is not None
        assert "No such model." in a.summary
        assert "### Branch A: a\n(not finished)\nFailed: No such model." in told(session).content
        assert not told(session).is_error
        result = load_result(bench.core.store.folder(f"{session.session_id}:A") / "result")
        assert result is not None
        assert [change.name for change in result.changes] == ["half.py"]


async def test_slow_branch_does_not_delay_the_others(tmp_path: Path) -> None:
    hold = Hold()
    async with exploring(
        tmp_path, [explore("slow", "quick"), "Done."], {"A": [[hold, "Late."]], "B": B}
    ) as bench:
        session = bench.session(settings=EDITS)
        turn = asyncio.create_task(session.prompt("go"))
        await hold.reached.wait()
        await until(lambda: bench.events(BranchCompleted), "the end of the quick one")
        assert bench.events(BranchCompleted)[0].branch_id == "B"
        assert session.state.children.branches["A"].status == "exploring"
        hold.go.set()
        assert (await turn).stop == "end_turn"


async def test_branches_ask_concurrently_and_are_answered_in_any_order(tmp_path: Path) -> None:
    steps = {
        name: [Call("write", {"file_path": f"{name}.txt", "content": name}), f"{name} is done."]
        for name in "ABC"
    }
    async with exploring(tmp_path, [explore("a", "b", "c"), "Done."], steps) as bench:
        session = bench.session(settings=ASKED)
        turn = asyncio.create_task(session.prompt("go"))
        requests = {request.branch_id: request for request in await bench.asked(3)}
        assert set(requests) == {"A", "B", "C"}
        assert {request.trace_id for request in requests.values()} == {session.session_id}
        assert len(session.state.pending) == 3
        asked = [
            e.request.branch_id for e in bench.events(PermissionAsked) if e.trace_id == session.session_id
        ]
        assert sorted(filter(None, asked)) == ["A", "B", "C"]
        reply = bench.core.permissions.reply
        assert reply(requests["C"].request_id, "once", None, "me") == (True, "me")
        assert reply(requests["A"].request_id, "reject", None, "me") == (True, "me")
        await until(lambda: session.state.children.branches["C"].status == "completed")
        assert session.state.children.branches["B"].status == "exploring"
        assert reply(requests["B"].request_id, "once", None, "me") == (True, "me")
        assert (await turn).stop == "end_turn"
        status = {branch.id: branch.status for branch in session.state.children.branches.values()}
        assert status == {"A": "abandoned", "B": "completed", "C": "completed"}
        assert "Stopped because the user rejected a request" in told(session).content


async def test_edits_of_a_branchs_copy_are_not_asked_about(tmp_path: Path) -> None:
    steps = {
        "A": [Call("write", {"file_path": "a.txt", "content": "1"}), "Done."],
        "B": [Call("write", {"file_path": ".env", "content": "KEY=1"}), "Done."],
    }
    async with exploring(tmp_path, [explore("a", "b"), "Done."], steps) as bench:
        session = bench.session(settings={"test_command": ""})
        turn = asyncio.create_task(session.prompt("go"))
        (request,) = await bench.asked()
        assert (request.branch_id, request.targets) == ("B", (".env",))
        await until(lambda: session.state.children.branches["A"].status == "completed")
        await bench.answer("once")
        assert (await turn).stop == "end_turn"
        assert not (bench.workspace / "a.txt").exists()


async def test_always_grant_in_one_branch_applies_to_all(tmp_path: Path) -> None:
    hold = Hold()
    steps = {
        "A": [Call("write", {"file_path": "same.txt", "content": "1"}), "Done."],
        "B": [[hold, Call("write", {"file_path": "same.txt", "content": "1"})], "Done."],
    }
    async with exploring(tmp_path, [explore("a", "b"), "Done."], steps) as bench:
        session = bench.session(settings=ASKED)
        turn = asyncio.create_task(session.prompt("go"))
        await bench.answer("always")
        hold.go.set()
        assert (await turn).stop == "end_turn"
        asked = [e for e in bench.events(PermissionAsked) if e.trace_id == session.session_id]
        assert len(asked) == 1


async def test_unsaved_files_are_listed_as_missing_from_branches(tmp_path: Path) -> None:
    async with exploring(tmp_path, [explore("a", "b"), "Done."], {"A": ["1."], "B": ["2."]}) as bench:
        bench.unsaved[bench.workspace / "src" / "a.py"] = "typed"
        session = await ran(bench)
        assert (
            "Not in the branches, because they are not saved in the editor: src/a.py."
            in told(session).content
        )


async def test_fork_keeps_the_plan_of_an_exploration_without_branches(tmp_path: Path) -> None:
    async with exploring(tmp_path, MAIN, {"A": A, "B": B}) as bench:
        session = await ran(bench)
        fork = await bench.opened(await bench.core.trace_maintenance.fork(session))
        assert [goal.type for goal in fork.state.plan.snapshot().goals] == [
            goal.type for goal in session.state.plan.snapshot().goals
        ]
        assert (fork.state.children.branches, fork.state.trace.total_cost) == ({}, 0.0)
        assert [message.text() for message in fork.state.messages] == [
            message.text() for message in session.state.messages
        ]
        assert bench.core.store.children(fork.session_id) == []
        branch = await bench.opened(f"{session.session_id}:A")
        with pytest.raises(ForkError, match="Fork the session it belongs to"):
            await bench.core.trace_maintenance.fork(branch)
