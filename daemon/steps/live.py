"""Dumps of the running sessions, written while they work.

``.trace/{trace_id}/tree.txt``, ``tree.md`` and ``tree.json``, the same in the folder of each branch and sub-agent, and
those of the main session that worked last in ``.trace/`` itself: ``watch -n 0.5 cat .trace/tree.txt``.

The event loop only notes that there are events. A thread folds what the log has of them and writes, one at a time, at
most once a second, and less often for longer dumps, so that watching costs little.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from daemon.model.branches import branch_of, child_id
from daemon.model.events import BranchStarted, Delta, Event, SubagentStarted
from daemon.model.meters import Metered
from daemon.steps.dumps import dump_json, dump_markdown, dump_tree
from daemon.steps.fold import StepFold
from daemon.store.trace_store import StoreError, all_events
from tools.files.regular_files import private_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from daemon.bus import Bus
    from daemon.store.files import FileTraceStore

log = logging.getLogger(__name__)

_EVERY_S = 1.0
_SHARE = 0.05
"""Share of its time that a thread spends on dumps, at most."""


class LiveDumps:
    """Keeps the dumps of some sessions up to date. Lives on the event loop of the daemon."""

    def __init__(
        self, store: FileTraceStore, bus: Bus, now: Callable[[], datetime], *, every_s: float = _EVERY_S
    ) -> None:
        """``every_s``: the shortest time between two dumps of a session, in seconds."""
        self._store = store
        self._bus = bus
        self._now = now
        self._every_s = every_s
        self._sessions: dict[str, _Dumped] = {}
        self._closing = asyncio.Event()
        # Not for each session: one with a listener of its own counts as watched, and is neither unloaded nor pruned.
        bus.subscribe_to_all(self._heard)

    def follow(self, session_id: str) -> None:
        """Dump a session from now on, and its branches and sub-agents as they begin. Twice is once."""
        if session_id not in self._sessions and not self._closing.is_set():
            dumped = self._sessions[session_id] = _Dumped(session_id, self._store)
            dumped.writing = asyncio.create_task(self._write(dumped, 0.0))

    async def close(self) -> None:
        """Write the rest, and stop listening."""
        self._bus.unsubscribe(self._heard)
        self._closing.set()
        await asyncio.gather(*(dumped.writing for dumped in self._sessions.values() if dumped.writing))

    def _heard(self, item: Event | Delta | Metered) -> None:
        dumped = self._sessions.get(item.trace_id)
        if dumped is None or isinstance(item, Delta | Metered):
            return
        if isinstance(item, BranchStarted) and branch_of(item.trace_id) is None:
            self.follow(child_id(item.trace_id, item.branch.id))
        elif isinstance(item, SubagentStarted):
            self.follow(child_id(item.trace_id, item.subagent.id))
        dumped.behind = True
        if dumped.writing is None or dumped.writing.done():
            dumped.writing = asyncio.create_task(self._write(dumped, self._every_s))

    async def _write(self, dumped: _Dumped, delay_s: float) -> None:
        """Write, and again if more has come meanwhile."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._closing.wait()
            dumped.behind = False
            began = time.monotonic()
            try:
                await asyncio.to_thread(dumped.write, self._now)
            except (OSError, StoreError) as error:
                log.warning("the step tree of %s is not dumped: %s", dumped.session_id, error)
            if not dumped.behind:
                return
            delay_s = max(self._every_s, (time.monotonic() - began) / _SHARE)


class _Dumped:
    """One session. ``write`` runs in a thread, never twice at once; all else on the event loop."""

    def __init__(self, session_id: str, store: FileTraceStore) -> None:
        self.session_id = session_id
        self.behind = False
        """An event has come since the last dump began."""
        self.writing: asyncio.Task[None] | None = None
        self._store = store
        self._fold = StepFold(session_id)

    def write(self, now: Callable[[], datetime]) -> None:
        """Take new events of the log into account, then write the three files. Raises OSError, StoreError."""
        fold = self._fold
        for event in all_events(self._store.events, self.session_id, after=fold.last_event_id):
            fold.apply(event)
        folders = [self._store.folder(self.session_id)]
        if branch_of(self.session_id) is None:
            folders.append(self._store.root)
        moment = now().astimezone()
        for name, dump in (("tree.txt", dump_tree), ("tree.md", dump_markdown), ("tree.json", dump_json)):
            text = dump(fold.head, fold.tree, now=moment)
            for folder in folders:
                # A link in its place is replaced, not followed.
                with private_file(folder / name) as file:
                    file.write(text.encode(errors="replace"))
