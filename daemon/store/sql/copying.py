"""Copy sessions into a database and out of it. They travel as archives, see ``daemon.store.archive``.

So a copy holds what an export holds, and whatever comes from a database is checked like any other archive when it is
imported.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from typing import IO, TYPE_CHECKING, NamedTuple

from daemon.model.branches import child_id
from daemon.store.archive import MANIFEST, TOP, kind_of, manifest_line, manifest_of, session_in, write_archive
from daemon.store.event_log import LogLine, StoredLine, fitting
from daemon.store.ids import folder_names
from daemon.store.trace_store import StoreError, with_children
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from daemon.store.sql.store import SqlTraceStore


class Copied(NamedTuple):
    """The result of a copy."""

    trace_id: str
    events: int
    """Those that are new."""
    files: int
    """Versions of files and outputs."""
    damaged: int
    """Lines of logs that no reader understands, and that were left out."""


def store_archive(store: SqlTraceStore, archive: Path) -> Copied:
    """Store the session of an archive that was just exported, or what is new of it. Blocking. Raises StoreError."""
    events = files = damaged = 0
    with tarfile.open(archive) as packed:
        trace_id = str(manifest_of(_member(packed, MANIFEST).read())["trace_id"])
        names = [name.removeprefix(TOP) for name in packed.getnames() if name.startswith(TOP)]
        logs = {
            name: child_id(trace_id, below) if (below := session_in(name)) else trace_id
            for name in names
            if kind_of(name) == "log"
        }
        own = _lines(_member(packed, TOP + "events.jsonl"))
        if next(fitting(own, LogLine.event_id, lambda _: None), None) is None:
            raise StoreError(
                t("Session {trace_id} has no event log, so there is nothing to export.", trace_id=trace_id)
            )
        for session_id in sorted(logs.values()):
            folder = TOP + "".join(f"{part}/" for part in folder_names(session_id)[1:])
            meta, goals = (_member(packed, folder + name).read() for name in ("meta.json", "goal.json"))
            store.put_trace(session_id, meta or b"{}", goals or b"{}")
        for name in names:
            kind = kind_of(name)
            if kind == "log":
                put, skipped = _put_log(store, logs[name], _member(packed, TOP + name))
                events, damaged = events + put, damaged + skipped
            elif kind in ("list", "content", "text"):
                store.put_attachment(trace_id, name, _member(packed, TOP + name).read())
                files += 1
    return Copied(trace_id, events, files, damaged)


def write_session(store: SqlTraceStore, trace_id: str, target: Path) -> None:
    """Write a main session and its children to an archive at ``target``. Blocking. Raises StoreError."""
    trace = store.trace(trace_id)
    write_archive(target, manifest_line(trace_id, trace.format, trace.title), _files(store, trace_id))


def _files(store: SqlTraceStore, trace_id: str) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield names in the session's folder, and contents."""
    for session_id in with_children(store, [trace_id]):
        folder = "".join(f"{part}/" for part in folder_names(session_id)[1:])
        meta, goals = store.snapshot(session_id)
        with tempfile.TemporaryFile() as log:
            log.writelines(line.body + b"\n" for line in store.lines(session_id))
            yield f"{folder}events.jsonl", log
        yield f"{folder}goal.json", io.BytesIO(goals)
        yield f"{folder}meta.json", io.BytesIO(meta)
    for name, body in store.attached(trace_id):
        if kind_of(name) in ("list", "content", "text"):  # others may have written to the database
            yield name, io.BytesIO(body)


def _put_log(store: SqlTraceStore, session_id: str, log: IO[bytes]) -> tuple[int, int]:
    """Store the events of a log; returns how many are new, and how many lines are damaged."""
    skipped: list[LogLine] = []
    found = fitting(_lines(log), LogLine.event_id, skipped.append)
    count = store.put_log(session_id, (StoredLine(event_id, line.data) for event_id, line in found))
    return count, len(skipped)


def _lines(log: IO[bytes]) -> Iterator[LogLine]:
    return (LogLine(0, len(line), line[:-1]) for line in log)


def _member(packed: tarfile.TarFile, name: str) -> IO[bytes]:
    """Return a file of an archive; an empty one when it is not there."""
    try:
        return packed.extractfile(name) or io.BytesIO()
    except KeyError:
        return io.BytesIO()
