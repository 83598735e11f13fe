"""The limits of a run that nobody watches: a loop that no question stops must end by itself."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from daemon.loop.budget import spent
from tools.localization import t

if TYPE_CHECKING:
    from daemon.loop.live import LiveSession

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


def limits_of(session: LiveSession) -> RunLimits | None:
    """The limits of the turn that begins now; None when somebody watches it, and for a child: its parent has them."""
    if not session.unattended or session.parent is not None:
        return None
    settings = session.config.settings
    return RunLimits(
        steps=settings.unattended_steps,
        usd=settings.unattended_usd,
        seconds=settings.unattended_minutes * 60,
        started=time.monotonic(),
        usd_before=spent(session)[1],
    )


def run_over(session: LiveSession) -> str:
    """Why the turn must stop; empty when it may go on. Tells the user once."""
    root = session.root
    limits = root.run_limits
    if limits is None:
        return ""
    if not limits.told and (reached := limits.reached(spent(root)[1])):
        limits.told = t(
            "Stopped at a limit for runs that nobody watches: {reached}. What was done is kept. To "
            "go on, run with --continue; 0 lifts a limit.",
            reached=reached,
        )
        root.notice("warning", limits.told, CODE)
    return limits.told
