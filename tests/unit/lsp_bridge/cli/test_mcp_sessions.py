"""The sessions of a folder as other agents get them, over a daemon that only answers requests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from lsp_bridge.cli.commands.session_command import CommandFailedError
from lsp_bridge.cli.launch import Launcher
from lsp_bridge.cli.mcp_server import sessions as under_test
from lsp_bridge.cli.mcp_server.sessions import MOST_EXPLORATIONS, FolderSessions


class Daemon:
    """Launcher and client in one. Prompts never end."""

    closed = False

    def __init__(self, refused: str = "") -> None:
        self.prompts = 0
        self.refused = refused

    async def connect(self, workspace: Path, greeting: object) -> tuple[Daemon, None]:
        return self, None

    async def request(self, method: str, params: dict[str, Any], limit_s: float = 0) -> dict[str, Any]:
        await asyncio.sleep(0)
        if method == self.refused:
            raise CommandFailedError("no such session")
        if method == "goalwright/session/prompt":
            self.prompts += 1
            await asyncio.Event().wait()
        return {}

    async def close(self) -> None:
        pass


async def explored(daemon: Daemon, count: int) -> list[str]:
    sessions = FolderSessions(Path("/w"), cast("Launcher", daemon))
    calls = [sessions.explore("which?", f"session {number}") for number in range(count)]
    ended = await asyncio.gather(*calls, return_exceptions=True)
    await sessions.close()
    return [str(one) for one in ended]


async def test_calls_at_once_start_no_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "_AT_ONCE_S", 0)
    daemon = Daemon()
    ended = await explored(daemon, MOST_EXPLORATIONS + 2)
    assert daemon.prompts == MOST_EXPLORATIONS
    assert ["still at work" in one for one in ended] == [False] * MOST_EXPLORATIONS + [True] * 2


async def test_exploration_that_cannot_begin_takes_no_place() -> None:
    daemon = Daemon(refused="goalwright/session/preview")
    sessions = FolderSessions(Path("/w"), cast("Launcher", daemon))
    for _ in range(MOST_EXPLORATIONS + 1):
        with pytest.raises(CommandFailedError, match="no such session"):
            await sessions.explore("which?", "gone")
