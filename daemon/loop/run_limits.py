"""The limits of a run that nobody watches: a loop that no question stops must end by itself."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tools.localization import t

CODE = "run_limit"
"""Of the notice that a limit is reached."""
_CLOCK_S = 0.05
"""Timers may fire a moment early."""


@dataclass(slots=True)
class RunLimits:
    """What one turn may take, with all its children; 0 stands for no limit."""

    steps: int
    usd: float
    seconds: float
    started: float
    """Seconds of ``time.monotonic()``."""
    usd_before: float
    """What the session had cost when the turn began."""
    taken: int = 0
    """Model calls so far."""
    told: str = ""
    """What was said when a limit was reached."""

    def left(self) -> float | None:
        """Seconds until the time is over; None without a limit."""
        return max(self.started + self.seconds - time.monotonic(), 0.0) if self.seconds else None

    def reached(self, usd: float) -> str:
        """The limit that is reached, with how to raise it, or an empty text. ``usd``: the session's cost now."""
        if self.steps and self.taken >= self.steps:
            return t("{steps:,} model calls (--max-steps, or the setting unattended_steps)", steps=self.steps)
        if self.usd and usd - self.usd_before >= self.usd:
            return t("${usd:,.2f} (--max-usd, or the setting unattended_usd)", usd=self.usd)
        left = self.left()
        if left is not None and left < _CLOCK_S:
            return t(
                "{seconds:,.4g} minutes (--max-minutes, or the setting unattended_minutes)",
                seconds=self.seconds / 60,
            )
        return ""
