"""Sources of changed paths: the operating system's file events, by watchdog, for the folders one chooses.

On Linux watchdog's reader of inotify is used directly. Its observer drops the news that the kernel's queue overflowed,
so changes would be missed; it starts a thread for each folder, and wakes up for every file that is merely read.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from watchdog.observers.inotify_c import CallbackId, InotifyEvent, WatchDescriptor


def open_source(
    on_path: Callable[[str], None],
    on_lost: Callable[[], None] = lambda: None,
    *,
    whole: Path | None = None,
    touched: bool = True,
) -> Source:
    """Open the source of changes on this system.

    ``on_path`` receives every changed path, ``on_lost`` is called when some were lost; both in a thread of the
    source's. ``whole``: a folder that may be watched with everything below it, requested or not. ``touched``: also
    report files whose content may be unchanged. Raises OSError when the system has nothing (left) to watch with.
    """
    if sys.platform == "linux":
        return InotifySource(on_path, on_lost, touched=touched)
    return ObserverSource(on_path, whole)


class InotifySource:
    """A ``WatchCallback`` of watchdog's reader of inotify."""

    def __init__(
        self, on_path: Callable[[str], None], on_lost: Callable[[], None], *, touched: bool = True
    ) -> None:
        """Raises OSError when the system does not support it."""
        from watchdog.utils import UnsupportedLibcError

        try:
            from watchdog.observers.inotify_c import InotifyConstants, InotifyFD, Mask
        except (ImportError, UnsupportedLibcError) as error:
            raise OSError(errno.ENOSYS, f"no inotify: {error}") from error
        wanted = InotifyConstants
        mask = wanted.IN_MODIFY | wanted.IN_MOVE | wanted.IN_CREATE | wanted.IN_DELETE
        if touched:
            mask |= wanted.IN_ATTRIB | wanted.IN_CLOSE_WRITE
        self._mask = Mask(mask | wanted.IN_ONLYDIR | wanted.IN_DONT_FOLLOW | wanted.IN_EXCL_UNLINK)
        self._on_path = on_path
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._folders: dict[WatchDescriptor, tuple[str, CallbackId]] = {}
        self._watches: dict[str, WatchDescriptor] = {}
        # Not the shared reader, in which a folder has one mask for all watchers.
        self._reader = InotifyFD()
        self._reader.start()

    def add(self, folder: str) -> None:
        """Watch the direct entries of a folder. Raises OSError: no such folder, or no watches left."""
        from watchdog.observers.inotify_c import CallbackId

        with self._lock:
            number = CallbackId(next(self._numbers))
            watch = self._reader.add_callback(os.fsencode(folder), self._mask, self, number)
            if watch < 0:  # watchdog turns EACCES into this
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder)
            # A moved folder keeps its watch, which now stands for the new name.
            if (known := self._folders.get(watch)) is not None:
                self._watches.pop(known[0], None)
                self._reader.remove_callbacks([(watch, known[1])])
            self._folders[watch] = folder, number
            self._watches[folder] = watch

    def remove(self, folder: str) -> None:
        """Watch it no longer."""
        with self._lock:
            watch = self._watches.pop(folder, None)
            if watch is not None:
                _, number = self._folders.pop(watch)
                with contextlib.suppress(OSError):
                    self._reader.remove_callbacks([(watch, number)])

    def close(self) -> None:
        """Let go of everything."""
        self._reader.stop()
        self._reader.join(2.0)

    # -- in the reader's thread --

    def on_event(self, event: InotifyEvent) -> None:
        with self._lock:
            folder, _ = self._folders.get(event.wd, ("", 0))
        if folder and event.name:
            self._on_path(f"{folder}/{os.fsdecode(event.name)}")

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        with self._lock:
            folder, _ = self._folders.pop(wd, ("", 0))
            if self._watches.get(folder) == wd:
                del self._watches[folder]

    def on_queue_overflow(self) -> None:
        self._on_lost()


class ObserverSource:
    """watchdog's observer, where there is no inotify."""

    def __init__(self, on_path: Callable[[str], None], whole: Path | None) -> None:
        """Raises OSError when the system does not support it."""
        from watchdog.events import FileSystemEvent, FileSystemEventHandler
        from watchdog.observers import Observer

        class Handler(FileSystemEventHandler):
            def on_any_event(self, event: FileSystemEvent) -> None:
                if event.event_type in ("modified", "created", "deleted", "moved", "closed"):
                    for path in (event.src_path, event.dest_path):
                        if path:
                            on_path(os.fsdecode(path).replace(os.sep, "/"))

        self._whole = whole
        self._handler = Handler()
        self._observer = Observer()
        self._observer.daemon = True
        if whole is not None:
            self._observer.schedule(self._handler, str(whole), recursive=True)
        self._observer.start()

    def add(self, folder: str) -> None:
        """Watch the direct entries of a folder. Raises OSError."""
        if self._whole is None or not Path(folder).is_relative_to(self._whole):
            self._observer.schedule(self._handler, folder, recursive=False)

    def remove(self, folder: str) -> None:
        """Do nothing: everything stays watched."""

    def close(self) -> None:
        """Stop."""
        self._observer.stop()
        self._observer.join(2.0)


Source = InotifySource | ObserverSource
