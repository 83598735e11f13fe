"""A person's wish for another plan while a turn runs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from daemon.loop.queue import TurnResult
from daemon.model.messages import StopReason


@dataclass(frozen=True, slots=True)
class Wish:
    """Fulfilled between two steps. ``result`` comes when the plan was made, or the turn ended without."""

    instructions: str
    result: asyncio.Future[TurnResult]

    def settle(self, prompt_id: str, stop: StopReason, detail: str = "") -> None:
        """Tell whoever waits, once."""
        if not self.result.done():
            self.result.set_result(TurnResult(prompt_id, stop, detail))
