"""Follows sessions that other processes write: the same bus as a daemon's, fed from a store.

Only sessions that somebody watches are asked for, a few at a time.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from daemon.bus import Bus
from daemon.store.trace_store import StoreError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.model.events import Event
    from daemon.store.trace_store import TraceStore

log = logging.getLogger(__name__)

_EVERY_S = 1.0
_MOST = 500
"""Events of one session that are read at once; the next ones follow in the next round."""


class PolledBus(Bus):
    """Listeners by session id, who hear what a store has. Use it on the event loop."""

    def __init__(self, store: TraceStore, lost: Callable[[], None]) -> None:
        """``lost``: called when the store cannot be reached."""
        super().__init__()
        self._store = store
        self._lost = lost
        self._known: dict[str, int] = {}
        """The last event that listeners have, by session."""

    def known(self, session_id: str, event_id: int) -> None:
        """Begin behind an event; a session that is followed already goes on where it is."""
        self._known.setdefault(session_id, event_id)

    async def follow(self) -> None:
        """Publish what happens, until canceled."""
        while True:
            await asyncio.sleep(_EVERY_S)
            heard = self.heard()
            self._known = {name: at for name, at in self._known.items() if name in heard}
            try:
                for session_id, after in list(self._known.items()):
                    await self._publish_new(session_id, after)
            except UnreachableError as error:
                log.warning("%s", error)
                self._lost()
            except Exception:  # whatever it was, the next round may succeed
                log.exception("sessions cannot be followed")
                self._lost()

    async def _publish_new(self, session_id: str, after: int) -> None:
        for event in await asyncio.to_thread(self._new, session_id, after):
            self._known[session_id] = event.event_id
            self.publish(event)

    def _new(self, session_id: str, after: int) -> Sequence[Event]:
        try:
            return self._store.events(session_id, after=after, limit=_MOST)
        except UnreachableError:
            raise
        except StoreError:
            return ()  # it was deleted; its watchers find out when they read
