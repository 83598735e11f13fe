from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.support.drivers.terminal_run import TerminalRun
from tests.support.fakes.daemon_server import FakeDaemon


@pytest.fixture
async def fake(tmp_path: Path) -> AsyncGenerator[FakeDaemon]:
    async with FakeDaemon(tmp_path, tmp_path / "home") as fake:
        yield fake


@pytest.fixture
def terminal(fake: FakeDaemon, tmp_path: Path) -> TerminalRun:
    return TerminalRun(fake, tmp_path / "home")
