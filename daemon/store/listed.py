"""Metadata of traces for lists: also where the file of it is lost, damaged, or older than the log."""

from __future__ import annotations

import logging
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any

from daemon.model.events import SessionCreated, SessionUpdated
from daemon.store.base import NewerFormatError, StoreError, UnknownTraceError
from daemon.store.event_log import LogLine, LogReader
from daemon.store.reading import LOG, FileReader, Stamp, opened, stamp_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from daemon.model.traces import Trace

log = logging.getLogger(__name__)

_PAGE = 1000
_FOLLOWED = 50_000
"""Events that are read at most to list a trace whose metadata is not up to date."""
_REMEMBERED = 1000
"""Traces that are remembered, so that a list does not look into all the logs each time."""


class ListedTraces:
    """What lists tell of traces. For any thread."""

    def __init__(self, reader: FileReader) -> None:
        self._reader = reader
        self._lock = Lock()
        self._known: OrderedDict[Path, tuple[tuple[Stamp, Stamp], Trace | None]] = OrderedDict()

    def trace(self, folder: Path, trace_id: str, *, writing: bool = False) -> Trace | None:
        """Metadata as far as a list needs it, as the log has it where its file is damaged or older. None: it is not
        to be listed. ``writing``: this process works on the session, and knows better than any file."""
        snapshot: Trace | None = None
        try:
            snapshot = self._reader.trace(folder, trace_id)
        except (UnknownTraceError, NewerFormatError) as error:
            log.warning("left out of the list of sessions: %s", error)
            return None
        except StoreError as error:
            log.warning("%s", error)
        if writing and snapshot is not None:
            return snapshot
        try:
            return self._as_the_log_has_it(folder, trace_id, snapshot)
        except (StoreError, OSError) as error:
            log.warning("only as its metadata has it in the list of sessions: %s", error)
            return snapshot

    def _as_the_log_has_it(self, folder: Path, trace_id: str, snapshot: Trace | None) -> Trace | None:
        try:
            stamps = stamp_of(folder / "meta.json") if snapshot else (0, 0, 0), stamp_of(folder / LOG)
        except FileNotFoundError:
            return snapshot
        with self._lock:
            known = self._known.get(folder)
        if known is not None and known[0] == stamps:
            return known[1]
        last = self._reader.last_event_id(folder)
        found = snapshot
        if snapshot is None or snapshot.last_event_id > last > 0:
            found = self._trace_from_log(folder, trace_id, last) or snapshot
        elif 0 < last - snapshot.last_event_id <= _FOLLOWED:
            found = self._followed(folder, snapshot)
        with self._lock:
            self._known[folder] = stamps, found
            self._known.move_to_end(folder)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return found

    def _followed(self, folder: Path, trace: Trace) -> Trace:
        """Metadata with what happened since: a daemon that was killed wrote no snapshot of it."""
        from daemon.state.session_state import SessionState

        state = SessionState(trace)
        after = trace.last_event_id
        try:
            while events := self._reader.events(folder, trace.trace_id, after=after, limit=_PAGE):
                for event in events:
                    state.apply(event)
                after = events[-1].event_id
                # Messages are of no use for a list, and would be held.
                state.messages.clear()
        except (StoreError, OSError):
            raise
        except Exception:
            # A log that somebody made up is not to cost the person the list of all others.
            log.exception("the log of %s cannot be followed", trace.trace_id)
            return trace
        return state.trace.model_copy(update={"carried": trace.carried})

    def _trace_from_log(self, folder: Path, trace_id: str, last: int) -> Trace | None:
        """``last``: id of the log's last event."""
        events = self._reader.events(folder, trace_id, limit=1, after=0)
        first = events[0] if events else None
        if not isinstance(first, SessionCreated) or first.trace.trace_id != trace_id:
            return None
        if last <= _FOLLOWED:
            return self._followed(folder, first.trace.model_copy(update={"last_event_id": 0}))
        trace = first.trace
        with opened(folder / LOG) as file:
            for line in _about_the_session(LogReader(file)):
                event = self._reader.event(line, trace_id)
                if event is not None:
                    known: dict[str, Any] = {"last_event_id": event.event_id, "updated_at": event.time}
                    if isinstance(event, SessionUpdated):
                        names = ("title", "summary", "model")
                        known |= {k: v for k, v in event.updates.items() if k in names and isinstance(v, str)}
                    trace = trace.model_copy(update=known)
        return trace.model_copy(update={"last_event_id": last})


def _about_the_session(reader: LogReader) -> Iterator[LogLine]:
    """What made it, what changed its title and so on, and its last event."""
    for line in reader.forwards():
        if b'"event":"session_' in line.data[:300]:
            yield line
    yield from (line for line, _ in zip(reader.backwards(), range(1), strict=False))
