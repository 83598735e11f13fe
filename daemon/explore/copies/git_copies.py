"""Working copies of a repository (or, with git's help, of a plain folder). See ``opening`` for how one is made."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from daemon.explore.copies import linked, opening, snapshot
from daemon.explore.copies.adding import Private
from daemon.explore.copies.base import Base, BranchChange, CopyError, Keep, LeftBehind
from daemon.explore.copies.bases import Bases, kept_base, let_go
from daemon.explore.copies.comparing import EMPTY_TREE, Comparing, Part, small_patch
from daemon.explore.copies.places import Place, Places
from daemon.explore.copies.programs import Git, Stop, in_thread, told
from daemon.explore.copies.repository import Repository
from daemon.explore.copies.snapshot import Snapshot
from tools.shielding import finish

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Taken:
    """What it takes to open copies of a base."""

    snapshot: Snapshot
    links: tuple[bytes, ...]


class GitCopy:
    """The files of one branch (``WorkingCopy``)."""

    def __init__(
        self,
        place: Place,
        base: Base,
        comparing: Comparing,
        environment: Mapping[str, str],
        links: Sequence[Path],
        pool: ThreadPoolExecutor,
        on_close: Callable[[GitCopy], None],
    ) -> None:
        self._place = place
        self._base = base
        self._comparing = comparing
        self._environment = dict(environment)
        self._links = tuple(links)
        self._pool = pool
        self._on_close = on_close
        self._one = asyncio.Lock()
        self._closing: asyncio.Future[None] | None = None

    @property
    def root(self) -> Path:
        """What the workspace is to the main line, absolute and resolved."""
        return self._comparing.top / self._comparing.workspace

    @property
    def base(self) -> Base:
        """From what it started."""
        return self._base

    @property
    def environment(self) -> dict[str, str]:
        """Variables that commands in the copy need on top."""
        return dict(self._environment)

    @property
    def links(self) -> tuple[Path, ...]:
        """Links in the copy that lead to folders of the workspace itself: used there, never changed."""
        return self._links

    @property
    def private(self) -> Path:
        """A folder of this copy alone, outside of ``root``; it goes when the copy is closed."""
        return self._place.ours / "private"

    async def tree(self) -> str | None:
        """Git's hash of the files as they are now. Raises CopyError."""
        return await self._ask(self._comparing.tree)

    async def changes(self) -> Sequence[BranchChange]:
        """What differs from the base, sorted by name, in bytes as they are on disk. Raises CopyError."""
        return await self._ask(self._comparing.changes)

    async def patch(self) -> bytes:
        """The same as a binary git patch, relative to the repository's top folder. Raises CopyError."""
        return await self._ask(self._comparing.patch)

    async def outcome(self) -> tuple[Sequence[BranchChange], bytes]:
        """Both of them, from one look at the files. Raises CopyError."""
        return await self._ask(self._comparing.outcome)

    async def close(self) -> None:
        """Remove everything of it. Never raises; twice is as good as once."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().run_in_executor(self._pool, self._on_close, self)
        if await finish(self._closing):
            raise asyncio.CancelledError

    async def _ask(self, work: Callable[[Stop], Any]) -> Any:
        """Any: what the work returns."""
        async with self._one:
            if self._closing is not None:
                raise CopyError("The working copy is closed.")
            return await in_thread(self._pool, told(work))

    def discard(self, places: Places) -> None:
        """Blocking part of ``close``."""
        self._place.free()
        places.remove(self._place.folder)


class GitCopies:
    """Makes copies of one workspace with the help of git (``WorkingCopies``).

    ``workspace`` and ``folder`` are resolved; ``repository`` is False for a folder that is in none.
    """

    def __init__(
        self, workspace: Path, folder: Path, links: Sequence[str], program: str, repository: bool = True
    ) -> None:
        self._workspace = workspace
        self._places = Places(folder, workspace)
        self._links = tuple(links)
        self._git = Git(program)
        self._in_repository = repository
        self._pool = ThreadPoolExecutor(max(2, os.cpu_count() or 1), "copies")
        self._bases: Bases[_Taken] = Bases(self._places)

    async def base(self) -> Base:
        """The workspace as it is now. Raises CopyError."""
        return await kept_base(self._pool, self._bases, self._taken)

    async def open(self, session_id: str, base: Base) -> GitCopy:
        """A copy for the branch ``session_id``. Canceled or failed, it leaves nothing. Raises CopyError."""
        made: list[GitCopy] = []

        def work(stop: Stop) -> GitCopy:
            with self._bases.use(base) as taken:
                copy = self._opened(stop, session_id, base, taken)
            made.append(copy)
            return copy

        try:
            return await in_thread(self._pool, told(work))
        except asyncio.CancelledError:
            # It was canceled in the moment in which it was done.
            for copy in made:
                await copy.close()
            raise

    async def done(self, base: Base) -> None:
        """No more copies of ``base`` will be opened. Never raises; may be called twice."""
        await let_go(self._pool, self._bases, base)

    async def recover(self, keep: Keep) -> None:
        """Remove what a crash left, each copy after ``keep`` stored what had been done in it. Never raises."""
        await in_thread(
            self._pool, lambda stop: self._places.recover(lambda place: self._read(stop, place), keep)
        )

    # -- in threads --

    def _taken(self, stop: Stop, folder: Path) -> tuple[Base, _Taken]:
        repository = None
        if self._in_repository:
            repository = Repository.of(self._git, stop, self._workspace)
            if repository is None:
                raise CopyError(f"{self._workspace} is no longer in a git repository; start again.")
        source = repository.top if repository else self._workspace
        exclude = b"" if repository else opening.heavy(self._links)
        taken = snapshot.take(self._git, stop, repository, source, folder / "base", exclude)
        links = opening.links_of(self._git, stop, taken, self._links, self._workspace, bool(repository))
        commit = taken.state.commit if taken.state else None
        private = Private(self._git, stop, taken.git_dir, source)
        patch = small_patch(private, commit or EMPTY_TREE[taken.hash_size], taken.tree)
        return Base(commit, taken.tree, patch), _Taken(taken, tuple(links))

    def _opened(self, stop: Stop, session_id: str, base: Base, kept: _Taken) -> GitCopy:
        place = self._places.new(session_id)
        try:
            taken = kept.snapshot
            top = place.root(taken.source.name or "copy")
            parts = opening.fill(self._git, stop, taken, top, place.ours, kept.links)
            inner = self._workspace.relative_to(taken.source).as_posix()
            workspace = "" if inner == "." else f"{inner}/"
            (top / workspace).mkdir(parents=True, exist_ok=True)
            comparing = Comparing(self._git, top, place.ours, tuple(parts), workspace)
            place.write_record(
                {
                    "session": session_id,
                    "name": top.name,
                    "workspace": workspace,
                    "parts": [part.to_json() for part in parts],
                }
            )
            environment = {
                # A repository around the folder of the copies is not the workspace's.
                "GIT_CEILING_DIRECTORIES": str(place.folder),
                **linked.environment(taken.source, top, kept.links, os.environ.get("PYTHONPATH", "")),
            }
            links = [top / os.fsdecode(link) for link in kept.links]
            stop.check()
            place.set_ready()
        except BaseException:
            place.free()
            self._places.remove(place.folder)
            raise
        return GitCopy(place, base, comparing, environment, links, self._pool, self._closed)

    def _closed(self, copy: GitCopy) -> None:
        try:
            copy.discard(self._places)
        except OSError as error:
            log.warning("a working copy was not removed completely: %s", error)

    def _read(self, stop: Stop, place: Place) -> LeftBehind:
        record = cast("dict[str, Any]", json.loads((place.ours / "record.json").read_bytes()))
        parts = tuple(Part.from_json(part) for part in record["parts"])
        for stale in place.ours.glob("*/*.git/*.lock"):
            stale.unlink()
        comparing = Comparing(
            self._git, place.root(str(record["name"])), place.ours, parts, str(record["workspace"])
        )
        changes, patch = comparing.outcome(stop)
        return LeftBehind(str(record["session"]), tuple(changes), patch)
