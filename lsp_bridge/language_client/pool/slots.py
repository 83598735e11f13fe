"""The slot of one server of one project, whether it runs or not: its crashes, its use, its state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from lsp_bridge.language_client.pool.usage import UsageWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lsp_bridge.language_client.server.language_server import LanguageServer
    from lsp_bridge.language_client.specs.server_spec import FoundServer, ServerSpec

State = Literal["starting", "ready", "busy", "resting", "crashed", "stopped"]

MAX_RESTARTS = 3
_BACK_OFF_S = (0.0, 2.0, 10.0)
"""Before the first, second and third restart."""
FORGIVEN_AFTER_S = 600.0
"""A server that ran this long before it crashed starts again with a clean record; an abandoned one gets another try
after the same time."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """How a server is, for people."""

    name: str
    root: Path
    state: State
    """``resting``: crashed, restarts when ``rest_s`` have passed and it is needed; ``crashed``: abandoned for now;
    ``stopped``: not needed, or too costly; it starts when it is needed."""
    since_s: float
    """Seconds in this state."""
    pid: int | None = None
    memory_mb: int | None = None
    """Memory of all its processes, as last measured; None: unknown."""
    detail: str = ""
    """Its current work, anomalies of its answers, or why it does not run."""


@dataclass(slots=True)
class Slot:
    """The slot of one server of one project. Times are seconds of the pool's clock."""

    spec: ServerSpec
    root: Path
    found: FoundServer | None = None
    looked_at: float | None = None
    server: LanguageServer | None = None
    started_at: float = 0.0
    used_at: float = 0.0
    ended_at: float = 0.0
    crashes: int = 0
    rest_until: float = 0.0
    reason: str = ""
    """Why it does not run any more."""
    watch: UsageWatch = field(default_factory=UsageWatch)

    @property
    def given_up(self) -> bool:
        """It crashed too often; while it rests it is as if it did not exist."""
        return self.crashes > MAX_RESTARTS

    def started(self, server: LanguageServer, now: float) -> None:
        """Put a new server here."""
        self.server, self.started_at, self.watch = server, now, UsageWatch()

    def ended(self, reason: str, now: float) -> None:
        """It was stopped; it may be started again at any time."""
        self.server, self.reason, self.ended_at = None, reason, now

    def crashed(self, reason: str, now: float) -> None:
        """Record that it ended unexpectedly, or had to be killed: it may be restarted after a rest."""
        self.ended(reason, now)
        # A different program may be installed by now.
        self.looked_at = None
        if now - self.started_at >= FORGIVEN_AFTER_S:
            self.crashes = 1
        else:
            self.crashes = min(self.crashes, MAX_RESTARTS) + 1
        self.rest_until = now + (FORGIVEN_AFTER_S if self.given_up else _BACK_OFF_S[self.crashes - 1])

    def status(self, now: float) -> ServerStatus | None:
        """Return the status; None when there never was a server here."""
        server = self.server
        name = self.found.name if self.found is not None else self.spec.name
        if server is not None and not server.gone:
            usage = self.watch.latest
            busy = server.busy
            return ServerStatus(
                server.name,
                self.root,
                "starting" if not server.is_ready else "busy" if busy else "ready",
                now - self.started_at,
                server.pid,
                usage.memory_bytes >> 20 if usage is not None else None,
                busy or server.peculiar,
            )
        reason = self.reason or (server.gone_because if server is not None else "")
        if not reason:
            return None
        state: State = "stopped"
        if server is not None:  # gone, but not noticed yet
            state = "resting"
        elif self.crashes and now < self.rest_until:
            state = "crashed" if self.given_up else "resting"
        since = max(self.started_at, self.ended_at)
        return ServerStatus(name, self.root, state, now - since, detail=reason)


class ServerLimit:
    """A limit for running servers: new ones replace the least recently used."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._tenants: dict[Callable[[], Iterator[Slot]], Callable[[Slot, str], object]] = {}

    def enter(self, in_use: Callable[[], Iterator[Slot]], stop: Callable[[Slot, str], object]) -> None:
        """Count the servers that ``in_use`` yields from now on. ``stop`` stops one of them, for the reason given.

        All users of a room share one clock.
        """
        self._tenants[in_use] = stop

    def leave(self, in_use: Callable[[], Iterator[Slot]]) -> None:
        """Count these servers no more."""
        self._tenants.pop(in_use, None)

    def make(self, now: float) -> None:
        """For one more. Servers that were asked for in the same moment are not stopped."""
        alive = [(slot, stop) for in_use, stop in self._tenants.items() for slot in in_use()]
        surplus = len(alive) - self._most + 1
        for slot, stop in sorted(alive, key=lambda one: one[0].used_at)[: max(0, surplus)]:
            if slot.used_at < now:
                stop(slot, f"more than {self._most} servers were needed")
