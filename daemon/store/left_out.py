"""Sessions of this person's that lists leave out, because what is stored of them cannot be read.

Whoever goes on with "the newest" must know of them: else another conversation would silently be gone on with.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from daemon.store.base import StoreError, TraceStore, UnknownTrace

_MOST = 50
"""Sessions that are looked at; the newest ones count."""


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
        except UnknownTrace:
            pass  # deleted, or it never began
        except StoreError as error:
            found.append(Unreadable(trace_id, str(error)))
    return found


def last_used(store: TraceStore, by_use: Sequence[str]) -> tuple[str, Unreadable | None]:
    """The first of ``by_use`` that is there, and why it cannot be read when it cannot. Blocking."""
    for trace_id in by_use[:_MOST]:
        try:
            store.trace(trace_id)
        except UnknownTrace:
            continue  # deleted by hand, or it never began
        except StoreError as error:
            return trace_id, Unreadable(trace_id, str(error))
        return trace_id, None
    return "", None
