"""Keep Python's garbage collector from pausing the daemon: no collection scans objects that an earlier one has scanned.

A session of 10 000 messages has a million objects, and collecting them all stops every thread for 200–400 ms; Python
starts a collection whenever their number has grown by a quarter. But nearly all long-lived objects here (messages,
goals, steps, the code of libraries) are freed by reference counting alone. So objects that survive a full collection
are frozen, and the next one costs only what was created since. While a thread creates very many objects, none happens.
Frozen cycles are found when the daemon is idle. See https://docs.python.org/3/library/gc.html#gc.freeze
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import threading
import time
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_THRESHOLDS = (700, 10, 3)
"""Python's own, but that a full collection looks at 20 000 new objects instead of 70 000."""
_SWITCH_S = 0.001
"""A thread that computes gives way to the event loop after this time (Python: 5 ms)."""
_MANY = 1_000
"""Objects more than before that are settled at once; fewer are looked at in a moment."""
_LONGEST_S = 10.0
"""Threads that are building one after the other do not keep the collector away for longer."""
_LOOKS_S = 60.0
_QUIET = 0.05
"""Share of one processor below which the process has nothing to do."""
_M_ARENA_MAX, _M_MMAP_THRESHOLD = -8, -3  # of malloc.h
_SETTLINGS = 100
"""Freezes before all objects are scanned again."""

P = ParamSpec("P")
T = TypeVar("T")


class GcTuner:
    """Garbage collection for this process, see the module. Until ``install`` is called, Python's defaults apply."""

    def __init__(self, busy: Callable[[], float] = time.process_time) -> None:
        """``busy``: seconds of processor time that the process has used."""
        self._busy = busy
        self._lock = threading.Lock()
        self._installed = False
        self._building = 0
        self._since = 0.0
        self.settlings = 0
        """How often something was put out of sight since everything was looked at."""
        self._ever = 0
        self._unseen = False
        """Something died that was put out of sight."""

    def install(self) -> None:
        """From now on; twice is once."""
        if self._installed:
            return
        self._installed = True
        sys.setswitchinterval(_SWITCH_S)
        gc.set_threshold(*_THRESHOLDS)
        gc.freeze()
        # Python starts a full collection when new objects exceed a quarter of the last survivors. Frozen ones do
        # not count.
        gc.collect()
        gc.callbacks.append(self._collected)

    def uninstall(self) -> None:
        """As Python has it."""
        if self._installed:
            self._installed = False
            gc.callbacks.remove(self._collected)
            gc.unfreeze()
            gc.set_threshold(700, 10, 10)
            sys.setswitchinterval(0.005)

    @contextlib.contextmanager
    def building(self) -> Generator[None]:
        """While very much is made, in a thread: nothing is collected meanwhile, and what then is there stays."""
        if not self._installed:
            yield
            return
        with self._lock:
            self._building += 1
            if self._building == 1:
                self._since = time.monotonic()
                gc.disable()
        try:
            yield
        finally:
            with self._lock:
                self._building -= 1
                if not self._building or time.monotonic() - self._since > _LONGEST_S:
                    if gc.get_count()[0] > _MANY:
                        self._settle()
                    gc.enable()

    async def aside(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``work`` in a thread, as ``building``."""
        return await asyncio.to_thread(self.run, work, *args, **kwargs)

    def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``work`` as ``building``; the caller is in a thread."""
        with self.building():
            return work(*args, **kwargs)

    def look_at_all(self) -> None:
        """A collection of everything. Takes as long as there is much."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        gc.collect()  # see ``install``
        self.settlings = 0
        self._unseen = False

    def born(self) -> int:
        """Return a mark for an object graph that starts now and has so many cycles that only collection frees it. See
        ``died``."""
        return self._ever

    def died(self, mark: int) -> None:
        """Scan all objects soon if those with this mark, whose lifetime ends now, were frozen meanwhile."""
        self._unseen = self._unseen or mark != self._ever

    async def tend(self, looks_s: float = _LOOKS_S) -> None:
        """Scan all objects when there may be something to find and the daemon is idle, and give memory back.

        Until canceled.
        """
        busy = self._busy()
        while True:
            await asyncio.sleep(looks_s)
            before, busy = busy, self._busy()
            wanted = self._unseen or self.settlings >= _SETTLINGS
            if wanted and not self._building and busy - before < _QUIET * looks_s:
                self.look_at_all()
                await asyncio.to_thread(give_back)

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            self._settle()

    def _settle(self) -> None:
        gc.freeze()
        self.settlings += 1
        self._ever += 1


def share_memory() -> None:
    """Have the threads share one pool of the C library (glibc), and take blocks above 256 KB from the system.

    Otherwise each thread has a pool, and what one has freed the others cannot use. Call it before threads are started.
    """
    _c("mallopt", _M_ARENA_MAX, 1)
    _c("mallopt", _M_MMAP_THRESHOLD, 256 * 1024)


def give_back() -> None:
    """Return memory that the C library keeps free to the system, where the library can (glibc)."""
    _c("malloc_trim", 0)


def _c(function: str, *args: int) -> None:
    import ctypes

    with contextlib.suppress(OSError, AttributeError, TypeError):  # another C library
        getattr(ctypes.CDLL(None), function)(*args)


COLLECTOR = GcTuner()
"""The instance for this process."""
