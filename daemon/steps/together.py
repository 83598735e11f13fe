"""How long calls took that ran at the same time: the time of all of them is that of the longest, not their sum."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Together:
    """The calls that run now. Calls of one message that run at once all begin before the first of them ends."""

    _running: set[str] = field(default_factory=set[str])
    _counted_ms: int = 0
    """What was counted already of those that run, or ran, at the same time."""

    def begin(self, call_id: str) -> None:
        """A call is run."""
        if not self._running:
            self._counted_ms = 0
        self._running.add(call_id)

    def end(self, call_id: str, duration_ms: int) -> int:
        """A call has ended after that time; what of it is not counted yet."""
        if call_id not in self._running:
            return duration_ms
        self._running.discard(call_id)
        more = max(0, duration_ms - self._counted_ms)
        self._counted_ms += more
        return more

    def forget(self) -> None:
        """Nothing runs any more: what has no end broke off."""
        self._running.clear()

    def copy(self) -> Together:
        """An independent copy."""
        return Together(set(self._running), self._counted_ms)
