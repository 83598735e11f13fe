"""Search a database of traces for a part of a text, in any case: titles, messages, goals and names of changed files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from daemon.model.branches import root_of
from daemon.store.facts import facts, fold, storable
from daemon.store.searching import KINDS, Found, excerpt
from daemon.store.sql.database import POSTGRESQL
from daemon.store.sql.schema import events, messages, texts, traces
from daemon.store.sql.stats import root_id

if TYPE_CHECKING:
    from collections.abc import Collection

    from daemon.store.searching import Kind
    from daemon.store.sql.store import SqlTraceStore

_PAGE = 200
_TRIGRAM = 3
"""Characters from which an index helps."""
_WORDS = sa.table("texts_words", sa.column("rowid"), sa.column("folded"))
_MANY = 2_000
"""Places from which the newest are found sooner by reading texts from the newest on than by an index."""


def search(
    store: SqlTraceStore,
    query: str,
    *,
    limit: int,
    kinds: Collection[Kind] = KINDS,
    owner: str | None = None,
    before: str | None = None,
) -> list[Found]:
    """Return the newest ``limit`` sessions that contain ``query``, each with one place. Blocking. Raises StoreError.

    ``owner``: only this user's sessions. ``before``: only those older than this main session.
    """
    wanted = fold(query)
    found: dict[str, Any] = {}
    if not wanted or limit <= 0:
        return []
    places = _places(store, wanted, kinds, owner)
    while len(found) < limit:
        page = places if before is None else places.where(texts.c.trace < storable(before))
        with store.reading() as connection:
            rows = connection.execute(page.limit(_PAGE)).all()
        for row in rows:
            found.setdefault(root_of(row.trace), row)
        if len(rows) < _PAGE:
            break
        before = root_of(rows[-1].trace)  # however many places this session has
    return [_found(store, row, wanted) for row in list(found.values())[:limit]]


def _places(
    store: SqlTraceStore, wanted: str, kinds: Collection[Kind], owner: str | None
) -> sa.Select[*tuple[Any, ...]]:
    """Return the query for the places, those of the newest sessions first."""
    query = (
        sa.select(
            texts.c.id,
            texts.c.trace,
            texts.c.kind,
            texts.c.key,
            traces.c.title,
            traces.c.folder,
            traces.c.owner,
        )
        .join(traces, traces.c.id == root_id(store, texts.c.trace))
        .where(texts.c.kind.in_(kinds), _contains(store, wanted))
        .order_by(texts.c.trace.desc(), texts.c.id.desc())
    )
    return query.where(*store.owned(traces.c.owner, owner))


def _contains(store: SqlTraceStore, wanted: str) -> sa.ColumnElement[bool]:
    """Return the condition for a text: one that an index answers, unless that would find very many places."""
    if store.engine.dialect.name == POSTGRESQL:
        indexed = texts.c.folded.contains(wanted, autoescape=True)
        plain = sa.func.strpos(texts.c.folded, wanted) > 0
        places = sa.select(texts.c.id).where(indexed)
    else:
        places = sa.select(_WORDS.c.rowid).where(
            _WORDS.c.folded.op("MATCH")('"' + wanted.replace('"', '""') + '"')
        )
        indexed = texts.c.id.in_(places)
        plain = sa.func.instr(texts.c.folded, wanted) > 0
    if len(wanted) < _TRIGRAM:
        return plain
    counted = sa.select(sa.func.count()).select_from(places.limit(_MANY).subquery())
    with store.reading() as connection:
        return indexed if (connection.scalar(counted) or 0) < _MANY else plain


def _found(store: SqlTraceStore, row: Any, wanted: str) -> Found:
    """``row``: of ``_places``."""
    said = row.key if row.kind == "file" else _said(store, row)
    return Found(row.trace, row.title, row.folder, row.owner, row.kind, excerpt(said, wanted) or said[:120])


def _said(store: SqlTraceStore, row: Any) -> str:
    """Return the text of a message as it was written, of a goal, or the title."""
    if row.kind == "title":
        with store.reading() as connection:
            return connection.scalar(sa.select(traces.c.title).where(traces.c.id == row.trace)) or ""
    if row.kind == "message":
        of_message = sa.and_(messages.c.trace == row.trace, messages.c.id == row.key)
        query = sa.select(events.c.body).join(
            messages, sa.and_(messages.c.trace == events.c.trace, messages.c.event == events.c.id)
        )
        with store.reading() as connection:
            body = connection.scalar(query.where(of_message))
        return "".join(one.text for one in facts(json.loads(body or b"{}")).texts)
    goals = store.goal_tree(row.trace).goals
    said = next((goal.description for goal in goals if goal.id == row.key), "")
    if said:
        return said
    with store.reading() as connection:  # the snapshot is older than the goal
        return connection.scalar(sa.select(texts.c.folded).where(texts.c.id == row.id)) or ""
