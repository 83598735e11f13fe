"""What is no longer sent of a session's past: set once by an event, so that every later request agrees with it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Marks:
    """See ``daemon.model.events.ContextMarked``."""

    pruned: frozenset[int] = frozenset()
    """Sequences of tool messages whose result is cleared."""
    history_before: int = 0
    """Turns that began below this sequence are history."""
