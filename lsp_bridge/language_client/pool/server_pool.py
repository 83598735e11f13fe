"""The language servers of a workspace: found and started on demand, one for each project in it, restarted after a
crash, stopped when they are idle or cost too much."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from lsp_bridge.language_client.pool.usage import UsageLimits, UsageWatch, usage_of
from lsp_bridge.language_client.server.language_server import LanguageServer
from lsp_bridge.language_client.specs.discovery import look_up, root_of, safe_environment
from lsp_bridge.language_client.specs.server_spec import Project
from tools.process.background import Background
from tools.process.environment import scrubbed_environment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from lsp_bridge.language_client.pool.server_choice import Chooser, ServerChoice
    from lsp_bridge.language_client.specs.server_spec import FoundServer, ServerSpec


_LOOK_AGAIN_S = 30.0
"""How long "not installed" is remembered."""
_TICK_S = 15.0
"""Seconds between two checks for idle and too costly servers."""
MAX_RESTARTS = 3
_BACK_OFF_S = (0.0, 2.0, 10.0)
"""Before the first, second and third restart."""
FORGIVEN_AFTER_S = 600.0
"""A server that ran this long before it crashed starts again with a clean record; an abandoned one gets another try
after the same time."""
_log = logging.getLogger("goalwright.lsp_client")


class Slot(Struct):
    """The slot of one server of one project, whether it runs or not. Times are seconds of the pool's clock."""

    spec: ServerSpec
    root: Path
    found: FoundServer | None = None
    looked_at: float | None = None
    server: LanguageServer | None = None
    started_at: float = 0.0
    used_at: float = 0.0
    crashes: int = 0
    rest_until: float = 0.0
    watch: UsageWatch = field(default_factory=UsageWatch)

    @property
    def given_up(self) -> bool:
        """It crashed too often; while it rests it is as if it did not exist."""
        return self.crashes > MAX_RESTARTS

    def started(self, server: LanguageServer, now: float) -> None:
        """Put a new server here."""
        self.server, self.started_at, self.watch = server, now, UsageWatch()

    def crashed(self, now: float) -> None:
        """Record that it ended unexpectedly, or had to be killed: it may be restarted after a rest."""
        # A different program may be installed by now.
        self.looked_at = None
        if now - self.started_at >= FORGIVEN_AFTER_S:
            self.crashes = 1
        else:
            self.crashes = min(self.crashes, MAX_RESTARTS) + 1
        self.rest_until = now + (FORGIVEN_AFTER_S if self.given_up else _BACK_OFF_S[self.crashes - 1])


class FileServers(Struct, frozen=True):
    """The servers that cover a file."""

    servers: tuple[LanguageServer, ...]
    """Running, or being started right now."""
    resting: tuple[str, ...] = ()
    """Names of servers that would, but crashed and are not to be restarted yet."""


