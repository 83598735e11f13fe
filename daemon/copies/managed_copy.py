"""The common parts of all kinds of working copies: a folder of their own, and an end that leaves nothing behind."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Generic, TypeVar

from daemon.copies.bases import Bases, hold_base, release_base
from daemon.copies.copy_folders import CopyFolder, CopyFolders
from daemon.copies.git_program import CancelToken, in_thread, with_copy_errors
from daemon.copies.working_copy import Base, CopyError, Keep, OrphanedCopy, WorkingCopies, WorkingCopy
from tools.process.background import finish

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

log = logging.getLogger(__name__)

R = TypeVar("R")
T = TypeVar("T")


class ManagedCopy(WorkingCopy):
    """A copy in the daemon's folder."""

    def __init__(
        self,
        place: CopyFolder,
        root: Path,
        base: Base,
        environment: Mapping[str, str],
        links: Sequence[Path],
        pool: ThreadPoolExecutor,
        on_close: Callable[[CopyFolder], None],
    ) -> None:
        super().__init__(root, base, dict(environment), tuple(links), place.ours / "private")
        self.place = place
        self._pool = pool
        self._on_close = on_close
        self._one = asyncio.Lock()
        self._closing: asyncio.Future[None] | None = None

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.get_running_loop().run_in_executor(self._pool, self._on_close, self.place)
        if await finish(self._closing):
            raise asyncio.CancelledError

    async def ask(self, work: Callable[[CancelToken], R]) -> R:
        """Do it in a thread, one after the other. Raises CopyError, also when the copy is closed."""
        async with self._one:
            if self._closing is not None:
                raise CopyError("The working copy is closed.")
            return await in_thread(self._pool, with_copy_errors(work))


CopyT = TypeVar("CopyT", bound=ManagedCopy)


class ManagedCopies(WorkingCopies, Generic[CopyT, T]):
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
        return await hold_base(self._pool, self._bases, self._taken)

    async def open(self, session_id: str, base: Base) -> CopyT:
        made: list[CopyT] = []

        def work(stop: CancelToken) -> CopyT:
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
            made.append(copy)
            return copy

        try:
            return await in_thread(self._pool, with_copy_errors(work))
        except asyncio.CancelledError:
            # It was canceled just after the copy was made.
            for copy in made:
                await copy.close()
            raise

    async def done(self, base: Base) -> None:
        await release_base(self._pool, self._bases, base)

    async def recover(self, keep: Keep) -> None:
        await in_thread(
            self._pool, lambda stop: self._places.recover(lambda place: self._read(stop, place), keep)
        )

    def _closed(self, place: CopyFolder) -> None:
        try:
            place.free()
            self._places.remove(place.folder)
        except OSError as error:
            log.warning("a working copy was not removed completely: %s", error)

    # -- in threads --

    @abstractmethod
    def _taken(self, stop: CancelToken, folder: Path) -> tuple[Base, T]:
        """Store the current workspace in ``folder``."""

    @abstractmethod
    def _filled(self, stop: CancelToken, place: CopyFolder, session_id: str, base: Base, taken: T) -> CopyT:
        """Return a copy at ``place``, with its record written."""

    @abstractmethod
    def _read(self, stop: CancelToken, place: CopyFolder) -> OrphanedCopy:
        """Return the work in a copy that a crash left behind."""
