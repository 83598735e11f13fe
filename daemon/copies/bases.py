"""The bases from which copies can be opened: each is kept until its owner releases it.

That may be after its last copy is closed: with ``max_parallel`` 1 the next branch is opened only then, and must start
from the same files, whatever the user has changed in the workspace meanwhile. Blocking, for threads.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from daemon.copies.working_copy import Base, CopyError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from daemon.copies.copy_folders import CopyFolders

T = TypeVar("T")


@dataclass(slots=True)
class HeldBase(Generic[T]):
    """A base, with the data to open copies of it."""

    base: Base
    what: T
    folder: Path
    free: Callable[[], None]
    opening: int = 0
    """Number of copies that are being made of it."""
    is_done: bool = False


class Bases(Generic[T]):
    """All that are kept, of one workspace."""

    def __init__(self, places: CopyFolders) -> None:
        self._places = places
        self._lock = threading.Lock()
        self._kept: list[HeldBase[T]] = []

    def add(self, make: Callable[[Path], tuple[Base, T]]) -> Base:
        """Make a base in a new folder, and keep it. Raises the exceptions of ``make``; then nothing of it stays."""
        folder, free = self._places.kept_scratch()
        try:
            base, what = make(folder)
        except BaseException:
            free()
            self._places.remove(folder)
            raise
        with self._lock:
            self._kept.append(HeldBase(base, what, folder, free))
        return base

    @contextmanager
    def use(self, base: Base) -> Generator[T]:
        """Keep the base at least while it is used. Raises CopyError when it was released already."""
        with self._lock:
            kept = self._find(base)
            kept.opening += 1
        try:
            yield kept.what
        finally:
            with self._lock:
                kept.opening -= 1
            self._forget()

    def done(self, base: Base) -> None:
        """Let go of it, at once or when it is no longer used. Twice is as good as once."""
        with self._lock:
            for kept in self._kept:
                if kept.base is base:
                    kept.is_done = True
        self._forget()

    def _find(self, base: Base) -> HeldBase[T]:
        # Compare identity, because two equal bases may belong to two explorations.
        for kept in self._kept:
            if kept.base is base and not kept.is_done:
                return kept
        raise CopyError(
            "The state of the workspace from which this exploration started is no longer stored. Start a "
            "new exploration."
        )

    def _forget(self) -> None:
        with self._lock:
            gone = [kept for kept in self._kept if kept.is_done and not kept.opening]
            self._kept = [kept for kept in self._kept if kept not in gone]
        for kept in gone:
            kept.free()
            self._places.remove(kept.folder)
