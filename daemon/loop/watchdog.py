"""End a tool call that would never end, and a turn whose workspace is gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

from daemon.permission.service import CallPermission
from tools.localization import noted, t
from tools.process.background import finish
from tools.registry import run_tool
from tools.tool import ToolResult
from tools.tool_names import OUTSIDE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tools.process.background import Background
    from tools.registry import AnyTool
    from tools.tool import ToolContext

LIMIT_S = 180.0
"""Seconds that a call may make no progress. Everything that tools wait for has a shorter limit of its own."""
_LOOK_S = 0.5
"""Seconds between two checks that the workspace still exists, while a session works."""
_GRACE_S = 10.0
"""How long a call that was stopped may take to clean up."""
UNBOUNDED = frozenset(["bash", "job", "task", "explore", "hand_over"])
"""Tools without this limit: each has limits of its own, and shows its work."""


async def run_limited(tool: AnyTool, input_json: str, ctx: ToolContext) -> ToolResult:
    """Run a tool call with a time limit, except for tools that have limits of their own."""
    call = run_tool(tool, input_json, ctx)
    if tool.name in UNBOUNDED or tool.name.startswith(OUTSIDE):
        return await call
    permission = ctx.permission
    return await watched(
        tool.name, call, lambda: isinstance(permission, CallPermission) and permission.waited.now
    )


async def watched(
    name: str,
    call: Awaitable[ToolResult],
    busy: Callable[[], bool],
    limit_s: float | None = None,
) -> ToolResult:
    """Run a tool call. If it makes no progress for ``limit_s`` seconds it is canceled, and the result is an error.

    ``busy``: it waits for the user, which is not a hang. Work that cannot be canceled (a thread that a dead network
    disk blocks) is left behind, so that the session can continue.
    """
    limit = LIMIT_S if limit_s is None else limit_s
    running = asyncio.ensure_future(call)
    loop = asyncio.get_running_loop()
    since = loop.time()
    try:
        while loop.time() - since < limit:
            await asyncio.wait({running}, timeout=limit / 10)
            if running.done():
                return running.result()
            if busy():
                since = loop.time()
        running.cancel()
        await asyncio.wait({running}, timeout=_GRACE_S)
    except asyncio.CancelledError:
        # Whatever the call's result, a cancellation that is not passed on would be lost.
        running.cancel()
        await finish(running)
        _forget(running)
        raise
    if running.done() and not running.cancelled() and running.exception() is None:
        return running.result()
    running.add_done_callback(_forget)
    return ToolResult(
        f"The {name} tool made no progress for {limit:g} seconds and was stopped. Part of its work may be "
        "done. Check the current state, then try smaller steps or another way.",
        title=t("stopped: no progress"),
        is_error=True,
    )


def _forget(call: asyncio.Future[ToolResult]) -> None:
    if not call.cancelled():
        call.exception()  # else asyncio reports that it was never retrieved


class WorkspaceGuard:
    """Knows whether the workspace is still the folder that it was when the work began."""

    def __init__(self, workspace: Path, background: Background) -> None:
        """``background``: runs ``watch``."""
        self._workspace = workspace
        self._background = background
        self._held: int | None = None
        self._watching: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Open the current folder, if that was not done already."""
        if self._held is None:
            with contextlib.suppress(OSError):
                # The number alone is not enough: some file systems reuse it once nothing has the folder open.
                self._held = os.open(self._workspace, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))

    def end(self) -> None:
        """Let go: nothing is at work."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def problem(self) -> str:
        """Return why no more work can be done there, or nothing."""
        try:
            there = self._workspace.stat()
        except OSError:
            return t(_GONE, workspace=self._workspace)
        if self._held is not None and not os.path.samestat(there, os.fstat(self._held)):
            return t(_ANOTHER, workspace=self._workspace)
        return ""

    def watch(self, working: Callable[[], bool], failed: Callable[[str], None]) -> None:
        """Watch the folder from now on while ``working`` is true; ``failed`` gets each problem."""
        if self._watching is None or self._watching.done():
            self._watching = self._background.start(self._watch(working, failed))

    async def _watch(self, working: Callable[[], bool], failed: Callable[[str], None]) -> None:
        try:
            while True:
                await asyncio.sleep(_LOOK_S)
                if not working():
                    self.end()
                    continue
                self.begin()
                if problem := self.problem():
                    failed(problem)
        finally:
            self.end()


_GONE = noted(
    "The workspace {workspace} was deleted or renamed, so this session has ended and nothing more is "
    "written there. Restore the folder, or open it at its new location."
)
_ANOTHER = noted(
    "The workspace {workspace} is not the folder in which this session started, so the session has ended "
    "and nothing more is written there. Restore the original folder, or start a new session for this one."
)
