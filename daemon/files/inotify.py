"""Linux's inotify, for the folders one chooses and with a barrier.

watchdog's recursive observer would also watch what nobody asks about (``node_modules``, ``.git``), and tell of every
file that is merely read. It also drops events without a word when the kernel's queue overflows
(https://github.com/gorakhargosh/watchdog/issues/654). Elsewhere it is used: see ``daemon.files.tree_events``.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import struct
import threading
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD = struct.Struct("iIII")
_CLOEXEC = 0o2000000
_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED, _CREATE, _DELETE = 0x2, 0x4, 0x8, 0xC0, 0x100, 0x200
_OVERFLOW, _IGNORED = 0x4000, 0x8000
_ONLYDIR, _DONT_FOLLOW, _EXCL_UNLINK = 0x01000000, 0x02000000, 0x04000000
_MASK = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED | _CREATE | _DELETE | _ONLYDIR | _DONT_FOLLOW | _EXCL_UNLINK


class Inotify:
    """``on_path`` hears of every changed path, ``on_lost`` when some were lost; both in a thread of its own."""

    def __init__(self, on_path: Callable[[str], None], on_lost: Callable[[], None]) -> None:
        """Raises OSError when the system has no instance left, or no inotify at all."""
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            init, self._add, self._rm = (
                libc.inotify_init1,
                libc.inotify_add_watch,
                libc.inotify_rm_watch,
            )
        except AttributeError as error:
            raise OSError(errno.ENOSYS, "no inotify") from error
        self._add.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
        self._on_path = on_path
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._folders: dict[int, str] = {}
        self._watches: dict[str, int] = {}
        self._fd = cast("int", init(_CLOEXEC))
        if self._fd < 0:
            raise _error("inotify")
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._read, name="inotify", daemon=True)
        self._thread.start()

    def add(self, folder: str) -> None:
        """Watch what is directly in a folder. Raises OSError: no such folder, or no watches left."""
        with self._lock:
            watch = cast("int", self._add(self._fd, os.fsencode(folder), _MASK))
            if watch < 0:
                raise _error(folder)
            # A folder that was moved keeps its watch: from now on it goes by its new name.
            self._watches.pop(self._folders.get(watch, ""), None)
            self._folders[watch] = folder
            self._watches[folder] = watch

    def remove(self, folder: str) -> None:
        """Watch it no longer."""
        with self._lock:
            watch = self._watches.pop(folder, None)
            if watch is not None:
                self._folders.pop(watch, None)
                self._rm(self._fd, watch)

    def close(self) -> None:
        """Let go of everything."""
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b"x")
        self._thread.join(2.0)
        for descriptor in (self._fd, self._wake_read, self._wake_write):
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def _read(self) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while True:
            if any(descriptor == self._wake_read for descriptor, _ in poll.poll()):
                return
            self._events(os.read(self._fd, 256 * 1024))

    def _events(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            watch, mask, _, length = _HEAD.unpack_from(data, at)
            name = data[at + _HEAD.size : at + _HEAD.size + length].rstrip(b"\0")
            at += _HEAD.size + length
            if mask & _OVERFLOW:
                self._on_lost()
                continue
            with self._lock:
                folder = self._folders.get(watch)
                if mask & _IGNORED and folder is not None:
                    del self._folders[watch]
                    if self._watches.get(folder) == watch:
                        del self._watches[folder]
            if folder is not None and name:
                self._on_path(f"{folder}/{os.fsdecode(name)}")


def _error(what: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), what)
