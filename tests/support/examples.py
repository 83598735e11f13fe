"""How often a property is tried: an eighth by default, in full with ``GOALWRIGHT_EXAMPLES=full``."""

from __future__ import annotations

import os

from hypothesis import settings

FULL = os.environ.get("GOALWRIGHT_EXAMPLES") == "full"
_SHARE, _LEAST = 8, 20
_USUAL = 100
"""Number of hypothesis examples when a property names no number."""


def examples(full: int) -> int:
    """Return how many examples to try of a property that deserves ``full``: an eighth of them, but no less than 20."""
    return full if FULL else min(full, max(_LEAST, full // _SHARE))


def in_full(full: int, usual: int) -> int:
    """Return ``full`` when everything is to be tried, else ``usual``: for kill points, seeds and sizes."""
    return full if FULL else usual


def register_profile() -> None:
    """Make the profile of the suite. It has no deadline: the machine is shared, and time is never what is tested."""
    settings.register_profile("goalwright", deadline=None, max_examples=examples(_USUAL))
    settings.load_profile("goalwright")
