"""The user's own agents at work: started with, given tasks, listed, kept from a folder that is not trusted."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from daemon.agents.loader import UnknownAgentError, load_agent
from daemon.loop.session import Session
from daemon.model.events import Notice
from tests.support.drivers.core import ALLOW_ALL, Bench, daemon
from tests.support.fakes.models import Call
from tests.support.scenarios.subagents import results, subagents, task, with_subagents


def put(folder: Path, name: str, head: str, text: str = "You are mine.") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(f"---\n{head}\n---\n{text}\n")


def own(folder: Path) -> Path:
    return folder / "home" / "agents"


def local(folder: Path) -> Path:
    return folder / "workspace" / ".goalwright" / "agents"


def told(bench: Bench) -> list[str]:
    return [event.text for event in bench.events(Notice)]


async def test_session_starts_with_a_user_agent_and_its_settings(tmp_path: Path) -> None:
    put(
        own(tmp_path),
        "critic",
        "model: fake/critical\ntools: read, ls\ncontext: {keep_steps: 7, compact_at: 9000}",
    )
    async with daemon(tmp_path, [Call("write", {"file_path": "a", "content": "b"})], "Bad.") as bench:
        session = bench.core.new_session(agent="critic")
        await session.prompt("go")
        request = bench.models.requests[0]
        assert bench.models.models[0] == "fake/critical"
        assert request.system[0].text.startswith("You are mine.")
        assert [tool.name for tool in request.tools] == ["read", "ls"]
        assert "There is no tool named 'write'" in results(session)[0].content
        profile = session.request_builder.profile
        assert (profile.keep_steps, profile.compact_at) == (7, 9000)


async def test_user_settings_override_agent_context_numbers(tmp_path: Path) -> None:
    put(own(tmp_path), "critic", "context: {keep_steps: 7, compact_at: 9000}")
    async with daemon(tmp_path, command_line={"keep_steps": 2, "compact_at_tokens": 5000}) as bench:
        profile = bench.session(agent="critic").request_builder.profile
        assert (profile.keep_steps, profile.compact_at) == (2, 5000)


async def test_session_with_unusable_agent_is_refused_with_the_choices(tmp_path: Path) -> None:
    put(own(tmp_path), "critic", "mode: primary")
    put(own(tmp_path), "broken", "mode: x")
    async with daemon(tmp_path) as bench:
        for name, message in {
            "explore": "Start a session with one of: build, plan, init, execute, critic",
            "compaction": "only works as a sub-agent.",
            "nobody": "There is no agent 'nobody'; available agents: build, plan, init, execute, general, "
            "explore, critic",
            "broken": "broken.md: line 2: mode must be",
        }.items():
            with pytest.raises(UnknownAgentError, match=message):
                bench.core.new_session(agent=name)
        assert bench.core.store.trace_ids() == []
        assert "critic" in [agent.name for agent in bench.core.found_agents().agents]


async def test_task_tool_lists_user_and_workspace_sub_agents(tmp_path: Path) -> None:
    put(own(tmp_path), "critic", "description: Finds mistakes.\nmodel: fake/critical")
    put(own(tmp_path), "alone", "mode: primary")
    put(local(tmp_path), "house", "description: Knows the house.\nmode: subagent")
    agents = {"s1": ["It is bad."], "s2": ["The house is fine."]}
    async with with_subagents(
        tmp_path, ([task("Look.", "Critic"), task("And?", "house")], "Well."), agents
    ) as (
        bench,
        models,
    ):
        session = bench.session()
        await session.prompt("go")
        tool = next(tool for tool in models.requests[0].tools if tool.name == "task")
        assert tool.description.splitlines()[-2:] == [
            "- critic: Finds mistakes.",
            "- house: Knows the house.",
        ]
        assert [result.content for result in results(session)] == ["It is bad.", "The house is fine."]
        assert models.branches["s1"].models == ["fake/critical"]
        assert models.branches["s2"].models == ["fake/model"]


async def test_task_tool_description_is_unchanged_without_own_agents(tmp_path: Path) -> None:
    async with daemon(tmp_path, "Well.") as bench:
        session = bench.session()
        await session.prompt("go")
        spec = next(tool for tool in bench.models.requests[0].tools if tool.name == "task")
        assert spec.description == session.services.tools["task"].description


async def test_new_agent_is_available_from_the_next_prompt(tmp_path: Path) -> None:
    async with with_subagents(tmp_path, ["One.", [task("Look.", "critic")], "Two."], {"s1": ["Bad."]}) as (
        bench,
        _,
    ):
        session = bench.session()
        await session.prompt("go")
        put(own(tmp_path), "critic", "description: Finds mistakes.")
        await session.prompt("again")
        assert results(session)[0].content == "Bad."


async def test_agents_of_untrusted_folder_are_unused_and_reported_once(tmp_path: Path) -> None:
    put(local(tmp_path), "helper", "description: evil")
    put(local(tmp_path), "build", "description: evil", "Do evil.")
    main = [[task("Look.", "helper")], "No.", "Again."]
    async with with_subagents(tmp_path, main, {}, trusted=False) as (bench, models):
        session = bench.session()
        await session.prompt("go")
        await session.prompt("again")
        assert "There is no agent 'helper'." in results(session)[0].content
        assert subagents(session) == {}
        for request in models.requests:
            assert "evil" not in request.system[0].text
            assert not any("evil" in tool.description for tool in request.tools)
        assert [text for text in told(bench) if "agents of this folder" in text] == [
            "The agents of this folder (build, helper) are not used, because the folder is not trusted. If "
            "it is yours, run `goalwright trust` in it, or trust it in the editor."
        ]
        with pytest.raises(UnknownAgentError):
            bench.core.new_session(agent="helper")


async def test_agent_file_problems_are_reported_once_per_session(tmp_path: Path) -> None:
    put(own(tmp_path), "broken", "mode: x")
    async with daemon(tmp_path, "One.", "Two.") as bench:
        session = bench.session()
        await session.prompt("go")
        await session.prompt("again")
        assert [text for text in told(bench) if "broken.md" in text] == [
            f"{own(tmp_path) / 'broken.md'}: line 2: mode must be one of primary, subagent, all"
        ]


async def test_workspace_agent_grants_nothing_but_user_agent_may(tmp_path: Path) -> None:
    allows = "permission: {edit: allow, bash: allow}\ndescription: d"
    put(local(tmp_path), "loose", allows)
    put(own(tmp_path), "mine", allows)
    put(local(tmp_path), "tight", "deny: bash")
    rules = {"permission": {"bash": {"git push*": "deny"}}}
    async with daemon(tmp_path, command_line=rules) as bench:
        decided = {
            name: [
                bench.session(agent=name).rules.decide(*what).action
                for what in (("edit", "a"), ("bash", "git push"))
            ]
            for name in ("loose", "tight", "mine")
        }
        assert decided == {"loose": ["ask", "deny"], "tight": ["ask", "deny"], "mine": ["allow", "allow"]}
        assert bench.session(agent="mine").rules.decide("edit", ".git/config").action == "ask"
        assert not bench.session(agent="tight").rules.offered("bash")


async def test_session_whose_agent_is_gone_falls_back_to_build(tmp_path: Path) -> None:
    put(own(tmp_path), "critic", "description: d")
    async with daemon(tmp_path, "One.") as bench:
        session = bench.session(agent="critic")
        await session.prompt("go")
    (own(tmp_path) / "critic.md").unlink()
    async with daemon(tmp_path, "Two.", command_line=ALLOW_ALL) as bench:
        again = await bench.opened(session.session_id)
        again.policy.use(default_model="fake/model")
        await again.prompt("go on")
        assert again.agent == load_agent("build")
        assert "There is no agent critic here: build is used instead." in told(bench)


@pytest.mark.parametrize(("name", "place"), [("critic", "build"), ("plan", "plan"), ("build", "build")])
async def test_fallback_for_a_broken_agent_file_is_read_only(tmp_path: Path, name: str, place: str) -> None:
    put(own(tmp_path), name, "deny: edit")
    async with daemon(tmp_path, "One.") as bench:
        session = bench.session(agent=name)
        await session.prompt("go")
    put(own(tmp_path), name, "deny: edti")
    async with daemon(tmp_path, "Two.", "Three.", command_line=ALLOW_ALL) as bench:
        again = await bench.opened(session.session_id)
        again.policy.use(default_model="fake/model")
        await again.prompt("go on")
        assert (again.agent.name, again.agent.only_looks) == (place, True)
        assert again.rules.decide("edit", "a").action == "deny"
        assert any("permission 'edti'" in text for text in told(bench))
        put(own(tmp_path), name, "description: harmless\nread_only: false")
        await again.prompt("go on")
        assert again.rules.decide("edit", "a").action == "allow"


@asynccontextmanager
async def reopened_without_trust(
    folder: Path, head: str, text: str = "You are mine."
) -> AsyncGenerator[tuple[Bench, Session]]:
    """Open a session with an agent of the workspace again, when the folder is not trusted any more."""
    put(local(folder), "house", head, text)
    async with daemon(folder, "One.") as bench:
        session = bench.session(agent="house")
        await session.prompt("go")
    async with daemon(folder, "Two.", trusted=False) as bench:
        again = await bench.opened(session.session_id)
        again.policy.use(default_model="fake/model")
        yield bench, again


async def test_workspace_agent_is_found_once_a_client_trusts_it(tmp_path: Path) -> None:
    async with reopened_without_trust(tmp_path, "description: d", "You are the house.") as (bench, again):
        again.policy.use(trust="trusted")  # as an editor says it with a prompt
        await again.prompt("go on")
        assert bench.models.requests[0].system[0].text.startswith("You are the house.")


async def test_read_only_agent_of_a_folder_stays_so_without_trust(tmp_path: Path) -> None:
    async with reopened_without_trust(tmp_path, "description: d\nread_only: true") as (_, again):
        await again.prompt("go on")
        assert (again.agent.name, again.agent.only_looks) == ("build", True)
