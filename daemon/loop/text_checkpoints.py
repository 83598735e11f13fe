"""Store the text of an answer while it arrives, so that a kill loses at most a second of it.

Whole parts are stored when they end. This stores the unfinished part before that, in batches. A secret may be split
between two batches, so the text goes through the same filter as live deltas.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from daemon.deltas import Deltas
from daemon.store.trace_store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.model.events import Delta, Event

log = logging.getLogger(__name__)

MOST_S = 1.0
"""Seconds that text may wait to be stored."""


class TextCheckpoints:
    """Collect the text of one session's answers and store it a second after it came."""

    def __init__(self, store: Callable[[Delta], None]) -> None:
        """``store`` is called on the event loop with each batch; it may raise StoreError."""
        self._store = store
        self._deltas = Deltas()
        self._waiting: list[Delta] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, delta: Delta) -> None:
        """Take more text or reasoning in."""
        self._waiting.append(delta)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MOST_S, self._flush)

    def stored(self, event: Event) -> None:
        """Forget the text that ``event`` stores as a whole or makes void."""
        message_id, index = getattr(event, "message_id", None), getattr(event, "index", None)
        self._waiting = [
            delta
            for delta in self._waiting
            if delta.message_id != message_id or (index is not None and delta.index != index)
        ]
        self._deltas.stored(event)

    def stop(self) -> None:
        """Forget everything: the message is stored now, or is not wanted."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._waiting.clear()
        self._deltas = Deltas()

    def _flush(self) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, []
        try:
            for delta in self._deltas.told(waiting):
                self._store(delta)
        except StoreError as error:
            log.warning(
                "unfinished text is not stored: %s", error
            )  # the turn meets the same error at its next event
