"""Reads much of a log for the event loop, in threads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from daemon.model.events import (
    Event,
    FilesRestored,
    GoalAdded,
    GoalMoved,
    GoalRemoved,
    GoalUpdated,
    MessageAdded,
    Notice,
    PermissionForgotten,
    PermissionReplied,
    TurnEnded,
)
from daemon.state.session_head import SessionHead
from daemon.store.trace_store import all_events

if TYPE_CHECKING:
    from daemon.model.goals import GoalTree
    from daemon.model.messages import Message
    from daemon.store.trace_store import TraceStore

_PAGE = 500
SHOWN = (
    FilesRestored, GoalAdded, GoalMoved, GoalRemoved, GoalUpdated, Notice, PermissionForgotten, PermissionReplied,
    TurnEnded,
)  # fmt: skip
"""Events that a transcript may show as a line; ``noticeOf`` of the extension makes the same lines of them."""


async def events_after(store: TraceStore, trace_id: str, after: int) -> list[Event]:
    """Events with an id above ``after``; of those that come meanwhile, none or some. Raises StoreError."""
    return await asyncio.to_thread(lambda: list(all_events(store.events, trace_id, after=after)))


def newest_stored(
    store: TraceStore, trace_id: str, limit: int
) -> tuple[SessionHead, GoalTree, list[Message]]:
    """Return head and plan of a session as they were stored last, and its ``limit`` newest messages. Blocking.

    Raises UnknownTraceError, StoreError.
    """
    head = SessionHead(store.trace(trace_id))
    return head, store.goal_tree(trace_id), store.messages(trace_id, limit=limit) if limit else []


class TranscriptEvents:
    """Events besides messages that a transcript shows, each with the ``sequence`` of the message before it."""

    def __init__(self, first: int) -> None:
        """``first``: sequence of the message after which they begin; 0: from the beginning of the session."""
        self.events: list[tuple[int, Event]] = []
        self.last_id = 0
        self._first = first
        self._after: int | None = None if first else 0

    def add(self, event: Event) -> None:
        """Take the next event of the log."""
        self.last_id = event.event_id
        if isinstance(event, MessageAdded):
            sequence = event.message.sequence
            self._after = sequence if sequence >= self._first else None
        elif self._after is not None and _is_shown(event):
            self.events.append((self._after, event))


async def transcript_events(
    store: TraceStore, trace_id: str, first: int, before: int | None = None
) -> TranscriptEvents:
    """Return the notices of a transcript after the message ``first``, up to the message ``before``. Raises
    StoreError."""
    return await asyncio.to_thread(_read_transcript, store, trace_id, first, before)


def _read_transcript(store: TraceStore, trace_id: str, first: int, before: int | None) -> TranscriptEvents:
    last = store.last_event_id(trace_id)
    start = 0 if first == 0 else _bisected(store, trace_id, first, last)
    shown = TranscriptEvents(first)
    for event in all_events(store.events, trace_id, after=start):
        if before is not None and isinstance(event, MessageAdded) and event.message.sequence >= before:
            return shown
        shown.add(event)
    shown.last_id = max(shown.last_id, start)
    return shown


def _bisected(store: TraceStore, trace_id: str, sequence: int, last: int) -> int:
    """Return an event id below that of the message with this sequence, and not far below it."""
    low, high = 0, last
    while high - low > _PAGE:
        middle = (low + high) // 2
        found = _next_sequence(store, trace_id, middle)
        if found is None or found > sequence:
            high = middle
        else:
            low = middle
    return low


def _next_sequence(store: TraceStore, trace_id: str, after: int) -> int | None:
    while page := store.events(trace_id, after=after, limit=_PAGE // 10):
        for event in page:
            if isinstance(event, MessageAdded):
                return event.message.sequence
        after = page[-1].event_id
    return None


def _is_shown(event: Event) -> bool:
    if isinstance(event, TurnEnded):
        return event.stop_reason not in ("end_turn", "tool_use")
    if isinstance(event, PermissionReplied):
        return event.reply == "always" and bool(event.remembered)
    if isinstance(event, GoalAdded | GoalUpdated | GoalMoved | GoalRemoved):
        return event.by != ""
    return isinstance(event, SHOWN)
