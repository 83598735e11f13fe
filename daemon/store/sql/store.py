"""A trace store in a database, see ``daemon.store.trace_store``. One implementation for SQLite and PostgreSQL."""

from __future__ import annotations

import contextlib
import getpass
import json
import logging
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from daemon.model.branches import branch_of, root_of
from daemon.model.encoding import json_bytes
from daemon.model.goals import GoalTree
from daemon.store.event_log import StoredLine
from daemon.store.facts import facts, fold, storable, title_text, trace_row
from daemon.store.ids import folder_names, order_of_children, parent_of
from daemon.store.migrations import DAMAGE, FORMATS
from daemon.store.sql.database import POSTGRESQL, SILENT_S, cut, in_words, open_database
from daemon.store.sql.schema import attachments, deleted, events, messages, texts, traces
from daemon.store.trace_store import (
    EventT,
    NewerFormatError,
    StoreError,
    TraceStore,
    UnknownTraceError,
    first,
)
from tools.json_access import mapping
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence

    from sqlalchemy import Connection, Engine, Table

    from daemon.model.events import Event
    from daemon.model.messages import Message, Role
    from daemon.model.traces import Trace
    from daemon.store.facts import Row, Said

log = logging.getLogger(__name__)

_PAGE = 500
_LARGEST = 2**63 - 1


