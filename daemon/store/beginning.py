"""Of a log that has lost its first event: what the metadata still says of it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from daemon.model.traces import Trace
from daemon.store.base import NewerFormatError, StoreError, TraceStore, refuse_newer
from tools.localization import t

if TYPE_CHECKING:
    from daemon.model.events import Event

log = logging.getLogger(__name__)

_FROM_EVENTS = (
    "message_count", "usage", "total_cost", "last_stop_reason", "running", "carried", "last_event_id",
)  # fmt: skip
"""Fields of the metadata that the log goes on to say: they begin from nothing."""


class MixedUpError(StoreError):
    """The files of a session name another one. Ids become paths, and a trace that came along may have any."""


def check_id(found: str, expected: str) -> None:
    """Raises MixedUpError."""
    if found != expected:
        raise MixedUpError(
            t(
                "The files of session {expected} belong to another one: it cannot be opened.",
                expected=expected,
            )
        )


def beginning_lost(store: TraceStore, trace_id: str) -> bool:
    """Whether the event that made a session is gone from its log. Raises StoreError."""
    events = store.events(trace_id, limit=1)
    return bool(events) and events[0].event != "session_created"


def begun(store: TraceStore, trace_id: str, first: Event) -> Trace:
    """A session as it began. ``first``: of its events. Raises StoreError."""
    if first.event != "session_created":
        return remembered_beginning(store, trace_id)
    check_id(first.trace.trace_id, trace_id)
    refuse_newer(trace_id, first.trace.format)
    return first.trace


def remembered_beginning(store: TraceStore, trace_id: str) -> Trace:
    """A session as it began, as far as its metadata still says it. Raises StoreError."""
    lost = t("The log of session {trace_id} has lost its beginning", trace_id=trace_id)
    try:
        trace = store.trace(trace_id)
        check_id(trace.trace_id, trace_id)
    except (NewerFormatError, MixedUpError):
        raise
    except StoreError as error:
        raise StoreError(
            t("{lost}, and so has its metadata: nothing can be made from it.", lost=lost)
        ) from error
    log.warning("%s; it is taken from the metadata", lost)
    fresh = {name: Trace.model_fields[name].get_default(call_default_factory=True) for name in _FROM_EVENTS}
    return trace.model_copy(update=fresh)
