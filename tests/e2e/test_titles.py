"""Titles by a small model, from outside: real processes, and the real wire of the provider."""

from __future__ import annotations

import json
from typing import Any

from tests.support.drivers.forker import shared_forker
from tests.support.drivers.goalwright import Goalwright, installed
from tests.support.drivers.waiting import until
from tests.support.fakes.model_replies import Reply
from tests.support.fakes.model_server import ModelServer

SMALL = "claude-haiku-4-5"
TITLE = "修复购物车的合计"


def answer(request: dict[str, Any], _wire: str) -> Reply:
    return Reply(text=f"“{TITLE}”\n") if request["model"] == SMALL else Reply(text="Done.")


async def listed(goalwright: Goalwright) -> list[dict[str, Any]]:
    shown = await goalwright.command("trace", "list", "--json")
    return [json.loads(line) for line in shown.stdout.splitlines()]


async def test_the_small_model_names_a_session_and_is_asked_once() -> None:
    async with (
        ModelServer(script=answer) as server,
        installed(url=server.url, forker=shared_forker()) as goalwright,
    ):
        (await goalwright.run("Mend the cart", "--yes")).check()
        assert [request.json["model"] == SMALL for request in server.requests] == [False]
        goalwright.configure(models={"title": f"anthropic/{SMALL}"})
        (await goalwright.run("请修复购物车的合计", "--yes")).check()

        def logged() -> str:
            return "".join(log.read_text() for log in goalwright.workspace.glob(".trace/*/events.jsonl"))

        await until(lambda: '"titled_by":"model"' in logged(), "the title in the log", within_s=60)
        (await goalwright.run("还有别的吗", "--yes", "--continue")).check()
        asked = [request.json for request in server.requests if request.json["model"] == SMALL]
        assert len(asked) == 1
        assert "请修复购物车的合计" in json.dumps(asked[0]["messages"], ensure_ascii=False)
        assert not asked[0].get("tools")
        assert sorted(trace["title"] for trace in await listed(goalwright)) == ["Mend the cart", TITLE]
