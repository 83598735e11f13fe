"""Sessions that lists leave out: those that cannot be read, and those in which nothing was ever begun.

Whoever goes on with "the newest" must know of the first: else another conversation would silently be gone on with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from daemon.model.events import Notice, PermissionAsked, PermissionReplied, SessionCreated, SessionUpdated
from daemon.store.base import StoreError, TraceStore, UnknownTraceError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from daemon.model.traces import Trace

_MOST = 50
"""Sessions that are looked at; the newest ones count."""
_BEFORE_A_PROMPT = (SessionCreated, SessionUpdated, Notice, PermissionAsked, PermissionReplied)
"""Events that a session has before its first prompt counts: questions are those about files to be attached."""
_FEW = 20


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A session that cannot be read; ``why`` is for the person."""

    trace_id: str
    why: str


def left_out(
    store: TraceStore, own: Collection[str], listed: Collection[str], *, above: str, below: str | None
) -> list[Unreadable]:
    """Those of ``own`` between the ids ``above`` and ``below`` (None: the newest, too) that are not ``listed`` and
    cannot be read, newest first; deleted ones are none. Blocking.
    """
    between = (name for name in own if name > above and (below is None or name < below))
    found: list[Unreadable] = []
    for trace_id in sorted(set(between) - set(listed), reverse=True)[:_MOST]:
        try:
            store.trace(trace_id)
        except UnknownTraceError:
            pass  # deleted, or it never began
        except StoreError as error:
            found.append(Unreadable(trace_id, str(error)))
    return found


def last_used(store: TraceStore, by_use: Sequence[str]) -> tuple[str, Unreadable | None]:
    """The first of ``by_use`` that was begun, and why it cannot be read when it cannot. Blocking."""
    for trace_id in by_use[:_MOST]:
        try:
            if never_begun(store, store.trace(trace_id)):
                continue
        except UnknownTraceError:
            continue  # deleted by hand, or it never began
        except StoreError as error:
            return trace_id, Unreadable(trace_id, str(error))
        return trace_id, None
    return "", None


def never_begun(store: TraceStore, trace: Trace) -> bool:
    """Whether a stored session has no prompt, no goal and no title of the user's, e.g. as its only prompt was refused.

    Blocking; reads the beginning of the log of a session without messages.
    """
    if trace.message_count or trace.running or trace.titled_by == "user":
        return False
    try:
        events = store.events(trace.trace_id, limit=_FEW)
    except StoreError:
        return False  # it is told as damaged
    return 0 < len(events) < _FEW and all(isinstance(event, _BEFORE_A_PROMPT) for event in events)
