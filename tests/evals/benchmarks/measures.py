"""The results of a benchmark, and the table of all of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Baseline:
    """The time that the same machine takes, in the same run, for unavoidable work."""

    name: str
    value: float
    """In the unit of the measure."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One quantity, measured several times."""

    name: str
    unit: str
    values: tuple[float, ...]
    """One a run."""
    target: float | None = None
    """The median should not be above."""
    baseline: Baseline | None = None
    note: str = ""

    @property
    def median(self) -> float:
        """Return the median of the values."""
        return statistics.median(self.values)

    @property
    def ratio(self) -> float | None:
        """Median to baseline."""
        return None if self.baseline is None else self.median / self.baseline.value

    @property
    def verdict(self) -> str:
        """``ok``, ``MISSED``, or empty without a target."""
        if self.target is None:
            return ""
        return "ok" if self.median <= self.target else "MISSED"

    def to_json(self) -> dict[str, Any]:
        """All of it; Any because it is JSON."""
        found: dict[str, Any] = {"name": self.name, "unit": self.unit, "median": self.median}
        found |= {"values": list(self.values), "target": self.target, "verdict": self.verdict or None}
        if self.baseline is not None:
            found |= {
                "baseline": self.baseline.name,
                "baselineValue": self.baseline.value,
                "ratio": self.ratio,
            }
        return found | ({"note": self.note} if self.note else {})


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that ``share`` (0 to 1) of the values do not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]


def table(measures: Sequence[Measure]) -> str:
    """For people: a line a measure, then the notes."""
    head = ("benchmark", "median", "min … max", "target", "", "to baseline", "baseline")
    rows = [head, *(_row(measure) for measure in measures)]
    lines = aligned(rows)
    notes = [f"{measure.name}: {measure.note}" for measure in measures if measure.note]
    return "\n".join([*lines, *([""] if notes else []), *notes])


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table, the first row being its head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return [lines[0], "─" * max(map(len, lines)), *lines[1:]]


def _row(measure: Measure) -> tuple[str, ...]:
    unit = measure.unit
    baseline = measure.baseline
    return (
        measure.name,
        _number(measure.median, unit),
        f"{_number(min(measure.values))} … {_number(max(measure.values))}",
        "" if measure.target is None else f"≤ {_number(measure.target, unit)}",
        measure.verdict,
        "" if measure.ratio is None else f"{measure.ratio:.1f} ×",
        "" if baseline is None else f"{baseline.name}: {_number(baseline.value, unit)}",
    )


def _number(value: float, unit: str = "") -> str:
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f} {unit}".rstrip()
