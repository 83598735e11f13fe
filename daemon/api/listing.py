"""The list of traces: filters, pages. Runs in a thread."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from daemon.api.session_summary import JsonObject, status_of
from daemon.model.traces import Trace, TraceMeta, TraceStatus
from daemon.state.session_state import SessionState
from daemon.store.trace_store import StoreError, TraceStore

_MISSIONS = 2000
_MOST_LOOKED = 2000
"""Traces that are looked at for one page."""


class _EnoughError(Exception):
    """So many traces were looked at that the page ends here."""


@dataclass(frozen=True, slots=True)
class TraceQuery:
    """The filters and the page of a request to ``/api/traces``."""

    limit: int = 50
    before: str | None = None
    """Only those older than this trace."""
    status: frozenset[TraceStatus] = frozenset()
    """Empty: any."""
    agent: str | None = None
    model: str | None = None
    q: str | None = None
    """Words that must all be in title, summary or task, in any case."""
    since: datetime | None = None
    until: datetime | None = None
    """Time range of work: not ended before it, not started after it. Without a zone they are UTC."""


class TraceLister:
    """Lists traces, and caches the missions of those it has read: they are in another file."""

    def __init__(
        self,
        store: TraceStore,
        live: Callable[[str], SessionState | None],
        is_foreign: Callable[[str], bool],
        mission: Callable[[str], str],
        *,
        elsewhere: bool = False,
        missions: Callable[[Collection[str]], Mapping[str, str]] | None = None,
    ) -> None:
        """``mission``: of a stored trace whose snapshot is behind its log. Raises StoreError. ``elsewhere``: other
        daemons may work on them. ``missions``: of many at once, where one at a time is slow; then words must be in
        titles and summaries."""
        self._store = store
        self._live = live
        self._is_foreign = is_foreign
        self._replayed_mission = mission
        self._elsewhere = elsewhere
        self._many_missions = missions
        self._missions: OrderedDict[str, tuple[int, str]] = OrderedDict()
        self._lock = threading.Lock()

    def page(self, query: TraceQuery) -> JsonObject:
        """Return a page. One for which too much was looked at has fewer traces, but goes on at ``next``."""
        found: list[Trace] = []
        looked: list[str] = []

        def matches(trace: Trace) -> bool:
            if len(looked) == _MOST_LOOKED:
                raise _EnoughError
            looked.append(trace.trace_id)
            fits = self._matches(trace, query)
            if fits:
                found.append(trace)
            return fits

        more = False
        try:
            self._store.traces(limit=query.limit + 1, before=query.before, matches=matches)
        except _EnoughError:
            more = True
        shown = found[: query.limit]
        if len(found) > query.limit:
            more, looked = True, [shown[-1].trace_id]
        if self._many_missions is not None:
            self._remember(self._many_missions([one.trace_id for one in shown]), shown)
        return {
            "traces": [self._meta(trace) for trace in shown],
            "more": more,
            "next": looked[-1] if more else None,
        }

    def _status(self, trace: Trace, state: SessionState | None) -> TraceStatus:
        return status_of(trace, state, elsewhere=self._elsewhere)

    def _meta(self, stored: Trace) -> JsonObject:
        state = self._live(stored.trace_id)
        trace = stored if state is None else state.trace
        foreign = self._is_foreign(stored.trace_id)
        meta = TraceMeta.of(trace, self._mission(stored, state), self._status(trace, state), foreign=foreign)
        return meta.stored()

    def _matches(self, stored: Trace, query: TraceQuery) -> bool:
        state = self._live(stored.trace_id)
        trace = stored if state is None else state.trace
        if query.agent is not None and trace.agent != query.agent:
            return False
        if query.model is not None and trace.model != query.model:
            return False
        if query.since is not None and _aware(trace.updated_at) < _aware(query.since):
            return False
        if query.until is not None and _aware(trace.created_at) > _aware(query.until):
            return False
        if query.status and self._status(trace, state) not in query.status:
            return False
        words = (query.q or "").casefold().split()
        if not words:
            return True
        mission = self._mission(stored, state) if self._many_missions is None else ""
        text = f"{trace.title}\n{trace.summary}\n{mission}".casefold()
        return all(word in text for word in words)

    def _mission(self, stored: Trace, state: SessionState | None) -> str:
        if state is not None:
            return state.plan.mission
        with self._lock:
            known = self._missions.get(stored.trace_id)
        if known is not None and known[0] == stored.last_event_id:
            return known[1]
        try:
            mission = self._stored_mission(stored)
        except StoreError:
            mission = ""  # the list continues without it; opening the trace reports the problem
        self._remember({stored.trace_id: mission}, [stored])
        return mission

    def _remember(self, missions: Mapping[str, str], of: Sequence[Trace]) -> None:
        with self._lock:
            for trace in of:
                self._missions[trace.trace_id] = trace.last_event_id, missions.get(trace.trace_id, "")
            while len(self._missions) > _MISSIONS:
                self._missions.popitem(last=False)

    def _stored_mission(self, stored: Trace) -> str:
        try:
            if self._store.trace(stored.trace_id).last_event_id == stored.last_event_id:
                return self._store.goal_tree(stored.trace_id).mission
        except StoreError:
            pass  # the log has everything
        return self._replayed_mission(stored.trace_id)


def _aware(time: datetime) -> datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
