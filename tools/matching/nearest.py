"""Find the place that an absent ``old_string`` most likely refers to: shown, never used. Pure."""

from __future__ import annotations

import bisect
import difflib
import itertools
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOKEN = re.compile(r"\w+")
_MAX_SHOWN = 24
_MAX_WIDTH = 300
_MAX_OLD_LINES = 400
_MAX_TOKENS = 48
_MAX_HITS = 40
"""A word in more lines is not informative."""
_MAX_DIFFED = 40


class NearestRegion(Struct, frozen=True):
    """``line`` counts from 1; ``diff`` has ``-`` for old_string, ``+`` for the file."""

    line: int
    diff: str


def nearest_region(lines: Sequence[str], old: str) -> NearestRegion | None:
    """Return the region of ``lines`` that shares most with ``old``; None when it shares next to nothing.

    Some words of ``old``, the longest, vote for the distance between its lines and the file's; rare ones more. Time is
    linear in the file, however often any text occurs in it.
    """
    wanted = old.strip("\n").split("\n")[:_MAX_OLD_LINES]
    text = "\n".join(lines)
    starts = list(itertools.accumulate((len(line) + 1 for line in lines), initial=0))
    votes: defaultdict[int, float] = defaultdict(float)
    for token, indexes in _telling(wanted).items():
        numbers = _lines_with(token, text, starts)
        for number in numbers:
            for index in indexes:
                votes[number - index] += 1.0 / (len(numbers) * len(indexes))
    if not votes:
        return None
    best = max(votes, key=lambda offset: (votes[offset], -offset))
    first = min(max(best, 0), len(lines) - 1)
    there = [line.rstrip("\r\n") for line in lines[first : first + len(wanted)]]
    return NearestRegion(first + 1, _small_diff(wanted, there))


def _telling(wanted: Sequence[str]) -> dict[str, list[int]]:
    """Return the longest words, with the numbers of up to ten lines of each."""
    where: dict[str, list[int]] = {}
    for index, line in enumerate(wanted):
        for token in _TOKEN.findall(line[: 20 * _MAX_WIDTH]):
            indexes = where.setdefault(token, [])
            if len(indexes) < 10 and (not indexes or indexes[-1] != index):
                indexes.append(index)
    chosen = sorted(where, key=lambda token: (-len(token), token))[:_MAX_TOKENS]
    return {token: where[token] for token in chosen}


def _lines_with(token: str, text: str, starts: Sequence[int]) -> list[int]:
    """Numbers (from 0) of the lines that have ``token``; none when they are too many."""
    numbers: list[int] = []
    at = text.find(token)
    while at >= 0 and len(numbers) <= _MAX_HITS:
        line = bisect.bisect_right(starts, at) - 1
        numbers.append(line)
        at = text.find(token, starts[line + 1])
    return numbers if len(numbers) <= _MAX_HITS else []


def _small_diff(wanted: Sequence[str], there: Sequence[str]) -> str:
    top = next((i for i, (a, b) in enumerate(zip(wanted, there, strict=False)) if a != b), 0)
    first = max(0, top - 3)
    old, new = (
        [head(line, _MAX_WIDTH) for line in part[first : first + _MAX_DIFFED]] for part in (wanted, there)
    )
    shown: list[str] = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            shown += [f"  {line}" for line in old[i1:i2]]
        else:
            shown += [f"- {line}" for line in old[i1:i2]]
            shown += [f"+ {line}" for line in new[j1:j2]]
    cut = len(shown) > _MAX_SHOWN or first + _MAX_DIFFED < max(len(wanted), len(there))
    return "\n".join((["…"] if first else []) + shown[:_MAX_SHOWN] + (["…"] if cut else []))
