"""Copy sessions into a database and out of it. They travel as archives, see ``daemon.store.archive``.

So a copy holds what an export holds, and whatever comes from a database is checked like any other archive when it is
imported.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from typing import IO, TYPE_CHECKING

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


def store_archive(store: SqlTraceStore, archive: Path) -> int:
    """Store the session of an archive that was just exported, or what is new of it; returns how many events are.

    Lines of logs that no reader understands are left out. Blocking. Raises StoreError.
    """
    count = 0
    with tarfile.open(archive) as packed:
        trace_id = str(manifest_of(_member(packed, MANIFEST).read())["trace_id"])
        names = [name.removeprefix(TOP) for name in packed.getnames() if name.startswith(TOP)]
        logs = {
            name: child_id(trace_id, below) if (below := session_in(name)) else trace_id
            for name in names
            if kind_of(name) == "log"
        }
        own = _lines(_member(packed, TOP + "events.jsonl"))
        if next(fitting(own, LogLine.event_id), None) is None:
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
                found = fitting(_lines(_member(packed, TOP + name)), LogLine.event_id)
                count += store.put_log(logs[name], (StoredLine(number, line.data) for number, line in found))
            elif kind in ("list", "content", "text"):
                store.put_attachment(trace_id, name, _member(packed, TOP + name).read())
    return count


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


def _lines(log: IO[bytes]) -> Iterator[LogLine]:
    return (LogLine(0, len(line), line[:-1]) for line in log)


def _member(packed: tarfile.TarFile, name: str) -> IO[bytes]:
    """Return a file of an archive; an empty one when it is not there."""
    try:
        return packed.extractfile(name) or io.BytesIO()
    except KeyError:
        return io.BytesIO()
