"""Reads much of a log for the event loop: page by page, each in a thread."""

from __future__ import annotations

import asyncio

from daemon.model.events import Event
from daemon.store.base import TraceStore

_PAGE = 500


async def events_after(store: TraceStore, trace_id: str, after: int) -> list[Event]:
    """Events with an id above ``after``; of those that come meanwhile, none or some. Raises StoreError."""
    found: list[Event] = []
    while True:
        page = await asyncio.to_thread(store.events, trace_id, after=after, limit=_PAGE)
        found += page
        if len(page) < _PAGE:
            return found
        after = page[-1].event_id
