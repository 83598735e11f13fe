"""A process that stands for the daemon and is to be killed: it runs commands and jobs, and says what it has begun.

``python -m tests.support.programs.doomed_daemon <workspace> <mode> <command>``; mode ``ask`` and ``start``: prints
``ready`` when it is asked for the command, and waits or goes on; ``run``; ``grace``: the command is canceled; ``job``.
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from daemon.jobs import SessionJobs
from tests.support.fakes.tool_context import fake_context
from tools.bash import BashInput, BashTool
from tools.tool import PermissionAsk


async def main(workspace: Path, mode: str, command: str) -> None:
    ctx = fake_context(workspace)

    async def asked(ask: PermissionAsk) -> None:
        if mode == "ask":
            print("ready", flush=True)
            await asyncio.Event().wait()
        if mode == "start":
            print("ready", flush=True)

    ctx.permission.on_ask = asked
    if mode == "job":
        jobs = SessionJobs(ctx.scratch, lambda: datetime.now(UTC))
        await jobs.start(
            ["bash", "-c", command], command=command, cwd=workspace, env=os.environ, tool_call_id="c"
        )
        await asyncio.Event().wait()
    running = asyncio.create_task(BashTool(kill_grace_s=60).run(BashInput(command=command), ctx))
    if mode == "grace":
        while not (workspace / "pids").exists():  # noqa: ASYNC110 - a file of another process
            await asyncio.sleep(0.01)
        running.cancel()
    await running


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
