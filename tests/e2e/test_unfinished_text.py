"""The text that a model was writing when the daemon was killed is kept."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any

from tests.support.drivers.forker import shared_forker
from tests.support.drivers.goalwright import installed
from tests.support.drivers.waiting import until
from tests.support.fakes.model_replies import Reply
from tests.support.fakes.model_server import ModelServer

SECRET = "sk-ant-api03-" + "Zq7" * 20
SAID = f"The parser reads the file twice. The key is {SECRET} and it is used. Then it"


def logged(workspace: Path) -> list[dict[str, Any]]:
    lines = [
        line for log in workspace.glob(".trace/*/events.jsonl") for line in log.read_bytes().splitlines()
    ]
    found: list[dict[str, Any]] = []
    for line in lines:
        with contextlib.suppress(ValueError):  # the last one may be half written
            found.append(json.loads(line))
    return found


async def test_unfinished_text_survives_a_kill_without_its_secrets() -> None:
    # Small pieces, so that the secret is cut into several.
    replies = [Reply(text=SAID + " goes on" * 400, chunk=5, delay_s=0.05), Reply(text="Going on.")]
    async with (
        ModelServer(replies) as server,
        installed(url=server.url, forker=shared_forker()) as goalwright,
    ):
        running = asyncio.create_task(goalwright.run("explain", "--yes"))

        def stored() -> str:
            events = logged(goalwright.workspace)
            return "".join(e["text"] for e in events if e["event"] == "message_text_added")

        await until(lambda: "goes on goes on" in stored(), "the unfinished text in the log", within_s=60)
        pid = json.loads((await goalwright.command("status", "--json")).stdout)["pid"]
        os.kill(pid, signal.SIGKILL)
        await running
        assert not any(
            e["event"] == "message_added" and e["message"]["role"] == "assistant"
            for e in logged(goalwright.workspace)
        )
        done = await goalwright.run("go on", "--yes", "--continue")
        assert done.code == 0, done.stderr
        log = "".join(p.read_text() for p in goalwright.workspace.glob(".trace/*/events.jsonl"))
    sent = json.dumps(server.requests[-1].json["messages"])
    assert "The parser reads the file twice." in sent
    assert "goes on goes on" in sent
    assert SECRET not in log
    assert SECRET[:40] not in log
