"""What a trace store must do.

The event log is the truth: an event is appended before anything else happens with it, and the other records are
made from the log and can be made anew from it. A message is stored in the log alone; what a store keeps of it besides
is for others to read. One process writes a trace, many may read it meanwhile. Writing is quick
enough for the event loop; everything that reads is not, callers put it in a thread.

A back end is whatever passes ``tests/contract/store``: ids are plain strings that sort by age, values are frozen
models, and nothing here speaks of files. What all of it asks, besides what the methods say:

- Nothing that outlives the process holds a secret. ``encoding.json_bytes`` makes of ``model.stored()`` what may be
  kept: all records go through it. (A store that keeps the objects themselves and nothing else may keep them as they
  are: what works with them needs the originals.)
- Texts may hold halves of characters (lone surrogates, which models send), which UTF-8 cannot and pydantic's own JSON
  refuses. ``json_bytes`` mends them; what is read then may differ from what was written in these characters alone.
- Ids: ``ids.TRACE_ID`` of a main line, ``model.branches.BRANCH_ID`` of a child; ``ids.folder_names`` raises
  UnknownTraceError for what is neither. They come from clients and from logs that anybody may have written: letters are
  told apart by case, and no id may lead anywhere else, name two sessions, or be a pattern.
- Methods are called from several threads at once: readers while one writes. A reader sees each event, message and
  snapshot whole or not at all, and of events a beginning: never one without those before it.
- A kill at any moment loses nothing that a method has returned from, and leaves of the rest all or nothing, but for a
  torn event at the end of a log, which readers do not see and ``recover`` removes.
- ``append`` and ``save_snapshot`` cost what they write, not what is there: they run for every event
  of a long session, on the event loop.
- One record that is damaged costs that record. Whoever asks for it by its id is told (StoreError); lists and pages
  leave it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from daemon.model.events import Event
from daemon.model.traces import FORMAT, Trace
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from daemon.model.goals import GoalTree
    from daemon.model.messages import Message, Role

EventT = TypeVar("EventT", bound=Event)


class StoreError(Exception):
    """The store cannot do it; the message says why and what to do."""


class UnknownTraceError(StoreError):
    """There is no trace with this id."""


class NewerFormatError(StoreError):
    """A newer Goalwright wrote this trace: this one could only damage it."""


def refuse_newer(trace_id: str, written: object, current: int = FORMAT) -> None:
    """Raises NewerFormatError when a record of format ``written`` is none that this version understands."""
    if isinstance(written, int) and written > current:
        raise NewerFormatError(
            t(
                "Session {trace_id} was written by a newer Goalwright (format {written}, this one reads "
                "up to {current}): update Goalwright to open it.",
                trace_id=trace_id,
                written=written,
                current=current,
            )
        )


class TraceStore(Protocol):
    """Events, messages among them; goals and metadata as snapshots.

    Every method that takes a ``trace_id`` also takes the id of a child (``{trace_id}:{branch_id}``), and raises
    UnknownTraceError for what is no id or not there.
    """

    # -- writing: one process at a time --

    def create(self, trace: Trace) -> None:
        """Make room for a new trace, or for a child of one that is there. Raises StoreError, also when it exists."""
        ...

    def append(self, event: EventT) -> EventT:
        """Append to the log of the event's trace and return the event with its ``event_id``, above all others.

        When it returns, the event outlives a kill of this process. Raises StoreError; then nothing of it is kept.
        """
        ...

    def save_snapshot(self, trace: Trace, tree: GoalTree) -> None:
        """Store metadata and goal tree as they are after ``trace.last_event_id``; an older one changes nothing."""
        ...

    def recover(self, trace_id: str) -> int:
        """Make a trace ready to be written after a crash, before anything is appended to it.

        An event that was half written is cut off the log. Returns how many bytes were cut off, 0 when the log is
        whole. Raises StoreError when nothing can be written.
        """
        ...

    def delete(self, trace_id: str) -> None:
        """Remove a trace or a child with everything below it. Nobody may be working on it. Raises StoreError."""
        ...

    def close(self, trace_id: str | None = None) -> None:
        """Let go of what is held open, of one trace or of all."""
        ...

    # -- reading: anybody, at any time; in a thread --

    def trace(self, trace_id: str) -> Trace:
        """Metadata. Raises UnknownTraceError, NewerFormatError, and StoreError when it is damaged."""
        ...

    def goal_tree(self, trace_id: str) -> GoalTree:
        """The goal tree of the last snapshot. Raises StoreError when it is damaged."""
        ...

    def traces(
        self, *, limit: int, before: str | None = None, matches: Callable[[Trace], bool] | None = None
    ) -> list[Trace]:
        """Newest first, those older than ``before`` that ``matches`` wants; main lines only.

        Reads no further than to the last one returned. What cannot be read, or is of a newer format, is left out.
        """
        ...

    def children(self, trace_id: str) -> list[str]:
        """Ids of the sessions directly below one: branches by name (A … Z, AA …), then sub-agents by number."""
        ...

    def messages(
        self,
        trace_id: str,
        *,
        limit: int | None = None,
        before: int | None = None,
        goal_ids: frozenset[str | None] | None = None,
        role: Role | None = None,
    ) -> list[Message]:
        """The newest ``limit`` messages with a sequence below ``before``, oldest first.

        ``goal_ids``: of these goals (internal ids; None: of no goal), ``role``: of this role; what is left out of is
        not restricted. They are those of the log; one that is damaged is left out, as among the events.
        """
        ...

    def events(self, trace_id: str, *, after: int = 0, limit: int | None = None) -> Sequence[Event]:
        """Events with an id above ``after`` (any number, also below zero), in order, the first ``limit`` of them.

        What they cost follows from how many there are to return, not from the length of the log. What this version
        does not know, or what is damaged, is left out; ids rise, and may have gaps.
        """
        ...

    def last_event_id(self, trace_id: str) -> int:
        """Id of the last event in the log; 0 when it is empty."""
        ...

    def size(self, trace_id: str) -> int:
        """Bytes that a trace takes, with its children, file versions and outputs."""
        ...

    def line(self, event: Event) -> bytes | None:
        """JSON of ``event``, without secrets, when it is what ``append`` returned last; None otherwise. Quick.

        Whoever wants to send it need not encode it again. No store has to keep it: this saves time only.
        """
        return None

    # -- records that are damaged, of a store that keeps files. Reads the whole trace: call it in a thread, while nobody
    #    works on the session.

    def without_effect(self, trace_id: str) -> list[int]:
        """Numbers (from 1) of the lines of the log that are damaged, out of order, or of a newer version."""
        return []

    def restore_messages(self, trace_id: str, messages: Sequence[Message]) -> int:
        """Write those of these messages again whose own record is lost or another; returns how many."""
        return 0

    def set_aside(self, trace_id: str, kept: Collection[str], *, snapshot: bool) -> list[str]:
        """Put the records of all messages but ``kept`` (their ids) where nothing reads them, nor removes them.

        ``snapshot``: with a copy of metadata and goals. Returns where they are now, as the person finds them.
        """
        return []
