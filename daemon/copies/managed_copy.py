"""Working copies in the daemon's folders: each has a folder of its own, and its end leaves nothing behind."""

from __future__ import annotations

import asyncio
import logging
import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Generic, TypeVar

from daemon.copies import dependency_folders
from daemon.copies.bases import Bases
from daemon.copies.copy_folders import CopyFolder, CopyFolders
from daemon.copies.git_program import CancelToken, in_thread, with_copy_errors
from daemon.copies.working_copy import (
    Base,
    BranchChange,
    CopyError,
    Keep,
    OrphanedCopy,
    WorkingCopies,
    WorkingCopy,
)
from tools.process.background import finish

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

log = logging.getLogger(__name__)

T = TypeVar("T")
Compare = Callable[[CancelToken], tuple[Sequence[BranchChange], bytes]]
"""Returns what differs from the base, in a thread: see ``WorkingCopy.outcome``."""


class ManagedCopy(WorkingCopy):
    """A copy in the daemon's folder."""

    def __init__(
        self,
        place: CopyFolder,
        root: Path,
        base: Base,
        environment: Mapping[str, str],
        links: Sequence[Path],
        compare: Compare,
        pool: ThreadPoolExecutor,
        places: CopyFolders,
    ) -> None:
        super().__init__(root, base, dict(environment), tuple(links), place.ours / "private")
        self.place = place
        self._compare = compare
        self._pool = pool
        self._places = places
        self._one = asyncio.Lock()
        self._closing: asyncio.Future[None] | None = None

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.get_running_loop().run_in_executor(self._pool, self._remove)
        if await finish(self._closing):
            raise asyncio.CancelledError

    async def outcome(self) -> tuple[Sequence[BranchChange], bytes]:
        async with self._one:
            if self._closing is not None:
                raise CopyError("The working copy is closed.")
            return await in_thread(self._pool, with_copy_errors(self._compare))

    def _remove(self) -> None:
        try:
            self.place.free()
            self._places.remove(self.place.folder)
        except OSError as error:
            log.warning("a working copy was not removed completely: %s", error)


class ManagedCopies(WorkingCopies, Generic[T]):
    """Makes copies in the daemon's folders. The three methods at the end are specific to a kind.

    ``T`` is the data needed to open copies of a base.
    """

    def __init__(self, workspace: Path, folder: Path, links: Sequence[str], threads: int) -> None:
        self._workspace = workspace
        self._places = CopyFolders(folder, workspace)
        self._links = tuple(links)
        self._pool = ThreadPoolExecutor(threads, "copies")
        self._bases: Bases[T] = Bases(self._places)

    async def base(self) -> Base:
        def work(stop: CancelToken) -> Base:
            return self._bases.add(lambda folder: self._taken(stop, folder))

        return await in_thread(self._pool, with_copy_errors(work), self.done)

    async def open(self, session_id: str, base: Base) -> ManagedCopy:
        def work(stop: CancelToken) -> ManagedCopy:
            with self._bases.use(base) as taken:
                place = self._places.new(session_id)
                try:
                    copy = self._filled(stop, place, session_id, base, taken)
                    stop.check()
                    place.set_ready()
                except BaseException:
                    place.free()
                    self._places.remove(place.folder)
                    raise
            return copy

        return await in_thread(self._pool, with_copy_errors(work), ManagedCopy.close)

    async def done(self, base: Base) -> None:
        def work() -> None:
            try:
                self._bases.done(base)
            except OSError as error:
                log.warning("what branches started from was not removed completely: %s", error)

        if await finish(asyncio.get_running_loop().run_in_executor(self._pool, work)):
            raise asyncio.CancelledError

    async def recover(self, keep: Keep) -> None:
        await in_thread(
            self._pool, lambda stop: self._places.recover(lambda place: self._read(stop, place), keep)
        )

    def _copy(
        self,
        place: CopyFolder,
        source: Path,
        top: Path,
        base: Base,
        links: Sequence[bytes],
        compare: Compare,
    ) -> ManagedCopy:
        """Return the copy of ``source`` (the workspace, or a folder above it) that was made at ``top``."""
        environment = dependency_folders.environment(source, top, links, os.environ.get("PYTHONPATH", ""))
        # A repository around the folder of the copies does not belong to the workspace.
        environment["GIT_CEILING_DIRECTORIES"] = str(place.folder)
        there = [top / os.fsdecode(link) for link in links]
        root = top / self._workspace.relative_to(source)
        return ManagedCopy(place, root, base, environment, there, compare, self._pool, self._places)

    # -- in threads --

    @abstractmethod
    def _taken(self, stop: CancelToken, folder: Path) -> tuple[Base, T]:
        """Store the current workspace in ``folder``."""

    @abstractmethod
    def _filled(
        self, stop: CancelToken, place: CopyFolder, session_id: str, base: Base, taken: T
    ) -> ManagedCopy:
        """Return a copy at ``place``, with its record written."""

    @abstractmethod
    def _read(self, stop: CancelToken, place: CopyFolder) -> OrphanedCopy:
        """Return the work in a copy that a crash left behind."""
