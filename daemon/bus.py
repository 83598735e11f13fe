"""Sends what happens in a session to all its listeners.

Stored events must arrive; deltas may be dropped by a slow listener. Listeners are called on the event loop and must
return at once (a connection only hands the message to its own writer).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from daemon.model.events import Delta, Event
from daemon.model.meters import Metered

log = logging.getLogger(__name__)

Listener = Callable[[Event | Delta | Metered], None]


class Bus:
    """Listeners by session id."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Listener]] = {}
        self._everywhere: list[Listener] = []

    def subscribe(self, session_id: str, listener: Listener) -> None:
        """Call ``listener`` with everything that happens in the session from now on; once is enough."""
        listeners = self._listeners.setdefault(session_id, [])
        if listener not in listeners:
            listeners.append(listener)

    def known(self, session_id: str, event_id: int) -> None:
        """Note that a listener to a session has read everything up to an event; see ``daemon.api.team_server``."""

    def subscribe_to_all(self, listener: Listener) -> None:
        """Call ``listener`` with everything that happens in any session; its numbers come only while others listen to
        that session."""
        self._everywhere.append(listener)

    def unsubscribe(self, listener: Listener) -> None:
        """Forget a listener everywhere."""
        self._everywhere = [other for other in self._everywhere if other != listener]
        for session_id in list(self._listeners):
            self.leave(session_id, listener)

    def leave(self, session_id: str, listener: Listener) -> None:
        """Forget a listener of one session, if it is one."""
        listeners = self._listeners.get(session_id, [])
        if listener in listeners:
            listeners.remove(listener)
            if not listeners:
                del self._listeners[session_id]

    def heard(self) -> frozenset[str]:
        """Return the ids of the sessions that have listeners, open or not."""
        return frozenset(self._listeners)

    def publish(self, item: Event | Delta | Metered) -> None:
        """Tell the listeners of the item's session. A failing listener does not affect the others."""
        for listener in (*self._listeners.get(item.trace_id, ()), *self._everywhere):
            try:
                listener(item)
            except Exception:
                log.exception("a listener failed")
