"""Texts that become others while an editor is asked about them.

The person may type. Or an editor opened a file just before the write, and tells of it after: then it holds the old
text, which looks like an unsaved one, until it takes in the disk. About a text that is gone nobody answers any more.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

UNREADABLE = "\N{REPLACEMENT CHARACTER}"
"""In a text that no editor shows as it was read."""

AnswerT = TypeVar("AnswerT")
_REMEMBERED = 1_000
"""Files whose last change is remembered."""
_Read = Callable[[Path], Awaitable[str | None]]


@dataclass(slots=True)
class Replaced:
    """Asks anew when a text that was asked about is not there any more."""

    _waiting: dict[asyncio.Event, frozenset[Path]] = field(
        default_factory=dict[asyncio.Event, frozenset[Path]]
    )

    count: int = 0
    """How many changes there were: the moment, for ``since``."""
    _last: OrderedDict[Path, int] = field(default_factory=OrderedDict[Path, int])

    def since(self, path: Path, moment: int) -> bool:
        """Whether ``path`` got another text after the moment."""
        return self._last.get(path, 0) > moment

    def changed(self, path: Path) -> None:
        """``path`` may have another text now, in an editor or on disk."""
        self.count += 1
        self._last[path] = self.count
        self._last.move_to_end(path)
        if len(self._last) > _REMEMBERED:
            self._last.popitem(last=False)
        for event, paths in self._waiting.items():
            if path in paths:
                event.set()

    async def answer(
        self,
        ask: Callable[[Mapping[Path, str], float], Coroutine[Any, Any, AnswerT]],
        texts: Mapping[Path, str],
        read: _Read,
        timeout_s: float,
    ) -> tuple[AnswerT, Mapping[Path, str]]:
        """What ``ask`` answers about ``texts``, or about those that have taken their place, and which these are.

        ``ask`` is given the texts and how many seconds are left: all questions share ``timeout_s``. It keeps to that.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        while True:
            asked = asyncio.ensure_future(ask(texts, max(0.0, end - loop.time())))
            others = asyncio.ensure_future(self._others(texts, read))
            try:
                await asyncio.wait({asked, others}, return_when=asyncio.FIRST_COMPLETED)
                if asked.done() or loop.time() >= end:
                    return await asked, texts
                texts = others.result()
            finally:
                asked.cancel()
                others.cancel()

    async def _others(self, asked: Mapping[Path, str], read: _Read) -> dict[Path, str]:
        """Return when a file has another text than it was asked about: the texts of all.

        A file that is gone, or cannot be read, keeps the text that it was asked about.
        """
        event = asyncio.Event()
        self._waiting[event] = frozenset(asked)
        try:
            while True:
                event.clear()
                now = {path: await read(path) for path in asked}
                texts = {
                    path: asked[path] if text is None or UNREADABLE in text else text
                    for path, text in now.items()
                }
                if texts != asked:
                    return texts
                await event.wait()
        finally:
            del self._waiting[event]
