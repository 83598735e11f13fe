"""Which lines of a file each hunk of its patch is about. Pure.

Every hunk is looked for by the ladder of ``tools.patching.find``; its place must be unique, by itself or because
only one assignment of all hunks keeps their order. Line numbers are hints that never decide alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tools.patching.errors import absent, ambiguous, applied, out_of_order, plain_insertion, unclear
from tools.patching.find import FileLines, Place, Rung
from tools.patching.fuzzy import fuzzy_places, twin_at
from tools.patching.model import Hunk, HunkLine
from tools.patching.narrow import MissingHeading, after_headings
from tools.patching.shape import (
    blanks_as_added,
    final_end,
    groups,
    has_word,
    outer_trimmed,
    rungs_for,
)


@dataclass(frozen=True, slots=True)
class Placed:
    """A hunk at its place. ``lines``: the part of the hunk that stands there, without dropped context."""

    hunk: Hunk
    lines: tuple[HunkLine, ...]
    place: Place
    rung: Rung
    dropped: int = 0
    literal: bool = False
    """Line ends are those of the patch, not those of the neighbours."""

    @property
    def core(self) -> tuple[int, int]:
        """The lines that change, ``[first, end)`` of the file; empty for a pure insertion."""
        first = end = -1
        at = self.place.first
        for line in self.lines:
            if line.kind != " ":
                first = at if first < 0 else first
            at += line.kind != "+"
            if line.kind != " ":
                end = at
        return first, end


def place_hunks(file: FileLines, hunks: Sequence[Hunk], fuzz: int) -> list[Placed]:
    """All hunks that change anything, in the order of the file.

    Raises PatchError that names the hunk when one is absent, ambiguous or there already.
    """
    found = [_candidates(file, hunk, fuzz) for hunk in hunks if hunk.changes]
    chosen = _assign(found)
    for one in chosen:
        _check(file, one)
    return chosen


def by_numbers(file: FileLines, hunks: Sequence[Hunk]) -> list[Placed] | None:
    """Every hunk exactly at its stated line, with the patch's own line ends; None when one does not stand there.

    The caller has to have a proof that the numbers are right.
    """
    placed: list[Placed] = []
    for hunk in hunks:
        if hunk.numbers is None:
            return None
        old = hunk.old
        first = hunk.numbers.old_start - (1 if old else 0)
        there = file.bodies[max(first, 0) : first + len(old)]
        if first < 0 or first > len(file.bodies) or there != [line.text for line in old]:
            return None
        if hunk.changes:
            place = Place(first, first + len(old))
            placed.append(Placed(hunk, hunk.lines, place, "line ends", literal=True))
    ordered = sorted(placed, key=lambda one: one.core)
    return ordered if ordered == placed and _disjoint(ordered) else None


def _candidates(file: FileLines, hunk: Hunk, fuzz: int) -> list[Placed]:
    """The places on the first rung that has any. Raises PatchError when there is none."""
    lines = outer_trimmed(hunk.lines)
    if not any(line.kind != "+" for line in lines):
        return [_without_context(file, hunk, lines)]
    if final_end(lines) is None and any(line.no_end for line in lines):
        raise unclear(hunk, "a '\\ No newline at end of file' stands in its middle.")
    headings = _Headings(file, hunk)
    found = _climb(file, hunk, lines, headings)
    if not found and (other := blanks_as_added(lines)) is not None:
        found = _climb(file, hunk, other, headings)
    if not found and not headings.cut:
        stated = hunk.numbers.old_start if hunk.numbers is not None else None
        found = [
            Placed(hunk, kept, place, rung, dropped)
            for kept, place, rung, dropped in fuzzy_places(file, lines, rungs_for(hunk, lines), fuzz, stated)
            if headings.leave([place])
        ]
        if len(found) > 1:
            raise ambiguous(hunk, _numbers(found), found[0].dropped)
    if not found:
        raise absent(file, hunk, lines, headings.cut)
    return found


class _Headings:
    """The hunk's headings as a filter of places. ``cut``: the places that they took away last."""

    def __init__(self, file: FileLines, hunk: Hunk) -> None:
        self._file = file
        self._hunk = hunk
        self.cut: list[Place] = []

    def leave(self, places: list[Place]) -> list[Place]:
        if not self._hunk.anchors or not places:
            return places
        try:
            left = after_headings(self._file, self._hunk.anchors, places)
        except MissingHeading as missing:
            raise unclear(
                self._hunk,
                f"no line of the file reads {missing.heading!r}. Copy the line after @@ from the file, "
                "or leave it out and give more context lines.",
            ) from missing
        if not left:
            self.cut = places
        return left


