"""Answers of an editor's user that the daemon cannot take: a session of the Agent Client Protocol at the real door."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from acp.schema import (
    AgentMessageChunk,
    AllowedOutcome,
    PermissionOption,
    RequestPermissionResponse,
    TextContentBlock,
    ToolCallUpdate,
)

from daemon.runtime import Address
from lsp_bridge.cli.acp.live_session import LiveSession
from lsp_bridge.cli.client import Client, Greeting
from tests.support.drivers.bridge import TOKEN, Door, served
from tests.support.fakes.models import Call, Hold
from tests.support.scenarios.branches import BranchModels, explore, repository


class Editor:
    """Chooses the first option whose name begins with the next of ``answers``."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[list[str]] = []
        self.told = ""
        self.on_question: Callable[[], object] = lambda: None

    async def session_update(self, session_id: str, update: Any) -> None:
        if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContentBlock):
            self.told += update.content.text

    async def request_permission(
        self, session_id: str, call: ToolCallUpdate, options: list[PermissionOption]
    ) -> RequestPermissionResponse:
        self.on_question()
        self.asked.append([option.name for option in options])
        wanted = self.answers.pop(0)
        chosen = next(option.option_id for option in options if option.name.startswith(wanted))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))


@asynccontextmanager
async def session(door: Door, editor: Editor) -> AsyncGenerator[LiveSession]:
    workspace = door.bench.workspace
    client = await Client.connect(Address(0, TOKEN, "", 1, str(workspace), "", str(door.socket)))
    await client.initialize(workspace, Greeting(client="ACP"))
    made = await client.request("goalwright/session/new")

    async def connect() -> Client:
        return client

    live = LiveSession(made["session"]["trace"]["traceId"], workspace, cast("Any", editor), connect)
    client.on_notification(live.notified)
    await live.opened(client)
    try:
        yield live
    finally:
        await live.close()
        await client.close()


async def turn_of(live: LiveSession) -> str:
    async with asyncio.timeout(30):
        return await live.prompt("try it", [])


async def test_a_grant_that_cannot_be_stored_is_asked_about_again() -> None:
    async with served(Call("bash", {"command": "touch here", "description": "x"}), "Done.") as door:
        (door.bench.core.state_folder / "grants.json").write_text('{"format": 99, "grants": []}')
        editor = Editor("Always (everywhere", "Allow once")
        async with session(door, editor) as live:
            assert await turn_of(live) == "end_turn"
        assert editor.asked[1] == ["Allow once", "Reject"]
        assert "grants.json" in editor.told
        assert (door.bench.workspace / "here").exists()


async def test_a_branch_that_cannot_be_merged_is_not_offered_again() -> None:
    folder = Path(tempfile.mkdtemp(prefix="gw-")).resolve()
    file = repository(folder) / "src/a.py"
    read = Call("read", {"file_path": "src/a.py"})
    scripts = {
        name: (read, Call("edit", {"file_path": path, "old_string": old, "new_string": new}), "Done.")
        for name, path, old, new in (("A", "src/a.py", "a = 1", "a = 2"), ("B", "src/a.py", "a = 1", "a = 9"))
    }
    models = BranchModels((explore("Make it two", "Make it nine"), "Compared."), scripts)
    settings = {"test_command": "", "permission": {"edit": "allow"}, "explore_choice": "person"}
    editor = Editor("Merge A", "Merge B")
    editor.on_question = lambda: file.write_text("a = 9\n")  # meanwhile, the user types what B did
    try:
        async with served(settings=settings, at=folder, models=models) as door:
            async with session(door, editor) as live:
                assert await turn_of(live) == "end_turn"
            assert editor.asked[1] == ["Merge B: Make it nine", "Let the model choose"]
            assert "Nothing was written" in editor.told
    finally:
        shutil.rmtree(folder)


async def test_cancellation_that_comes_late_spares_the_next_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Hold(), Hold()
    async with served([first, "One."], [second, "Two."]) as door, session(door, Editor()) as live:
        turns = [asyncio.create_task(turn_of(live))]
        await first.reached.wait()
        client = await live.connect()
        request = client.request

        async def slow(method: str, params: dict[str, Any]) -> dict[str, Any]:
            if (
                method == "goalwright/queue/edit"
            ):  # meanwhile, the turn ends, and the user sends another prompt
                first.go.set()
                assert await turns[0] == "end_turn"
                turns.append(asyncio.create_task(turn_of(live)))
                await second.reached.wait()
            return await request(method, params)

        monkeypatch.setattr(client, "request", slow)
        await live.cancel()
        second.go.set()
        assert await turns[1] == "end_turn"
