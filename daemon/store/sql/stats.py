"""Sums over the sessions of a database: cost, tokens, time and success, by day, model, agent, folder or user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from daemon.model.maintenance import StatsGroup
from daemon.store.sql.database import POSTGRESQL
from daemon.store.sql.schema import messages, traces

if TYPE_CHECKING:
    from datetime import datetime

    from daemon.model.choices import StatsBy
    from daemon.store.sql.store import SqlTraceStore


def sums(
    store: SqlTraceStore,
    by: StatsBy,
    *,
    since: datetime | None = None,
    owner: str | None = None,
    limit: int = 1000,
) -> list[StatsGroup]:
    """Return the groups: days newest first, others by cost. Blocking. Raises StoreError.

    ``since``: only what models answered since then. ``owner``: only this user's sessions.
    """
    main = sa.alias(traces)
    # A branch works in a copy: its folder is that of the main session.
    of_main = {"user": main.c.owner, "folder": main.c.folder}
    key = of_main[by] if by in of_main else _key(store, by)
    total = [sa.func.coalesce(sa.func.sum(column), 0) for column in _TOKENS]
    cost = sa.func.coalesce(sa.func.sum(messages.c.cost), 0.0)
    finished = sa.case((main.c.status == "end_turn", main.c.id))
    query = (
        sa.select(
            key.label("key"),
            sa.func.count(sa.distinct(main.c.id)),
            sa.func.count(sa.distinct(finished)),
            sa.func.count(),
            *total,
            cost.label("cost"),
            sa.func.count().filter(
                messages.c.cost.is_(None), sa.or_(messages.c.input > 0, messages.c.output > 0)
            ),
            sa.func.coalesce(sa.func.sum(messages.c.duration_ms), 0),
        )
        .select_from(messages)
        .join(traces, traces.c.id == messages.c.trace)
        .join(main, main.c.id == root_id(store, messages.c.trace))
        # What a branch or a fork begins with has no model: it was counted where it was said.
        .where(messages.c.role == "assistant", messages.c.model.is_not(None))
        .group_by(key)
        .order_by(key.desc() if by == "day" else cost.desc(), key)
        .limit(limit)
    )
    if since is not None:
        query = query.where(messages.c.created_at >= since)
    query = query.where(*store.owned(main.c.owner, owner))
    with store.reading() as connection:
        rows = connection.execute(query).all()
    return [StatsGroup.model_validate(dict(zip(StatsGroup.model_fields, row, strict=True))) for row in rows]


_TOKENS = (messages.c.input, messages.c.output, messages.c.cache_read, messages.c.cache_write)


def _key(store: SqlTraceStore, by: StatsBy) -> sa.ColumnElement[Any]:
    if by == "day":
        if store.engine.dialect.name == POSTGRESQL:
            day = sa.func.to_char(sa.func.timezone("UTC", messages.c.created_at), "YYYY-MM-DD")
        else:
            day = sa.func.substr(messages.c.created_at, 1, 10)
        return sa.func.coalesce(day, "")
    if by == "model":
        return sa.func.coalesce(messages.c.model, "")
    return traces.c.agent


def root_id(store: SqlTraceStore, trace: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
    """Return the id of the main session of a trace."""
    if store.engine.dialect.name == POSTGRESQL:
        return sa.func.split_part(trace, ":", 1)
    separated = sa.func.instr(trace, ":")
    return sa.case((separated == 0, trace), else_=sa.func.substr(trace, 1, separated - 1))