def _climb(file: FileLines, hunk: Hunk, lines: Sequence[HunkLine], headings: _Headings) -> list[Placed]:
    old = [line for line in lines if line.kind != "+"]
    for rung in rungs_for(hunk, lines):
        places = headings.leave(_at_end(file, hunk, lines, file.places(old, rung)))
        if places:
            literal = rung == "line ends"
            return [Placed(hunk, tuple(lines), place, rung, literal=literal) for place in places]
        if rung == "exact" and (there := _new_side(file, lines)):
            raise applied(hunk, there[0].first + 1)
    return []


def _new_side(file: FileLines, lines: Sequence[HunkLine]) -> list[Place]:
    """Where the hunk's result stands, if that means anything: something is added, or closed up between words."""
    new = [line for line in lines if line.kind != "-"]
    added = [line for line in lines if line.kind == "+"]
    if not has_word(new):
        return []
    if not any(line.text.strip() for line in added):
        kinds = "".join(line.kind for line in lines).strip("-")
        middle = "-" in kinds and has_word(lines[:1]) and has_word(lines[-1:])
        if not middle:
            return []
    return file.places(new, "exact")


def _at_end(file: FileLines, hunk: Hunk, lines: Sequence[HunkLine], places: Sequence[Place]) -> list[Place]:
    """Prefer, or demand, the end of the file when the hunk speaks of it."""
    marks = final_end(lines)
    if marks is None and not hunk.at_end:
        return list(places)
    last = len(file.bodies)
    at_end = [place for place in places if place.end == last]
    if hunk.at_end and not at_end:
        while last and not file.bodies[last - 1].strip():
            last -= 1
        at_end = [place for place in places if place.end >= last]
    if marks is not None and marks.one_sided:
        return at_end
    return at_end or list(places)


def _without_context(file: FileLines, hunk: Hunk, lines: tuple[HunkLine, ...]) -> Placed:
    size = len(file.bodies)
    if size == 0 or (hunk.at_end and not hunk.anchors):
        if size and file.bodies[size - len(lines) :] == [line.text for line in lines]:
            raise applied(hunk, size - len(lines) + 1)
        return Placed(hunk, lines, Place(size, size), "exact")
    raise plain_insertion(hunk)


def _assign(found: Sequence[list[Placed]]) -> list[Placed]:
    """One place for each hunk: the only assignment in which they follow each other."""
    if all(len(places) == 1 for places in found):
        chosen = sorted((places[0] for places in found), key=lambda one: one.core)
        if not _disjoint(chosen):
            raise out_of_order([places[0].hunk for places in found])
        return chosen
    earliest = _greedy(found)
    if earliest is None:
        raise out_of_order([places[0].hunk for places in found])
    latest = _greedy_back(found)
    open_hunks = [
        at for at, (a, b) in enumerate(zip(earliest, latest, strict=True)) if a.place.first != b.place.first
    ]
    if not open_hunks and _numbers_rise(found):
        return earliest
    decided = _by_consistent_numbers(found)
    if decided is None:
        at = open_hunks[0] if open_hunks else next(i for i, p in enumerate(found) if len(p) > 1)
        raise ambiguous(found[at][0].hunk, _numbers(found[at]))
    return decided


