"""Hooks of a whole daemon: installed ones, and the one process for them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from daemon.hooks.entry_points import FoundFunctions, HookFunction, discover
from daemon.hooks.python import TIMEOUT_S, PythonHook, PythonHost, host_command

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


class Hooks:
    """Shared by all sessions. Costs nothing until one begins to work, and no process until a function is called."""

    def __init__(
        self,
        workspace: Path,
        folder: Path,
        *,
        find: Callable[[], FoundFunctions] = discover,
        command: Sequence[str] | None = None,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``folder``: where the process of the Python hooks is at home; not the workspace. ``timeout_s``: for each
        call of a function. ``find``, ``command`` and ``clock`` are other ways to look for functions, to start the
        process and to measure seconds.
        """
        self.workspace = workspace
        self.found = FoundFunctions()
        self._folder = folder
        self._find = find
        self._command = tuple(command or host_command(workspace))
        self._timeout_s = timeout_s
        self._clock = clock
        self._learning: asyncio.Task[FoundFunctions] | None = None
        self.host: PythonHost | None = None
        """The process for functions; None as long as none was called."""

    async def learn(self) -> None:
        """Look for functions, once."""
        if self._learning is None:
            self._learning = asyncio.create_task(asyncio.to_thread(self._find))
        self.found = await asyncio.shield(self._learning)

    def callable(self, entry: HookFunction) -> PythonHook:
        """Return a function that can be asked."""
        if self.host is None:
            self.host = PythonHost(self._command, self._folder, self._clock)
        return PythonHook(entry, self.host, self._timeout_s)

    async def close(self) -> None:
        """End what runs."""
        if self._learning is not None:
            await asyncio.wait({self._learning})
        if self.host is not None:
            await self.host.close()
