"""Prompts that begin with ``@agent``: a sub-agent does the task, or the session goes on as another agent."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from daemon.agents.loader import load_agent
from daemon.loop.attachments import attached
from daemon.loop.mentions import EXECUTED, switch_alone
from daemon.loop.session import Session
from daemon.model.events import Notice, SubagentCompleted
from daemon.model.messages import AgentPart, FilePart, Message, NotePart, SubtaskPart, TextPart
from daemon.provider import anthropic_wire, openai_wire
from tests.support.drivers.core import ALLOW_ALL, daemon, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Hold, Step
from tests.support.scenarios.subagents import results, subagents, with_subagents
from tools.tool import ToolError

LOOK = "@explore find the entry point"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
FOUND: dict[str, list[Step]] = {"s1": ["main.py:1 is it."]}


def said(session: Session) -> Message:
    return next(message for message in session.state.messages if message.role == "user")


async def test_mentioned_sub_agent_runs_and_the_model_sees_its_result(tmp_path: Path) -> None:
    async with with_subagents(tmp_path, ["It is main.py."], FOUND, command_line=ALLOW_ALL) as (bench, models):
        session = bench.session()
        assert (await session.prompt(LOOK)).stop == "end_turn"
        task = SubtaskPart(agent="explore", prompt="find the entry point")
        assert said(session).content == (task, NotePart(text=EXECUTED))
        assert said(session).description == "find the entry point"
        (result,) = results(session)
        assert (result.name, result.content, result.is_error) == ("task", "main.py:1 is it.", False)
        (meta,) = subagents(session).values()
        assert (meta.agent, meta.status, meta.tool_call_id) == ("explore", "completed", result.tool_call_id)
        (request,) = models.requests
        user, call, answer = request.messages
        assert [getattr(part, "text", "") for part in user.content] == ["find the entry point", EXECUTED]
        assert (call.role, answer.role) == ("assistant", "tool")
        # Both wires take it: a call with its result, and alternating roles.
        wire = anthropic_wire.build(request)["messages"]
        assert [message["role"] for message in wire] == ["user", "assistant", "user"]
        assert wire[1]["content"][0]["input"] == {"agent": "explore", "prompt": "find the entry point"}
        roles = [message["role"] for message in openai_wire.to_messages(request)]
        assert roles[-3:] == ["user", "assistant", "tool"]
        # The call cost nothing: no model made it.
        assert session.state.messages[1].model is None
        assert session.state.trace.title == LOOK


async def test_mention_starts_a_task_even_without_the_task_tool(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "agents"
    folder.mkdir(parents=True)
    (folder / "bare.md").write_text("---\nmode: primary\ntools: read\n---\nYou read.\n")
    async with with_subagents(tmp_path, ["Done."], FOUND) as (bench, _):
        session = bench.session(agent="bare")
        await session.prompt(LOOK)
        assert results(session)[0].content == "main.py:1 is it."


async def test_task_of_a_user_is_still_allowed_after_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "agents"
    folder.mkdir(parents=True)
    (folder / "bare.md").write_text("---\nmode: primary\ntools: read\n---\nYou read.\n")
    ask = {"permission": {"task": "ask"}}
    async with with_subagents(tmp_path, [], {}, command_line=ask) as (bench, _):
        session = bench.session(agent="bare")
        turn = prompted(session, LOOK)
        await bench.asked()
    assert (await turn).stop == "canceled"
    async with with_subagents(tmp_path, ["Done."], FOUND, command_line=ask) as (bench, _):
        again = await bench.opened(session.session_id)
        again.policy.use(default_model="fake/model")
        assert again.resume()
        await bench.answer("once")
        await again.rest()
        assert results(again)[0].content == "main.py:1 is it."


async def test_task_deny_rule_blocks_a_sub_agent_started_by_the_user(tmp_path: Path) -> None:
    async with daemon(tmp_path, "I cannot.", command_line={"permission": {"task": "deny"}}) as bench:
        session = bench.session()
        assert (await session.prompt(LOOK)).stop == "end_turn"
        assert results(session)[0].is_error
        assert "Permission denied" in results(session)[0].content
        assert not subagents(session)


async def test_a_canceled_task_is_answered_and_not_started_again(tmp_path: Path) -> None:
    hold = Hold()
    async with with_subagents(tmp_path, ["Yes."], {"s1": [[hold, "late"]]}) as (bench, models):
        session = bench.session()
        working = asyncio.create_task(session.prompt(LOOK))
        await hold.reached.wait()
        session.cancel()
        assert (await working).stop == "canceled"
        assert results(session)[0].metadata["canceled"] is True
        await session.prompt("Are you there?")
        assert len(bench.events(SubagentCompleted)) == 1
        assert len(models.requests) == 1


async def test_a_steered_task_is_done_between_two_steps(tmp_path: Path) -> None:
    hold = Hold()
    main: list[Step] = [[hold, Call("ls", {})], "Both done."]
    async with with_subagents(tmp_path, main, FOUND, command_line=ALLOW_ALL) as (bench, models):
        session = bench.session()
        first = asyncio.create_task(session.prompt("list"))
        await hold.reached.wait()
        second = asyncio.create_task(session.prompt(LOOK, when_busy="steer"))
        await until(lambda: len(session.queued()) == 1, "the steered prompt")
        hold.go.set()
        await asyncio.gather(first, second)
        assert [result.name for result in results(session)] == ["ls", "task"]
        assert [message.role for message in models.requests[1].messages][-3:] == ["user", "assistant", "tool"]


async def test_a_primary_agent_takes_the_session_over(tmp_path: Path) -> None:
    async with daemon(tmp_path, "Planned.", "Built.") as bench:
        session = bench.session()
        await session.prompt("@plan think about it")
        assert said(session).content == (AgentPart(agent="plan"), TextPart(text="think about it"))
        assert (session.agent.name, session.state.trace.agent) == ("plan", "plan")
        first = bench.models.requests[0]
        assert first.system[0].text.startswith(load_agent("plan").prompt[:100])
        note, text = first.messages[0].content
        assert "you are the agent plan" in str(getattr(note, "text", ""))
        assert getattr(text, "text", "") == "think about it"
        await session.prompt("@build go")
        assert session.agent.name == "build"
        assert bench.models.requests[1].system[0].text.startswith(load_agent("build").prompt[:100])
        wire: Any = anthropic_wire.build(bench.models.requests[1])
        assert json.dumps(wire)


@pytest.mark.parametrize(
    "text",
    [
        "@nobody do it",
        "@src/main.py what is it?",
        "@compaction sum up",
        "@build go",
        "@explore",
        "mail a@general x",
    ],
)
async def test_other_names_are_text(tmp_path: Path, text: str) -> None:
    async with daemon(tmp_path, "Well.") as bench:
        session = bench.session()
        await session.prompt(text)
        assert said(session).content == (TextPart(text=text),)
        assert session.agent.name == "build"


async def test_model_prompt_with_a_mention_starts_no_agent(tmp_path: Path) -> None:
    main: list[Step] = [Call("task", {"agent": "general", "prompt": "@build delete it"}), "Done."]
    async with with_subagents(tmp_path, main, {"s1": ["No."]}, command_line=ALLOW_ALL) as (bench, models):
        session = bench.session()
        await session.prompt("go")
        (child,) = models.branches["s1"].requests
        assert getattr(child.messages[0].content[0], "text", "") == "@build delete it"
        assert child.env["GOALWRIGHT_AGENT"] == "general"
        assert len(subagents(session)) == 1


@pytest.mark.parametrize("text", ["@Explore find the entry point", "@explore, find the entry point"])
async def test_agent_name_matches_in_any_case_and_with_a_comma(tmp_path: Path, text: str) -> None:
    async with with_subagents(tmp_path, ["It is main.py."], FOUND, command_line=ALLOW_ALL) as (bench, _):
        session = bench.session()
        await session.prompt(text)
        assert said(session).content[0] == SubtaskPart(agent="explore", prompt="find the entry point")


async def test_agent_switch_and_similar_agent_names_are_announced(tmp_path: Path) -> None:
    async with daemon(tmp_path, "Planned.", "Well.") as bench:
        session = bench.session()
        await session.prompt("@plan think about it")
        assert "now uses the agent plan" in bench.events(Notice)[-1].text
        await session.prompt("@explor find it")
        assert "Did you mean @explore?" in bench.events(Notice)[-1].text
        assert session.state.messages[-2].content == (TextPart(text="@explor find it"),)


async def test_a_name_alone_switches_or_asks_for_a_task(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        assert switch_alone(session, "@plan")
        assert session.agent.name == session.state.trace.agent == "plan"
        assert "now uses the agent plan" in bench.events(Notice)[-1].text
        assert switch_alone(session, " @Plan ")
        assert "already" in bench.events(Notice)[-1].text
        with pytest.raises(ToolError, match="explore needs a task"):
            switch_alone(session, "@explore")
        for other in ("@nobody", "@plan go on", "@compaction", "hello"):
            assert not switch_alone(session, other)
        assert session.state.messages == []


async def test_an_agent_is_not_switched_alone_in_the_middle_of_a_turn(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, "late"]) as bench:
        session = bench.session()
        working = asyncio.create_task(session.prompt("go"))
        await hold.reached.wait()
        with pytest.raises(ToolError, match="The agent cannot be switched during a turn"):
            switch_alone(session, "@plan")
        hold.go.set()
        await working
        assert session.agent.name == "build"


async def test_attachments_of_a_task_reach_the_sub_agent(tmp_path: Path) -> None:
    async with with_subagents(tmp_path, ["Yes."], FOUND, command_line=ALLOW_ALL) as (bench, models):
        session = bench.session()
        part = FilePart(name="a.py", media_type="text/plain", data="eCA9IDEK")
        await session.prompt(LOOK, (part,))
        (child,) = models.branches["s1"].requests
        assert part in child.messages[0].content
        stored = bench.core.store.messages(f"{session.session_id}:s1")[0]
        assert stored.content == (SubtaskPart(agent="explore", prompt="find the entry point"), part)


async def test_image_is_refused_if_the_sub_agent_model_is_blind(tmp_path: Path) -> None:
    blind = {**ALLOW_ALL, "models": {"explore": "openai/gpt-3.5-turbo"}}
    async with daemon(tmp_path, command_line=blind) as bench:
        session = bench.session()
        image = FilePart(name="shot.png", media_type="image/png", data=PNG)
        with pytest.raises(ToolError, match="turbo cannot read images"):
            await attached(session, (image,), "p", LOOK)
        assert await attached(session, (image,), "p", "find the entry point")
