"""The activity of all sessions: for clients that show one session and must not miss requests of another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from daemon.model.events import (
    Delta,
    Event,
    Notice,
    PermissionAsked,
    PermissionReplied,
    SessionUpdated,
    TurnEnded,
    TurnStarted,
)
from lsp_bridge.protocol import sessions as p
from lsp_bridge.server.requests.branches import awaiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.core import Daemon
    from daemon.loop.session import Session
    from daemon.model.meters import Metered

_CHANGES = (TurnStarted, TurnEnded, PermissionAsked, PermissionReplied, Notice, SessionUpdated)


def active_sessions(core: Daemon) -> tuple[p.ActiveSession, ...]:
    """Return the sessions with a turn under way or a question that waits."""
    found: list[p.ActiveSession] = []
    for session in core.open_sessions:
        asked = tuple(request.request_id for request in core.permissions.pending(session.session_id))
        waits = bool(asked) or bool(awaiting(session))
        if waits or session.state.turn is not None:
            title = session.state.trace.title
            found.append(
                p.ActiveSession(session_id=session.session_id, title=title, asked=asked, waits=waits)
            )
    return tuple(found)


class Activity:
    """Tells one client whenever the activity of any session changes."""

    def __init__(self, core: Daemon, send: Callable[[p.SessionsActivity], None]) -> None:
        self._core = core
        self._send = send
        self._told: tuple[p.ActiveSession, ...] = ()
        self._due = False
        core.bus.subscribe_to_all(self._happened)
        core.permissions.watch(self._soon)

    def close(self) -> None:
        """Stop sending notifications."""
        self._core.bus.unsubscribe(self._happened)
        self._core.permissions.unwatch(self._soon)

    def _happened(self, item: Event | Delta | Metered) -> None:
        if not isinstance(item, _CHANGES):
            return
        if isinstance(item, TurnEnded) and (session := self._main(item.trace_id)) is not None:
            title = session.state.trace.title
            active = active_sessions(self._core)
            self._told = active
            self._send(
                p.SessionsActivity(
                    active=active, ended=item.trace_id, title=title, stop_reason=item.stop_reason
                )
            )
            return
        self._soon()

    def _main(self, session_id: str) -> Session | None:
        return next((one for one in self._core.open_sessions if one.session_id == session_id), None)

    def _soon(self) -> None:
        """Notify in the next round of the event loop, when the change that caused the call is complete."""
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        self._due = False
        active = active_sessions(self._core)
        if active != self._told:
            self._told = active
            self._send(p.SessionsActivity(active=active))
