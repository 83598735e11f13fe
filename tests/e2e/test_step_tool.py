"""The ``step`` tool from outside: real processes, the real SDK on the wire (seed 003, "step 工具", "按需读取")."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import AsyncGenerator
from typing import Any

from tests.support.drivers.forker import shared_forker
from tests.support.drivers.goalwright import Goalwright, installed
from tests.support.fakes.model_replies import Call, Reply, ReplyLike
from tests.support.fakes.model_server import ModelServer

SECRET = "the configuration says 4711"


def step(**arguments: Any) -> Call:
    return Call("step", arguments)


def calls(*made: Call, text: str = "") -> Reply:
    return Reply(text=text, tool_calls=made)


@contextlib.asynccontextmanager
async def person(*replies: ReplyLike) -> AsyncGenerator[tuple[Goalwright, ModelServer]]:
    async with (
        ModelServer(replies) as server,
        installed(url=server.url, forker=shared_forker()) as goalwright,
    ):
        goalwright.configure(plan_front="step")
        (goalwright.workspace / "config.yaml").write_text(f"{SECRET}\n" * 30)
        yield goalwright, server


def said(server: ModelServer, at: int = -1) -> str:
    return json.dumps(server.requests[at].json["messages"], ensure_ascii=False)


async def test_step_tool_plans_and_works_through_a_task() -> None:
    replies = (
        calls(step(plan=["探索代码库", "修改配置", "运行测试"]), step(focus="探索代码库")),
        calls(Call("read", {"file_path": "config.yaml"}), text="需要先了解项目结构"),
        calls(step(complete=True, summary="主配置在 /src/config.yaml", focus="修改配置")),
        calls(step(plan=["备份配置"]), Call("read_progress", {})),
        "Planned.",
        calls(step(complete=True, summary="改好了", focus="运行测试")),
        "Done.",
    )
    async with person(*replies) as (goalwright, server):
        (await goalwright.run("修改配置文件", "--yes")).check()
        body = server.requests[0].json
        tools = {tool["name"]: tool for tool in body["tools"]}
        assert {"step", "read_progress"} < set(tools)
        assert "goal" not in tools
        assert set(tools["step"]["input_schema"]["properties"]) == {"plan", "focus", "complete", "summary"}
        assert "`step`" in json.dumps(body["system"])
        assert SECRET in said(server, 2)
        after = said(server, 4)
        assert SECRET not in after
        assert "主配置在 /src/config.yaml" in after
        assert "[✓] 探索代码库\\n[→] 修改配置\\n    [ ] 备份配置\\n[ ] 运行测试" in after
        status = json.loads((await goalwright.command("status", "--json")).stdout)
        os.kill(status["pid"], signal.SIGKILL)
        (await goalwright.run("go on", "--yes", "--continue")).check()
        assert [tool["name"] for tool in server.requests[-1].json["tools"]][:2] == ["step", "read_progress"]
        shown = (await goalwright.command("goals")).stdout.splitlines()
        assert [line.split("  (")[0] for line in shown if not line.startswith("      ")] == [
            "Mission: 修改配置文件",
            "✓ 1. 探索代码库",
            "✓ 2. 修改配置",
            "○ 3. 备份配置",
            "◐ 4. 运行测试",
            "  Without a goal",
        ]


async def test_invalid_step_calls_get_an_explanation_and_run_continues() -> None:
    replies = (
        calls(step(complete=True, summary="s")),
        calls(step(plan=["a", "b"], focus="c")),
        calls(step(plan="a\nb", focus="2", complete="")),
        calls(step(complete=True)),
        calls(Call("goal", {"done": "s"})),
        "Well.",
    )
    async with person(*replies) as (goalwright, server):
        (await goalwright.run("do it", "--yes")).check()
        told = said(server)
        for words in (
            "No goal has the focus, so there is nothing to finish",
            "There is no goal 'c'",
            "Added: 1 a; 2 b.\\nFocus: 2 b.",
            "complete needs a summary",
            "There is no tool named 'goal' here: use step for the plan.",
        ):
            assert words in told
