"""What a client of the WebSocket missed, read from the log page by page. Blocks: for threads."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from daemon.api.frames import Wants, event_entry
from daemon.api.step_views import CUT
from daemon.model.events import Event
from daemon.store.base import TraceStore
from daemon.store.reading import event_of

if TYPE_CHECKING:
    from daemon.steps.fold import StepAdded, StepFold, StepUpdated

log = logging.getLogger(__name__)

_REDACTED = b"[redacted"
_LOST_CHARACTER = "\N{REPLACEMENT CHARACTER}".encode()
STEP_TEXT = CUT
"""Signs of a text in a step, as in ``/tree`` and ``/node``."""


class Steps:
    """The steps of one session, as far as events were taken into account."""

    def __init__(self, session_id: str, fold: StepFold | None = None) -> None:
        """``fold``: of the session, with texts cut to STEP_TEXT, to go on from; nobody else changes it."""
        from daemon.steps.fold import StepFold

        self._fold = fold or StepFold(session_id, cut=STEP_TEXT)
        self._broken = False
        self.event_id = self._fold.last_event_id

    def changes(self, event: Event) -> Sequence[StepAdded | StepUpdated]:
        """What an event did; nothing when it was taken into account before."""
        if event.event_id <= self.event_id:
            return ()
        self.event_id = event.event_id
        if self._broken:
            return ()
        try:
            return self._fold.apply(event)
        except Exception:
            # A log that somebody forged may find a bug in a derived view; the events themselves must arrive.
            log.exception("the steps of a trace cannot be derived from event %d on", event.event_id)
            self._broken = True
            return ()

    def let_go(self) -> None:
        """They are no longer wanted, and nobody else has them. Call it in a thread, see ``StepTree.let_go``."""
        self._fold.tree.let_go()


def as_logged(event: Event, line: bytes) -> Event:
    """An event of a live session as the log has it, of which ``line`` was made: without secrets.

    What is derived of the one must be what is derived of the other: a text that is cut before its secrets are taken
    out is another one, and may have a part of a secret.
    """
    if _REDACTED not in line and _LOST_CHARACTER not in line:
        return event  # nothing was taken out
    return event_of(line)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the log for one client."""

    frames: tuple[bytes, ...]
    """In pieces to write at once."""
    last: int
    """Id of its last event; 0 when it has none."""
    whole: bool
    """The log had no more."""


def read_page(
    store: TraceStore, session_id: str, after: int, wants: Wants, steps: Steps | None, limit: int, size: int
) -> Page:
    """The next events of a log for a client that has those up to ``after``.

    ``steps``: as they are somewhere before that, or there; they go on with the page. Raises StoreError.
    """
    events = store.events(session_id, after=after if steps is None else steps.event_id, limit=limit)
    chunks: list[bytes] = []
    pieces: list[bytes] = []
    total = 0
    for event in events:
        changes = steps.changes(event) if steps is not None else ()
        if event.event_id <= after:
            continue
        piece = event_entry(event, changes).of(wants)
        if piece:
            pieces.append(piece)
            total += len(piece)
        if total >= size:
            chunks.append(b"".join(pieces))
            pieces.clear()
            total = 0
    if pieces:
        chunks.append(b"".join(pieces))
    return Page(tuple(chunks), events[-1].event_id if events else 0, len(events) < limit)


def brought_up(store: TraceStore, session_id: str, steps: Steps, to: int, wants: Wants) -> tuple[bytes, ...]:
    """Steps as they are after the event ``to``; returns what a client is told meanwhile. Raises StoreError."""
    frames: list[bytes] = []
    while steps.event_id < to:
        page = read_page(store, session_id, steps.event_id, wants, steps, 500, 2**20)
        frames += page.frames
        if page.whole:
            break
    return tuple(frames)
