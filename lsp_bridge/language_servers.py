"""The language servers of a workspace: found and started on demand, restarted after a crash, stopped idle."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lsp_bridge.language.specs import DEFAULT_SPECS, Found, ServerSpec, find_server, safe_environment
from lsp_bridge.language.timing import Timing
from lsp_bridge.language_server import LanguageServer
from tools.language import Severity

_MAX_RESTARTS = 3
_BACK_OFF_S = (0.0, 2.0, 10.0)
"""Before the first, second and third restart."""
_FORGIVEN_AFTER_S = 600.0
"""A server that ran this long before it crashed starts again with a clean record."""
_LOOK_AGAIN_S = 30.0
"""How long "not installed" is remembered."""


@dataclass(slots=True)
class _Slot:
    """The place of one server in the set, whether it runs or not."""

    spec: ServerSpec
    found: Found | None = None
    looked_at: float | None = None
    server: LanguageServer | None = None
    started_at: float = 0.0
    used_at: float = 0.0
    crashes: int = 0
    rest_until: float = 0.0


@dataclass(frozen=True, slots=True)
class Lookup:
    """Who looks after a file."""

    servers: tuple[LanguageServer, ...]
    """Running, or being started right now."""
    resting: tuple[str, ...] = ()
    """Names of servers that would, but crashed and are not to be restarted yet."""


class LanguageServers:
    """All language servers of one workspace. Everything happens on one event loop."""

    def __init__(
        self,
        workspace: Path,
        *,
        specs: Sequence[ServerSpec] = DEFAULT_SPECS,
        idle_stop_s: float = 900.0,
        timing: Timing | None = None,
        least_severity: Severity = "error",
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        logger: logging.Logger | None = None,
    ) -> None:
        """``workspace`` is absolute and resolved. Servers unused for ``idle_stop_s`` seconds are stopped.

        Nothing is looked up or started before a file asks for it. ``clock`` and ``sleep`` are for idling
        and back-off only; waits for answers go by the event loop's clock.
        """
        self.workspace = workspace
        self._slots = [_Slot(spec) for spec in specs]
        self._idle_stop_s = idle_stop_s
        self._timing = timing or Timing()
        self._least_severity: Severity = least_severity
        self._environment = dict(os.environ if environment is None else environment)
        self._clock = clock
        self._sleep = sleep
        self._log = logger or logging.getLogger("goalwright.lsp_client")
        self._idler: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    def for_path(self, path: Path) -> Lookup:
        """The servers for ``path`` (absolute), started in the background where they are not running yet.

        A server that is not installed, or that crashed too often, is as if it did not exist.
        """
        servers: list[LanguageServer] = []
        resting: list[str] = []
        if not self._closed and self.workspace in path.parents:
            for slot in self._slots:
                if slot.spec.language_of(path) is None:
                    continue
                server = self._use(slot)
                if server is not None:
                    servers.append(server)
                elif slot.found is not None and slot.crashes <= _MAX_RESTARTS:
                    resting.append(slot.found.name)
        return Lookup(tuple(servers), tuple(resting))

    def alive(self) -> Iterator[LanguageServer]:
        """The servers that run now; none is started."""
        for slot in self._slots:
            if slot.server is not None and not slot.server.gone:
                yield slot.server

    def running(self) -> list[tuple[str, int]]:
        """Name and process id of each running server, for display."""
        return [(server.name, server.pid) for server in self.alive() if server.pid is not None]

    async def stop_idle(self) -> None:
        """Stop the servers that nobody has used for the configured time."""
        idle: list[LanguageServer] = []
        for slot in self._slots:
            if slot.server is not None and self._clock() - slot.used_at >= self._idle_stop_s:
                idle.append(slot.server)
                slot.server = None
        await asyncio.gather(*(server.stop() for server in idle))

    async def close(self) -> None:
        """Stop all servers, by force where needed; returns when none of their processes is left."""
        self._closed = True
        if self._idler is not None:
            self._idler.cancel()
            await asyncio.wait({self._idler})
        servers = [slot.server for slot in self._slots if slot.server is not None]
        for slot in self._slots:
            slot.server = None
        await asyncio.gather(*(server.stop() for server in servers), *self._ending)

    def _use(self, slot: _Slot) -> LanguageServer | None:
        now = self._clock()
        slot.used_at = now
        if slot.server is not None and slot.server.gone:
            self._note_crash(slot, slot.server, now)
        if slot.server is not None:
            return slot.server
        if slot.found is None and (slot.looked_at is None or now - slot.looked_at >= _LOOK_AGAIN_S):
            slot.looked_at = now
            search_path = self._environment.get("PATH", "")
            slot.found = find_server(slot.spec, self.workspace, search_path=search_path)
        if slot.found is None or slot.crashes > _MAX_RESTARTS or now < slot.rest_until:
            return None
        slot.server = LanguageServer(
            slot.spec,
            slot.found,
            self.workspace,
            safe_environment(self._environment, self.workspace),
            timing=self._timing,
            least_severity=self._least_severity,
            logger=self._log,
        )
        slot.started_at = now
        slot.server.start()
        if self._idler is None:
            self._idler = asyncio.create_task(self._stop_idle_for_ever())
        return slot.server

    def _note_crash(self, slot: _Slot, server: LanguageServer, now: float) -> None:
        slot.server = None
        # Its process is over, but its tasks and perhaps its children are not.
        task = asyncio.create_task(server.stop())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        slot.crashes = 1 if now - slot.started_at >= _FORGIVEN_AFTER_S else slot.crashes + 1
        if slot.crashes > _MAX_RESTARTS:
            self._log.error("language server %s crashed %d times: given up", server.name, slot.crashes)
        else:
            slot.rest_until = now + _BACK_OFF_S[slot.crashes - 1]

    async def _stop_idle_for_ever(self) -> None:
        while True:
            await self._sleep(max(1.0, self._idle_stop_s / 4))
            await self.stop_idle()
