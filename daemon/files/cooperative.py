"""Long work in a thread must not hold up the event loop: both need the interpreter."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")

EVERY = 200
"""Steps of some microseconds each: together well below the interpreter's own switch interval of 5 ms."""
_PAUSE_S = 0.0001


def cooperatively(items: Iterable[T], every: int = EVERY) -> Iterator[T]:
    """Yield the items, with a pause after each ``every`` of them in which other threads run."""
    for number, item in enumerate(items, 1):
        if number % every == 0:
            # Not 0, because this thread would take the interpreter again before another one has woken up.
            time.sleep(_PAUSE_S)
        yield item
