"""A workspace with language servers for tests: write a change the way a tool does, and get the report."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from lsp_bridge.language_client.diagnostics.server_source import ServerSource
from lsp_bridge.language_client.diagnostics.service import DiagnosticsService
from lsp_bridge.language_client.pool.server_choice import ServerChoice
from lsp_bridge.language_client.pool.server_pool import LanguageServers
from lsp_bridge.language_client.server.diagnostics_freshness import Settling, Timing
from lsp_bridge.language_client.specs.server_spec import Command, ServerSpec
from tools.tool import DiagnosticsReport

FAKE = Path(__file__).parents[1] / "programs" / "language_server.py"
SOON = Timing(
    answer_s=20.0,
    silent_answer_s=0.2,
    around_s=0.2,
    quiet_s=0.1,
    shutdown_s=0.3,
    terminate_s=0.3,
    settling=Settling(versioned_s=0.02, unversioned_s=0.2, doubtful_s=0.6),
)
"""For servers that answer: the wait ends then, and a busy machine may be slow."""
HASTY = replace(SOON, answer_s=1.0)
"""For servers that do not answer: the whole wait is waited for."""
NEVER = replace(SOON, answer_s=0.5)
"""For servers from which no answer to a change is wanted at all."""
HANG_S = 60.0
"""Far beyond every deadline: whoever reaches it hangs."""


def fake_spec(
    *flags: str, plan: Sequence[Sequence[str]] = (("fresh",),), name: str = "fake", suffix: str = ".txt"
) -> ServerSpec:
    """The spec of a fake server (see tests/support/programs/language_server.py) for ``suffix`` files."""
    argv = (sys.executable, str(FAKE), "--plan", json.dumps(plan), *flags)
    return ServerSpec(name=name, languages={suffix: "plain"}, commands=(Command(name, argv),))


class LanguageWorkspace:
    """A folder, its language servers, and the port under test."""

    def __init__(
        self,
        root: Path,
        specs: Sequence[ServerSpec],
        timing: Timing = SOON,
        *,
        clock: Callable[[], float] = time.monotonic,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root.resolve()
        choice = ServerChoice(tuple(specs), timing)
        self.servers = LanguageServers(self.root, lambda: choice, clock=clock, environment=environment)
        self.diagnostics = DiagnosticsService(self.root, [ServerSource(self.servers)])

    def path(self, name: str) -> Path:
        return self.root / name

    async def change(self, **texts: str | None) -> DiagnosticsReport:
        """Change several files at once; ``a_txt="..."`` is ``a.txt``, None deletes."""
        files = {self.path(name.replace("_", ".")): text for name, text in texts.items()}
        run = await self.diagnostics.begin(list(files))
        self.write(files)
        return await asyncio.wait_for(run.report(), HANG_S)

    def write(self, files: Mapping[Path, str | None]) -> None:
        for path, text in files.items():
            if text is None:
                path.unlink()
            else:
                path.write_bytes(text.encode())

    async def running(self) -> None:
        """Wait until every server asked for so far is ready."""
        until = asyncio.get_running_loop().time() + HANG_S
        for server in list(self.servers.alive()):
            assert await server.ready(until)


async def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait until ``condition()`` is true; ``what`` says what was waited for when it never is."""
    deadline = asyncio.get_running_loop().time() + HANG_S
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"timed out waiting for {what}"
        await asyncio.sleep(0.01)


def process_lives(pid: int) -> bool:
    """Whether a process with this id exists and is not a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    if not stat.parent.parent.is_dir():
        return True
    try:
        return stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
