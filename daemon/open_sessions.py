"""Open sessions, and the presence of clients."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from daemon.loop.session import Session
    from daemon.state.session_state import Order


class OpenSessions:
    """Open sessions and those that are being opened, by id."""

    def __init__(self) -> None:
        self.live: dict[str, Session] = {}
        self.opening: dict[str, asyncio.Task[Session]] = {}
        self.orders: WeakValueDictionary[str, Order] = WeakValueDictionary()
        """How far the messages of each open main session and its children are numbered."""

    async def opened(
        self,
        session_id: str,
        opens: Callable[[str], Coroutine[Any, Any, Session]],
        *,
        before: Callable[[str], None],
    ) -> Session:
        """Return a session that ``opens`` reads. Two clients may ask at once: both get the same session.

        ``before``: called before it is opened; may raise.
        """
        opening = self.opening.get(session_id)
        if opening is None:
            before(session_id)
            opening = asyncio.create_task(opens(session_id))
            self.opening[session_id] = opening
            opening.add_done_callback(lambda _: self.opening.pop(session_id, None))
        return await asyncio.shield(opening)


class Presence:
    """The number of clients, and the time since the last one was there."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.clients = 0
        self._quiet_since = self.started

    def client_attached(self) -> None:
        """A client is there."""
        self.clients += 1

    def client_left(self) -> None:
        """Record that a client has left; running work continues."""
        self.clients -= 1
        self._quiet_since = time.monotonic()

    def asked(self) -> None:
        """Somebody asked the API something: they are not gone yet."""
        self._quiet_since = time.monotonic()

    async def until_quiet(
        self, running: Callable[[], bool], timeout_s: Callable[[], float], poll_s: float
    ) -> None:
        """Return when there has been no client and no work for ``timeout_s``; 0: never."""
        self.asked()  # nobody could come before
        while True:
            timeout = timeout_s()
            if self.clients > 0 or running():
                self._quiet_since = time.monotonic()
            elif timeout and time.monotonic() - self._quiet_since >= timeout:
                return
            await asyncio.sleep(min(poll_s, timeout) if timeout else poll_s)
