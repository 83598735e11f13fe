"""Servers that a client passes for one session, such as an editor with the Agent Client Protocol.

They are kept in memory only, and end with the client's connection. They start in trusted folders alone: nobody knows
whether an editor found them in its own settings or in the folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from daemon.mcp.configuration import FoundServers, McpServerSpec, spec_of
from tools.localization import t
from tools.text.terminal import shown_brief

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from pathlib import Path

    from daemon.settings import McpServerSetting

EDITOR = "editor"
"""The source of these servers, where configured ones have a file."""
MOST_GIVEN = 20
"""Servers of one session."""


class _Loan(Struct, frozen=True):
    holder: object
    """The connection that passed them, compared by identity."""
    session_id: str
    specs: tuple[McpServerSpec, ...]


class LentServers:
    """The servers that clients have passed, by session."""

    def __init__(self, disabled: Callable[[], Collection[str]]) -> None:
        """``disabled``: returns the names of servers that the user's settings switch off now."""
        self._disabled = disabled
        self._loans: list[_Loan] = []

    def lend(self, holder: object, session_id: str, specs: Sequence[McpServerSpec]) -> None:
        """Take the servers of a client for a session, in place of those that it passed for it before."""
        self._loans = [
            loan for loan in self._loans if loan.holder is not holder or loan.session_id != session_id
        ]
        if specs:
            self._loans.append(_Loan(holder, session_id, tuple(specs)))

    def withdraw(self, holder: object) -> bool:
        """Forget the servers of a client that is gone; False when it had none."""
        left = [loan for loan in self._loans if loan.holder is not holder]
        had, self._loans = len(left) < len(self._loans), left
        return had

    def all(self) -> tuple[McpServerSpec, ...]:
        """Return those of all sessions, each once."""
        return self._in_force(spec for loan in self._loans for spec in loan.specs)

    def of(self, session_id: str) -> tuple[McpServerSpec, ...]:
        """Return those of a session; of two with the same name the one that was passed last."""
        named = {
            spec.name: spec for loan in self._loans if loan.session_id == session_id for spec in loan.specs
        }
        return self._in_force(named.values())

    def _in_force(self, specs: Iterable[McpServerSpec]) -> tuple[McpServerSpec, ...]:
        disabled = self._disabled() if self._loans else ()
        return tuple(dict.fromkeys(replace(spec, disabled=spec.name in disabled) for spec in specs))

    def added(self, found: FoundServers, session_id: str | None, *, trusted: bool) -> FoundServers:
        """Return the configured servers and those passed for a session; None: for all sessions.

        A configured server keeps its name, since rules are about names.
        """
        specs = self.all() if session_id is None else self.of(session_id)
        if not specs:
            return found
        if not trusted:
            why = t(
                "The editor's MCP servers are not used, because the folder is not trusted. If it is yours, run "
                "`goalwright trust` in it."
            )
            return replace(found, problems=(*found.problems, why))
        known = {spec.name: spec for spec in found.servers}
        problems = [
            t(
                "The editor's MCP server {name} is not used, because {other} has a server of this name.",
                name=spec.name,
                other=known[spec.name].source,
            )
            for spec in specs
            if spec.name in known
        ]
        return FoundServers(
            (*found.servers, *(spec for spec in specs if spec.name not in known)),
            (*found.problems, *problems),
        )


def specs_of(given: Iterable[tuple[str, McpServerSetting]], workspace: Path) -> tuple[McpServerSpec, ...]:
    """Return the servers that a client passes, by name; their values are literal. Blocking."""
    return tuple(
        spec_of(shown_brief(name.strip(), 60) or "server", server, EDITOR, workspace, str, trusted=True)
        for name, server in list(given)[:MOST_GIVEN]
    )
