"""Search a database of traces for a part of a text, in any case: titles, messages, goals and names of changed files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import sqlalchemy as sa

from daemon.model.branches import root_of
from daemon.store.searching import excerpt
from daemon.store.sql.database import POSTGRESQL
from daemon.store.sql.facts import fold
from daemon.store.sql.schema import events, messages, texts, traces

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from daemon.store.sql.store import SqlTraceStore

Kind = Literal["title", "message", "goal", "file"]
KINDS: tuple[Kind, ...] = ("title", "message", "goal", "file")
_PAGE = 200
_TRIGRAM = 3
"""Characters from which an index helps."""


class Found(NamedTuple):
    """A place that was found."""

    trace_id: str
    """The session, a branch or a sub-agent."""
    title: str
    """The title of that session."""
    folder: str
    owner: str
    kind: str
    excerpt: str
    """Text around the place, on one line."""


def search(
    store: SqlTraceStore, query: str, *, limit: int, kinds: Collection[Kind] = KINDS, owner: str | None = None
) -> list[Found]:
    """Return the newest ``limit`` sessions that contain ``query``, each with one place. Blocking. Raises StoreError.

    ``owner``: only this user's sessions.
    """
    wanted = fold(query)
    found: dict[str, Found] = {}
    if not wanted or limit <= 0:
        return []
    for row in _rows(store, wanted, kinds, owner):
        found.setdefault(root_of(row.trace), _found(store, row, wanted))
        if len(found) == limit:
            break
    return list(found.values())


def _rows(store: SqlTraceStore, wanted: str, kinds: Collection[Kind], owner: str | None) -> Iterator[Any]:
    """Yield the places, those of the newest sessions first."""
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
        .join(traces, traces.c.id == texts.c.trace)
        .where(texts.c.kind.in_(kinds), _contains(store, wanted))
        .order_by(texts.c.trace.desc(), texts.c.id.desc())
    )
    if owner is not None:
        query = query.where(traces.c.owner == owner)
    after: tuple[str, int] | None = None
    while True:
        page = query
        if after is not None:
            page = query.where(sa.tuple_(texts.c.trace, texts.c.id) < sa.tuple_(*after))
        with store.reading() as connection:
            rows = connection.execute(page.limit(_PAGE)).all()
        yield from rows
        if len(rows) < _PAGE:
            return
        after = rows[-1].trace, rows[-1].id


def _contains(store: SqlTraceStore, wanted: str) -> sa.ColumnElement[bool]:
    if store.engine.dialect.name == POSTGRESQL or len(wanted) < _TRIGRAM:
        return texts.c.folded.contains(wanted, autoescape=True)
    phrase = '"' + wanted.replace('"', '""') + '"'
    words = sa.text("SELECT rowid FROM texts_words WHERE folded MATCH :phrase").bindparams(phrase=phrase)
    return texts.c.id.in_(words.columns(sa.column("rowid")))


def _found(store: SqlTraceStore, row: Any, wanted: str) -> Found:
    """``row``: of ``_rows``."""
    said = row.key if row.kind == "file" else row.title if row.kind == "title" else _said(store, row)
    return Found(row.trace, row.title, row.folder, row.owner, row.kind, excerpt(said, wanted) or said[:120])


def _said(store: SqlTraceStore, row: Any) -> str:
    """Return the text of a message as it was written, or of a goal."""
    if row.kind == "message":
        of_message = sa.and_(messages.c.trace == row.trace, messages.c.id == row.key)
        query = sa.select(events.c.body).join(
            messages, sa.and_(messages.c.trace == events.c.trace, messages.c.event == events.c.id)
        )
        with store.reading() as connection:
            body = connection.scalar(query.where(of_message))
        event = store.event(body or b"", row.trace)
        return event.message.text() if event is not None and event.event == "message_added" else ""
    goals = store.goal_tree(row.trace).goals
    return next((goal.description for goal in goals if goal.id == row.key), "")
