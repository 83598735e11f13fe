"""The run time of each tool call: from its start to its result, without the time it waited for others."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from daemon.permission.service import WaitingTime

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class CallTime:
    """The time of one call, in milliseconds; None of a call that was not run."""

    duration_ms: int | None = None
    overlap_ms: int | None = None
    """The part of it that calls which ran at the same time account for; None when nothing ran beside it."""


@dataclass(slots=True)
class CallTimes:
    """The times of the calls of one turn, by their ids.

    Calls that run at the same time all begin before the first of them ends. Together they take as long as the longest
    of them, not their sum.
    """

    now: Callable[[], float] = time.monotonic
    _began: dict[str, float] = field(default_factory=dict[str, float])
    _waited: dict[str, WaitingTime] = field(default_factory=dict[str, WaitingTime])
    _counted_ms: int = 0
    """The time of the calls that ran beside those that still run."""

    def asks(self, call_id: str, waited: WaitingTime) -> None:
        """Register a call that is about to run; ``waited`` returns how long it waited."""
        self._waited[call_id] = waited

    def begin(self, call_id: str) -> float:
        """Record the start of a call; returns the time."""
        if not self._began:
            self._counted_ms = 0
        self._began[call_id] = self.now()
        return self._began[call_id]

    def end(self, call_id: str) -> CallTime:
        """Return the time of a call that has ended."""
        waited, began = self._waited.pop(call_id, None), self._began.pop(call_id, None)
        if began is None:
            return CallTime()
        ran = self.now() - began - (waited.seconds if waited is not None else 0.0)
        duration_ms = max(0, int(ran * 1000))
        overlap_ms = min(duration_ms, self._counted_ms)
        self._counted_ms = max(self._counted_ms, duration_ms)
        return CallTime(duration_ms, overlap_ms or None)
