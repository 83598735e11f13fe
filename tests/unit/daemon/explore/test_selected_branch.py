"""Choices are remembered: while other branches are running, across restarts, and when they are undone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from daemon.explore import branch_actions
from daemon.explore.branch_choice import choose_none, leave_to_model, pending_choices
from daemon.loop.session import Session
from daemon.loop.undo import Restorer
from daemon.model.events import BranchGoalAdded, BranchSelected, ExploreCompleted
from daemon.store.replay import read_state
from lsp_bridge.server.requests.branches import explorations
from tests.support.drivers.core import Bench, daemon
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Hold
from tests.support.scenarios.branches import EDITS, explore, exploring, told
from tests.support.scenarios.explored import created, explored


def used(session: Session) -> str | None:
    (only,) = explorations(session)
    return only.selected_branch


async def picked(bench: Bench, session: Session, *choice: str) -> None:
    pick = asyncio.create_task(branch_actions.select_for_user(session, choice, "VS Code"))
    await bench.answer("once")
    await pick


def replays(bench: Bench, session: Session) -> None:
    """The log alone says the same as what is live."""
    again = read_state(bench.core.store, session.session_id)
    assert again.children.choices == session.state.children.choices
    assert again.plan.snapshot() == session.state.plan.snapshot()


@pytest.mark.parametrize("how", ["model", "person"])
async def test_pick_during_exploration_is_recorded_and_ends_the_choice(tmp_path: Path, how: str) -> None:
    hold = Hold()
    steps = {
        "A": [Call("write", {"file_path": "a.txt", "content": "a\n"}), "A is done."],
        "B": [[hold, "B is done."]],
    }
    settings = {**EDITS, "explore_choice": how}
    async with exploring(tmp_path, [explore("one", "two"), "Done."], steps, changes=True) as bench:
        session = bench.session(settings=settings)
        turn = asyncio.create_task(session.prompt("go"))
        branches = session.state.children.branches
        await until(lambda: "A" in branches and branches["A"].status == "completed" and hold.reached.is_set())
        await picked(bench, session, "A")
        assert used(session) == "A" and session.state.plan.goals["1"].status != "completed"
        replays(bench, session)
        hold.go.set()
        assert (await turn).stop == "end_turn"  # nobody waits for a choice that is made
        assert not pending_choices(session)
        merge = session.state.plan.goals["2"]
        assert (merge.type, merge.status, merge.selected_branch) == ("explore_merge", "completed", "A")
        words = "The user (VS Code) chose branch A while other branches were still working."
        assert merge.summary is not None and words in merge.summary
        assert merge.merge_summary is not None and words in merge.merge_summary
        (ended,) = [e for e in bench.events(ExploreCompleted) if e.trace_id == session.session_id]
        assert ended.merge_summary == merge.merge_summary
        assert (
            words in told(session).content
            and "Nothing of this is in the workspace yet." not in told(session).content
        )
        assert used(session) == "A"
        replays(bench, session)


async def test_undo_of_a_pick_clears_the_selected_branch(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        explored(session, {"A": [created("a.py", "a\n")]})
        await picked(bench, session, "A")
        assert used(session) == "A"
        await Restorer(session).undo()
        goal = session.state.plan.goals["2"]
        assert (goal.selected_branch, used(session)) == (None, None)
        assert goal.summary == "The merge of branch A was undone."
        replays(bench, session)
        await Restorer(session).redo()
        goal = session.state.plan.goals["2"]
        assert (goal.selected_branch, used(session)) == ("A", "A")
        assert goal.summary is not None and goal.summary.startswith("Selected: branch A")
        replays(bench, session)
        session_id = session.session_id
    async with daemon(tmp_path) as bench:
        session = await bench.opened(session_id)
        await Restorer(session).undo()
        assert used(session) is None


async def test_undo_of_one_of_two_merges_names_the_remaining_branch(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        explored(session, {"A": [created("a.py", "a\n")], "B": [created("b.py", "b\n")]})
        await picked(bench, session, "A")
        await picked(bench, session, "B")
        assert used(session) == "A, B"
        first, second = bench.events(BranchSelected)
        await Restorer(session).undo(first.choice.tool_call_id)
        assert used(session) == "B"
        await Restorer(session).undo(second.choice.tool_call_id)
        assert used(session) is None
        await Restorer(session).redo(first.choice.tool_call_id)
        assert used(session) == "A"


async def test_undo_of_a_repeated_pick_clears_the_selected_branch(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        explored(session, {"A": [created("a.py", "a\n")], "B": [created("a.py", "a\n")]})
        await picked(bench, session, "A")
        again = await branch_actions.select_for_user(session, ["A:a.py"], "VS Code")
        assert "Already the same as in the branch: a.py" in again.content
        await Restorer(session).undo()
        assert used(session) is None
        goal = session.state.plan.goals["2"]
        assert goal.summary == "The merge of branch A was undone."


async def test_branch_without_changes_is_selected_but_not_used(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        explored(session, {"A": []})
        said = await branch_actions.select_for_user(session, ["A"], "VS Code")
        assert "there is nothing to merge." in said.content
        assert used(session) is None and session.state.plan.goals["2"].status == "completed"


async def test_goals_of_a_branch_carry_its_id(tmp_path: Path) -> None:
    steps = {"A": [Call("goal", {"add": ["Look"]}), "A is done."]}
    async with exploring(tmp_path, [explore("one"), "Done."], steps) as bench:
        session = bench.session(settings=EDITS)
        await session.prompt("go")
        (added,) = bench.events(BranchGoalAdded)
        assert added.goal.branch_id == "A"
        assert all(goal.branch_id is None for goal in session.state.plan.goals.values())
        child = read_state(bench.core.store, f"{session.session_id}:A")
        assert [goal.branch_id for goal in child.plan.snapshot().goals] == ["A"]


async def test_branch_edit_of_the_workspace_is_refused_with_a_hint(tmp_path: Path) -> None:
    edit = {"file_path": f"{tmp_path}/workspace/src/a.py", "old_string": "a = 1", "new_string": "a = 2"}
    async with exploring(
        tmp_path, [explore("one"), "Done."], {"A": [Call("edit", edit), "A is done."]}
    ) as bench:
        session = bench.session(settings=EDITS)
        turn = asyncio.create_task(session.prompt("go"))
        await turn
        child = await bench.opened(f"{session.session_id}:A")
        assert "works in its own copy at" in told(child, "edit").content


async def test_usage_of_branches_counts_for_the_exploration_goal(tmp_path: Path) -> None:
    steps = {"A": [Call("write", {"file_path": "a.txt", "content": "a\n"}), "A is done."]}
    async with exploring(tmp_path, [explore("one"), "Done."], steps) as bench:
        session = bench.session(settings=EDITS)
        await session.prompt("go")
        children, spending = session.state.children, session.state.spending
        assert children.usage["A"].total > 0
        assert spending.usage("1").total == children.usage["A"].total
        assert spending.cost("1") == pytest.approx(children.cost["A"])
        again = read_state(bench.core.store, session.session_id).spending
        assert again.usage("1") == spending.usage("1") and again.cost("1") == pytest.approx(
            spending.cost("1")
        )


@pytest.mark.parametrize(
    ("how", "said", "unsaid"),
    [
        ("picked", "The user (VS Code) chose A.", "explore(select="),
        ("none", "rejected all branches", "explore(select="),
        ("nobody", "do not select a branch yourself", "explore(select="),
        ("left", 'Merge a branch with explore(select=["', "do not select"),
    ],
)
async def test_result_reports_the_decision_without_contradiction(
    tmp_path: Path, how: str, said: str, unsaid: str
) -> None:
    steps = {name: [Call("write", {"file_path": f"{name}.txt", "content": "x\n"}), "Done."] for name in "AB"}
    replies = [explore("one", "two"), [Call("explore", {"select": ["B"]})], "Done."]
    settings = {**EDITS, "explore_choice": "person", "permission_timeout_s": 0.5 if how == "nobody" else 60}
    async with exploring(tmp_path, replies, steps, changes=True) as bench:
        session = bench.session(settings=settings)
        turn = asyncio.create_task(session.prompt("go"))
        await until(lambda: bool(pending_choices(session)) or turn.done())
        if how == "picked":
            await picked(bench, session, "A")
        elif how == "none":
            choose_none(session, "1", "VS Code")
        elif how == "left":
            leave_to_model(session, "1", "VS Code")
        assert (await turn).stop == "end_turn"
        first, second = [message for message in session.state.messages if message.role == "tool"]
        assert said in str(first.content) and unsaid not in str(first.content)
        refusal = {
            "picked": "Selected: branch A",
            "none": "rejected all",
            "nobody": "say at the end that the branches await a choice.",
        }.get(how)
        assert (refusal or "Selected: branch B") in str(second.content)
        assert ("say at the end that the branches await a choice." in str(second.content)) == (
            how == "nobody"
        )
        goal = session.state.plan.goals["2"]
        assert (goal.status == "completed") == (how != "nobody")
        replays(bench, session)
