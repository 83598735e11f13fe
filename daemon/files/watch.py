"""Tells when files that matter change on disk by somebody else: the person, bash, git (watchdog).

Only folders of files that somebody works on are watched, not the tree: the cost grows with what is used.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from tools.process.background import Background

if TYPE_CHECKING:
    from collections.abc import Callable

    from watchdog.observers.api import BaseObserver

log = logging.getLogger(__name__)

_SETTLE_S = 0.1
_MAX_FOLDERS = 500


class FileWatch:
    """``on_change(path)`` is called on the event loop, once for a burst of changes of one file."""

    def __init__(self, on_change: Callable[[Path], None]) -> None:
        self._on_change = on_change
        self._loop: asyncio.AbstractEventLoop | None = None
        self._observer: BaseObserver | None = None
        self._files: set[str] = set()
        self._folders: set[str] = set()
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        self._background = Background("watching a folder")
        self._observing = threading.Lock()
        self._closed = False

    def add(self, path: Path) -> None:
        """Watch a file from now on. Returns at once; watchdog is imported and asked in a thread."""
        if self._closed:
            return
        self._files.add(str(path))
        folder = str(path.parent)
        if folder in self._folders or len(self._folders) >= _MAX_FOLDERS:
            return
        self._folders.add(folder)
        self._loop = asyncio.get_running_loop()
        self._background.start(self._begin(folder))

    async def close(self) -> None:
        """Stop watching."""
        self._closed = True
        for handle in self._waiting.values():
            handle.cancel()
        await self._background.wait()
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            await asyncio.to_thread(observer.join, 2.0)

    async def _begin(self, folder: str) -> None:
        if not await asyncio.to_thread(self._watch, folder):
            self._folders.discard(folder)  # the next file in it is another chance

    def _watch(self, folder: str) -> bool:
        from watchdog.events import FileSystemEvent, FileSystemEventHandler
        from watchdog.observers import Observer

        watch = self

        class Handler(FileSystemEventHandler):
            def on_any_event(self, event: FileSystemEvent) -> None:
                if event.event_type in ("modified", "created", "deleted", "moved"):
                    for name in (event.src_path, event.dest_path):
                        if name and str(name) in watch._files and watch._loop is not None:
                            watch._loop.call_soon_threadsafe(watch._noticed, str(name))

        try:
            # Several threads may be here at once; a second observer would never be stopped.
            with self._observing:
                if self._observer is None:
                    self._observer = Observer()
                    self._observer.daemon = True
                    self._observer.start()
                self._observer.schedule(Handler(), folder, recursive=False)
        except OSError as error:
            # Out of watches, or the folder is gone: changes there are noticed at the next read instead.
            log.info("not watching %s: %s", folder, error)
            return False
        return True

    def _noticed(self, name: str) -> None:
        assert self._loop is not None
        if self._closed:
            return
        if (handle := self._waiting.pop(name, None)) is not None:
            handle.cancel()
        self._waiting[name] = self._loop.call_later(_SETTLE_S, self._settled, name)

    def _settled(self, name: str) -> None:
        self._waiting.pop(name, None)
        self._on_change(Path(name))
