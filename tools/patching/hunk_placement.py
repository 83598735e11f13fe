"""Find the lines of a file that each hunk of its patch is about. Pure.

Every hunk is looked for by the match strategies of ``tools.patching.hunk_search``. Its place must be unique, alone or
because only one assignment of all hunks keeps their order. Line numbers are hints that never decide alone.
"""

from __future__ import annotations

import bisect
import itertools
import operator
from typing import TYPE_CHECKING

from msgspec import Struct

from tools.patching.errors import absent, ambiguous, applied, out_of_order, plain_insertion, unclear
from tools.patching.fuzzy import fuzzy_places, twin_at
from tools.patching.heading_context import MissingHeadingError, after_headings, confirms, contradicts
from tools.patching.hunk_search import MAX_PLACES, FileLines, HunkPlace, HunkStrategy
from tools.patching.hunk_shape import (
    blanks_as_added,
    context_ends,
    final_end,
    groups,
    has_word,
    outer_trimmed,
    strategies_for,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.patching.model import Hunk, HunkLine, Numbers


class Placed(Struct, frozen=True):
    """A hunk at its place. ``lines``: the part of the hunk that matches there, without dropped context."""

    hunk: Hunk
    lines: tuple[HunkLine, ...]
    place: HunkPlace
    strategy: HunkStrategy
    core: tuple[int, int]
    """The lines that change, ``[first, end)`` of the file; empty for a pure insertion."""
    dropped: int = 0

    @property
    def literal(self) -> bool:
        """Line ends are those of the patch, not those of the neighbours."""
        return self.strategy == "line ends"


class _HunkMatches(Struct, frozen=True):
    """All places of a hunk with one strategy, in rising order; there may be a thousand of them."""

    hunk: Hunk
    lines: tuple[HunkLine, ...]
    places: Sequence[HunkPlace]
    strategy: HunkStrategy
    dropped: int = 0

    def placed(self, index: int) -> Placed:
        place = self.places[index]
        lead, tail = context_ends(self.lines)
        core = place.first + lead, place.end - tail
        return Placed(self.hunk, self.lines, place, self.strategy, core, self.dropped)

    @property
    def numbers(self) -> list[int]:
        return [place.first + 1 for place in self.places]


_first = operator.attrgetter("first")
_DRIFT = 3
"""Lines by which two distances may differ and still be one."""


def place_hunks(file: FileLines, hunks: Sequence[Hunk], fuzz: int) -> list[Placed]:
    """Return all hunks that change anything, in the order of the file.

    Raises PatchError that names the hunk when one is absent, ambiguous or there already.
    """
    found = [_candidates(file, hunk, fuzz) for hunk in hunks if hunk.changes]
    chosen = _assign(found)
    offsets = [_offset(one) for one in chosen]
    for index, one in enumerate(chosen):
        others = {offset for at, offset in enumerate(offsets) if at != index and offset is not None}
        _check(file, one, others)
    return chosen


def _offset(one: Placed) -> int | None:
    """Return the distance of a hunk from its stated line, if it has enough lines of its own to be reliable."""
    if one.hunk.numbers is None or sum(bool(line.text.strip()) for line in one.hunk.old) < 3:
        return None
    return one.place.first - (one.hunk.numbers.old_start - 1)


def by_numbers(file: FileLines, hunks: Sequence[Hunk]) -> list[Placed] | None:
    """Place every hunk exactly at its stated line, with the patch's own line ends; None when one does not match there.

    The caller must have proof that the numbers are right.
    """
    placed: list[Placed] = []
    for hunk in hunks:
        if hunk.numbers is None:
            return None
        old = hunk.old
        first = hunk.numbers.old_start - (1 if old else 0)
        there = file.bodies[max(first, 0) : first + len(old)]
        if first < 0 or first > len(file) or there != [line.text for line in old]:
            return None
        if hunk.changes:
            place = HunkPlace(first, first + len(old))
            placed.append(_HunkMatches(hunk, hunk.lines, [place], "line ends").placed(0))
    return placed if _disjoint(placed) else None


def _candidates(file: FileLines, hunk: Hunk, fuzz: int) -> _HunkMatches:
    """Return the places of the first strategy that has any. Raises PatchError when there is none."""
    lines = outer_trimmed(hunk.lines)
    if not any(line.kind != "+" for line in lines):
        return _without_context(file, hunk, lines)
    if final_end(lines) is None and any(line.no_end for line in lines):
        raise unclear(hunk, "a '\\ No newline at end of file' is in its middle.")
    headings = _Headings(file, hunk)
    found = _try_strategies(file, hunk, lines, headings)
    if found is None and (other := blanks_as_added(lines)) is not None:
        found = _try_strategies(file, hunk, other, headings)
    if found is None:
        _refuse_applied(file, hunk, lines)
    if found is None and not headings.cut:
        stated = hunk.numbers.old_start if hunk.numbers is not None else None
        fuzzy = [
            _HunkMatches(hunk, kept, [place], strategy, dropped)
            for kept, place, strategy, dropped in fuzzy_places(
                file, lines, strategies_for(hunk, lines), fuzz, stated
            )
            if headings.leave([place])
        ]
        if len(fuzzy) > 1:
            raise ambiguous(hunk, [one.numbers[0] for one in fuzzy], fuzzy[0].dropped)
        found = fuzzy[0] if fuzzy else None
    if found is None:
        raise absent(file, hunk, lines, headings.cut)
    return found


class _Headings:
    """The hunk's headings as a filter of places. ``cut``: the places that they took away last."""

    def __init__(self, file: FileLines, hunk: Hunk) -> None:
        self._file = file
        self._hunk = hunk
        self.cut: list[HunkPlace] = []

    def leave(self, places: list[HunkPlace]) -> list[HunkPlace]:
        if not self._hunk.anchors or not places:
            return places
        try:
            left = after_headings(self._file, self._hunk.anchors, places)
        except MissingHeadingError as missing:
            raise unclear(
                self._hunk,
                f"no line of the file reads {str(missing)!r}. Copy the line after @@ from the file, "
                "or leave it out and give more context lines.",
            ) from missing
        if not left:
            self.cut = places
        return left


def _try_strategies(
    file: FileLines, hunk: Hunk, lines: tuple[HunkLine, ...], headings: _Headings
) -> _HunkMatches | None:
    old = [line for line in lines if line.kind != "+"]
    for strategy in strategies_for(hunk, lines):
        places = headings.leave(_at_end(file, hunk, lines, file.places(old, strategy)))
        if places:
            return _HunkMatches(hunk, lines, places, strategy)
        if strategy == "exact" and (there := _new_side(file, lines, strategy)):
            raise applied(hunk, there[0].first + 1)
    return None


def _refuse_applied(file: FileLines, hunk: Hunk, lines: Sequence[HunkLine]) -> None:
    """Raise if the result is there already: dropping context would add it a second time."""
    for strategy in strategies_for(hunk, lines):
        if there := _new_side(file, lines, strategy):
            raise applied(hunk, there[0].first + 1)


def _new_side(file: FileLines, lines: Sequence[HunkLine], strategy: HunkStrategy) -> list[HunkPlace]:
    """Return where the hunk's result is, if it is meaningful: something is added, or closed up between words."""
    new = [line for line in lines if line.kind != "-"]
    added = [line for line in lines if line.kind == "+"]
    if not has_word(new):
        return []
    if not any(line.text.strip() for line in added):
        kinds = "".join(line.kind for line in lines).strip("-")
        middle = "-" in kinds and has_word(lines[:1]) and has_word(lines[-1:])
        if not middle:
            return []
    return file.places(new, strategy)


def _at_end(
    file: FileLines, hunk: Hunk, lines: Sequence[HunkLine], places: Sequence[HunkPlace]
) -> list[HunkPlace]:
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


def _without_context(file: FileLines, hunk: Hunk, lines: tuple[HunkLine, ...]) -> _HunkMatches:
    size = len(file.bodies)
    if size == 0 or (hunk.at_end and not hunk.anchors):
        if size and file.bodies[size - len(lines) :] == [line.text for line in lines]:
            raise applied(hunk, size - len(lines) + 1)
        # An empty file has no neighbouring lines whose line ends could be used.
        literal = hunk.ends_stated and size == 0
        return _HunkMatches(hunk, lines, [HunkPlace(size, size)], "line ends" if literal else "exact")
    raise plain_insertion(hunk)


def _assign(found: Sequence[_HunkMatches]) -> list[Placed]:
    """Return one place for each hunk: the only assignment in which they follow each other."""
    hunks = [one.hunk for one in found]
    if all(len(one.places) == 1 for one in found):
        chosen = sorted((one.placed(0) for one in found), key=lambda one: one.core)
        if not _disjoint(chosen):
            raise out_of_order(hunks)
        return chosen
    earliest = _earliest(found)
    if earliest is None:
        raise out_of_order(hunks)
    latest = _latest(found)
    unsure = [
        one for one, a, b in zip(found, earliest, latest, strict=True) if a.place.first != b.place.first
    ]
    # A truncated list may hide places, including ones between others.
    complete = all(len(one.places) < MAX_PLACES for one in found)
    if not unsure and complete and _order_is_meant(found):
        return earliest
    decided = _by_consistent_numbers(found)
    if decided is None:
        one = unsure[0] if unsure else next(one for one in found if len(one.places) > 1)
        raise ambiguous(one.hunk, one.numbers)
    return decided


def _earliest(found: Sequence[_HunkMatches]) -> list[Placed] | None:
    """Return the first place after the hunk before, for each; None when a hunk has none."""
    chosen: list[Placed] = []
    for one in found:
        index = 0
        if chosen:
            lead, _ = context_ends(one.lines)
            index = bisect.bisect_left(one.places, chosen[-1].core[1] - lead, key=_first)
        while index < len(one.places) and chosen and not _follows(chosen[-1], one.placed(index)):
            index += 1
        if index == len(one.places):
            return None
        chosen.append(one.placed(index))
    return chosen


def _latest(found: Sequence[_HunkMatches]) -> list[Placed]:
    """Return the last places possible. There is an assignment, so that this finds one, too."""
    chosen: list[Placed] = []
    for one in reversed(found):
        index = len(one.places) - 1
        if chosen:
            last = chosen[-1].core[0] - one.placed(0).core[1] + one.places[0].first
            index = bisect.bisect_right(one.places, last, key=_first) - 1
        while chosen and not _follows(one.placed(index), chosen[-1]):
            index -= 1
        chosen.append(one.placed(index))
    return chosen[::-1]


def _follows(before: Placed, after: Placed) -> bool:
    (first, end), (other, _) = before.core, after.core
    return other >= end and other > first


def _disjoint(chosen: Sequence[Placed]) -> bool:
    return all(_follows(before, after) for before, after in itertools.pairwise(chosen))


def _order_is_meant(found: Sequence[_HunkMatches]) -> bool:
    """Return whether the hunks are in the order of the file, as far as numbers or unique hunks show that."""
    starts = [one.hunk.numbers.old_start for one in found if one.hunk.numbers is not None]
    if starts == sorted(starts):
        return True
    unique = [one.places[0].first for one in found if len(one.places) == 1]
    return len(unique) > 1 and unique == sorted(unique)


def _by_consistent_numbers(found: Sequence[_HunkMatches]) -> list[Placed] | None:
    """Return the places at the stated lines, when other hunks prove that the patch was made from this very file.

    That is: every unique hunk is exactly at its number, there is one, all numbers and counts agree with the hunks'
    bodies, and only exact matches are involved.
    """
    delta = 0
    unique = 0
    chosen: list[Placed] = []
    for one in found:
        hunk = one.hunk
        numbers, old, new = hunk.numbers, len(hunk.old), len(hunk.new)
        if numbers is None or one.strategy not in ("line ends", "exact") or one.dropped:
            return None
        counts = (
            1 if numbers.old_count is None else numbers.old_count,
            1 if numbers.new_count is None else numbers.new_count,
        )
        shift = delta + (old == 0) - (new == 0)
        if counts != (old, new) or numbers.new_start != numbers.old_start + shift:
            return None
        delta += new - old
        index = bisect.bisect_left(one.places, numbers.old_start - 1, key=_first)
        if index == len(one.places) or one.places[index].first != numbers.old_start - 1:
            return None
        unique += len(one.places) == 1
        chosen.append(one.placed(index))
    return chosen if unique and _disjoint(chosen) else None


def _check(file: FileLines, one: Placed, offsets: set[int]) -> None:
    """Raise for a hunk whose result is at its place already, and for line ends that cannot be kept.

    ``offsets``: the distances of the file's other hunks from their stated lines.
    """
    hunk, place = one.hunk, one.place
    fresh = any(line.text.strip() for group in groups(one.lines, hunk.ends_stated) for line in group.added)
    if fresh and (line := _stands_at(file, one)) is not None:
        raise applied(hunk, line + 1)
    if hunk.numbers is not None and place.first != hunk.numbers.old_start - 1:
        _check_hints(file, one, hunk.numbers, offsets)
    if hunk.ends_stated and not one.literal and len({line.cr for line in one.lines}) > 1:
        raise unclear(
            hunk, f"its place is line {place.first + 1}, but the line ends (\\r\\n, \\n) there are others."
        )


def _check_hints(file: FileLines, one: Placed, numbers: Numbers, offsets: set[int]) -> None:
    """Numbers do not decide, but refuse a place when they and their heading speak for another that is much alike."""
    old = [line.text.strip() for line in one.lines if line.kind != "+"]
    first = one.place.first
    stated = numbers.old_start - 1
    confirmed = confirms(file, numbers.heading, first - one.dropped)
    # A place as far from its number as another hunk's means that the file has grown above both.
    if not any(abs(first - stated - offset) <= _DRIFT for offset in offsets):
        for expected in {stated, *(stated + offset for offset in offsets)}:
            if (twin := twin_at(file, old, first, expected, confirmed)) is not None:
                raise unclear(
                    one.hunk,
                    f"it fits at line {first + 1}, but line {twin}, where its header points, is nearly the "
                    "same. Read the file again, and give more context lines.",
                )
    if contradicts(file, numbers.heading, first - one.dropped):
        raise unclear(
            one.hunk,
            f"it fits at line {first + 1}, but that is not below {numbers.heading!r}, as its header says. "
            "Read the file again, and correct the header or leave the heading out.",
        )


def _stands_at(file: FileLines, one: Placed) -> int | None:
    """Return the line (from 0) of the result, over or beside the place. None: it is not there."""
    new = [line for line in one.lines if line.kind != "-"]
    if [line.text for line in new] == [line.text for line in one.lines if line.kind != "+"]:
        return None
    strategy = "exact" if one.strategy == "line ends" else one.strategy
    for there in file.places(new, strategy):
        if there.end > one.place.first and there.first < one.place.end:
            return there.first
    return None