class SqlTraceStore(TraceStore):
    """Traces in a database. Several daemons may write to it, each its own traces."""

    def __init__(self, engine: Engine, owner: str | None = None, *, only: str | None = None) -> None:
        """``engine``: from ``open_database``. ``owner``: the user whose traces are written; None: who runs this.

        ``only``: the sessions of others do not exist, for any method; None: all do.
        """
        self.engine = engine
        self.only = None if only is None else storable(only)
        self._owner = storable(_user() if owner is None else owner)

    @classmethod
    def open(
        cls,
        url: str,
        owner: str | None = None,
        *,
        existing: bool = False,
        filled: bool = False,
        longest_s: int = 0,
        silent_s: int = SILENT_S,
    ) -> SqlTraceStore:
        """Open the database at ``url``, see ``open_database``. Blocking. Raises StoreError."""
        engine = open_database(url, existing=existing, filled=filled, longest_s=longest_s, silent_s=silent_s)
        return cls(engine, owner)

    def of_user(self, name: str | None) -> SqlTraceStore:
        """Return the same database with the sessions of one user only; None: of all. It shares the connections."""
        return SqlTraceStore(self.engine, self._owner, only=name)

    # -- writing --

    def create(self, trace: Trace) -> None:
        trace_id = trace.trace_id
        folder_names(trace_id)
        with self.writing() as connection:
            if branch_of(trace_id) is not None:
                self._known(connection, root_of(trace_id))
            try:
                row = self._row(trace_id, *_encoded(trace, GoalTree()))
                connection.execute(sa.insert(traces).values(row))
            except IntegrityError as error:
                raise StoreError(t("There is a session {trace_id} already.", trace_id=trace_id)) from error
            self._put_texts(connection, trace_id, title_text(row["title"]))

    def append(self, event: EventT) -> EventT:
        trace_id = event.trace_id
        with self.writing() as connection:
            event_id = self._last_id(connection, self._known(connection, trace_id)) + 1
            numbered = event.model_copy(update={"event_id": event_id})
            line = StoredLine(event_id, json_bytes(FORMATS.write("event", numbered.stored())))
            try:
                self._put_lines(connection, trace_id, [line])
            except IntegrityError as error:
                raise StoreError(
                    t(
                        "Session {trace_id} was changed or deleted in the database by another program. Try again.",
                        trace_id=trace_id,
                    )
                ) from error
        return numbered

    def put_lines(self, trace_id: str, lines: Sequence[StoredLine]) -> int:
        """Store events as they stand in a log, all or none. Those that are there already change nothing.

        Returns how many are new. Raises StoreError.
        """
        with self.writing() as connection:
            self._known(connection, trace_id)
            there = sa.select(events.c.id).where(
                events.c.trace == trace_id, events.c.id.in_([line.event_id for line in lines])
            )
            known = set(connection.scalars(there))
            new = [line for line in lines if line.event_id not in known]
            self._put_lines(connection, trace_id, new)
        return len(new)

    def put_log(self, trace_id: str, lines: Iterable[StoredLine]) -> int:
        """Store any number of events, see ``put_lines``: many in each transaction. Raises StoreError."""
        waiting, count = iter(lines), 0
        while some := list(islice(waiting, _PAGE)):
            count += self.put_lines(trace_id, some)
        return count

    def put_trace(self, trace_id: str, meta: bytes, goals: bytes) -> None:
        """Store the snapshot of a trace as its files have it, in a new trace or one that is there. Raises StoreError.

        An older one than the stored one changes nothing. Raises UnknownTraceError for a session that was deleted here.
        """
        folder_names(trace_id)
        with self.writing() as connection:
            self._room(connection, trace_id)
            self._put_snapshot(connection, self._row(trace_id, meta, goals))
            self._room(connection, trace_id)  # again, because one that was there may be deleted meanwhile

    def save_snapshot(self, trace: Trace, tree: GoalTree) -> None:
        with self.writing() as connection:
            trace_id = self._known(connection, trace.trace_id)
            self._put_snapshot(connection, self._row(trace_id, *_encoded(trace, tree)))

    def put_attachment(self, trace_id: str, path: str, body: bytes) -> None:
        """Store another file of a trace's folder; ``path`` is relative to it. Raises StoreError."""
        row = {"trace": trace_id, "path": path, "body": body}
        with self.writing() as connection:
            self._known(connection, trace_id)
            self._upsert(connection, attachments, [row], ["trace", "path"], {"body": body})

    def recover(self, trace_id: str) -> int:
        with self.reading() as connection:
            self._known(connection, trace_id)
        return 0

    def delete(self, trace_id: str) -> None:
        with self.writing() as connection:
            self._delete(connection, trace_id)

    def forget(self, trace_id: str) -> None:
        """Delete a main session, and have no daemon copy it again. Raises StoreError."""
        row = {"id": trace_id, "deleted_at": datetime.now(UTC)}
        with self.writing() as connection:
            self._delete(connection, trace_id)
            self._upsert(connection, deleted, [row], ["id"])

    def _delete(self, connection: Connection, trace_id: str) -> None:
        self._known(connection, trace_id)
        # Locked first: who writes a child waits for this, and finds that there is nothing to write to.
        connection.execute(sa.select(traces.c.id).where(traces.c.id == root_of(trace_id)).with_for_update())
        connection.execute(sa.delete(traces).where(_within(traces.c.id, trace_id)))

    def close(self, trace_id: str | None = None) -> None:
        if trace_id is None:
            self.engine.dispose()

    # -- reading --

    def trace(self, trace_id: str) -> Trace:
        try:
            return FORMATS.trace(self._stored(trace_id, traces.c.meta)[0], trace_id)
        except DAMAGE as error:
            raise StoreError(
                t("The metadata of session {trace_id} is damaged.", trace_id=trace_id)
            ) from error

    def goal_tree(self, trace_id: str) -> GoalTree:
        try:
            return FORMATS.goal_tree(self._stored(trace_id, traces.c.goals)[0], trace_id)
        except DAMAGE as error:
            raise StoreError(t("The goals of session {trace_id} are damaged.", trace_id=trace_id)) from error

    def traces(
        self, *, limit: int, before: str | None = None, matches: Callable[[Trace], bool] | None = None
    ) -> list[Trace]:
        found: list[Trace] = []
        while len(found) < limit:
            wanted = sa.select(traces.c.id, traces.c.meta).where(traces.c.parent.is_(None))
            wanted = wanted.where(*self.owned(traces.c.owner))
            if before is not None:
                wanted = wanted.where(traces.c.id < storable(before))
            with self.reading() as connection:
                page = min(limit, _PAGE)
                rows = connection.execute(wanted.order_by(traces.c.id.desc()).limit(page)).all()
            for trace_id, meta in rows:
                try:
                    trace = FORMATS.trace(meta, trace_id)
                except (NewerFormatError, *DAMAGE) as error:
                    log.warning("%s is left out of the list of sessions: %s", trace_id, type(error).__name__)
                    continue
                if len(found) < limit and (matches is None or matches(trace)):
                    found.append(trace)
            if len(rows) < page:
                break
            before = rows[-1][0]
        return found

    def missions(self, ids: Collection[str]) -> dict[str, str]:
        """Return the missions of some main sessions, of those that are there, as their snapshots have them."""
        wanted = sa.select(traces.c.id, traces.c.goals).where(traces.c.id.in_(ids))
        wanted = wanted.where(*self.owned(traces.c.owner))
        with self.reading() as connection:
            rows = connection.execute(wanted).all()
        return {row.id: str(_object(row.goals).get("mission", "")) for row in rows}

    def children(self, trace_id: str) -> list[str]:
        with self.reading() as connection:
            wanted = sa.select(traces.c.id).where(traces.c.parent == self._known(connection, trace_id))
            return sorted(connection.scalars(wanted), key=order_of_children)

    def messages(
        self,
        trace_id: str,
        *,
        limit: int | None = None,
        before: int | None = None,
        goal_ids: frozenset[str | None] | None = None,
        role: Role | None = None,
    ) -> list[Message]:
        wanted = (
            sa.select(messages.c.sequence, messages.c.id, events.c.body)
            .join(events, sa.and_(events.c.trace == messages.c.trace, events.c.id == messages.c.event))
            .where(messages.c.trace == trace_id)
            .order_by(messages.c.sequence.desc(), messages.c.id.desc())
        )
        if before is not None:
            wanted = wanted.where(messages.c.sequence < max(-_LARGEST, min(before, _LARGEST)))
        if role is not None:
            wanted = wanted.where(messages.c.role == role)
        if goal_ids is not None:
            named = [goal for goal in goal_ids if goal is not None]
            of_none = messages.c.goal.is_(None) if None in goal_ids else sa.false()
            wanted = wanted.where(sa.or_(of_none, messages.c.goal.in_(named)))
        rows = self._pages(trace_id, wanted, (messages.c.sequence, messages.c.id), limit, "<")
        found = (FORMATS.event(body, trace_id) for _, _, body in rows)
        said = (event.message for event in found if event is not None and event.event == "message_added")
        return first(said, limit)[::-1]

    def events(self, trace_id: str, *, after: int = 0, limit: int | None = None) -> Sequence[Event]:
        return FORMATS.events(self.lines(trace_id, after=after, limit=limit), trace_id, limit)

    def lines(self, trace_id: str, *, after: int = 0, limit: int | None = None) -> Iterator[StoredLine]:
        """Yield events as their JSON, in order. ``limit``: about as many are wanted."""
        wanted = (
            sa.select(events.c.id, events.c.body)
            .where(events.c.trace == trace_id, events.c.id > max(-_LARGEST, min(after, _LARGEST)))
            .order_by(events.c.id)
        )
        for event_id, body in self._pages(trace_id, wanted, (events.c.id,), limit, ">"):
            yield StoredLine(event_id, body)

    def snapshot(self, trace_id: str) -> tuple[bytes, bytes]:
        """Return metadata and goals as JSON. Raises StoreError."""
        meta, goals = self._stored(trace_id, traces.c.meta, traces.c.goals)
        return meta, goals

    def attached(self, trace_id: str) -> Iterator[tuple[str, bytes]]:
        """Yield the other files of a trace's folder: paths relative to it, and contents."""
        with self.reading() as connection:
            self._known(connection, trace_id)
            paths = list(
                connection.scalars(sa.select(attachments.c.path).where(attachments.c.trace == trace_id))
            )
        for path in paths:  # one at a time, because they may be large
            wanted = sa.select(attachments.c.body).where(
                attachments.c.trace == trace_id, attachments.c.path == path
            )
            with self.reading() as connection:
                body = connection.scalar(wanted)
            if body is not None:
                yield path, body

    def copied(self, trace_id: str) -> int:
        """Return the id of the last event of a trace; 0 when there is none, or no such trace."""
        with self.reading() as connection:
            return self._last_id(connection, trace_id)

    def last_event_id(self, trace_id: str) -> int:
        with self.reading() as connection:
            return self._last_id(connection, self._known(connection, trace_id))

    def size(self, trace_id: str) -> int:
        with self.reading() as connection:
            self._known(connection, trace_id)
            lengths = (
                (traces.c.id, sa.func.length(traces.c.meta) + sa.func.length(traces.c.goals)),
                (events.c.trace, sa.func.length(events.c.body)),
                (attachments.c.trace, sa.func.length(attachments.c.body)),
            )
            sums = [
                connection.scalar(
                    sa.select(sa.func.coalesce(sa.func.sum(length), 0)).where(_within(owner, trace_id))
                )
                for owner, length in lengths
            ]
        return sum(int(one or 0) for one in sums)

    # -- inside --

    @contextlib.contextmanager
    def writing(self) -> Generator[Connection]:
        """One transaction that writes."""
        with (
            in_words(self.engine),
            self.engine.connect().execution_options(writes=True) as connection,
            connection.begin(),
        ):
            yield connection

    @contextlib.contextmanager
    def reading(self) -> Generator[Connection]:
        """One transaction that reads."""
        with in_words(self.engine), self.engine.connect() as connection:
            yield connection

    def _known(self, connection: Connection, trace_id: str) -> str:
        folder_names(trace_id)
        wanted = sa.select(sa.literal(1)).where(traces.c.id == trace_id, self._visible(trace_id))
        if not connection.scalar(wanted):
            raise UnknownTraceError(t("There is no session {trace_id}.", trace_id=trace_id))
        return trace_id

    def _visible(self, trace_id: str) -> sa.ColumnElement[bool]:
        """Return whether a session is for ``only``: a branch or sub-agent belongs to who began the main session."""
        if self.only is None:
            return sa.true()
        main = sa.alias(traces)
        return sa.exists().where(main.c.id == root_of(trace_id), *self.owned(main.c.owner))

    def owned(self, column: sa.ColumnElement[str], owner: str | None = None) -> list[sa.ColumnElement[bool]]:
        """Return the conditions that a row is of ``only`` and of ``owner``, by its column; none for whoever is None."""
        names = (self.only, None if owner is None else storable(owner))
        return [column == name for name in names if name is not None]

    def cut(self) -> None:
        """Have threads that wait for a server get an error; the store is of no use afterwards."""
        cut(self.engine)

    @staticmethod
    def _room(connection: Connection, trace_id: str) -> None:
        """Refuse what belongs to a session that was deleted here. Raises UnknownTraceError."""
        root = root_of(trace_id)
        if root != trace_id:
            # Whoever deletes the main session waits until this is written, and deletes it, too.
            main = sa.select(traces.c.id).where(traces.c.id == root)
            connection.execute(main.with_for_update(read=True, key_share=True))
        if connection.scalar(sa.select(sa.literal(1)).where(deleted.c.id == root)):
            raise UnknownTraceError(
                t("Session {trace_id} was deleted in the database, and stays deleted there.", trace_id=root)
            )

    def _last_id(self, connection: Connection, trace_id: str) -> int:
        wanted = sa.select(sa.func.coalesce(sa.func.max(events.c.id), 0)).where(
            events.c.trace == trace_id, self._visible(trace_id)
        )
        return int(connection.scalar(wanted) or 0)

    def _stored(self, trace_id: str, *columns: sa.ColumnElement[bytes]) -> Sequence[bytes]:
        """Return columns of a trace. Raises UnknownTraceError."""
        folder_names(trace_id)
        wanted = sa.select(*columns).where(traces.c.id == trace_id, self._visible(trace_id))
        with self.reading() as connection:
            found = connection.execute(wanted).one_or_none()
        if found is None:
            raise UnknownTraceError(t("There is no session {trace_id}.", trace_id=trace_id))
        return found

    def _row(self, trace_id: str, meta: bytes, goals: bytes) -> Row:
        """Return the row of a trace for its snapshot as JSON."""
        raw = _object(meta)
        last = raw.get("last_event_id")
        return {
            **trace_row(raw),
            "id": trace_id,
            "parent": None if branch_of(trace_id) is None else parent_of(trace_id),
            "meta": meta,
            "goals": goals,
            "last_event": last if type(last) is int and 0 <= last <= _LARGEST else 0,
            "owner": self._owner,
        }

    def _put_snapshot(self, connection: Connection, row: Row) -> None:
        """Insert the row of a trace, or replace an older one."""
        changed = {name: value for name, value in row.items() if name not in ("id", "parent", "owner")}
        newer = traces.c.last_event <= row["last_event"]
        if self._upsert(connection, traces, [row], ["id"], changed, where=newer):
            self._put_texts(connection, row["id"], title_text(row["title"]))

    def _put_lines(self, connection: Connection, trace_id: str, lines: Sequence[StoredLine]) -> None:
        """Insert events, and what their columns and search need. Raises IntegrityError for an id that is there."""
        if not lines:
            return
        rows: list[Row] = []
        said: dict[str, Row] = {}
        words: dict[tuple[str, str], Said] = {}
        for line in lines:
            record = _object(line.body)
            kind = record.get("event")
            rows.append(
                {
                    "trace": trace_id,
                    "id": line.event_id,
                    "kind": kind if isinstance(kind, str) else "",
                    "body": line.body,
                }
            )
            found = facts(record)
            if found.message is not None:
                said[found.message["id"]] = {**found.message, "trace": trace_id, "event": line.event_id}
            words |= {(one.kind, one.key): one for one in found.texts}
        connection.execute(sa.insert(events), rows)
        if said:
            self._upsert(connection, messages, list(said.values()), ["trace", "id"])
        self._put_texts(connection, trace_id, words.values())

    def _put_texts(self, connection: Connection, trace_id: str, said: Iterable[Said]) -> None:
        found = [
            {"trace": trace_id, "kind": one.kind, "key": one.key, "folded": fold(one.text)} for one in said
        ]
        if found:
            self._upsert(connection, texts, found, ["trace", "kind", "key"])

    def _upsert(
        self,
        connection: Connection,
        table: Table,
        rows: list[Row],
        key: list[str],
        changed: Row | None = None,
        where: sa.ColumnElement[bool] | None = None,
    ) -> int:
        """Insert rows, or give those that are there other values: ``changed``, or all but the ``key``.

        ``where``: which of those that are there. Returns how many rows were written, of one.
        """
        dialect = postgresql if self.engine.dialect.name == POSTGRESQL else sqlite
        statement = dialect.insert(table)
        values: Any = changed or {name: statement.excluded[name] for name in rows[0] if name not in key}
        upsert = statement.on_conflict_do_update(index_elements=key, set_=values, where=where)
        return connection.execute(upsert, rows, execution_options={"preserve_rowcount": True}).rowcount

    def _pages(
        self,
        trace_id: str,
        wanted: sa.Select[*tuple[Any, ...]],
        order: tuple[sa.ColumnElement[Any], ...],
        limit: int | None,
        sign: str,
    ) -> Iterator[Any]:
        """Yield rows, read in pages: each begins behind the last row of the one before, by ``order``."""
        size = _PAGE if limit is None else max(1, min(limit, _PAGE))
        at: tuple[Any, ...] | None = None
        while True:
            page = wanted
            if at is not None:
                page = wanted.where(sa.tuple_(*order).op(sign)(sa.tuple_(*at)))
            with self.reading() as connection:
                if at is None:
                    self._known(connection, trace_id)
                rows = connection.execute(page.limit(size)).all()
            yield from rows
            if len(rows) < size:
                return
            at = tuple(rows[-1][: len(order)])


def _encoded(trace: Trace, tree: GoalTree) -> tuple[bytes, bytes]:
    """Return metadata and goals as JSON."""
    records = FORMATS.write("trace", trace.stored()), FORMATS.write("goal_tree", tree.stored())
    return json_bytes(records[0], indent=1), json_bytes(records[1], indent=1)


def _within(column: sa.ColumnElement[str], trace_id: str) -> sa.ColumnElement[bool]:
    """Return whether a trace is this one or one below it: ``t:A`` and ``t:A.s1`` are within ``t``."""
    separator = ":" if branch_of(trace_id) is None else "."
    above = chr(ord(separator) + 1)
    return sa.or_(
        column == trace_id,
        sa.and_(column >= f"{trace_id}{separator}", column < f"{trace_id}{above}"),
    )


def _object(record: bytes) -> Row:
    """Return a record as JSON object; an empty one when it is none."""
    with contextlib.suppress(*DAMAGE):
        return mapping(json.loads(record))
    return {}


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
