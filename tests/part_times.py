"""How long each part of the suite takes: measured by the run, compared with ``tests/times.json``.

A part's time is the sum over its tests, whichever of them ran at once. A slow part prints a line; it fails nothing.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / ".pytest_cache" / "suite"
"""Times of the last run, to read; git-ignored."""
MEASURED = RESULTS / "times.json"
"""Times of the last run."""
EXPECTED = ROOT / "tests" / "times.json"
"""Times of a run on CI when the file was last written; ``python -m tests.suite --write-times`` does it."""
EXTENSION = "extension"
_BROWSERS = {"test_vscode": "VS Code", "test_desktop": "VS Code", "test_trace_page": "trace page"}
_SHARE, _LEAST_S = 1.3, 20.0
"""A part has grown when it takes 30 % more, and 20 s."""


@dataclass(slots=True)
class Part:
    """The tests of one part, and the seconds that they took together."""

    tests: int = 0
    seconds: float = 0.0


Parts = dict[str, Part]


def part_of(file: str) -> str:
    """Return the part that a test file belongs to, e.g. ``unit`` or ``e2e VS Code``."""
    path = Path(file)
    folder = path.parts[1] if len(path.parts) > 2 else "other"
    if folder != "e2e":
        return folder
    kinds = (kind for prefix, kind in _BROWSERS.items() if path.name.startswith(prefix))
    return f"e2e {next(kinds, 'other')}"


NEXT_TEST = pytest.StashKey[pytest.Item | None]()
"""In each test: the one that this process runs after it."""


def is_in_vscode(item: pytest.Item) -> bool:
    """Return whether a test needs a window of VS Code."""
    return part_of(item.nodeid.partition("::")[0]) == "e2e VS Code"


class PartTimes:
    """A pytest plugin that adds up the time of each part; only the process that reports has one."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a set-up, a call or a tear-down."""
        part = part_of(report.nodeid.partition("::")[0])
        self._seconds[part] += report.duration
        self._tests[part] += report.when == "call"

    def parts(self) -> Parts:
        """Return the sums up to now."""
        return {name: Part(self._tests[name], seconds) for name, seconds in self._seconds.items()}

    def pytest_sessionfinish(self) -> None:
        """Leave the sums for whoever started the run."""
        if self._seconds:
            write(MEASURED, self.parts())


def read(file: Path) -> Parts:
    """Return the parts in ``file``; none when there is no such file."""
    if not file.is_file():
        return {}
    return {name: Part(**values) for name, values in json.loads(file.read_text()).items()}


def write(file: Path, parts: Parts) -> None:
    """Write parts so that their differences can be read."""
    values = {
        name: {"tests": part.tests, "seconds": round(part.seconds)} for name, part in sorted(parts.items())
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(values, indent=2) + "\n")


def table(measured: Parts, expected: Parts) -> str:
    """Return the parts as lines, with what each was expected to take."""
    head = ("part", "tests", "seconds", "expected")
    rows: list[tuple[str, ...]] = [head]
    for name, part in sorted(measured.items(), key=lambda item: -item[1].seconds):
        known = expected.get(name)
        rows.append((name, str(part.tests), f"{part.seconds:.0f}", f"{known.seconds:.0f}" if known else "-"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines: list[str] = []
    for name, *numbers in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(numbers, widths[1:], strict=True)]
        lines.append(f"  {name:<{widths[0]}}  " + "  ".join(cells))
    return "\n".join(lines)


def grown(measured: Parts, expected: Parts) -> list[str]:
    """Return a line for each part that takes notably longer than expected. A part that ran only partly is left out."""
    lines: list[str] = []
    for name, part in sorted(measured.items()):
        known = expected.get(name)
        if known is None or part.tests < known.tests:
            continue
        if part.seconds > max(known.seconds * _SHARE, known.seconds + _LEAST_S):
            lines.append(
                f"SLOWER: {name} took {part.seconds:.0f} s, expected {known.seconds:.0f} s"
                f" ({part.tests} tests, before {known.tests}). See `pytest --durations=50`; if the time is well spent,"
                " write it down with `python -m tests.suite --write-times`."
            )
    return lines
