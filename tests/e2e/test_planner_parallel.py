"""Steps that sub-agents do at the same time, from outside: real processes, the real SDK on the wire, a kill."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Callable
from typing import Any

from tests.support.drivers.forker import shared_forker
from tests.support.drivers.goalwright import Goalwright, installed
from tests.support.drivers.waiting import until
from tests.support.fakes.model_replies import Call, Reply, ReplyLike
from tests.support.fakes.model_server import ModelServer
from tests.support.scenarios.plans import plan, step

PLAN = plan(step("a", "Front", parallel=True), step("b", "Back", parallel=True), step("c", "Join", "a", "b"))
REST = plan({"keep": "g2"}, {"keep": "g3"})


def answers(*, hangs: Callable[[str], bool], run: Callable[[], str]) -> Callable[[dict[str, Any]], ReplyLike]:
    """Return a model that answers with a plan, a step of a sub-agent, or a step of its own."""

    def answer(body: dict[str, Any]) -> ReplyLike:
        messages = body["messages"]
        last = json.dumps(messages[-1])
        if apart := re.search(r"# The step\\n(\w+)", json.dumps(messages[0])):
            name = apart[1]
            if hangs(name):
                return Reply(text="I begin with it.", fault="hang", fault_after=4)
            return f"{name} is built." if "tool_result" in last else write(name, run())
        if "Answer with JSON" in last:
            return PLAN if run() == "first" else REST
        if mine := re.search(r"Work on goal \d (\w+)", last):
            return write(mine[1], run(), Call("goal", {"done": f"{mine[1]} is built."}))
        return "That is all."

    return answer


def write(name: str, run: str, *more: Call) -> Reply:
    return Reply(tool_calls=(Call("write", {"file_path": name, "content": f"{run}\n"}), *more))


def written(goalwright: Goalwright) -> dict[str, str]:
    files = [goalwright.workspace / name for name in ("Front", "Back", "Join")]
    return {file.name: file.read_text().strip() for file in files if file.exists()}


def said(server: ModelServer, words: str) -> int:
    return sum(words in json.dumps(request.json["messages"][0]) for request in server.requests)


async def goals(goalwright: Goalwright) -> list[tuple[str, str]]:
    shown = (await goalwright.command("goals", "--json")).stdout
    return [(goal["description"], goal["status"]) for goal in json.loads(shown)["goalTree"]["goals"]]


async def test_independent_steps_run_at_once_and_feed_the_next_step() -> None:
    begun: set[str] = set()

    def both(name: str) -> bool:
        begun.add(name)
        return False

    async with (
        ModelServer(answers(hangs=both, run=lambda: "first")) as server,
        installed(url=server.url, forker=shared_forker()) as goalwright,
    ):
        (await goalwright.run("build it", "--yes", "--planner", "layered")).check()
        assert begun == {"Front", "Back"}
        assert written(goalwright) == {"Front": "first", "Back": "first", "Join": "first"}
        assert await goals(goalwright) == [(name, "completed") for name in ("Front", "Back", "Join")]
        join = next(r for r in server.requests if "Work on goal 3 Join" in json.dumps(r.json["messages"][-1]))
        assert "Front is built." in json.dumps(join.json["messages"])
        assert "Back is built." in json.dumps(join.json["messages"])


async def test_kill_during_parallel_steps_repeats_no_finished_step() -> None:
    killed = False
    async with (
        ModelServer(
            answers(
                hangs=lambda name: name == "Back" and not killed, run=lambda: "second" if killed else "first"
            )
        ) as server,
        installed(url=server.url, forker=shared_forker()) as goalwright,
    ):
        running = asyncio.create_task(goalwright.run("build it", "--yes", "--planner", "layered"))

        def in_the_middle() -> bool:
            logs = b"".join(log.read_bytes() for log in goalwright.workspace.glob(".trace/*/events.jsonl"))
            return b'"summary":"Front is built."' in logs and said(server, "# The step\\nBack") > 0

        await until(in_the_middle, "one step done and the other under way", within_s=90)
        pid = json.loads((await goalwright.command("status", "--json")).stdout)["pid"]
        os.kill(pid, signal.SIGKILL)
        killed = True
        assert (await running).code != 0
        (await goalwright.run("go on", "--yes", "--continue", "--planner", "layered")).check()
        assert written(goalwright) == {"Front": "first", "Back": "second", "Join": "second"}
        assert await goals(goalwright) == [(name, "completed") for name in ("Front", "Back", "Join")]
        assert said(server, "# The step\\nFront") == 2, "the call, and the answer after its one tool"
