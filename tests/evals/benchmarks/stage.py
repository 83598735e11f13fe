"""The common parts of the benchmarks: how often to measure, and where to report progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    """How often each measures, and where it says what it does."""

    runs: int
    say: Callable[[str], None]
