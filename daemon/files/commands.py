"""What commands change: before a command the tree is known, after it the difference is kept as versions of its call.

One for a daemon. The work is done in a thread of its own, and nobody waits for it longer than the limits here say.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from daemon.files.baseline import Baseline
from daemon.files.history import Place, Seen, SessionHistory
from daemon.files.state import Delta, State
from daemon.files.tree import TooLarge, Tree
from daemon.files.tree_events import TreeEvents
from daemon.files.versions import Version
from tools.base import ChangeKind, CommandChange, CommandWatch, FileChange, ToolError
from tools.writing.atomic import read_or_none

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_CHANGES = 2_000
"""Files of one command that are kept."""
MAX_NAMED = 20_000
"""More files of one command whose names are kept; the others are only counted."""
MAX_CONTENT = 8 * 1024 * 1024
"""Bytes of a new content that is kept."""
_BATCH = 100
_MAX_TOLD = 200
_SLICE_S = 0.05
_TOLD_AT_ONCE = 20


_Made = tuple[SessionHistory, Sequence[Version]]
"""Versions that are to be told of."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a command waits: for the tree to be known before it, and for what it changed after it (seconds)."""

    before_s: float = 3.0
    after_s: float = 15.0


@dataclass(slots=True)
class _Watch:
    """One command that is running."""

    owner: CommandWatches
    places: Sequence[Place]
    """All that keep what it changes: the session's own first. One watch for them all, as each takes what the others
    keep for somebody else's."""
    deltas: dict[str, Delta] = field(default_factory=dict[str, Delta])
    others: set[str] = field(default_factory=set[str])
    """Paths that our own tools or the editor wrote meanwhile."""
    begun: bool = False
    late: bool = False
    """The command began before the tree was known: what it changed cannot be told from what was so before."""

    async def ended(self) -> Sequence[CommandChange]:
        """See tools.base.CommandWatch."""
        return await self.owner.ended(self)


class _Unwatched:
    async def ended(self) -> Sequence[CommandChange]:
        return ()


