"""``goalwright mcp serve`` under the official SDK's client, over a real pipe and with a real daemon."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.support.drivers.command_line import PROGRAM, CommandLine, wait_until

READS = {"list_sessions", "goal_tree", "goal_messages", "search"}
PLANNED = [
    {
        "text": "Let me plan.",
        "tool_calls": [
            {"name": "goal", "input": {"add": ["Find the slow query", "Add an index"], "focus": "1"}}
        ],
    },
    {"tool_calls": [{"name": "goal", "input": {"goal": "1", "done": "It is the report of May."}}]},
    {"text": "Done with <b>the</b> search. " + "long " * 2_000},
]


class Peer:
    """The other agent."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def call(self, name: str, **arguments: Any) -> str:
        result = await self.session.call_tool(name, arguments)
        (content,) = result.content
        text: str = content.text  # pyright: ignore[reportAttributeAccessIssue]
        assert not result.is_error, text
        return text

    async def fails(self, name: str, **arguments: Any) -> str:
        result = await self.session.call_tool(name, arguments)
        assert result.is_error
        return result.content[0].text  # pyright: ignore[reportAttributeAccessIssue]


@asynccontextmanager
async def peer(goalwright: CommandLine, *options: str) -> AsyncGenerator[Peer]:
    parameters = StdioServerParameters(
        command=PROGRAM[0],
        args=[*PROGRAM[1:], "mcp", "serve", *options],
        env=dict(goalwright.env),
        cwd=goalwright.workspace,
    )
    async with stdio_client(parameters, errlog=sys.stderr) as streams, ClientSession(*streams) as session:
        await session.initialize()
        yield Peer(session)


async def tools(one: Peer) -> set[str]:
    return {tool.name for tool in (await one.session.list_tools()).tools}


def test_other_agents_read_the_plan_and_nothing_else(goalwright: CommandLine) -> None:
    ran = goalwright.run("run", "Make it fast", "--yes", "--model", goalwright.script(PLANNED))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (goalwright.folder / "elsewhere").mkdir()

    async def use() -> None:
        async with peer(goalwright) as one:
            assert await tools(one) == READS
            assert all(
                tool.annotations is not None and tool.annotations.read_only_hint
                for tool in (await one.session.list_tools()).tools
            )
            (line,) = (await one.call("list_sessions")).splitlines()
            assert "Make it fast" in line
            name = line.split()[0]
            tree = await one.call("goal_tree")
            assert "Mission: Make it fast" in tree
            assert "✓ 1 Find the slow query [completed]\n    It is the report of May." in tree
            assert "2 Add an index [pending]" in tree
            messages = await one.call("goal_messages", session=name)
            assert "user:\nMake it fast" in messages and "[call] goal" in messages
            assert len(messages) < 10_000, "long texts are shortened"
            assert "report of May" in await one.call("goal_messages", goal="1", session=name)
            assert name in await one.call("search", query="make it FAST")
            assert (await one.fails("goal_messages", goal="7")).startswith("There is no goal 7")
            for bad in ("../../etc", "20200101-000000-0000000000", f"{name}/../x"):
                await one.fails("goal_tree", session=bad)
            assert await one.fails("explore", question="x")
            wrong = await one.fails("list_sessions", limit=10_000_000)
            assert wrong == "The arguments of list_sessions are wrong: limit must be 100 or less."
            assert "goal must be text" in await one.fails("goal_messages", goal=5)
            unknown = await one.fails("list_sessions", limit=1, query="x")
            assert unknown == "list_sessions has no argument query. It has: limit."
            assert "goalwright/" not in await one.fails("goal_tree", session="20200101-000000-0000000000")

    asyncio.run(use())


def test_a_folder_that_does_not_exist_is_refused(goalwright: CommandLine) -> None:
    for folder, words in (("nowhere", "does not exist"), ("file", "is not a folder")):
        (goalwright.workspace / "file").write_text("")
        ran = goalwright.run("mcp", "serve", "--workspace", str(goalwright.workspace / folder))
        assert (ran.returncode, words in ran.stderr) == (1, True)


def test_with_changes_goals_and_explorations(goalwright: CommandLine) -> None:
    ran = goalwright.run("run", "Make it fast", "--yes", "--model", goalwright.script(PLANNED))
    assert ran.returncode == 0
    goalwright.configure(model=goalwright.script([{"text": "I would try two ways."}]))

    async def use() -> str:
        async with peer(goalwright, "--allow-changes") as one:
            assert await tools(one) == READS | {"add_goal", "explore"}
            await one.call("add_goal", description="Measure it", under="2")
            assert "2.1 Measure it  (pending)" in goalwright.run("goals").stdout
            started = await one.call("explore", question="Is a cache better?")
            assert "Started in session" in started
            return started.split()[3].rstrip(".")

    session = asyncio.run(use())

    def answered() -> bool:
        found = json.loads(goalwright.run("sessions", "--json").stdout)
        return any(
            one["trace"]["traceId"] == session and one["trace"]["lastStopReason"] == "end_turn"
            for one in found["sessions"]
        )

    wait_until(answered, "the answer, although the other agent has gone")
