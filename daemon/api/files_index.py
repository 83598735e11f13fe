"""A passing database of the sessions in a folder: what a shared server asks its database, a daemon asks this one.

It is made when somebody first searches or counts, brought up to date each time, and removed with the daemon.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
from typing import TYPE_CHECKING

from daemon.store.file_reader import LOG, stamp_of
from daemon.store.searching import MAX_LOG_BYTES, MOST_SESSIONS
from daemon.store.trace_store import StoreError, UnknownTraceError, with_children

if TYPE_CHECKING:
    from pathlib import Path

    from daemon.store.files import FileTraceStore
    from daemon.store.sql.store import SqlTraceStore

log = logging.getLogger(__name__)


class FilesIndex:
    """The newest sessions of a folder in SQLite. Methods block: call them in a thread."""

    def __init__(self, files: FileTraceStore, folder: Path) -> None:
        """``folder``: for the database alone; it is removed."""
        self._files = files
        self._folder = folder
        self._lock = threading.Lock()
        self._database: SqlTraceStore | None = None
        self._copied: dict[str, list[tuple[int, int, int]]] = {}
        """Stamps of the logs and metadata that were copied, by session."""

    def current(self) -> SqlTraceStore:
        """Return the database with all that the files have now. Raises StoreError."""
        from daemon.store.sql.store import SqlTraceStore

        with self._lock:
            if self._database is None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._database = SqlTraceStore.open(f"sqlite:///{self._folder / 'traces.db'}")
            self._bring_up_to_date(self._database)
            return self._database

    def close(self) -> None:
        """Remove the database."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None
                shutil.rmtree(self._folder, ignore_errors=True)

    def _bring_up_to_date(self, database: SqlTraceStore) -> None:
        from daemon.store.sql.replica import copy_session

        there: set[str] = set()
        for trace_id in with_children(self._files, self._files.trace_ids()[:MOST_SESSIONS]):
            try:
                folder = self._files.folder(trace_id)
                if (folder / LOG).stat().st_size > MAX_LOG_BYTES:
                    continue
                # The metadata has the title, and is written later than the log.
                state = [stamp_of(path) for name in (LOG, "meta.json") if (path := folder / name).exists()]
                there.add(trace_id)
                if self._copied.get(trace_id) != state:
                    copy_session(self._files, database, trace_id)
                    self._copied[trace_id] = state
            except (StoreError, OSError) as error:
                log.info("%s is not in the index: %s", trace_id, error)
        for trace_id in self._copied.keys() - there:
            with contextlib.suppress(UnknownTraceError):
                database.delete(trace_id)
            del self._copied[trace_id]
