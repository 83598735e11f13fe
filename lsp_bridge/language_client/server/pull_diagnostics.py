"""Ask a server for diagnostics (``textDocument/diagnostic``), again where its answers have changed."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lsp_bridge.language_client.connection import ServerError, ServerGoneError
from tools.json_access import mapping

if TYPE_CHECKING:
    from pathlib import Path

    from lsp_bridge.language_client.server.diagnostics_freshness import DiagnosticsTracker

PULL = "textDocument/diagnostic"
_REFRESH_PAUSE_S = 0.25
"""Between two refreshes that the server asks for: one that asks all the time is not served all the time."""
_TIMES_AGAIN = 2
"""How often a document is pulled again, until the next request of a caller, because the server's work has ended or a
refresh came before the answer. Answering a pull is work that several servers announce (basedpyright), so this would
never end otherwise."""
_STALE_AT_ONCE = 8
_MAX_REMEMBERED = 500

Ask = Callable[[str, Mapping[str, Any], float], Awaitable[Any]]
Report = Mapping[str, Any]


class Pulls:
    """The pulls of one server that are under way, one at a time for each document."""

    def __init__(
        self,
        ask: Ask,
        answers: DiagnosticsTracker,
        identifiers: Callable[[Path], list[str | None]],
        take: Callable[[Path, int, list[Report]], None],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        *,
        waited: Callable[[Path], bool],
        timeout_s: float,
    ) -> None:
        """``identifiers``: the sources to pull for a file, none when it is not pulled. ``take`` gets the reports of all
        of them, and only then: half an answer is none. ``waited``: whether a caller waits for the answer about a file.
        """
        self._ask = ask
        self._answers = answers
        self._identifiers = identifiers
        self._take = take
        self._spawn = spawn
        self._waited = waited
        self._timeout_s = timeout_s
        self._soon: dict[Path, None] = {}
        """In order: whoever waits for one of them asks about it first."""
        self._running: dict[Path, asyncio.Task[None]] = {}
        self._once_more: set[Path] = set()
        """Files whose answer, under way, was made out of date by a refresh."""
        self._stale: dict[Path, None] = {}
        """Files whose answers became stale while nothing waited for them."""
        self._times_left: dict[Path, int] = {}
        self._refreshes = 0
        self._works_ended = 0
        self._refreshed_at: float | None = None
        self._coming: Callable[[], None] | None = None

    def soon(self, path: Path) -> None:
        """Ask about ``path`` after the changes that are sent in the same breath, so that the answer knows them all."""
        if len(self._times_left) > _MAX_REMEMBERED:
            self._times_left.clear()
        self._times_left[path] = _TIMES_AGAIN
        self._ask_soon(path)

    def again(self, path: Path) -> None:
        """Ask about ``path`` though its text is the same, unless nothing has happened since the last time."""
        document = self._answers.documents.get(path)
        if document is None:
            return
        outdated = path in self._stale or path in self._once_more
        asked = path in self._running or self._answers.has_pulled(path, surely=True)
        if outdated or not asked or document.pulled_after != self._answers.sent_last:
            self.soon(path)
        self.catch_up()

    def catch_up(self) -> None:
        """Pull files that the server has reported as changed since: a caller is going to compare with them."""
        self._stale = {path: None for path in self._stale if path in self._answers.documents}
        self._ask_all(list(self._stale)[-_STALE_AT_ONCE:])

    def everything(self) -> None:
        """Pull every open document: the server has just announced how to pull."""
        self._at_most_so_often(lambda: self._ask_all(self._answers.documents))

    def refresh(self) -> None:
        """Handle the server's report that its answers have changed. Only awaited and missing answers are pulled now;
        the rest before it is needed, so that a server that asks endlessly costs nothing."""
        self._refreshes += 1
        self._at_most_so_often(self._refresh)

    def after_work(self) -> None:
        """Pull again after the server's work: empty answers meanwhile may have come too early."""
        self._works_ended += 1
        self._at_most_so_often(self._after_work)

    def _at_most_so_often(self, what: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        if self._coming is not None:
            # Keep the pull with the wider scope; both end in asking about everything without an answer.
            if what != self._after_work:
                self._coming = what
        elif self._refreshed_at is not None and loop.time() - self._refreshed_at < _REFRESH_PAUSE_S:
            self._coming = what
            loop.call_later(_REFRESH_PAUSE_S, self._come)
        else:
            self._refreshed_at = loop.time()
            what()

    def _come(self) -> None:
        what, self._coming = self._coming, None
        self._refreshed_at = asyncio.get_running_loop().time()
        if what is not None:
            what()

    def _ask_all(self, paths: Iterable[Path]) -> None:
        for path in list(paths):
            self._ask_soon(path)

    def _refresh(self) -> None:
        for path in list(self._answers.documents):
            if path in self._running:
                self._once_more.add(path)
            elif self._waited(path) or not self._answers.has_pulled(path):
                self._ask_soon(path)
            else:
                self._stale[path] = None

    def _after_work(self) -> None:
        for path in list(self._answers.documents):
            left = self._times_left.get(path, 0)
            if left and path not in self._running and not self._answers.has_pulled(path, surely=True):
                self._times_left[path] = left - 1
                self._ask_soon(path)

    def _ask_soon(self, path: Path) -> None:
        if not self._soon:
            asyncio.get_running_loop().call_soon(self._now)
        self._soon[path] = None
        self._stale.pop(path, None)
        self._once_more.discard(path)
        # At once: its answer may arrive before the next question is sent, and is about the time before.
        if previous := self._running.pop(path, None):
            previous.cancel()

    def _now(self) -> None:
        paths, self._soon = self._soon, {}
        for path in paths:
            document = self._answers.documents.get(path)
            sources = self._identifiers(path) if document is not None else []
            if document is None or not sources:
                continue
            document.pulled_after = self._answers.sent_last
            task = self._spawn(self._pull(path, document.version, sources))
            self._running[path] = task
            task.add_done_callback(functools.partial(self._done, path))

    def _done(self, path: Path, task: asyncio.Task[None]) -> None:
        if self._running.get(path) is not task:
            return
        del self._running[path]
        if path in self._once_more:
            self._once_more.discard(path)
            if self._waited(path):
                self._ask_soon(path)
            elif path in self._answers.documents:
                self._stale[path] = None

    async def _pull(self, path: Path, version: int, sources: list[str | None]) -> None:
        refreshes, works_ended = self._refreshes, self._works_ended
        reports = await asyncio.gather(*(self._report(path, source) for source in sources))
        usable = [report for report in reports if report is not None]
        if len(usable) < len(sources):
            return
        # Messages that were read together are handled before this continues, in whatever order they came: the answer
        # may be older than them.
        outdated = refreshes != self._refreshes and self._waited(path)
        early = works_ended != self._works_ended and not self._answers.is_sure(
            [item for report in usable for item in report["items"]]
        )
        if (outdated or early) and (left := self._times_left.get(path, 0)):
            self._times_left[path] = left - 1
            self._running.pop(path, None)  # it has ended, and is not to be canceled
            self._ask_soon(path)
        else:
            self._take(path, version, usable)

    async def _report(self, path: Path, source: str | None) -> Report | None:
        """Return a full report, or None. Without a previous result of ours ``unchanged`` is no answer."""
        params: dict[str, Any] = {"textDocument": {"uri": path.as_uri()}}
        if source is not None:
            params["identifier"] = source
        try:
            report = mapping(await self._ask(PULL, params, self._timeout_s))
        except (ServerError, ServerGoneError, TimeoutError):
            return None
        return report if isinstance(report.get("items"), list) else None
