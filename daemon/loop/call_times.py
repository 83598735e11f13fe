"""How long each call of a tool ran: from its start to its result, without the time in which the person was asked."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from daemon.permission.service import Waited


@dataclass(slots=True)
class CallTimes:
    """Of the calls of one turn, by their ids."""

    _began: dict[str, float] = field(default_factory=dict[str, float])
    _waited: dict[str, Waited] = field(default_factory=dict[str, Waited])

    def asks(self, call_id: str, waited: Waited) -> None:
        """A call is about to run; ``waited`` will say how long it waited for answers."""
        self._waited[call_id] = waited

    def begin(self, call_id: str) -> float:
        """A call is run; returns the time."""
        self._began[call_id] = time.monotonic()
        return self._began[call_id]

    def end(self, call_id: str) -> int | None:
        """Milliseconds that a call took; None of one that was not run."""
        waited, began = self._waited.pop(call_id, None), self._began.pop(call_id, None)
        if began is None:
            return None
        ran = time.monotonic() - began - (waited.seconds if waited is not None else 0.0)
        return max(0, int(ran * 1000))
