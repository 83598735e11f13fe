"""Find places of a hunk with context lines that the file does not have (any more). Pure.

Dropping context is how other tools write into the twin of the intended block. So a place counts only when the dropped
lines are still there in some form, a little further out or a little changed, and when no other part of the file
resembles the hunk nearly as much.
"""

from __future__ import annotations

import difflib
from collections import Counter
from typing import TYPE_CHECKING

from tools.patching.hunk_search import FileLines, HunkPlace, HunkStrategy
from tools.patching.hunk_shape import context_ends, has_word
from tools.patching.model import HunkLine

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_FUZZ = 20
"""More than this is no context any more, and only costs time."""
_DRIFT = 3
"""Lines that may have come in between, on either side."""
_PLENTY = 4
"""So many lines must be left when one of those dropped is nowhere near."""
_NEAR = 40
"""Lines from the stated one within which a number speaks for a place."""
_BLANKS = " \t"

Fuzzy = tuple[tuple[HunkLine, ...], HunkPlace, HunkStrategy, int]
"""The remaining lines, their place, the strategy, and the number of dropped lines."""


def fuzzy_places(
    file: FileLines,
    lines: Sequence[HunkLine],
    strategies: Sequence[HunkStrategy],
    fuzz: int,
    stated: int | None,
) -> list[Fuzzy]:
    """Return all places with as few context lines dropped as possible, from the outer ends, at most ``fuzz`` in all.

    Removed lines are never dropped, and a line with a word must be left. ``stated``: the line number (from 1) in the
    hunk's header.
    """
    lead, tail = context_ends(lines)
    strategies = [strategy for strategy in strategies if strategy != "line ends"]
    for total in range(1, min(fuzz, lead + tail, MAX_FUZZ) + 1):
        for strategy in strategies:
            found: dict[int, Fuzzy] = {}
            for top in range(max(0, total - tail), min(lead, total) + 1):
                kept = tuple(lines[top : len(lines) - (total - top)])
                old = [line for line in kept if line.kind != "+"]
                if not old or not has_word(old):
                    continue
                for place in file.places(old, strategy):
                    found.setdefault(place.first - top, (kept, place, strategy, total))
            if found:
                return _certain(file, lines, list(found.values()), stated)
    return []


def _certain(
    file: FileLines, lines: Sequence[HunkLine], found: list[Fuzzy], stated: int | None
) -> list[Fuzzy]:
    """Return all when they are several (then it is ambiguous), the only one when nothing speaks against it."""
    if len(found) > 1:
        return found
    kept, place, _, total = found[0]
    top = next(at for at in range(total + 1) if tuple(lines[at : at + len(kept)]) == kept)
    before = [line.text.strip(_BLANKS) for line in lines[:top]][::-1]
    after = [line.text.strip(_BLANKS) for line in lines[top + len(kept) :]]
    keys = file.keys.lines
    above = keys[max(0, place.first - len(before) - _DRIFT) : place.first][::-1]
    below = keys[place.end : place.end + len(after) + _DRIFT]
    near = stated is not None and abs(place.first - top - (stated - 1)) <= _NEAR
    alike = 0.7 if near else 0.9
    missing = _missing(before, above, alike) + _missing(after, below, alike)
    left = sum(bool(line.text.strip()) for line in kept if line.kind != "+")
    if missing > (1 if near and left >= _PLENTY else 0):
        return []
    old = [line.text.strip(_BLANKS) for line in lines if line.kind != "+"]
    return found if _stands_out(file, old, place.first - top) else []


def _missing(dropped: Sequence[str], around: Sequence[str], alike: float) -> int:
    """Return how many of the dropped lines are not found outwards from the place, in order, unchanged or similar."""
    at = missing = 0
    for line in dropped:
        found = next(
            (index for index in range(at, len(around)) if _similar(line, around[index], alike)), None
        )
        if found is None:
            missing += 1
        else:
            at = found + 1
    return missing


def _similar(one: str, other: str, alike: float) -> bool:
    if one == other:
        return True
    if not one or not other:
        return False
    matcher = difflib.SequenceMatcher(None, one[:500], other[:500], autojunk=False)
    return matcher.quick_ratio() >= alike and matcher.ratio() >= alike


def _stands_out(file: FileLines, old: Sequence[str], first: int) -> bool:
    """Return whether no other part of the file has nearly as many lines of the hunk, at about their distances."""
    votes = _votes(file, old)
    best = max((_score(votes, at) for at in list(votes) if abs(at - first) > 2 * _DRIFT), default=0)
    return _score(votes, first) > best + 1


def twin_at(
    file: FileLines, old: Sequence[str], first: int, expected: int, confirmed: bool = False
) -> int | None:
    """Return a line (from 1) near ``expected`` where the hunk nearly matches, although it is at ``first`` (both from
    0).

    Then ``first`` may be the twin of a block that has changed since. ``confirmed``: there is other evidence for
    ``first``.
    """
    if not 0 <= expected < len(file) or abs(first - expected) <= 2 * _DRIFT:
        return None
    solid = sum(bool(key) for key in old)
    if solid < 3:
        if confirmed:
            return None
        # Too few lines to vote: one line that matches, or nearly, is enough to doubt.
        there = file.keys.lines[max(expected, 0) : max(expected, 0) + len(old)]
        alike = any(key and _similar(key, line, 0.6) for key, line in zip(old, there, strict=False))
        return expected + 1 if alike else None
    votes = _votes(file, old)
    near = range(expected - _DRIFT, expected + _DRIFT + 1)
    best = max(near, key=lambda at: _score(votes, at))
    enough = solid - 1 if confirmed else max(solid - 2, (solid + 1) // 2)
    return best + 1 if _score(votes, best) >= enough else None


def _votes(file: FileLines, old: Sequence[str]) -> Counter[int]:
    """Count the lines that match at their distance from each line of the file."""
    votes: Counter[int] = Counter()
    for index, key in enumerate(old):
        where = file.keys.where.get(key, []) if key else []
        if len(where) <= 200:
            votes.update(at - index for at in where)
    return votes


def _score(votes: Counter[int], at: int) -> int:
    return sum(votes[at + shift] for shift in range(-_DRIFT, _DRIFT + 1))