class CommandWatches:
    """See the module. Made and used on the event loop; costs nothing before the first command."""

    def __init__(
        self,
        workspace: Path,
        sentinels: Path,
        copies: Path,
        on_changed: Callable[[Path], None] = lambda path: None,
        patience: Patience | None = None,
        *,
        origin: Path | None = None,
    ) -> None:
        """``sentinels``: see TreeEvents. ``copies``: a private folder outside of the workspace. ``origin``: the
        folder of which the workspace is a copy."""
        self.events = TreeEvents(workspace, sentinels)
        self._tree = Tree(workspace, self.events, Baseline(copies), origin=origin)
        self._on_changed = on_changed
        self._patience = patience or Patience()
        self._thread: ThreadPoolExecutor | None = None
        self._built = False
        self._expected = False
        self._given_up = False
        self._closed = False
        self._lock = threading.Lock()
        self._watches: list[_Watch] = []
        self._covering: asyncio.Task[None] | None = None

    def expect(self) -> None:
        """A command is going to run: get to know the files while the person still thinks about it."""
        if not (self._built or self._given_up or self._closed or self._expected):
            self._expected = True
            self._run(self._build).add_done_callback(lambda _: self._cover_in_background())

    async def watch(self, places: Sequence[Place]) -> CommandWatch:
        """See tools.base.FileHistory.watch_command; kept in all of ``places``, told of the first. Never raises."""
        if self._given_up or self._closed:
            return _Unwatched()
        watch = _Watch(self, places)
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience.before_s
        begun = self._run(self._begin, watch)
        try:
            await asyncio.wait({begun}, timeout=self._patience.before_s)
            with self._lock:
                if not watch.begun:
                    watch.late = True
                    self._watches.append(watch)
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
        """What the command of ``watch`` changed."""
        try:
            async with asyncio.timeout(self._patience.after_s):
                changes, versions = await self._run(self._end, watch)
        except TimeoutError:
            log.warning("what a command changed could not be told in time")
            return ()
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
        """Somebody else than a command wrote a file: a tool, an undo, the editor."""
        with self._lock:
            for watch in self._watches:
                watch.others.add(path.as_posix())

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

    def _cover_in_background(self) -> None:
        if not self._closed and (self._covering is None or self._covering.done()):
            self._covering = asyncio.create_task(self._cover_all())

    async def _cover_all(self) -> None:
        # In slices, so that a command that ends meanwhile need not wait for all of it.
        while not self._closed and await self._run(self._cover):
            pass

    # -- in the thread --

    def _build(self) -> None:
        if self._built or self._given_up:
            return
        try:
            self._tree.build()
            self._built = True
        except TooLarge as error:
            self._give_up(str(error))
        except Exception:
            log.exception("the tree cannot be watched")
            self._give_up("a bug")

    def _begin(self, watch: _Watch) -> None:
        self._build()
        try:
            if self._built and not self._given_up:
                self._collect()
        except TooLarge as error:
            self._give_up(str(error))
        except Exception:
            log.exception("the tree cannot be watched")
            self._give_up("a bug")
        with self._lock:
            if not watch.late:
                watch.begun = True
                self._watches.append(watch)

    def _cover(self) -> bool:
        if not self._built or self._given_up:
            return False
        with self._lock:
            busy = bool(self._watches)
        if not busy:
            self._tree.collect_garbage()
        return self._tree.cover(_SLICE_S)

    def _give_up(self, why: str) -> None:
        log.warning("what commands change is not watched: %s", why)
        self._given_up = True
        self.events.close()

    def _collect(self) -> None:
        deltas = self._tree.collect()
        with self._lock:
            for watch in self._watches:
                for delta in deltas:
                    first = watch.deltas.get(delta.path)
                    if first is None:
                        watch.deltas[delta.path] = delta
                    else:
                        folders = first.new_folders or delta.new_folders
                        watch.deltas[delta.path] = Delta(
                            delta.path, first.old, delta.new, first.certain, folders
                        )

    def _end(self, watch: _Watch) -> tuple[list[CommandChange], list[_Made]]:
        if self._given_up or not self._built:
            return [], []
        try:
            self._collect()
            with self._lock:
                deltas = [delta for path, delta in watch.deltas.items() if path not in watch.others]
            deltas = [delta for delta in deltas if delta.old != delta.new]
            return self._keep(watch, sorted(deltas, key=lambda delta: delta.path))
        except TooLarge as error:
            self._give_up(str(error))
        except Exception:  # a command's result must not fail because of its eyes
            log.exception("what a command changed could not be told")
        return [], []

    def _keep(self, watch: _Watch, deltas: Sequence[Delta]) -> tuple[list[CommandChange], list[_Made]]:
        changes: list[CommandChange] = []
        versions: list[_Made] = []
        kept = deltas[:MAX_CHANGES]
        for start in range(0, len(kept), _BATCH):
            seen = self._seen(kept[start : start + _BATCH], watch.late)
            for number, (history, call_id) in enumerate(watch.places):
                try:
                    made = history.keep_seen(seen, call_id)
                except ToolError as error:
                    log.warning("%s", error)
                    told = [CommandChange(item.path, item.kind, None, 0, 0) for item in seen]
                else:
                    versions.append((history, made))
                    told = [CommandChange(v.path, v.kind, v.version, v.added, v.removed) for v in made]
                if number == 0:
                    changes += told
        rest = [Seen(Path(delta.path), _kind(delta)) for delta in deltas[MAX_CHANGES:]]
        for history, call_id in watch.places:
            with contextlib.suppress(ToolError):
                # Named without their contents, so that an undo says what it cannot take back.
                history.keep_seen(rest[:MAX_NAMED], call_id)
        changes += [CommandChange(item.path, item.kind, None, 0, 0) for item in rest]
        return changes, versions

    def _seen(self, deltas: Sequence[Delta], late: bool) -> list[Seen]:
        states: dict[str, State] = {
            delta.path: delta.old
            for delta in deltas
            if delta.old is not None and delta.old.size <= MAX_CONTENT
        }
        contents = {} if late else self._tree.contents(states)
        found: list[Seen] = []
        for delta in deltas:
            path = Path(delta.path)
            # What was not known before may have been there or not.
            sure = (delta.certain and not late) or delta.new is None
            unknown = Seen(path, _kind(delta) if sure else "update")
            before = contents.get(delta.path)
            if late or not delta.certain or (delta.old is not None and before is None):
                found.append(unknown)
                continue
            try:
                if delta.new is not None and delta.new.size > MAX_CONTENT:
                    raise OSError(27, "too large", delta.path)
                after = read_or_none(path) if delta.new is not None else None
            except OSError:
                found.append(unknown)
                continue
            old_mode = delta.old.mode if delta.old is not None else None
            new_mode = delta.new.mode if delta.new is not None and after is not None else None
            if before == after and old_mode == new_mode:
                continue  # merely touched
            mode = new_mode if before is not None and old_mode != new_mode else None
            change = FileChange(path, before, after, mode)
            folders = tuple(Path(folder) for folder in delta.new_folders)
            found.append(Seen(path, change.kind, change, old_mode, new_mode, folders))
        return found


def _kind(delta: Delta) -> ChangeKind:
    if delta.new is None:
        return "delete"
    return "create" if delta.old is None else "update"
