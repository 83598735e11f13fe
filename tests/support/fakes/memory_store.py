"""Traces in memory: the contract of trace stores on a second back end."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Sequence

from daemon.model.branches import branch_of, is_within, root_of
from daemon.model.encoding import json_bytes
from daemon.model.events import Event, MessageAdded
from daemon.model.goals import GoalTree
from daemon.model.messages import Message, Role
from daemon.model.traces import Trace
from daemon.store.ids import folder_names, order_of_children, parent_of
from daemon.store.trace_store import EventT, StoreError, TraceStore, UnknownTraceError, refuse_newer
from tools.localization import t


class MemoryTraceStore(TraceStore):
    """A trace store in memory."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # readers are in threads
        self._traces: dict[str, Trace] = {}
        self._trees: dict[str, GoalTree] = {}
        self._messages: dict[str, dict[str, Message]] = {}
        self._events: dict[str, list[Event]] = {}

    def create(self, trace: Trace) -> None:
        trace_id = trace.trace_id
        folder_names(trace_id)  # what is no id is none here, either
        with self._lock:
            if trace_id in self._traces:
                raise StoreError(t("There is a session {trace_id} already.", trace_id=trace_id))
            if branch_of(trace_id) is not None:
                self._known(root_of(trace_id))
            self._traces[trace_id] = trace
            self._trees[trace_id] = GoalTree()
            self._messages[trace_id] = {}
            self._events[trace_id] = []

    def append(self, event: EventT) -> EventT:
        with self._lock:
            events = self._events[self._known(event.trace_id)]
            numbered = event.model_copy(update={"event_id": len(events) + 1})
            events.append(numbered)
            if isinstance(numbered, MessageAdded):
                self._messages[event.trace_id][numbered.message.message_id] = numbered.message
            return numbered

    def save_snapshot(self, trace: Trace, tree: GoalTree) -> None:
        with self._lock:
            if trace.last_event_id >= self._traces[self._known(trace.trace_id)].last_event_id:
                self._traces[trace.trace_id] = trace
                self._trees[trace.trace_id] = tree

    def recover(self, trace_id: str) -> int:
        self._known(trace_id)
        return 0

    def delete(self, trace_id: str) -> None:
        with self._lock:
            self._known(trace_id)
            for known in [name for name in self._traces if is_within(name, trace_id)]:
                for records in (self._traces, self._trees, self._messages, self._events):
                    del records[known]

    def close(self, trace_id: str | None = None) -> None:
        """Nothing is held open."""

    def trace(self, trace_id: str) -> Trace:
        found = self._traces[self._known(trace_id)]
        refuse_newer(trace_id, found.format)
        return found

    def goal_tree(self, trace_id: str) -> GoalTree:
        return self._trees[self._known(trace_id)]

    def traces(
        self, *, limit: int, before: str | None = None, matches: Callable[[Trace], bool] | None = None
    ) -> list[Trace]:
        found: list[Trace] = []
        with self._lock:
            known = sorted(self._traces.items(), reverse=True)
        for trace_id, trace in known:
            if len(found) >= limit:
                break
            wanted = branch_of(trace_id) is None and (before is None or trace_id < before)
            if wanted and (matches is None or matches(trace)):
                found.append(trace)
        return found

    def children(self, trace_id: str) -> list[str]:
        with self._lock:
            self._known(trace_id)
            below = [name for name in self._traces if branch_of(name) and parent_of(name) == trace_id]
        return sorted(below, key=order_of_children)

    def messages(
        self,
        trace_id: str,
        *,
        limit: int | None = None,
        before: int | None = None,
        goal_ids: frozenset[str | None] | None = None,
        role: Role | None = None,
    ) -> list[Message]:
        with self._lock:
            kept = list(self._messages[self._known(trace_id)].values())
        found = [
            message
            for message in kept
            if (before is None or message.sequence < before)
            and (goal_ids is None or message.goal_id in goal_ids)
            and (role is None or message.role == role)
        ]
        found.sort(key=lambda message: message.sequence)
        return found if limit is None else found[max(0, len(found) - limit) :]

    def events(self, trace_id: str, *, after: int = 0, limit: int | None = None) -> Sequence[Event]:
        with self._lock:
            events = self._events[self._known(trace_id)]
            start = bisect.bisect_right(events, after, key=lambda event: event.event_id)
            return events[start:] if limit is None else events[start : start + max(0, limit)]

    def last_event_id(self, trace_id: str) -> int:
        return len(self._events[self._known(trace_id)])

    def size(self, trace_id: str) -> int:
        """Return the size that the records would have as JSON."""
        with self._lock:
            self._known(trace_id)
            below = [name for name in self._traces if is_within(name, trace_id)]
            records = [
                record.stored()
                for name in below
                for record in (self._traces[name], self._trees[name], *self._events[name])
            ]
        return sum(len(json_bytes(record)) for record in records)

    def _known(self, trace_id: str) -> str:
        if trace_id not in self._traces:
            raise UnknownTraceError(t("There is no session {trace_id!a}.", trace_id=trace_id[:100]))
        return trace_id
