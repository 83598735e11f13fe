"""Traces in memory: for tests, and for a workspace where nothing may be stored."""

from __future__ import annotations

from collections.abc import Sequence

from daemon.model.branches import branch_of, session_of
from daemon.model.events import Event
from daemon.model.goals import GoalTree
from daemon.model.messages import Message
from daemon.model.traces import Trace
from daemon.store.base import EventT, UnknownTrace


class MemoryTraceStore:
    """See TraceStore."""

    def __init__(self) -> None:
        self._traces: dict[str, Trace] = {}
        self._trees: dict[str, GoalTree] = {}
        self._messages: dict[str, list[Message]] = {}
        self._events: dict[str, list[Event]] = {}

    def create(self, trace: Trace) -> None:
        """See TraceStore."""
        self._traces[trace.trace_id] = trace
        self._trees[trace.trace_id] = GoalTree()
        self._messages[trace.trace_id] = []
        self._events[trace.trace_id] = []

    def append(self, event: EventT) -> EventT:
        """See TraceStore."""
        events = self._events[self._known(event.trace_id)]
        numbered = event.model_copy(update={"event_id": len(events) + 1})
        events.append(numbered)
        return numbered

    def save_message(self, message: Message) -> None:
        """See TraceStore."""
        messages = self._messages[self._known(session_of(message.trace_id, message.branch_id))]
        messages[:] = [m for m in messages if m.message_id != message.message_id]
        messages.append(message)
        messages.sort(key=lambda m: m.sequence)

    def save_snapshot(self, trace: Trace, tree: GoalTree) -> None:
        """See TraceStore."""
        self._traces[self._known(trace.trace_id)] = trace
        self._trees[trace.trace_id] = tree

    def trace(self, trace_id: str) -> Trace:
        """See TraceStore."""
        return self._traces[self._known(trace_id)]

    def goal_tree(self, trace_id: str) -> GoalTree:
        """See TraceStore."""
        return self._trees[self._known(trace_id)]

    def traces(self, *, limit: int, before: str | None = None) -> list[Trace]:
        """See TraceStore."""
        ids = sorted(
            (i for i in self._traces if branch_of(i) is None and (before is None or i < before)), reverse=True
        )
        return [self._traces[i] for i in ids[:limit]]

    def messages(
        self, trace_id: str, *, limit: int | None = None, before: int | None = None
    ) -> list[Message]:
        """See TraceStore."""
        found = [m for m in self._messages[self._known(trace_id)] if before is None or m.sequence < before]
        return found if limit is None else found[max(0, len(found) - limit) :]

    def events(self, trace_id: str, *, after: int = 0) -> Sequence[Event]:
        """See TraceStore."""
        return [event for event in self._events[self._known(trace_id)] if event.event_id > after]

    def last_event_id(self, trace_id: str) -> int:
        """See TraceStore."""
        return len(self._events[self._known(trace_id)])

    def close(self, trace_id: str | None = None) -> None:
        """Nothing is held open."""

    def _known(self, trace_id: str) -> str:
        if trace_id not in self._traces:
            raise UnknownTrace(f"There is no session {trace_id}.")
        return trace_id
