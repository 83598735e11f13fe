"""Working copies in the daemon's folders: each has a folder of its own, and its end leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from daemon.copies import dependency_folders
from daemon.copies.copy_folders import CopyFolder, CopyFolders
from daemon.copies.git_program import CancelToken, in_thread
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
    from pathlib import Path

T = TypeVar("T")
Compare = Callable[[CancelToken], tuple[Sequence[BranchChange], bytes]]
"""Returns what differs from the base, in a thread: see ``WorkingCopy.outcome``."""
Filled = tuple["Path", "Path", Sequence[bytes], dict[str, Any]]
"""The workspace or a folder above it, its copy, the links in that, and what its record says, to compare it later."""


@dataclass(eq=False)
class ManagedCopy(WorkingCopy):
    """A copy in the daemon's folder."""

    _place: CopyFolder
    _places: CopyFolders
    _pool: ThreadPoolExecutor
    _compare: Compare
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)
    _closing: asyncio.Future[None] | None = None

    async def close(self) -> None:
        if self._closing is None:
            loop = asyncio.get_running_loop()
            self._closing = loop.run_in_executor(self._pool, self._places.discard, self._place)
        if await finish(self._closing):
            raise asyncio.CancelledError

    async def outcome(self) -> tuple[Sequence[BranchChange], bytes]:
        async with self._one:
            if self._closing is not None:
                raise CopyError("The working copy is closed.")
            return await in_thread(self._pool, self._compare)


class _HeldBase(Struct, Generic[T]):
    """A base from which copies can be opened, until its owner releases it.

    That may be after its last copy is closed: with ``max_parallel`` 1 the next branch is opened only then, and must
    start from the same files, whatever the user has changed in the workspace meanwhile.
    """

    base: Base
    what: T
    place: CopyFolder
    opening: int = 0
    """Number of copies that are being made of it."""


class ManagedCopies(WorkingCopies, Generic[T]):
    """Makes copies in the daemon's folders. The three methods at the end are specific to a kind.

    ``T`` is the data needed to open copies of a base.
    """

    def __init__(self, workspace: Path, folder: Path, links: Sequence[str], threads: int) -> None:
        self._workspace = workspace
        self._places = CopyFolders(folder, workspace)
        self._links = tuple(links)
        self._pool = ThreadPoolExecutor(threads, "copies")
        self._held: dict[int, _HeldBase[T]] = {}
        """By identity, because two equal bases may belong to two explorations."""

    async def base(self) -> Base:
        def work(stop: CancelToken) -> Base:
            place = self._places.scratch()
            try:
                base, what = self._taken(stop, place.folder)
            except BaseException:
                self._places.discard(place)
                raise
            self._held[id(base)] = _HeldBase(base, what, place)
            return base

        return await in_thread(self._pool, work, self.done)

    async def open(self, session_id: str, base: Base) -> ManagedCopy:
        held = self._held.get(id(base))
        if held is None:
            raise CopyError(
                "The state of the workspace from which this exploration started is no longer stored. Start a "
                "new exploration."
            )

        def work(stop: CancelToken) -> ManagedCopy:
            place = self._places.new(session_id)
            try:
                source, top, links, record = self._filled(stop, place, held.what)
                place.write_record({"session": session_id, "name": top.name, **record})
                copy = self._copy(place, source, top, links, self._comparing(place, top, record))
                stop.check()
                place.set_ready()
            except BaseException:
                self._places.discard(place)
                raise
            return copy

        held.opening += 1
        try:
            return await in_thread(self._pool, work, ManagedCopy.close)
        finally:
            held.opening -= 1
            await self._forget(held)

    async def done(self, base: Base) -> None:
        if (held := self._held.pop(id(base), None)) is not None:
            await self._forget(held)

    async def _forget(self, held: _HeldBase[T]) -> None:
        """Remove a base that its owner has released, when no copy is being made of it any more."""

        if held.opening or id(held.base) in self._held:
            return
        loop = asyncio.get_running_loop()
        if await finish(loop.run_in_executor(self._pool, self._places.discard, held.place)):
            raise asyncio.CancelledError

    async def recover(self, keep: Keep) -> None:
        await in_thread(
            self._pool, lambda stop: self._places.recover(lambda place: self._read(stop, place), keep)
        )

    def _copy(
        self, place: CopyFolder, source: Path, top: Path, links: Sequence[bytes], compare: Compare
    ) -> ManagedCopy:
        """Return the copy of ``source`` (the workspace, or a folder above it) that was made at ``top``."""
        environment = dependency_folders.environment(source, top, links, os.environ.get("PYTHONPATH", ""))
        # A repository around the folder of the copies does not belong to the workspace.
        environment["GIT_CEILING_DIRECTORIES"] = str(place.folder)
        there = tuple(top / os.fsdecode(link) for link in links)
        root, private = top / self._workspace.relative_to(source), place.ours / "private"
        return ManagedCopy(root, environment, there, private, place, self._places, self._pool, compare)

    def _read(self, stop: CancelToken, place: CopyFolder) -> OrphanedCopy:
        """Return the work in a copy that a crash left behind."""
        record: dict[str, Any] = json.loads((place.ours / "record.json").read_bytes())
        top = place.root(record["name"])
        changes, patch = self._comparing(place, top, record)(stop)
        return OrphanedCopy(record["session"], top / record.get("workspace", ""), tuple(changes), patch)

    # -- in threads --

    @abstractmethod
    def _taken(self, stop: CancelToken, folder: Path) -> tuple[Base, T]:
        """Store the current workspace in ``folder``."""

    @abstractmethod
    def _filled(self, stop: CancelToken, place: CopyFolder, taken: T) -> Filled:
        """Make a copy at ``place``."""

    @abstractmethod
    def _comparing(self, place: CopyFolder, top: Path, record: dict[str, Any]) -> Compare:
        """Return what compares a copy with its base."""
