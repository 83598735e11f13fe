"""The list of traces: filters, pages. Runs in a thread."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Annotated, get_args

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from daemon.api.session_summary import JsonObject, status_of
from daemon.model.traces import Trace, TraceMeta, TraceStatus
from daemon.state.session_state import SessionState
from daemon.store.facts import aware
from daemon.store.trace_store import StoreError, TraceStore

_MISSIONS = 2000
_MOST_LOOKED = 2000
"""Traces that are looked at for one page."""


class _EnoughError(Exception):
    """So many traces were looked at that the page ends here."""


class ParameterError(Exception):
    """Raised for an impossible parameter; the message says why."""


_STATUSES: tuple[TraceStatus, ...] = get_args(TraceStatus)
_STATUS = f"({'|'.join(_STATUSES)})"
_NO_ZONE_PLUS = re.compile(r"(T.*) (\d\d:?\d\d)$")


def _statuses(texts: Iterable[str]) -> list[str]:
    wanted = [status for text in texts for status in text.split(",")]
    for status in wanted:
        if status not in _STATUSES:
            raise ParameterError(
                f"{status[:100]!a} is not a status: give one or more of {', '.join(_STATUSES)}, separated "
                "by commas."
            )
    return wanted


def _time(text: object) -> object:
    if not isinstance(text, str):
        return text
    for spelling in (text, _NO_ZONE_PLUS.sub(r"\1+\2", text)):  # an unencoded plus arrives as a blank
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(spelling)
    raise ParameterError(f"{text[:100]!a} is not a time: write it like 2026-01-31T12:00:00Z.")


_Time = Annotated[
    datetime | None,
    BeforeValidator(_time),
    WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}),
    Field(description="ISO 8601; UTC if it has no time zone."),
]


class TraceQuery(BaseModel, frozen=True):
    """The filters and the page of a request to ``/api/traces``."""

    limit: int = Field(default=50, ge=1, le=500)
    before: str | None = Field(default=None, description="Older than this trace: `next` of the last page.")
    status: Annotated[
        frozenset[TraceStatus] | None,
        # Errors are described in text instead of by a pattern.
        BeforeValidator(_statuses),
        WithJsonSchema(
            {"anyOf": [{"type": "string", "pattern": f"^{_STATUS}(,{_STATUS})*$"}, {"type": "null"}]}
        ),
    ] = Field(default=None, description="Several with commas.")
    agent: str | None = None
    model: str | None = Field(default=None, description="provider/model")
    q: str | None = Field(default=None, description="Words of title, summary or task.")
    since: _Time = None
    until: _Time = None


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
        self._stored_mission = lru_cache(_MISSIONS)(self._read_mission)

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
        many = None if self._many_missions is None else self._many_missions([one.trace_id for one in shown])
        return {
            "traces": [self._meta(trace, many) for trace in shown],
            "more": more,
            "next": looked[-1] if more else None,
        }

    def _status(self, trace: Trace, state: SessionState | None) -> TraceStatus:
        return status_of(trace, state, elsewhere=self._elsewhere)

    def _meta(self, stored: Trace, missions: Mapping[str, str] | None) -> JsonObject:
        state = self._live(stored.trace_id)
        trace = stored if state is None else state.trace
        mission = self._mission(stored, state) if missions is None else missions.get(stored.trace_id, "")
        status, foreign = self._status(trace, state), self._is_foreign(stored.trace_id)
        return TraceMeta.of(trace, mission, status, foreign=foreign).stored()

    def _matches(self, stored: Trace, query: TraceQuery) -> bool:
        state = self._live(stored.trace_id)
        trace = stored if state is None else state.trace
        if query.agent is not None and trace.agent != query.agent:
            return False
        if query.model is not None and trace.model != query.model:
            return False
        if query.since is not None and aware(trace.updated_at) < aware(query.since):
            return False
        if query.until is not None and aware(trace.created_at) > aware(query.until):
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
        return self._stored_mission(stored.trace_id, stored.last_event_id)

    def _read_mission(self, trace_id: str, last_event_id: int) -> str:
        with contextlib.suppress(StoreError):  # the log has everything
            if self._store.trace(trace_id).last_event_id == last_event_id:
                return self._store.goal_tree(trace_id).mission
        with contextlib.suppress(StoreError):
            return self._replayed_mission(trace_id)
        return ""  # the list continues without it; opening the trace reports the problem
