"""The state of a client, and who is there to answer a session's questions (``PermissionListResult.attended_by``).

A script answers for its own turns only, so that it does not decide what a user is being asked. But questions of a turn
whose client has gone, or whose daemon was killed, would wait forever: any client that is still there may answer those.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from daemon.model.branches import root_of
from lsp_bridge.protocol.sessions import InitializationOptions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from daemon.loop.session import Session


@dataclass(slots=True)
class ClientPresence:
    """The sessions whose questions one client can answer."""

    unattended: bool = False
    """A program without a user, see ``InitializationOptions``."""
    everywhere: bool = False
    """It is shown the questions of all sessions, as LSP editors are."""
    _shown: set[str] = field(default_factory=set[str])
    _turns: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def follows(self, session_id: str) -> None:
        """Record that it receives a session's events. Questions of branches and sub-agents appear in their main
        session."""
        self._shown.add(root_of(session_id))

    def begins(self, session_id: str, prompt_id: str) -> None:
        """Record that it sent the prompt of a turn, or resumed one."""
        self._turns.add((session_id, prompt_id))

    def ended(self, session_id: str, prompt_id: str) -> None:
        """That turn is over."""
        self._turns.discard((session_id, prompt_id))

    def answers(self, session_id: str, turn: str | None) -> bool:
        """Return whether it can answer the questions of ``turn`` (the id of its prompt) of a session."""
        if turn is not None and (session_id, turn) in self._turns:
            return True
        return not self.unattended and (self.everywhere or session_id in self._shown)


@dataclass(slots=True)
class ClientState:
    """The state of one connection's client since ``initialize``."""

    options: InitializationOptions = field(default_factory=InitializationOptions)
    editor: str = ""
    """Its id among the editors with models; empty: it has none."""
    there: ClientPresence = field(default_factory=ClientPresence)
    env: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    """The provider variables of its environment."""


def attended_by(
    session_id: str, live: Session | None, others: Iterable[tuple[str, ClientPresence]]
) -> tuple[str, ...]:
    """Return the names of ``others`` that can answer for a session. ``live``: its main session, when it is open."""
    turn = live.state.turn if live is not None else None
    root = root_of(session_id)
    return tuple(dict.fromkeys(name for name, there in others if there.answers(root, turn)))
