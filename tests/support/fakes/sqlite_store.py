"""A trace store in an SQLite database: shows that a database can stand behind the protocol. Not part of the product."""

from __future__ import annotations

import itertools
import json
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from daemon.model.branches import branch_of, root_of
from daemon.model.encoding import json_bytes
from daemon.model.events import Event, MessageAdded
from daemon.model.goals import GoalTree
from daemon.model.messages import Message, Role
from daemon.model.traces import BranchTrace, Trace
from daemon.store.ids import folder_names, order_of_children, parent_of
from daemon.store.trace_store import EventT, StoreError, TraceStore, UnknownTraceError

_EVENT: TypeAdapter[Event] = TypeAdapter(Event)
ReadT = TypeVar("ReadT")
_TABLES = """
CREATE TABLE IF NOT EXISTS traces (id TEXT PRIMARY KEY, parent TEXT, meta BLOB, goals BLOB, last_event INT);
CREATE TABLE IF NOT EXISTS events (trace TEXT, id INT, body BLOB, PRIMARY KEY (trace, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS messages (trace TEXT, id TEXT, sequence INT, goal TEXT, role TEXT, body BLOB,
                                     PRIMARY KEY (trace, id)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_sequence ON messages (trace, sequence);
"""


class SqliteTraceStore(TraceStore):
    """A trace store in an SQLite database."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;" + _TABLES)

    def create(self, trace: Trace) -> None:
        folder_names(trace.trace_id)
        parent = None if branch_of(trace.trace_id) is None else parent_of(trace.trace_id)
        if parent is not None:
            self._known(root_of(trace.trace_id))
        values = (trace.trace_id, parent, json_bytes(trace.stored()), json_bytes(GoalTree().stored()))
        try:
            self._run("INSERT INTO traces VALUES (?, ?, ?, ?, 0)", *values)
        except sqlite3.IntegrityError as error:
            raise StoreError(f"There is a session {trace.trace_id} already.") from error

    def append(self, event: EventT) -> EventT:
        with self._lock:
            numbered = event.model_copy(update={"event_id": self.last_event_id(event.trace_id) + 1})
            self._run(
                "INSERT INTO events VALUES (?, ?, ?)",
                event.trace_id,
                numbered.event_id,
                json_bytes(numbered.stored()),
            )
            if isinstance(numbered, MessageAdded):
                self._put(event.trace_id, numbered.message)
        return numbered

    def save_snapshot(self, trace: Trace, tree: GoalTree) -> None:
        self._known(trace.trace_id)
        values = (json_bytes(trace.stored()), json_bytes(tree.stored()), trace.last_event_id, trace.trace_id)
        newer = trace.last_event_id
        self._run(
            "UPDATE traces SET meta=?, goals=?, last_event=? WHERE id=? AND last_event<=?", *values, newer
        )

    def recover(self, trace_id: str) -> int:
        self._known(trace_id)
        return 0

    def delete(self, trace_id: str) -> None:
        for child in self.children(trace_id):
            self.delete(child)
        self._run("DELETE FROM traces WHERE id=?", trace_id)
        self._run("DELETE FROM events WHERE trace=?", trace_id)
        self._run("DELETE FROM messages WHERE trace=?", trace_id)

    def close(self, trace_id: str | None = None) -> None:
        pass  # its transactions end with each call

    def trace(self, trace_id: str) -> Trace:
        ((meta,),) = self._run("SELECT meta FROM traces WHERE id=?", self._known(trace_id))
        found = _readable(_trace, meta)
        if found is None:
            raise StoreError(f"The metadata of {trace_id} is damaged.")
        return found

    def goal_tree(self, trace_id: str) -> GoalTree:
        ((goals,),) = self._run("SELECT goals FROM traces WHERE id=?", self._known(trace_id))
        return GoalTree.model_validate_json(goals)

    def traces(
        self, *, limit: int, before: str | None = None, matches: Callable[[Trace], bool] | None = None
    ) -> list[Trace]:
        rows = self._run(
            "SELECT meta FROM traces WHERE parent IS NULL AND (?1 IS NULL OR id<?1) ORDER BY id DESC", before
        )
        known = (_readable(_trace, meta) for (meta,) in rows)
        found = (trace for trace in known if trace is not None and (matches is None or matches(trace)))
        return [trace for trace, _ in zip(found, range(limit), strict=False)]

    def children(self, trace_id: str) -> list[str]:
        rows = self._run("SELECT id FROM traces WHERE parent=?", self._known(trace_id))
        return sorted((name for (name,) in rows), key=order_of_children)

    def messages(
        self,
        trace_id: str,
        *,
        limit: int | None = None,
        before: int | None = None,
        goal_ids: frozenset[str | None] | None = None,
        role: Role | None = None,
    ) -> list[Message]:
        goals = None if goal_ids is None else json.dumps(list(goal_ids))
        rows = self._run(
            "SELECT body FROM messages WHERE trace=?1 AND (?2 IS NULL OR sequence<?2) AND (?3 IS NULL OR role=?3)"
            " AND (?4 IS NULL OR EXISTS (SELECT 1 FROM json_each(?4) WHERE value IS goal))"
            " ORDER BY sequence DESC, id DESC",
            *(self._known(trace_id), before, role, goals),
        )
        read = (_readable(Message.model_validate_json, body) for (body,) in rows)
        found = (message for message in read if message is not None)
        return list(itertools.islice(found, None if limit is None else max(0, limit)))[::-1]

    def events(self, trace_id: str, *, after: int = 0, limit: int | None = None) -> Sequence[Event]:
        wanted = "SELECT body FROM events WHERE trace=? AND id>? ORDER BY id"
        with self._lock:  # row by row: what is damaged does not count for the limit
            rows = self._db.execute(wanted, (self._known(trace_id), after))
            read = (_readable(_EVENT.validate_json, body) for (body,) in rows)
            found = (event for event in read if event is not None)
            return list(itertools.islice(found, None if limit is None else max(0, limit)))

    def last_event_id(self, trace_id: str) -> int:
        ((last,),) = self._run("SELECT ifnull(max(id), 0) FROM events WHERE trace=?", self._known(trace_id))
        return last

    def size(self, trace_id: str) -> int:
        own = (
            self._run("SELECT sum(length(body)) FROM events WHERE trace=?", self._known(trace_id))[0][0] or 0
        )
        meta = self._run("SELECT length(meta) + length(goals) FROM traces WHERE id=?", trace_id)[0][0]
        return own + meta + sum(self.size(child) for child in self.children(trace_id))

    def _put(self, owner: str, message: Message) -> None:
        self._run(
            "INSERT OR REPLACE INTO messages VALUES (?, ?, ?, ?, ?, ?)",
            *(owner, message.message_id, message.sequence, message.goal_id, message.role),
            json_bytes(message.stored()),
        )

    def _known(self, trace_id: str) -> str:
        try:
            if not self._run("SELECT 1 FROM traces WHERE id=?", trace_id):
                raise UnknownTraceError(f"There is no session {trace_id[:100]!a}.")
        except UnicodeEncodeError as error:
            raise UnknownTraceError("That is no id.") from error
        return trace_id

    def _run(self, statement: str, *values: Any) -> list[Any]:
        with self._lock:
            return self._db.execute(statement, values).fetchall()


def _readable(read: Callable[[bytes], ReadT], record: bytes) -> ReadT | None:
    try:
        return read(record)
    except ValueError:
        return None


def _trace(meta: bytes) -> Trace:
    raw = json.loads(meta)
    return (BranchTrace if "explore_start_id" in raw else Trace).model_validate(raw)
