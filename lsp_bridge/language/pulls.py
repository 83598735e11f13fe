"""Asking a server for diagnostics (``textDocument/diagnostic``), again and again where it puts us off."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from lsp_bridge.language.answers import Answers
from lsp_bridge.language.registrations import as_object
from lsp_bridge.language.rpc_errors import ServerError, ServerGone

PULL = "textDocument/diagnostic"
# LSP's ServerCancelled and ContentModified: ask again. The pauses keep a stubborn server from spinning.
_ASK_AGAIN = (-32802, -32801)
_ASK_AGAIN_PAUSES_S = (0.1, 0.1, 0.2, 0.4, 0.8, 1.6, 3.0, 3.0)
_REFRESH_PAUSE_S = 0.25
"""Between two refreshes that the server asks for: one that asks all the time is not served all the time."""

Ask = Callable[[str, Mapping[str, Any], float], Awaitable[Any]]
Report = Mapping[str, Any]


class Pulls:
    """The pulls of one server that are under way, one at a time for each document."""

    def __init__(
        self,
        ask: Ask,
        answers: Answers,
        identifiers: Callable[[Path], list[str | None]],
        take: Callable[[Path, int, list[Report]], None],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        *,
        timeout_s: float,
    ) -> None:
        """``identifiers``: the sources to be asked about a file, none when it is not pulled. ``take`` gets the
        reports of all of them, and only then: half an answer is none."""
        self._ask = ask
        self._answers = answers
        self._identifiers = identifiers
        self._take = take
        self._spawn = spawn
        self._timeout_s = timeout_s
        self._soon: set[Path] = set()
        self._running: dict[Path, asyncio.Task[None]] = {}
        self._refreshed_at: float | None = None
        self._refresh_comes = False

    def soon(self, path: Path) -> None:
        """Ask about ``path`` after the changes that are sent in the same breath, so that the answer knows them all."""
        if not self._soon:
            asyncio.get_running_loop().call_soon(self._now)
        self._soon.add(path)

    def refresh(self) -> None:
        """Ask about every open document: the server says that its answers have changed."""
        loop = asyncio.get_running_loop()
        if self._refresh_comes:
            return
        if self._refreshed_at is not None and loop.time() - self._refreshed_at < _REFRESH_PAUSE_S:
            self._refresh_comes = True
            loop.call_later(_REFRESH_PAUSE_S, self._refresh_now)
        else:
            self._refresh_now()

    def _refresh_now(self) -> None:
        self._refresh_comes = False
        self._refreshed_at = asyncio.get_running_loop().time()
        for path in self._answers.documents:
            self.soon(path)

    def _now(self) -> None:
        paths, self._soon = self._soon, set()
        for path in paths:
            document = self._answers.documents.get(path)
            sources = self._identifiers(path) if document is not None else []
            if document is None or not sources:
                continue
            if previous := self._running.pop(path, None):
                previous.cancel()
            task = self._spawn(self._pull(path, document.version, sources))
            self._running[path] = task
            task.add_done_callback(functools.partial(self._done, path))

    def _done(self, path: Path, task: asyncio.Task[None]) -> None:
        if self._running.get(path) is task:
            del self._running[path]

    async def _pull(self, path: Path, version: int, sources: list[str | None]) -> None:
        reports = await asyncio.gather(*(self._report(path, source) for source in sources))
        usable = [report for report in reports if report is not None]
        if len(usable) == len(sources):
            self._take(path, version, usable)

    async def _report(self, path: Path, source: str | None) -> Report | None:
        """A full report, or None. Without a previous result of ours ``unchanged`` is no answer."""
        params: dict[str, Any] = {"textDocument": {"uri": path.as_uri()}}
        if source is not None:
            params["identifier"] = source
        for pause in (*_ASK_AGAIN_PAUSES_S, None):
            try:
                report = as_object(await self._ask(PULL, params, self._timeout_s))
            except ServerError as error:
                wanted = as_object(error.data).get("retriggerRequest") is not False
                if error.code not in _ASK_AGAIN or not wanted or pause is None:
                    return None
                await asyncio.sleep(pause)
                continue
            except (ServerGone, TimeoutError):
                return None
            return report if isinstance(report.get("items"), list) else None
        return None
