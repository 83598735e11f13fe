"""A real server that works on what it is asked (basedpyright) is not asked forever."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lsp_bridge.language_client.connection import RpcClient
from lsp_bridge.language_client.server import pull_diagnostics
from lsp_bridge.language_client.server.language_server import LanguageServer
from lsp_bridge.language_client.specs.settings import DEFAULT_SPECS
from tests.support.scenarios.language_workspace import HANG_S, LanguageWorkspace, eventually

ROUND_TRIPS = 400
FILES = {"cart.py": "def total(a: int) -> int:\n    return a\n"} | {
    f"user{number}.py": "from cart import total\nprint(total(1))\n" for number in range(6)
}


async def test_an_idle_server_is_asked_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without the pause whatever asks for ever does so all the time, so that no clock is needed to see it.
    monkeypatch.setattr(pull_diagnostics, "_REFRESH_PAUSE_S", 0.0)
    asked: list[str] = []
    request = RpcClient.request

    async def counted(self: RpcClient, method: str, params: Mapping[str, Any] | None, timeout: float) -> Any:
        asked.append(method)
        return await request(self, method, params, timeout)

    monkeypatch.setattr(RpcClient, "request", counted)
    [spec] = [spec for spec in DEFAULT_SPECS if spec.name == "pyright"]
    made = LanguageWorkspace(tmp_path, [spec])
    try:
        made.write({made.path(name): text for name, text in FILES.items()})
        for name in FILES:
            made.diagnostics.warm(made.path(name))
        await eventually(lambda: bool(list(made.servers.alive())), "a server")
        [server] = made.servers.alive()
        await made.running()
        await eventually(lambda: len(server.answers.documents) == len(FILES), "open files")
        await made.change(cart_py="def total(a: int) -> int:\n    return a + 1\n")

        async def round_trips() -> int:
            before = asked.count(pull_diagnostics.PULL)
            for _ in range(ROUND_TRIPS):
                await hover(server, made.path("cart.py"))
            return asked.count(pull_diagnostics.PULL) - before

        # At most this often it may still be at work; an endless loop never leaves a pause.
        for _ in range(12):
            if await round_trips() == 0 and await round_trips() == 0:
                break
        else:
            raise AssertionError("it is asked for ever")
    finally:
        await asyncio.wait_for(made.diagnostics.close(), HANG_S)


async def hover(server: LanguageServer, path: Path) -> None:
    place = {"textDocument": {"uri": path.as_uri()}, "position": {"line": 0, "character": 5}}
    await server.request("textDocument/hover", place, HANG_S)
