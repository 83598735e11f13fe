"""The traces in lists: with metadata even where its file is lost, damaged, or older than the log.

Lists leave out unreadable sessions, and those in which nothing was ever begun. A caller that continues "the newest"
must know of the unreadable ones, or it would silently continue another conversation.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from daemon.model.events import Notice, PermissionAsked, PermissionReplied, SessionCreated, SessionUpdated
from daemon.store.event_log import LogLine, LogReader
from daemon.store.file_reader import LOG, FileReader, Remembered, opened, stamp_of
from daemon.store.trace_store import NewerFormatError, StoreError, TraceStore, UnknownTraceError, all_events

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from daemon.model.traces import Trace


log = logging.getLogger(__name__)

_MOST = 50
"""Sessions that are looked at; the newest ones count."""
_BEFORE_A_PROMPT = (SessionCreated, SessionUpdated, Notice, PermissionAsked, PermissionReplied)
"""Events that a session has before its first prompt counts: questions are those about files to be attached."""
_FEW = 20
_FOLLOWED = 50_000
"""Events that are read at most to list a trace whose metadata is not up to date."""


class UnreadableTrace(Struct, frozen=True):
    """A session that cannot be read; ``why`` is for the user."""

    trace_id: str
    why: str


def unreadable_traces(
    store: TraceStore, own: Collection[str], listed: Collection[str], *, above: str, below: str | None
) -> list[UnreadableTrace]:
    """Return those of ``own`` between the ids ``above`` and ``below`` (None: the newest, too) that are not ``listed``
    and cannot be read, newest first; deleted ones are none. Blocking."""
    between = (name for name in own if name > above and (below is None or name < below))
    found: list[UnreadableTrace] = []
    for trace_id in sorted(set(between) - set(listed), reverse=True)[:_MOST]:
        try:
            store.trace(trace_id)
        except UnknownTraceError:
            pass  # deleted, or never started
        except StoreError as error:
            found.append(UnreadableTrace(trace_id, str(error)))
    return found


def last_used(store: TraceStore, by_use: Sequence[str]) -> tuple[str, UnreadableTrace | None]:
    """Return the first of ``by_use`` that has any content, and why it cannot be read, if so. Blocking."""
    for trace_id in by_use[:_MOST]:
        try:
            if never_begun(store, store.trace(trace_id)):
                continue
        except UnknownTraceError:
            continue  # deleted by hand, or never started
        except StoreError as error:
            return trace_id, UnreadableTrace(trace_id, str(error))
        return trace_id, None
    return "", None


def never_begun(store: TraceStore, trace: Trace) -> bool:
    """Return whether a stored session has no prompt, no goal and no title of the user's, e.g. as its only prompt was
    refused.

    Blocking; reads the beginning of the log of a session without messages.
    """
    if trace.message_count or trace.running or trace.titled_by == "user":
        return False
    try:
        events = store.events(trace.trace_id, limit=_FEW)
    except StoreError:
        return False  # it is reported as damaged
    return 0 < len(events) < _FEW and all(isinstance(event, _BEFORE_A_PROMPT) for event in events)


class TraceIndex:
    """The entries of lists of traces. For any thread."""

    def __init__(self, store: FileReader) -> None:
        self._store = store
        self._known = Remembered["Trace | None"]()

    def trace(self, trace_id: str, *, writing: bool = False) -> Trace | None:
        """Metadata as far as a list needs it, as the log has it where its file is damaged or older. None: it is not
        to be listed. ``writing``: this process works on the session, and knows better than any file."""
        snapshot: Trace | None = None
        try:
            snapshot = self._store.trace(trace_id)
        except (UnknownTraceError, NewerFormatError) as error:
            log.warning("left out of the list of sessions: %s", error)
            return None
        except StoreError as error:
            log.warning("%s", error)
        if writing and snapshot is not None:
            return snapshot
        folder = self._store.folder(trace_id)
        try:
            stamps = stamp_of(folder / "meta.json") if snapshot else None, stamp_of(folder / LOG)
            return self._known.get(folder, stamps, lambda: self._as_the_log_has_it(trace_id, snapshot))
        except FileNotFoundError:
            return snapshot
        except (StoreError, OSError) as error:
            log.warning("only as its metadata has it in the list of sessions: %s", error)
            return snapshot

    def _as_the_log_has_it(self, trace_id: str, snapshot: Trace | None) -> Trace | None:
        last = self._store.last_event_id(trace_id)
        if snapshot is None or snapshot.last_event_id > last > 0:
            return self._trace_from_log(trace_id, last) or snapshot
        if 0 < last - snapshot.last_event_id <= _FOLLOWED:
            return self._followed(snapshot)
        return snapshot

    def _followed(self, trace: Trace) -> Trace:
        """Metadata with what happened since: a daemon that was killed wrote no snapshot of it."""
        from daemon.state.session_state import SessionState

        state = SessionState(trace)
        try:
            for event in all_events(self._store.events, trace.trace_id, after=trace.last_event_id):
                state.apply(event)
                # The list does not need messages, and they would stay in memory.
                state.messages.clear()
        except (StoreError, OSError):
            raise
        except Exception:
            # A forged log must not prevent the list of all other sessions.
            log.exception("the log of %s cannot be followed", trace.trace_id)
            return trace
        return state.trace.model_copy(update={"carried": trace.carried})

    def _trace_from_log(self, trace_id: str, last: int) -> Trace | None:
        """``last``: id of the log's last event."""
        first = next(iter(self._store.events(trace_id, limit=1)), None)
        if not isinstance(first, SessionCreated) or first.trace.trace_id != trace_id:
            return None
        if last <= _FOLLOWED:
            return self._followed(first.trace.model_copy(update={"last_event_id": 0}))
        trace = first.trace
        with opened(self._store.folder(trace_id) / LOG) as file:
            for line in _about_the_session(LogReader(file)):
                event = self._store.formats.event(line.data, trace_id)
                if event is not None:
                    known: dict[str, Any] = {"last_event_id": event.event_id, "updated_at": event.time}
                    if isinstance(event, SessionUpdated):
                        names = ("title", "summary", "model")
                        known |= {k: v for k, v in event.updates.items() if k in names and isinstance(v, str)}
                    trace = trace.model_copy(update=known)
        return trace.model_copy(update={"last_event_id": last})


def _about_the_session(reader: LogReader) -> Iterator[LogLine]:
    """Yield the events that created the session, that changed its metadata, and its last event."""
    for line in reader.forwards():
        if b'"event":"session_' in line.data[:300]:
            yield line
    yield from (line for line, _ in zip(reader.backwards(), range(1), strict=False))
