"""Makes the state of a stored session from its log, or from its snapshot where that can be trusted.

A snapshot is trusted only when it was written at rest and the log has nothing newer. All functions block: call them in
a thread. They write nothing.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from daemon.gc_tuning import COLLECTOR
from daemon.model.events import Event, MessageAdded, MessagePartAdded, MessageTextAdded
from daemon.model.traces import Trace
from daemon.plan.tree import PlanTree
from daemon.state.session_state import SessionState
from daemon.store.ids import MESSAGE_ID, sequence_of
from daemon.store.trace_store import (
    NewerFormatError,
    StoreError,
    TraceStore,
    UnknownTraceError,
    all_events,
    refuse_newer,
)
from tools.localization import t

if TYPE_CHECKING:
    from daemon.model.goals import GoalTree

log = logging.getLogger(__name__)

_RECENT = 32
"""Events at the end of a log among which the numbers of its newest messages are looked for."""
_FROM_EVENTS = (
    "message_count", "usage", "total_cost", "last_stop_reason", "running", "carried", "last_event_id",
)  # fmt: skip
"""Fields of the metadata that follow from the log: they start empty."""


class MixedUpError(StoreError):
    """The files of a session name another one. Ids become paths, and a trace that came along may have any."""


def read_state(store: TraceStore, trace_id: str, *, foreign: bool = False) -> SessionState:
    """Return the state of a stored session. Reads the whole trace. Raises StoreError.

    ``foreign``: it was imported, so that its snapshot may show anything: only the log is read.
    """
    with COLLECTOR.building():
        return (None if foreign else _from_snapshot(store, trace_id)) or replayed(store, trace_id)


def _from_snapshot(store: TraceStore, trace_id: str) -> SessionState | None:
    """Return the state as metadata, plan and messages have it; None when they cannot be trusted."""
    try:
        if (found := snapshot_at_rest(store, trace_id)) is None:
            return None
        trace, tree = found
        carried = trace.carried
        plan = PlanTree(
            tree,
            last_id=carried.last_goal_id,
            replaceable=carried.replaceable_goal,
            replaced=carried.replaced_goals,
        )
        messages = store.messages(trace_id)
        if len(messages) == trace.message_count:
            return SessionState(trace, plan, messages)
        log.warning("messages of %s are missing; rebuilding from the log", trace_id)
    except (NewerFormatError, MixedUpError, UnknownTraceError):
        raise
    except StoreError as error:
        log.warning("%s; rebuilding from the log", error)
    return None


def snapshot_at_rest(store: TraceStore, trace_id: str) -> tuple[Trace, GoalTree] | None:
    """Return metadata and plan of a session; None when the log may have more. Raises StoreError."""
    trace = store.trace(trace_id)
    _check_id(trace.trace_id, trace_id)
    if trace.running or trace.last_event_id != store.last_event_id(trace_id):
        return None
    return trace, store.goal_tree(trace_id)


def replayed(store: TraceStore, trace_id: str) -> SessionState:
    """Return the state from the log. Reads the whole log. Raises StoreError."""
    return replayed_events(store, trace_id)[0]


def replayed_events(store: TraceStore, trace_id: str) -> tuple[SessionState, int]:
    """Return the same, and of how many events."""
    first = next(iter(store.events(trace_id, limit=1)), None)
    if first is None:
        raise StoreError(
            t(
                "The log of session {trace_id} is missing, empty or has lost its start: it cannot be opened.",
                trace_id=trace_id,
            )
        )
    state = SessionState(_begun(store, trace_id, first))
    count = 0
    for event in all_events(store.events, trace_id):
        # Ids become paths, and a log from a repository or an archive is untrusted.
        _check_id(event.trace_id, trace_id)
        state.apply(event)
        count += 1
    return state, count


def beginning_lost(store: TraceStore, trace_id: str) -> bool:
    """Return whether the event that made a session is gone from its log. Raises StoreError."""
    events = store.events(trace_id, limit=1)
    return bool(events) and events[0].event != "session_created"


def _begun(store: TraceStore, trace_id: str, first: Event) -> Trace:
    """Return a session at its start; fields that ``first`` lacks come from its metadata. Raises StoreError."""
    if first.event == "session_created":
        _check_id(first.trace.trace_id, trace_id)
        refuse_newer(trace_id, first.trace.format)
        return first.trace
    lost = t("The start of the log of session {trace_id} is missing", trace_id=trace_id)
    try:
        trace = store.trace(trace_id)
        _check_id(trace.trace_id, trace_id)
    except (NewerFormatError, MixedUpError):
        raise
    except StoreError as error:
        raise StoreError(t("{lost}, and so is its metadata: it cannot be rebuilt.", lost=lost)) from error
    log.warning("%s; it is taken from the metadata", lost)
    fresh = {name: Trace.model_fields[name].get_default(call_default_factory=True) for name in _FROM_EVENTS}
    return trace.model_copy(update=fresh)


def _check_id(found: str, expected: str) -> None:
    if found != expected:
        raise MixedUpError(
            t(
                "The files of session {expected} belong to another session: it cannot be opened.",
                expected=expected,
            )
        )


def highest_sequence(store: TraceStore, session_id: str) -> int:
    """Return the highest number of a message in a session and all below it; a message that was coming in counts.

    Reads the ends of their logs. A record that cannot be read counts for nothing.
    """
    try:
        recent = store.events(session_id, after=max(0, store.last_event_id(session_id) - _RECENT))
        known = [event.message.sequence for event in recent if isinstance(event, MessageAdded)]
        known = known or [message.sequence for message in store.messages(session_id, limit=1)]
        unfinished = [
            sequence_of(event.message_id)
            for event in recent
            if isinstance(event, MessagePartAdded | MessageTextAdded)
            and MESSAGE_ID.fullmatch(event.message_id)
        ]
        below = [highest_sequence(store, child) for child in store.children(session_id)]
    except StoreError as error:
        log.warning("the messages of %s are not numbered on: %s", session_id, error)
        return 0
    return max([0, *known, *unfinished, *below])
