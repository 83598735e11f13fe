"""The slot of one server of one project, whether it runs or not: its crashes and its use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lsp_bridge.language_client.pool.usage import UsageWatch

if TYPE_CHECKING:
    from pathlib import Path

    from lsp_bridge.language_client.server.language_server import LanguageServer
    from lsp_bridge.language_client.specs.server_spec import FoundServer, ServerSpec

MAX_RESTARTS = 3
_BACK_OFF_S = (0.0, 2.0, 10.0)
"""Before the first, second and third restart."""
FORGIVEN_AFTER_S = 600.0
"""A server that ran this long before it crashed starts again with a clean record; an abandoned one gets another try
after the same time."""


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