class ServerLimit:
    """A limit for the running servers of some workspaces, which share one clock: new ones replace the least recently
    used."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.workspaces: list[LanguageServers] = []

    def make_room(self, now: float) -> None:
        """Make room for one more. Servers that were asked for in the same moment are not stopped."""
        alive = [(slot, servers) for servers in self.workspaces for slot in servers.in_use()]
        surplus = len(alive) - self._most + 1
        for slot, servers in sorted(alive, key=lambda one: one[0].used_at)[: max(0, surplus)]:
            if slot.used_at < now:
                servers.stop(slot, f"more than {self._most} servers were needed")


class LanguageServers:
    """All language servers of one workspace. Everything happens on one event loop."""

    def __init__(
        self,
        workspace: Path,
        choose: Chooser,
        *,
        idle_stop_s: float = 900.0,
        max_alive: int = 12,
        limits: UsageLimits | None = None,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        origin: Path | None = None,
        room: ServerLimit | None = None,
    ) -> None:
        """``workspace`` is absolute and resolved. Servers unused for ``idle_stop_s`` seconds are stopped, and those
        beyond ``max_alive``, the least recently used ones first.

        ``choose`` returns the current choice of servers. Nothing is looked up or started before a file needs it.
        ``clock`` and ``sleep`` are for idling, back-off and watching only; waits for answers go by the event loop's
        clock.
        ``origin``: the folder of which the workspace is a copy; its programs are trusted like the workspace's.
        ``room``: how many servers run, shared with other workspaces, instead of ``max_alive``.
        """
        self.workspace = workspace
        self._choose = choose
        self._choice: ServerChoice | None = None
        self._slots: dict[tuple[int, Path], Slot] = {}
        """By the spec's place in the choice, and the project's root."""
        self._idle_stop_s = idle_stop_s
        self._origin = origin
        self._room = room or ServerLimit(max_alive)
        self._room.workspaces.append(self)
        self._limits = limits or UsageLimits()
        self._environment = scrubbed_environment(os.environ if environment is None else environment)
        self._clock = clock
        self._sleep = sleep
        self._ticking: asyncio.Task[None] | None = None
        self._ending = Background("stopping a language server")
        self._closed = False

    def for_path(self, path: Path) -> FileServers:
        """Return the servers for ``path`` (absolute), started in the background where they are not running yet.

        A server that is not installed, or that crashed too often, is as if it did not exist.
        """
        servers: list[LanguageServer] = []
        resting: list[str] = []
        if not self._closed and self.workspace in path.parents:
            choice = self._current()
            present: set[str] = set()
            for number, spec in enumerate(choice.specs):
                if spec.language_of(path) is None or present.intersection(spec.yields_to):
                    continue
                root = root_of(path, self.workspace, spec.roots)
                slot = self._slots.setdefault((number, root), Slot(spec, root))
                server = self._use(slot, choice)
                if slot.found is not None:
                    present.add(spec.name)
                if server is not None:
                    servers.append(server)
                elif slot.found is not None and not slot.given_up:
                    resting.append(slot.found.name)
        return FileServers(tuple(servers), tuple(resting))

    def alive(self) -> Iterator[LanguageServer]:
        """Yield the servers that run now; none is started."""
        for slot in list(self._slots.values()):
            if slot.server is not None and not slot.server.gone:
                yield slot.server

    def in_use(self) -> Iterator[Slot]:
        """Yield the slots with a server, whether it runs or has just ended."""
        return (slot for slot in self._slots.values() if slot.server is not None)

    def running(self) -> list[tuple[str, int]]:
        """Return name and process id of each running server."""
        return [(server.name, server.pid) for server in self.alive() if server.pid is not None]

    async def stop_idle(self) -> None:
        """Stop the servers that have been unused for the configured time."""
        now = self._clock()
        idle = [slot for slot in self._slots.values() if now - slot.used_at >= self._idle_stop_s]
        ending = [task for slot in idle if (task := self.stop(slot, "nobody needed it")) is not None]
        if ending:
            # Not gather, which would cancel them when this is canceled: then their processes would stay.
            await asyncio.wait(ending)

    async def tick(self) -> None:
        """Run the periodic checks: stop servers that are idle, need too much memory, or spin, and all servers when the
        settings or the user's trust have changed."""
        if self._choice is not None:
            self._current()
        await self.stop_idle()
        watched = {
            slot.server.pid: slot
            for slot in self.in_use()
            if slot.server is not None and not slot.server.gone and slot.server.pid is not None
        }
        usage = await asyncio.to_thread(usage_of, list(watched))
        now = self._clock()
        for pid, slot in watched.items():
            if slot.server is None or slot.server.pid != pid:
                continue
            slot.watch.look(usage.get(pid), now, self._limits)
            if reason := slot.watch.too_much_memory(self._limits):
                self.stop(slot, reason, crash=True)
            elif reason := slot.watch.spins(self._limits, now, slot.used_at):
                self.stop(slot, reason)

    async def close(self) -> None:
        """Stop all servers, by force where needed; returns when none of their processes is left."""
        self._closed = True
        if self in self._room.workspaces:
            self._room.workspaces.remove(self)
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.wait({self._ticking})
        for slot in self._slots.values():
            self.stop(slot, "closed")
        await self._ending.wait()

    def _current(self) -> ServerChoice:
        choice = self._choose()
        if choice is not self._choice:
            if self._choice is not None:
                for slot in self._slots.values():
                    self.stop(slot, "the settings have changed")
                self._slots.clear()
            self._choice = choice
        return choice

    def _use(self, slot: Slot, choice: ServerChoice) -> LanguageServer | None:
        now = self._clock()
        slot.used_at = now
        if slot.server is not None and slot.server.gone:
            self.stop(slot, slot.server.gone_because, crash=True)
            now = self._clock()
        if slot.server is not None:
            return slot.server
        project = Project(self.workspace, slot.root, choice.trusted, self._origin)
        if slot.looked_at is None or (slot.found is None and now - slot.looked_at >= _LOOK_AGAIN_S):
            slot.looked_at = now
            slot.found = look_up(slot.spec, project, search_path=self._environment.get("PATH", "")).found
        if slot.found is None or now < slot.rest_until:
            return None
        self._room.make_room(now)
        server = LanguageServer(
            slot.spec,
            slot.found,
            slot.root,
            safe_environment(self._environment, project),
            timing=choice.timing,
            least_severity=choice.least_severity,
            box=project if project.brings(Path(slot.found.argv[0])) else None,
        )
        slot.started(server, now)
        server.start()
        if self._ticking is None:
            self._ticking = asyncio.create_task(self._tick_for_ever())
        return server

    def stop(self, slot: Slot, reason: str, *, crash: bool = False) -> asyncio.Task[None] | None:
        """Stop the server of a slot, if it has one; ``crash``: count it as one. The task ends with its processes."""
        server, now = slot.server, self._clock()
        if server is None:
            return None
        slot.server = None
        if crash:
            slot.crashed(now)
            if not server.gone:  # otherwise it has been logged
                _log.warning("language server %s is restarted: it %s", server.name, reason)
            if slot.given_up:
                _log.error(
                    "language server %s ended %d times: not restarted for now", server.name, slot.crashes
                )
        else:
            _log.info("language server %s was stopped: %s", server.name, reason)
        # Also after a crash: the process has ended, but its tasks and perhaps its children have not.
        return self._ending.start(server.stop())

    async def _tick_for_ever(self) -> None:
        while True:
            await self._sleep(max(1.0, min(_TICK_S, self._idle_stop_s / 4)))
            try:
                await self.tick()
            except Exception:  # nothing waits for this, and servers must be watched in any case
                _log.exception("language servers could not be looked at")
