"""The list of sessions that were made here.

A workspace is untrusted, and ``.trace`` is part of it: a cloned repository may contain sessions whose history, grants
and queue somebody else wrote. The list of our own sessions is kept where no repository can put anything.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from daemon.model.branches import root_of
from daemon.store.trace_store import UNWRITABLE, StoreError
from daemon.workspace_key import workspace_key
from tools.files.regular_files import os_errors, write_private

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_MOST_REPEATED = 200
"""Most lines with ids that are repeated further down before the list is rewritten."""


class OwnSessions:
    """The ids of the sessions that this user's daemon began in one workspace, in the order of their last use."""

    def __init__(self, state_folder: Path, workspace: Path) -> None:
        key = workspace_key(workspace)
        self._file = state_folder / "sessions" / f"{key}.txt"
        self._ids: set[str] | None = None
        self._writing = threading.Lock()
        """Imports forget sessions in a thread."""

    def add(self, session_id: str) -> None:
        """Remember a session that is about to be made. Raises StoreError."""
        ids = self._read()
        with self._writing, os_errors(StoreError, UNWRITABLE, path=self._file):
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._append(session_id)
        ids.add(session_id)

    def forget(self, session_id: str) -> None:
        """Remove a session that is gone or was replaced by an imported one. Raises StoreError."""
        ids = self._read()
        if session_id not in ids:
            return
        with self._writing, os_errors(StoreError, UNWRITABLE, path=self._file):
            self._rewrite(known for known in self.by_use() if known != session_id)
        ids.discard(session_id)

    def use(self, session_id: str) -> None:
        """Record that a session was used last, whatever the clock shows. Failures cost only that.

        A session that was not started here stays unknown.
        """
        listed = self._listed()
        if session_id not in self._read() or listed[-1:] == [session_id]:
            return
        with self._writing, contextlib.suppress(OSError):
            if len(listed) >= 2 * len(self._read()) + _MOST_REPEATED:
                self._rewrite([session_id, *self.by_use()])
            else:
                self._append(session_id)

    def by_use(self) -> list[str]:
        """Return all ids, the one used last first."""
        return list(dict.fromkeys(reversed(self._listed())))

    def all(self) -> frozenset[str]:
        """Return the current ids: for another thread, which must not reread the list concurrently."""
        return frozenset(self._read())

    def __contains__(self, session_id: str) -> bool:
        return root_of(session_id) in self._read()

    def _read(self) -> set[str]:
        if self._ids is None:
            self._ids = set(self._listed())
        return self._ids

    def _listed(self) -> list[str]:
        try:
            return self._file.read_text("ascii").split()
        except (OSError, UnicodeDecodeError):
            return []

    def _append(self, session_id: str) -> None:
        with self._file.open("a", encoding="ascii") as file:
            file.write(f"{session_id}\n")

    def _rewrite(self, by_use: Iterable[str]) -> None:
        ids = reversed(dict.fromkeys(by_use))
        write_private(self._file, "".join(f"{known}\n" for known in ids).encode("ascii"))
