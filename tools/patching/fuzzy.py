"""Places of a hunk that has context lines the file does not have (any more). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tools.patching.find import FileLines, Place, Rung
from tools.patching.model import HunkLine
from tools.patching.shape import context_ends, has_word

MAX_FUZZ = 20
"""More than this is no context any more, and only costs time."""

Fuzzy = tuple[tuple[HunkLine, ...], Place, Rung, int]
"""The lines that are left, their place, the rung, and how many were dropped."""


def fuzzy_places(file: FileLines, lines: Sequence[HunkLine], rungs: Sequence[Rung], fuzz: int) -> list[Fuzzy]:
    """All places with as few context lines dropped as possible, from the outer ends, at most ``fuzz`` in all.

    Removed lines are never dropped, and a line with a word must be left.
    """
    lead, tail = context_ends(lines)
    rungs = [rung for rung in rungs if rung != "line ends"]
    for total in range(1, min(fuzz, lead + tail, MAX_FUZZ) + 1):
        for rung in rungs:
            found: dict[int, Fuzzy] = {}
            for top in range(max(0, total - tail), min(lead, total) + 1):
                kept = tuple(lines[top : len(lines) - (total - top)])
                old = [line for line in kept if line.kind != "+"]
                if not old or not has_word(old):
                    continue
                for place in file.places(old, rung):
                    if _plausible(file, lines, kept, place, top):
                        found.setdefault(place.first - top, (kept, place, rung, total))
            if found:
                return list(found.values())
    return []


def _plausible(
    file: FileLines, lines: Sequence[HunkLine], kept: Sequence[HunkLine], place: Place, top: int
) -> bool:
    return True
