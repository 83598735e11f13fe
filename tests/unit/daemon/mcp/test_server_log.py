"""The log of an MCP server: what its file holds after it is closed."""

from __future__ import annotations

import asyncio
from threading import Event
from typing import TYPE_CHECKING, Any

from daemon.mcp import server_log
from daemon.mcp.server_log import McpServerLog
from tests.support.drivers.waiting import until
from tools.files.regular_files import write_private

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def test_closing_waits_for_a_write_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = Event(), Event()

    def slow(*arguments: Any) -> None:
        begun.set()
        assert go_on.wait(60)
        write_private(*arguments)

    monkeypatch.setattr(server_log, "_WRITE_AFTER_S", 0.0)
    monkeypatch.setattr(server_log, "write_private", slow)
    log = McpServerLog(tmp_path / "log")
    log.line("the last line")
    await until(begun.is_set, "the write", 60)
    closing = asyncio.create_task(log.close())
    await asyncio.wait({closing}, timeout=0.05)
    assert not closing.done()
    go_on.set()
    await closing
    assert (tmp_path / "log").read_text() == "the last line\n"
