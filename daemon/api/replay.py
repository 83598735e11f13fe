"""Read what a client of the WebSocket missed from the log, page by page. Blocks: call it in a thread."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from daemon.api.frames import Subscription, event_entry
from daemon.api.step_views import CUT
from daemon.model.events import Event
from daemon.state.projection import Projection
from daemon.store.migrations import event_of
from daemon.store.trace_store import TraceStore

if TYPE_CHECKING:
    from daemon.model.traces import ViewUpdate
    from daemon.steps.fold import StepAdded, StepFold, StepUpdated

log = logging.getLogger(__name__)

_REDACTED = b"[redacted"
_LOST_CHARACTER = "\N{REPLACEMENT CHARACTER}".encode()
STEP_TEXT = CUT
"""Characters of a text in a step, as in ``/tree`` and ``/node``."""


class Steps:
    """The steps of one session up to an event."""

    def __init__(self, session_id: str, fold: StepFold | None = None, *, broken: bool = False) -> None:
        """``fold``: of the session, with texts cut to STEP_TEXT, to continue from; nothing else changes it.

        ``broken``: steps cannot be derived.
        """
        from daemon.steps.fold import StepFold

        self._fold = fold or StepFold(session_id, cut=STEP_TEXT)
        self._broken = broken
        self._projection = Projection(self._fold.head, self._fold.plan)
        self.view: ViewUpdate | None = None
        """The change of the last event for clients that show the session."""
        self.event_id = self._fold.last_event_id

    def changes(self, event: Event) -> Sequence[StepAdded | StepUpdated]:
        """Apply an event and return the changes; none when it was applied before."""
        self.view = None
        if event.event_id <= self.event_id:
            return ()
        self.event_id = event.event_id
        if self._broken:
            return ()
        try:
            changes = self._fold.apply(event)
            self.view = self._projection.changes(event)
            return changes
        except Exception:
            # A forged log may trigger a bug in a derived view, but the events themselves must arrive.
            log.exception("the steps of a trace cannot be derived from event %d on", event.event_id)
            self._broken = True
            return ()

    def let_go(self) -> None:
        """Free them. Call it in a thread, see ``StepTree.let_go``."""
        self._fold.tree.let_go()


def as_logged(event: Event, line: bytes) -> Event:
    """Return an event of a live session as in the log, whose ``line`` is its encoding: without secrets.

    Views derived from the two must be equal: a text that is cut before its secrets are removed differs, and may have a
    part of a secret.
    """
    if _REDACTED not in line and _LOST_CHARACTER not in line:
        return event  # nothing was redacted
    return event_of(line)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the log for one client."""

    frames: tuple[str, ...]
    last: int
    """Id of its last event; 0 when it has none."""
    whole: bool
    """The log had no more."""


def read_page(
    store: TraceStore, session_id: str, after: int, wants: Subscription, steps: Steps | None, limit: int
) -> Page:
    """Return the next frames from a log for a client that has the events up to ``after``.

    ``steps``: their state at ``after`` or before it; the page's events are applied to them. Raises StoreError.
    """
    events = store.events(session_id, after=after if steps is None else steps.event_id, limit=limit)
    frames: list[str] = []
    for event in events:
        changes = steps.changes(event) if steps is not None else ()
        if event.event_id > after:
            view = None if steps is None else steps.view
            frames += event_entry(event, changes, view=view).of(wants)
    return Page(tuple(frames), events[-1].event_id if events else 0, len(events) < limit)
