"""Changes by commands: the tree is recorded before a command, and the difference is kept as versions of its call.

A daemon has one instance. It works in a thread of its own, and nobody waits longer for it than the limits here say.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field

from daemon.files.attribution import LaterBases, changed_by, in_turn, unknown_change
from daemon.files.baseline import Baseline
from daemon.files.concurrent_writes import UNKNOWN, ConcurrentWrites, ForeignWrites, Write
from daemon.files.history import KeptChange, NoWatch, Place, SessionHistory
from daemon.files.state import FileDelta
from daemon.files.tree import TooManyFilesError, Tree
from daemon.files.tree_events import TreeEvents
from daemon.files.versions import Version
from tools.process.background import Background
from tools.tool import CommandChange, CommandWatch, ToolError
from tools.writing.atomic import read_or_none

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_CHANGES = 2_000
"""Files of one command that are kept."""
MAX_NAMED = 20_000
"""Most further files of one command whose names are kept; the others are only counted."""
_BATCH = 100
_MAX_TOLD = 200
_SLICE_S = 0.05
_TOLD_AT_ONCE = 20

_Made = tuple[SessionHistory, Sequence[Version]]
"""Versions to report."""


class _Watch(Struct):
    owner: CommandWatches
    places: Sequence[Place]
    """All histories that record its changes: the session's own first. They share one watch; with one each, every watch
    would take the others' records for someone else's writes."""
    deltas: dict[str, FileDelta] = field(default_factory=dict[str, FileDelta])
    notes: ForeignWrites = field(default_factory=ForeignWrites)
    """Writes by others meanwhile."""
    begun: bool = False
    late: bool = False
    """The command started before the tree was known: its changes cannot be distinguished from earlier ones."""

    async def ended(self) -> Sequence[CommandChange]:
        return await self.owner.ended(self)


class CommandWatches:
    """The watches over running commands. Use it on the event loop; it costs nothing before the first command."""

    def __init__(
        self,
        workspace: Path,
        sentinels: Path,
        copies: Path,
        on_changed: Callable[[Path], None] = lambda path: None,
        *,
        before_s: float = 3.0,
        after_s: float = 15.0,
        origin: Path | None = None,
    ) -> None:
        """``sentinels``: see TreeEvents. ``copies``: a private folder outside of the workspace. ``before_s``,
        ``after_s``: how long a command waits for the tree to be read before it, and for its changes to be found after
        it. ``origin``: the folder of which the workspace is a copy."""
        self.events = TreeEvents(workspace, sentinels)
        self._tree = Tree(workspace, self.events, Baseline(copies), origin=origin)
        self._on_changed = on_changed
        self._before_s, self._after_s = before_s, after_s
        self._thread: ThreadPoolExecutor | None = None
        self._built = False
        self._expected = False
        self.given_up = False
        """Changes are not recorded: there are too many files, or they could not be watched."""
        self._closed = False
        self._lock = threading.Lock()
        self._watches: list[_Watch] = []
        self._covering: asyncio.Task[None] | None = None
        self._recording = Background("recording what a command changed")
        self.writes = ConcurrentWrites()
        """Records writes by others than commands."""

    def expect(self) -> None:
        """Read the tree before a command runs, while the user still thinks about it."""
        if not (self._built or self.given_up or self._closed or self._expected):
            self._expected = True
            self._run(self._build).add_done_callback(lambda _: self._cover_in_background())

    async def watch(self, places: Sequence[Place]) -> CommandWatch:
        """Watch a command. Its changes are kept in all of ``places`` and reported to the first. Never raises."""
        if self.given_up or self._closed:
            return NoWatch()
        watch = _Watch(self, places)
        loop = asyncio.get_running_loop()
        until = loop.time() + self._before_s
        begun = self._run(self._begin, watch)
        try:
            await asyncio.wait({begun}, timeout=self._before_s)
            with self._lock:
                if not watch.begun:
                    watch.late = True
                    self._add(watch)
            if watch.late:
                log.info("the files of the workspace are not known yet")
            self._cover_in_background()
            if self._covering is not None:
                await asyncio.wait({self._covering}, timeout=max(0.0, until - loop.time()))
        except BaseException:
            self._forget(watch)
            raise
        return watch

    async def ended(self, watch: _Watch) -> Sequence[CommandChange]:
        """Return the changes by the command of ``watch``; none if that takes longer than ``after_s``."""
        # Recording goes on after the limit: without it the changes could not be undone.
        recording = self._recording.start(self._record(watch))
        await asyncio.wait({recording}, timeout=self._after_s)
        if not recording.done():
            log.warning("what a command changed could not be told in time")
            return ()
        return recording.result()

    async def _record(self, watch: _Watch) -> Sequence[CommandChange]:
        try:
            changes, versions = await self._run(self._end, watch)
        finally:
            self._forget(watch)
        for history, made in versions:
            for start in range(0, len(made), _TOLD_AT_ONCE):
                history.tell(made[start : start + _TOLD_AT_ONCE])
                await asyncio.sleep(0)
        for change in changes[:_MAX_TOLD]:
            self._on_changed(change.path)
        self._cover_in_background()
        return changes

    def wrote(self, path: Path) -> None:
        """Record a write by someone without a history: the user, in an editor."""
        with self._lock:
            if not self._watches:
                return

        def look() -> None:
            with contextlib.suppress(OSError):
                self.writes.found(path, read_or_none(path))

        self._run(look)

    async def close(self) -> None:
        """Stop watching."""
        self._closed = True
        if self._covering is not None:
            self._covering.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._covering
        if self._thread is not None:
            if self._built:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(2.0):
                        await self._run(self._tree.save)
            self.events.close()
            self._thread.shutdown(wait=False, cancel_futures=True)

    # -- on the loop --

    def _run(self, work: Callable[..., T], *args: object) -> asyncio.Future[T]:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="tree")
        return asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    def _forget(self, watch: _Watch) -> None:
        with self._lock:
            watch.late = True
            if watch in self._watches:
                self._watches.remove(watch)
            self.writes.close(watch.notes)

    def _add(self, watch: _Watch) -> None:
        if watch not in self._watches:
            watch.notes = self.writes.open()
            self._watches.append(watch)

    def _cover_in_background(self) -> None:
        if not self._closed and (self._covering is None or self._covering.done()):
            self._covering = asyncio.create_task(self._cover_all())

    async def _cover_all(self) -> None:
        # In slices, so that a command that ends meanwhile need not wait for everything.
        while not self._closed and await self._run(self._cover):
            pass

    # -- in the thread --

    def _build(self) -> None:
        if self._built or self.given_up:
            return
        with self._giving_up():
            self._tree.build()
            self._built = True

    def _begin(self, watch: _Watch) -> None:
        self._build()
        with self._lock:
            if watch.late:
                return
            self._add(watch)  # before reading, so that later writes are noted
        with self._giving_up():
            if self._built and not self.given_up:
                self._collect()
        with self._lock:
            if not watch.late:
                watch.begun = True
                watch.deltas.clear()  # earlier changes
                self.writes.begin(watch.notes)

    def _cover(self) -> bool:
        if not self._built or self.given_up:
            return False
        with self._lock:
            busy = bool(self._watches)
        if not busy:
            self._tree.collect_garbage()
        return self._tree.cover(_SLICE_S)

    @contextlib.contextmanager
    def _giving_up(self) -> Generator[None]:
        try:
            yield
        except TooManyFilesError as error:
            self._give_up(str(error))
        except Exception:
            log.exception("the tree cannot be watched")
            self._give_up("a bug")

    def _give_up(self, why: str) -> None:
        log.warning("what commands change is not watched: %s", why)
        self.given_up = True
        self.events.close()

    def _collect(self) -> None:
        deltas = self._tree.collect()
        with self._lock:
            for watch in self._watches:
                for delta in deltas:
                    first = watch.deltas.get(delta.path)
                    watch.deltas[delta.path] = delta if first is None else first.then(delta)

    def _end(self, watch: _Watch) -> tuple[list[CommandChange], list[_Made]]:
        if self.given_up or not self._built:
            return [], []
        try:
            self._collect()
            with self._lock:
                seen = dict(watch.deltas)
                others = [
                    (other.notes.began, dict(other.deltas))
                    for other in self._watches
                    if other.begun and other.notes.began > watch.notes.began
                ]
            later_bases = LaterBases.of(self._tree, others)
            written = self.writes.paths(watch.notes) | later_bases.changed.keys()
            deltas = [delta for path, delta in seen.items() if delta.old != delta.new or path in written]
            # The files appeared and vanished, but other histories may have part of them.
            deltas += [
                FileDelta(path, None, None) for path in written - seen.keys() if self._tree.lacks(path)
            ]
            return self._keep(watch, sorted(deltas, key=lambda delta: delta.path), later_bases)
        except TooManyFilesError as error:
            self._give_up(str(error))
        except Exception:  # a command must not fail because its changes cannot be observed
            log.exception("what a command changed could not be told")
        return [], []

    def _keep(
        self, watch: _Watch, deltas: Sequence[FileDelta], later_bases: LaterBases
    ) -> tuple[list[CommandChange], list[_Made]]:
        changes: list[CommandChange] = []
        versions: list[_Made] = []
        kept = deltas[:MAX_CHANGES]
        for start in range(0, len(kept), _BATCH):
            part = kept[start : start + _BATCH]
            found = changed_by(self._tree, self.writes, watch.notes, part, watch.late, later_bases)
            for several in in_turn(found):
                told, made = self._keep_files(watch, several)
                changes += told
                versions += made
        rest = [unknown_change(delta) for delta in deltas[MAX_CHANGES:]]
        for history, call_id in watch.places:
            with contextlib.suppress(ToolError):
                # Keep names without contents, so that an undo can report what it cannot restore.
                history.keep_done(rest[:MAX_NAMED], call_id)
        self._claim(watch, rest)
        return changes + [CommandChange(item.path, item.kind, None, 0, 0) for item in rest], versions

    def _keep_files(
        self, watch: _Watch, found: Sequence[KeptChange]
    ) -> tuple[list[CommandChange], list[_Made]]:
        changes: list[CommandChange] = []
        versions: list[_Made] = []
        for number, (history, call_id) in enumerate(watch.places):
            try:
                made = history.keep_done(found, call_id)
            except ToolError as error:
                log.warning("%s", error)
                told = [CommandChange(item.path, item.kind, None, 0, 0) for item in found]
            else:
                versions.append((history, made))
                told = [CommandChange(v.path, v.kind, v.version, v.added, v.removed) for v in made]
            if number == 0:
                changes += told
        self._claim(watch, found)
        return changes, versions

    def _claim(self, watch: _Watch, found: Sequence[KeptChange]) -> None:
        for item in found:
            write = item.write
            if write is None or write.blobs is None:  # the write is unknown, or could not be kept
                write = Write(self.writes.now(), UNKNOWN, UNKNOWN, state=item.state)
            else:
                write.changed_mode = item.before_mode != item.after_mode
            self.writes.claim(watch.notes, item.path.as_posix(), write)