def _greedy(found: Sequence[list[Placed]]) -> list[Placed] | None:
    chosen: list[Placed] = []
    for places in found:
        fits = (one for one in places if not chosen or _follows(chosen[-1], one))
        first = next(fits, None)
        if first is None:
            return None
        chosen.append(first)
    return chosen


def _greedy_back(found: Sequence[list[Placed]]) -> list[Placed]:
    """The last places possible. There is an assignment, so that this finds one, too."""
    chosen: list[Placed] = []
    for places in reversed(found):
        chosen.append(next(one for one in reversed(places) if not chosen or _follows(one, chosen[-1])))
    return chosen[::-1]


def _follows(before: Placed, after: Placed) -> bool:
    (first, end), (other, _) = before.core, after.core
    return other >= end and other > first


def _disjoint(chosen: Sequence[Placed]) -> bool:
    return all(_follows(before, after) for before, after in itertools.pairwise(chosen))


def _numbers_rise(found: Sequence[list[Placed]]) -> bool:
    starts = [places[0].hunk.numbers.old_start for places in found if places[0].hunk.numbers is not None]
    return starts == sorted(starts)


def _by_consistent_numbers(found: Sequence[list[Placed]]) -> list[Placed] | None:
    """The places at the stated lines, when other hunks prove that the patch was made from this very file.

    That is: every hunk that is unique stands exactly at its number, there is one, all numbers and counts are
    true to the hunks' bodies, and nothing but exact matches is involved.
    """
    delta = 0
    unique = 0
    chosen: list[Placed] = []
    for places in found:
        hunk = places[0].hunk
        numbers, old, new = hunk.numbers, len(hunk.old), len(hunk.new)
        if numbers is None or places[0].rung not in ("line ends", "exact") or places[0].dropped:
            return None
        counts = (
            1 if numbers.old_count is None else numbers.old_count,
            1 if numbers.new_count is None else numbers.new_count,
        )
        shift = delta + (old == 0) - (new == 0)
        if counts != (old, new) or numbers.new_start != numbers.old_start + shift:
            return None
        delta += new - old
        here = [one for one in places if one.place.first == numbers.old_start - 1]
        if len(here) != 1:
            return None
        unique += len(places) == 1
        chosen += here
    return chosen if unique and _disjoint(chosen) else None


def _numbers(found: Sequence[Placed]) -> list[int]:
    return [one.place.first + 1 for one in found]


def _check(file: FileLines, one: Placed) -> None:
    """Refuse a hunk whose result stands at its place already, and line ends that cannot be kept."""
    hunk, place = one.hunk, one.place
    new = [line.text for line in one.lines if line.kind != "-"]
    fresh = any(line.text.strip() for group in groups(one.lines, hunk.ends_stated) for line in group.added)
    if fresh and one.rung in ("line ends", "exact"):
        ends = [line.end for line in file.lines[place.first : place.first + len(new)]]
        top = file.bodies[place.first : place.first + len(new)] == new and len(ends) == len(new)
        bottom = place.end >= len(new) and file.bodies[place.end - len(new) : place.end] == new
        if (top or bottom) and new != [line.text for line in one.lines if line.kind != "+"]:
            raise applied(hunk, (place.first if top else place.end - len(new)) + 1)
    if hunk.numbers is not None:
        old = [line.text.strip() for line in one.lines if line.kind != "+"]
        twin = twin_at(file, old, place.first, hunk.numbers.old_start)
        if twin is not None:
            raise unclear(
                hunk,
                f"it fits at line {place.first + 1}, but line {twin}, where its header points, reads nearly the same. "
                "Read the file again, and give more context lines.",
            )
    if hunk.ends_stated and not one.literal and len({line.cr for line in one.lines}) > 1:
        raise unclear(
            hunk, f"its place is line {place.first + 1}, but the line ends (\\r\\n, \\n) there are others."
        )
