"""A sign of life while the model reads the prompt, which takes minutes on a computer without a graphics card."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from tools.json_access import mapping, mappings
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable

_SHOWN_AFTER_S = 3
_TOLD_AFTER_S, _TOLD_EVERY_S = 30, 60
_GROWING = ("text", "reasoning", "tool_input")


class WaitingSign:
    """Knows from the events of a turn whether the model is being waited for, and since when."""

    def __init__(
        self,
        show: Callable[[str], None] | None,
        tell: Callable[[str], None],
        asking: Callable[[], bool],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``show`` receives a status line every second, on a terminal; else ``tell`` receives a line now and then.

        ``asking``: the user is being asked something, so nothing may be written below the question.
        """
        self._show = show
        self._tell = tell
        self._asking = asking
        self._clock = clock
        self._since: float | None = None
        self._told = 0
        self._calls = 0
        """Calls of the last answer that have no result yet."""

    def event(self, event: dict[str, Any]) -> None:
        """A stored event of the turn."""
        match event.get("event"):
            case "message_added":
                self._message(mapping(event.get("message")))
            case "turn_started" | "model_retry" | "message_discarded":
                self._begin()
            case "message_part_added" | "turn_ended":
                self._since = None
            case _:
                pass

    def delta(self, delta: dict[str, Any]) -> None:
        """A piece of something growing."""
        if delta.get("kind") in _GROWING:
            self._since = None

    def tick(self) -> None:
        """Say how long it has been, when it is time to."""
        if self._since is None or self._asking():
            return
        seconds = int(self._clock() - self._since)
        text = t("waiting for the model … {seconds} s", seconds=seconds)
        if self._show is not None:
            if seconds >= _SHOWN_AFTER_S:
                self._show(text)
        elif seconds >= _TOLD_AFTER_S + self._told * _TOLD_EVERY_S:
            self._told += 1
            self._tell(text)

    async def work(self) -> None:
        """Tick until canceled."""
        while True:
            await asyncio.sleep(1)
            self.tick()

    def _begin(self) -> None:
        self._since, self._told = self._clock(), 0

    def _message(self, message: dict[str, Any]) -> None:
        if message.get("role") == "assistant":
            self._since = None
            self._calls = sum(part.get("type") == "tool_call" for part in mappings(message.get("content")))
            return
        if message.get("role") == "tool":
            self._calls -= 1
        if self._calls <= 0:
            self._begin()
