"""A source of changed paths in the workspace, with a barrier: once it is passed, all earlier changes are known."""

from __future__ import annotations

import itertools
import logging
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.files.event_sources import open_source

if TYPE_CHECKING:
    from daemon.files.event_sources import Source

log = logging.getLogger(__name__)

_IMPATIENT_S = 0.1
_SENTINEL = ".goalwright-barrier-"


class TreeEvents:
    """Collects changed paths. ``begin`` starts it; methods may be called from any thread.

    ``sentinels`` is a folder of ours in which files are made and removed for the barrier.
    """

    def __init__(self, workspace: Path, sentinels: Path, max_paths: int = 50_000) -> None:
        self._workspace = workspace
        self._sentinels = str(sentinels)
        self._max_paths = max_paths
        self._lock = threading.Lock()
        self._paths: set[str] = set()
        self._lost = True
        self._source: Source | None = None
        self._barriers: dict[str, threading.Event] = {}
        self._numbers = itertools.count(1)
        self._slow = False

    def begin(self) -> None:
        """Start. Without a source every ``take`` reports lost events."""
        try:
            self._source = open_source(self._saw, self._lose, whole=self._workspace)
            self._source.add(self._sentinels)
        except OSError as error:
            log.info("changes of files are looked for instead of watched: %s", error)
            self.close()
        with self._lock:
            self._lost = False

    def add(self, folder: str) -> None:
        """Watch the direct entries of a folder."""
        if self._source is None:
            return
        try:
            self._source.add(folder)
        except FileNotFoundError:
            pass  # deleted again; its parent's events report that
        except OSError as error:
            log.info("no watch is left for %s (%s): files are looked through instead", folder, error)
            self.close()

    def remove(self, folder: str) -> None:
        """Watch a folder no longer."""
        if self._source is not None:
            self._source.remove(folder)

    def take(self, timeout_s: float) -> tuple[set[str], bool]:
        """Return the paths that changed since the last call, and whether that is all: False when some may be
        missing."""
        whole = self._barrier(timeout_s)
        with self._lock:
            paths, lost = self._paths, self._lost
            self._paths, self._lost = set(), False
        return paths, whole and not lost

    def close(self) -> None:
        """Stop watching."""
        source, self._source = self._source, None
        if source is not None:
            source.close()

    def _barrier(self, timeout_s: float) -> bool:
        """Return when everything that happened before is known; False when that cannot be had."""
        if self._source is None:
            return False
        path = f"{self._sentinels}/{_SENTINEL}{os.getpid()}-{next(self._numbers)}"
        seen = self._barriers[path] = threading.Event()
        try:
            Path(path).touch()
            Path(path).unlink()
            # After one timeout wait less, because reading all files works as well.
            self._slow = not seen.wait(min(timeout_s, _IMPATIENT_S) if self._slow else timeout_s)
            return not self._slow
        except OSError:
            return False
        finally:
            del self._barriers[path]

    def _saw(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        if folder == self._sentinels:
            if name.startswith(_SENTINEL) and (barrier := self._barriers.get(path)) is not None:
                barrier.set()
            return
        with self._lock:
            if len(self._paths) < self._max_paths:
                self._paths.add(path)
            else:
                self._paths.clear()
                self._lost = True

    def _lose(self) -> None:
        with self._lock:
            self._lost = True
