"""Report changes of relevant files on disk by others: the user, bash, git.

Only folders of files in use are watched, not the whole tree: the cost grows with what is used.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.files.event_sources import open_source
from tools.process.background import Background

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.files.event_sources import Source

log = logging.getLogger(__name__)

_SETTLE_S = 0.1
_MAX_FOLDERS = 500


class FileWatch:
    """``on_change(path)`` is called on the event loop, once for a burst of changes of one file."""

    def __init__(self, on_change: Callable[[Path], None]) -> None:
        self._on_change = on_change
        self._loop: asyncio.AbstractEventLoop | None = None
        self._source: Source | None = None
        self._files: set[str] = set()
        self._folders: set[str] = set()
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        self._background = Background("watching a folder")
        self._opening = threading.Lock()
        self._closed = False

    def add(self, path: Path) -> None:
        """Watch a file from now on. Returns at once; the system is asked in a thread."""
        if self._closed:
            return
        self._files.add(path.as_posix())
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
        source, self._source = self._source, None
        if source is not None:
            await asyncio.to_thread(source.close)

    async def _begin(self, folder: str) -> None:
        if not await asyncio.to_thread(self._watch, folder):
            self._folders.discard(folder)  # the next file in it is another chance

    def _watch(self, folder: str) -> bool:
        try:
            # Several threads may be here at once; a second source would never be closed.
            with self._opening:
                if self._source is None:
                    self._source = open_source(self._saw, touched=False)
            self._source.add(folder)
        except OSError as error:
            # Watches have run out, or the folder is gone: the next read notices changes there instead.
            log.info("not watching %s: %s", folder, error)
            return False
        return True

    def _saw(self, name: str) -> None:
        """In a thread of the source's."""
        if name in self._files and self._loop is not None:
            self._loop.call_soon_threadsafe(self._noticed, name)

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
