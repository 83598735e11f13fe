"""Limits of agents hold for everybody they send, and no file of a folder takes those of the same name away."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.agents.loader import Agents, UnknownAgentError, load_agent
from daemon.loop.children import close_child, open_child
from tests.support.drivers.core import ALLOW_ALL, daemon
from tests.support.fakes.models import Call
from tests.support.scenarios.subagents import results, task, with_subagents

AUTO = {**ALLOW_ALL, "mode": "auto"}
LINES = ("python3 s.py", "make", "git stash")
RUNS = [Call("bash", {"command": line, "description": "x"}) for line in LINES]
LOOK = Call("bash", {"command": "ls", "description": "look"})


def put(folder: Path, name: str, head: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(f"---\n{head}\n---\nWork.\n")


def local(folder: Path) -> Path:
    return folder / "workspace" / ".goalwright" / "agents"


def programs(workspace: Path) -> None:
    (workspace / "s.py").write_text("open('by_program.txt', 'w').write('x')\n")
    (workspace / "Makefile").write_text("all:\n\ttouch by_program.txt\n")


async def test_plan_runs_nothing_that_may_change_something_in_any_mode(tmp_path: Path) -> None:
    async with daemon(tmp_path, [*RUNS, LOOK], "Planned.", command_line=AUTO) as bench:
        programs(bench.workspace)
        session = bench.session(agent="plan")
        assert (await session.prompt("go")).stop == "end_turn"
        *denied, looked = results(session)
        assert [result.content.startswith("Permission denied.") for result in denied] == [True] * len(LINES)
        assert "this agent is read-only" in denied[0].content
        assert "s.py" in looked.content
        assert not (bench.workspace / "by_program.txt").exists()


async def test_plan_sub_agent_runs_nothing_that_changes_files(tmp_path: Path) -> None:
    agents = {"s1": [[*RUNS, LOOK], "Not possible."]}
    async with with_subagents(tmp_path, ([task("Do it.")], "Planned."), agents, command_line=AUTO) as (
        bench,
        _,
    ):
        programs(bench.workspace)
        session = bench.session(agent="plan")
        await session.prompt("go")
        *denied, looked = results(await bench.opened(f"{session.session_id}:s1"))
        assert all(result.content.startswith("Permission denied.") for result in denied)
        assert not looked.is_error
        assert not (bench.workspace / "by_program.txt").exists()


async def test_take_over_drops_own_limits_but_keeps_those_of_parents(tmp_path: Path) -> None:
    async with daemon(tmp_path, command_line=AUTO) as bench:
        session = bench.session(agent="plan")
        designer = open_child(session, "s1", load_agent("init"))
        worker = open_child(designer, "s1", load_agent("execute"))
        worker.policy.take_over(())
        assert designer.policy.insists == {"edit", "bash"}
        assert worker.policy.insists == frozenset()
        assert worker.policy.looks
        assert [
            rule.action for rule in (worker.rules.decide("edit", "a"), worker.rules.decide("bash", "make"))
        ] == ["deny"] * 2
        branch = open_child(session, "A", load_agent("build"))
        assert branch.rules.decide("bash", "make").action == "deny"
        for child in (worker, designer, branch):
            await close_child(child)


@pytest.mark.parametrize("mode", ["ask", "accept-edits", "auto"])
async def test_workspace_agent_keeps_limits_of_same_named_shipped_one(tmp_path: Path, mode: str) -> None:
    loose = "permission: allow\nread_only: false\ntools: [read, write, edit, bash]\ninsist: []"
    for name in ("plan", "explore", "init"):
        put(local(tmp_path), name, loose)
    async with daemon(tmp_path, command_line={**ALLOW_ALL, "mode": mode}) as bench:
        plan, explore, init = (bench.session(agent=name) for name in ("plan", "explore", "init"))
        assert plan.agent.source == "workspace"
        assert [plan.rules.decide(*what).action for what in (("edit", "a"), ("bash", "make"))] == [
            "deny",
            "deny",
        ]
        assert not plan.rules.offered("edit")
        assert explore.rules.decide("bash", "ls").action == "deny"
        assert [explore.agent.has_tool(name) for name in ("read", "bash", "write", "grep")] == [
            True, False, False, False,
        ]  # fmt: skip
        assert init.rules.decide("edit", "a").action == "ask"


def test_workspace_agent_keeps_limits_of_same_named_user_agent(tmp_path: Path) -> None:
    own = tmp_path / "home" / "agents"
    put(own, "review", "deny: bash\ntools: [read, bash]\ninsist: edit\nread_only: true")
    put(own, "plan", "description: mine\nread_only: false")
    put(local(tmp_path), "review", "permission: allow\nread_only: false")
    put(local(tmp_path), "plan", "description: theirs")
    agents = Agents(tmp_path / "workspace", tmp_path / "home")
    review, plan = agents.find("review", "trusted"), agents.find("plan", "trusted")
    assert [(rule.permission, rule.action) for layer in review.limits for rule in layer] == [
        ("bash", "deny"),
        ("*", "allow"),
    ]
    assert (review.has_tool("write"), review.only_looks, review.all_insists) == (False, True, {"edit"})
    # The person has replaced the shipped one: theirs is the one that holds.
    assert not plan.only_looks
    assert {agent.name: agent for agent in agents.all("trusted").agents}["review"] == review
    put(own, "review", "mode: x")
    with pytest.raises(UnknownAgentError, match="cannot be used"):
        agents.find("review", "trusted")
    assert "review" not in [agent.name for agent in agents.all("trusted").agents]


def test_user_override_of_shipped_agent_inherits_read_only(tmp_path: Path) -> None:
    own = tmp_path / "home" / "agents"
    put(own, "explore", "tools: [read, bash]")
    put(own, "plan", "read_only: no")
    put(own, "critic", "readOnly: true")
    agents = Agents(tmp_path / "workspace", tmp_path / "home")
    explore = agents.find("explore", "unknown")
    assert (explore.only_looks, explore.has_tool("bash"), explore.limits) == (True, True, ())
    assert not agents.find("plan", "unknown").only_looks
    assert agents.find("critic", "unknown").only_looks
    assert not agents.find("build", "unknown").only_looks
