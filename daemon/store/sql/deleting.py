"""Delete sessions from a database: by user, by age, or one. No daemon copies them again."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from daemon.store.facts import moment, storable
from daemon.store.sql.schema import messages, traces
from daemon.store.trace_store import UnknownTraceError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from daemon.store.sql.store import SqlTraceStore


class OldSession(NamedTuple):
    """A session that may be deleted, with its branches and sub-agents."""

    trace_id: str
    title: str
    owner: str
    used: datetime | None
    """When its last message was written; None: unknown."""


def chosen(
    store: SqlTraceStore,
    *,
    user: str | None = None,
    unused_since: datetime | None = None,
    trace_id: str | None = None,
) -> list[OldSession]:
    """Return the main sessions to which everything that is given applies, oldest first. Blocking. Raises StoreError.

    Of those whose time is not known, ``unused_since`` chooses none.
    """
    # Ids of branches begin with the id of the main session and a colon.
    below = sa.and_(messages.c.trace >= traces.c.id + ":", messages.c.trace < traces.c.id + ";")
    written = sa.select(sa.func.max(messages.c.created_at)).where(
        sa.or_(messages.c.trace == traces.c.id, below)
    )
    used = sa.func.coalesce(written.scalar_subquery(), traces.c.created_at)
    wanted = sa.select(traces.c.id, traces.c.title, traces.c.owner, used.label("used")).where(
        traces.c.parent.is_(None)
    )
    wanted = wanted.where(*store.owned(traces.c.owner, user))
    if unused_since is not None:
        # A session is not older than its messages: this needs no look at them.
        wanted = wanted.where(traces.c.created_at < unused_since, used < unused_since)
    if trace_id is not None:
        wanted = wanted.where(traces.c.id == storable(trace_id))
    with store.reading() as connection:
        return [
            OldSession(row.id, row.title, row.owner, moment(row.used))
            for row in connection.execute(wanted.order_by(traces.c.id))
        ]


def delete(store: SqlTraceStore, sessions: Iterable[OldSession]) -> int:
    """Delete sessions with all that belongs to them, each in a transaction of its own, and return how many were there.

    Blocking. Raises StoreError.
    """
    count = 0
    for one in sessions:
        with contextlib.suppress(UnknownTraceError):  # somebody else was faster
            store.forget(one.trace_id)
            count += 1
    return count
