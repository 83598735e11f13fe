"""The place that an ``old_string`` which is not in the file most likely meant: shown, never used. Pure."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

_TOKEN = re.compile(r"\w+")
_MAX_SHOWN = 24
_MAX_WIDTH = 300
_MAX_OLD_LINES = 400


@dataclass(frozen=True, slots=True)
class Region:
    """``line`` counts from 1; ``diff`` has ``-`` for old_string, ``+`` for the file."""

    line: int
    diff: str


def nearest_region(lines: Sequence[str], old: str) -> Region | None:
    """The region of ``lines`` that shares most with ``old``; None when it shares next to nothing.

    Time is linear in the file: words vote for the distance between old's lines and the file's, rare more.
    """
    wanted = old.strip("\n").split("\n")[:_MAX_OLD_LINES]
    where: dict[str, set[int]] = {}
    for index, line in enumerate(wanted):
        for token in _TOKEN.findall(line):
            where.setdefault(token, set()).add(index)
    hits: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        for token in _TOKEN.findall(line):
            if token in where:
                hits.setdefault(token, []).append(number)
    votes: defaultdict[int, float] = defaultdict(float)
    for token, numbers in hits.items():
        if len(numbers) * len(where[token]) > 20_000:
            continue
        weight = 1.0 / len(numbers)
        for number in numbers:
            for index in where[token]:
                votes[number - index] += weight
    if not votes:
        return None
    best = max(votes, key=lambda offset: (votes[offset], -offset))
    first = min(max(best, 0), len(lines) - 1)
    there = [line.rstrip("\r\n") for line in lines[first : first + len(wanted)]]
    return Region(first + 1, _small_diff(wanted, there))


def _small_diff(wanted: Sequence[str], there: Sequence[str]) -> str:
    shown = [line[:_MAX_WIDTH] for line in difflib.ndiff(wanted, there) if not line.startswith("?")]
    if len(wanted) + len(there) > 200 or len(shown) > _MAX_SHOWN:
        changed = [index for index, line in enumerate(shown) if line[0] != " "]
        first = max(0, (changed[0] if changed else 0) - 3)
        cut = shown[first : first + _MAX_SHOWN]
        shown = (["…"] if first else []) + cut + (["…"] if first + _MAX_SHOWN < len(shown) else [])
    return "\n".join(shown)
