"""What a trace store must do (source: mission M12, seed 000 "存储结构").

The event log is the truth: an event is appended before anything else happens with it, and the other files
are snapshots that can be rebuilt from the log. All calls are quick enough for the event loop, except those
that read a whole trace; callers put these in a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from daemon.model.events import Event
from daemon.model.goals import GoalTree
from daemon.model.messages import Message
from daemon.model.traces import FORMAT, Trace

EventT = TypeVar("EventT", bound=Event)


class StoreError(Exception):
    """The store cannot do it; the message says why and what to do."""


class UnknownTrace(StoreError):
    """There is no trace with this id."""


class NewerFormat(StoreError):
    """A newer Goalwright wrote this trace: this one could only damage it."""


def refuse_newer(trace_id: str, written: object) -> None:
    """Raises NewerFormat when a trace of format ``written`` is none that this version understands."""
    if isinstance(written, int) and written > FORMAT:
        raise NewerFormat(
            f"Session {trace_id} was written by a newer Goalwright (format {written}, "
            f"this one reads up to {FORMAT}): update Goalwright to open it."
        )


class TraceStore(Protocol):
    """Events first; then messages, goals and metadata as snapshots."""

    def create(self, trace: Trace) -> None:
        """Make room for a new trace. Raises StoreError."""
        ...

    def append(self, event: EventT) -> EventT:
        """Append to the log of the event's trace and return the event with its ``event_id``."""
        ...

    def save_message(self, message: Message) -> None:
        """Store a complete message (its event was appended before)."""
        ...

    def save_snapshot(self, trace: Trace, tree: GoalTree) -> None:
        """Store metadata and goal tree as they are after ``trace.last_event_id``."""
        ...

    def trace(self, trace_id: str) -> Trace:
        """Metadata. Raises UnknownTrace, NewerFormat, and StoreError when it is damaged."""
        ...

    def goal_tree(self, trace_id: str) -> GoalTree:
        """The goal tree of the last snapshot. Raises StoreError when it is damaged."""
        ...

    def traces(self, *, limit: int, before: str | None = None) -> list[Trace]:
        """Newest first, those older than ``before``."""
        ...

    def messages(
        self, trace_id: str, *, limit: int | None = None, before: int | None = None
    ) -> list[Message]:
        """The newest ``limit`` messages with a sequence below ``before``, oldest first.

        Raises StoreError when one of them is damaged.
        """
        ...

    def events(self, trace_id: str, *, after: int = 0) -> Sequence[Event]:
        """Events with an id above ``after``, in order."""
        ...

    def last_event_id(self, trace_id: str) -> int:
        """Id of the last event in the log; 0 when it is empty."""
        ...

    def close(self, trace_id: str | None = None) -> None:
        """Let go of open files, of one trace or of all."""
        ...
