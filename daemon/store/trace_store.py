"""The interface of trace stores, and the guarantees of all of them.

The event log is the source of truth: an event is appended before anything else happens with it, and the other records
are made from the log and can be rebuilt from it. A message is stored in the log alone; anything else that a store keeps
of it is for other readers. One process writes a trace, many may read it meanwhile. Writing is fast enough for the event
loop; everything that reads is not, callers put it in a thread.

A back end is whatever passes ``tests/contract/store``: ids are plain strings that sort by age, values are frozen
models, and nothing here mentions files. Its guarantees, besides those of the methods:

- Nothing that outlives the process holds a secret. ``encoding.json_bytes`` turns ``model.stored()`` into what may be
  kept: all records go through it. (A store that keeps the objects themselves and nothing else may keep them unchanged:
  code that works with them needs the originals.)
- Texts may contain halves of characters (lone surrogates, which models send), which UTF-8 cannot represent and
  pydantic's own JSON rejects. ``json_bytes`` repairs them; a text may differ from the original in these characters.
- Ids: ``ids.TRACE_ID`` of a main session, ``model.branches.BRANCH_ID`` of a child; ``ids.folder_names`` raises
  UnknownTraceError for anything else. They come from clients and from untrusted logs: they are case-sensitive, and no
  id may lead to another folder, name two sessions, or be a pattern.
- Methods are called from several threads at once: readers while one writes. A reader sees each event, message and
  snapshot completely or not at all, and of events a beginning: never one without those before it.
- A kill at any moment loses nothing that a method has returned from, and leaves all or nothing of the rest, except for
  a torn event at the end of a log, which readers do not see and ``recover`` removes.
- The cost of ``append`` and ``save_snapshot`` grows with what they write, not with what is stored: they run for every
  event of a long session, on the event loop.
- A damaged record affects only itself. Reading it by its id raises StoreError; lists and pages leave it out.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar

from daemon.model.events import Event
from daemon.model.traces import FORMAT, Trace
from tools.localization import noted, t

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from daemon.model.goals import GoalTree
    from daemon.model.messages import Message, Role

T = TypeVar("T")
EventT = TypeVar("EventT", bound=Event)
UNWRITABLE = noted("{path} cannot be written: {strerror}.")
"""For ``os_errors``."""
_PAGE = 500
"""Events read at once: releasing all of a long log at once would block everything else."""


class StoreError(Exception):
    """Raised when the store cannot do something; the message says why and what to do."""


class UnreachableError(StoreError):
    """The store cannot be reached now; the same call may succeed later."""


class RefusedError(StoreError):
    """The database refused; the message names it."""


class TooSlowError(StoreError):
    """The database ended a statement that took too long."""


class UnknownTraceError(StoreError):
    """There is no trace with this id."""


class NewerFormatError(StoreError):
    """A newer Goalwright wrote this trace: this one could only damage it."""


def first(items: Iterable[T], limit: int | None) -> list[T]:
    """Return the first ``limit`` items, or all. Takes one in any case, so that a generator can refuse an unknown id."""
    return list(items) if limit is None else list(islice(items, max(1, limit)))[: max(0, limit)]


def all_events(read: Callable[..., Sequence[Event]], trace_id: str, *, after: int = 0) -> Iterator[Event]:
    """Yield the events with an id above ``after``, page by page. ``read``: the method ``events`` of a store.

    It ends where ids do not increase, which only a forged record can cause. Blocking. Raises StoreError.
    """
    while page := read(trace_id, after=after, limit=_PAGE):
        yield from page
        before, after = after, page[-1].event_id
        if after <= before:
            return


def with_children(store: TraceStore, ids: Iterable[str]) -> Iterator[str]:
    """Yield sessions and all below them, parents first, as far as they are stored. Blocking. Raises StoreError."""
    waiting = list(ids)
    while waiting:
        trace_id = waiting.pop()
        try:
            below = store.children(trace_id)
        except UnknownTraceError:
            continue
        yield trace_id
        waiting += below


def refuse_newer(trace_id: str, written: object, current: int = FORMAT) -> None:
    """Raises NewerFormatError when a record of format ``written`` is none that this version understands."""
    if isinstance(written, int) and written > current:
        raise NewerFormatError(
            t(
                "Session {trace_id} was written by a newer version of Goalwright (format {written}; this "
                "version reads up to {current}). Update Goalwright to open it.",
                trace_id=trace_id,
                written=written,
                current=current,
            )
        )


class TraceStore(Protocol):
    """Events, messages among them; goals and metadata as snapshots.

    Every method that takes a ``trace_id`` also takes the id of a child (``{trace_id}:{branch_id}``), and raises
    UnknownTraceError for an invalid or unknown id.
    """

    # -- writing: one process at a time --

    def create(self, trace: Trace) -> None:
        """Make room for a new trace, or for a child of one that is there. Raises StoreError, also when it exists."""
        ...

    def append(self, event: EventT) -> EventT:
        """Append to the log of the event's trace and return the event with its ``event_id``, above all earlier ones.

        When it returns, the event survives a kill of this process. Raises StoreError; then nothing of it is kept.
        """
        ...

    def save_snapshot(self, trace: Trace, tree: GoalTree) -> None:
        """Store metadata and goal tree as of ``trace.last_event_id``; an older one changes nothing."""
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
        """Close open files, of one trace or of all."""
        ...

    # -- reading: any process, at any time; in a thread --

    def trace(self, trace_id: str) -> Trace:
        """Metadata. Raises UnknownTraceError, NewerFormatError, and StoreError when it is damaged."""
        ...

    def goal_tree(self, trace_id: str) -> GoalTree:
        """Return the goal tree of the last snapshot. Raises StoreError when it is damaged."""
        ...

    def traces(
        self, *, limit: int, before: str | None = None, matches: Callable[[Trace], bool] | None = None
    ) -> list[Trace]:
        """Return main sessions newest first, those older than ``before`` that ``matches`` accepts.

        Reads no further than to the last one returned. Unreadable ones, and those of a newer format, are left out.
        """
        ...

    def children(self, trace_id: str) -> list[str]:
        """Return the ids of the sessions directly below one: branches by name (A … Z, AA …), then sub-agents by
        number."""
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
        """Return the newest ``limit`` messages with a sequence below ``before``, oldest first.

        ``goal_ids``: of these goals (internal ids; None: of no goal), ``role``: of this role; omitted arguments do not
        filter. Messages come from the log; a damaged one is left out, as among the events.
        """
        ...

    def events(self, trace_id: str, *, after: int = 0, limit: int | None = None) -> Sequence[Event]:
        """Return events with an id above ``after`` (any number, also below zero), in order, the first ``limit`` of
        them.

        The cost follows from the number of returned events, not from the length of the log. Unknown and damaged events
        are left out; ids rise, and may have gaps.
        """
        ...

    def last_event_id(self, trace_id: str) -> int:
        """Return the id of the last event in the log; 0 when it is empty."""
        ...

    def size(self, trace_id: str) -> int:
        """Bytes that a trace takes, with its children, file versions and outputs."""
        ...

    def line(self, event: Event) -> bytes | None:
        """Return the JSON of ``event``, without secrets, if ``append`` returned it last; None otherwise. Fast.

        A sender then need not encode it again. No store has to keep it: it only saves time.
        """
        return None
