"""The back ends of the trace store, for the tests that all of them must pass, and values to put into them.

A back end that is added to ``BACKENDS`` runs through the whole of ``tests/contract/store``.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from daemon.model.events import FileChanged, MessageAdded, SessionCreated, TurnStarted
from daemon.model.messages import Message, Role, TextPart
from daemon.model.traces import BranchTrace, Trace
from daemon.store.files import FileTraceStore
from daemon.store.sql.database import open_database
from daemon.store.sql.schema import events, metadata, traces
from daemon.store.sql.store import SqlTraceStore
from daemon.store.trace_store import TraceStore
from tests.support.drivers.postgres import database_for
from tests.support.fakes.memory_store import MemoryTraceStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ID = "20260101-000000-aaaaaa"


@functools.cache
def _empty_sqlite() -> bytes:
    """A file with our tables and nothing in them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "traces.db")
        SqlTraceStore.open(f"sqlite:///{path}").close()
        return path.read_bytes()


def _in_sqlite(folder: Path) -> TraceStore:
    path = folder / "traces.db"
    if not path.exists():
        path.write_bytes(_empty_sqlite())
    return SqlTraceStore.open(f"sqlite:///{path}")


BACKENDS: Mapping[str, Callable[[Path], TraceStore]] = {
    "files": FileTraceStore,
    "memory": lambda _: MemoryTraceStore(),
    "postgresql": lambda folder: SqlTraceStore.open(database_for(folder)),
    "sqlite": _in_sqlite,
}
"""Makes an empty store over a folder that is there and empty, or opens what a store of its kind left in it."""
DURABLE = ("files", "postgresql", "sqlite")
"""Those that are there again when they are opened over the same folder."""


def _tear_file(folder: Path) -> int:
    torn = b'{"event_id":2,"event":"turn_st'
    with (folder / ID / "events.jsonl").open("ab") as log:
        return log.write(torn)


TEARS: Mapping[str, Callable[[Path], int]] = {"files": _tear_file}
"""Leaves half an event in the log of ``ID``, as a crash does; returns its bytes. What cannot be torn is not here."""


def _damage_files(folder: Path, trace_id: str, event_id: int) -> None:
    log = folder / trace_id / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True) if log.exists() else []
    if event_id:
        lines[event_id - 1] = lines[event_id - 1][:-2] + b"#\n"
        log.write_bytes(b"".join(lines))
    else:
        (folder / trace_id / "meta.json").write_bytes(b"{")


def _damage_rows(folder: Path, trace_id: str, event_id: int) -> None:
    store = BACKENDS["sqlite" if (folder / "traces.db").exists() else "postgresql"](folder)
    assert isinstance(store, SqlTraceStore)
    change = (
        sa.update(events).where(events.c.trace == trace_id, events.c.id == event_id).values(body=b"{")
        if event_id
        else sa.update(traces).where(traces.c.id == trace_id).values(meta=b"{")
    )
    with store.engine.begin() as connection:
        connection.execute(change)
    store.close()


DAMAGES: Mapping[str, Callable[[Path, str, int], None]] = {
    "files": _damage_files,
    "postgresql": _damage_rows,
    "sqlite": _damage_rows,
}
"""Damages one event of a session, or, of the id 0, its metadata."""


def kept(backend: str, folder: Path) -> bytes:
    """Everything that a durable store has written."""
    if backend != "postgresql":
        return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    engine = open_database(database_for(folder))
    with engine.connect() as connection:
        rows = [row for table in metadata.sorted_tables for row in connection.execute(sa.select(table))]
    engine.dispose()
    return repr(rows).encode()


def trace(trace_id: str = ID, **fields: Any) -> Trace:
    values = {"trace_id": trace_id, "workspace": "/w", "created_at": NOW, "updated_at": NOW, **fields}
    return Trace.model_validate(values)


def branch_trace(session_id: str) -> BranchTrace:
    return BranchTrace(
        trace_id=session_id, workspace="/w", created_at=NOW, updated_at=NOW, id="A", explore_start_id="1"
    )


def created(trace_id: str = ID) -> SessionCreated:
    return SessionCreated(trace_id=trace_id, time=NOW, trace=trace(trace_id))


def started(prompt: str = "p", trace_id: str = ID) -> TurnStarted:
    return TurnStarted(trace_id=trace_id, time=NOW, prompt_id=prompt)


def file_changed(path: str, trace_id: str = ID) -> FileChanged:
    return FileChanged(
        trace_id=trace_id,
        time=NOW,
        path=path,
        kind="update",
        version="1",
        tool_call_id="c",
        added=1,
        removed=1,
    )


def message(
    sequence: int,
    text: str = "hello",
    trace_id: str = ID,
    *,
    goal_id: str | None = None,
    role: Role = "user",
    branch_id: str | None = None,
) -> Message:
    return Message(
        message_id=f"msg_{sequence:06d}_{sequence * 7919 % 65536:08x}",
        trace_id=trace_id,
        branch_id=branch_id,
        role=role,
        sequence=sequence,
        goal_id=goal_id,
        content=(TextPart(text=text),),
        created_at=NOW + timedelta(seconds=sequence),
    )


def added(message: Message, session_id: str | None = None) -> MessageAdded:
    return MessageAdded(trace_id=session_id or message.trace_id, time=NOW, message=message)
