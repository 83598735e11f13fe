"""Find new problems: a pure comparison of the diagnostics before and after an edit.

A problem that was there before is recognised by severity, code, source and message, and by the *text* of its line, so
that it stays known when lines above it come and go, and when its block is indented or moved. Lines are mapped through
the edit first, so that of two equal problems the one on the untouched line is the old one. Counted as a multiset: a
second occurrence of a known problem is new.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tools.text.lines import lsp_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.language_ports import Problem

_Key = tuple[str, str, str, str]


def new_problems(
    before: str | None, after: str, baseline: Sequence[Problem] | None, current: Sequence[Problem]
) -> list[Problem]:
    """Return the members of ``current`` that ``baseline`` does not account for, in the order of ``current``.

    ``before`` and ``after`` are the file's texts that the two belong to (``before`` is None for a created
    file). Without a baseline (None) every problem counts as new. Lines of problems count from 1.
    """
    if not baseline or before is None:
        return list(current)
    # Strip the lines: wrapping a block in `try:` indents its old problems, but does not make them new.
    old_lines = [line.strip() for line in lsp_lines(before)]
    new_lines = old_lines if after == before else [line.strip() for line in lsp_lines(after)]
    moved_to = map_lines(old_lines, new_lines)

    # Number the keys and count in plain dicts, which takes half the time of tuples in a Counter.
    numbers: dict[_Key, int] = {}
    old_keys = [numbers.setdefault(_key(problem), len(numbers)) for problem in baseline]
    new_keys = [numbers.setdefault(_key(problem), len(numbers)) for problem in current]
    expected: dict[tuple[int, int], int] = {}
    places: list[tuple[int, int]] = []
    for problem, key in zip(baseline, old_keys, strict=True):
        place = key, moved_to.get(problem.line - 1, -1)
        places.append(place)
        if place[1] >= 0:
            expected[place] = expected.get(place, 0) + 1
    unmatched: list[int] = []
    matched: dict[tuple[int, int], int] = {}
    for index, problem in enumerate(current):
        place = new_keys[index], problem.line - 1
        if (count := expected.get(place, 0)) > 0:
            expected[place] = count - 1
            matched[place] = matched.get(place, 0) + 1
        else:
            unmatched.append(index)
    if not unmatched:
        return []

    # The rest of the baseline may have moved as a block, or its line may have an ambiguous twin.
    left: dict[tuple[int, str], int] = {}
    for problem, place in zip(baseline, places, strict=True):
        if (count := matched.get(place, 0)) > 0:
            matched[place] = count - 1
        else:
            known = place[0], _line(old_lines, problem)
            left[known] = left.get(known, 0) + 1
    new: list[Problem] = []
    for index in unmatched:
        problem = current[index]
        known = new_keys[index], _line(new_lines, problem)
        if (count := left.get(known, 0)) > 0:
            left[known] = count - 1
        else:
            new.append(problem)
    return new


def map_lines(old: Sequence[str], new: Sequence[str]) -> dict[int, int]:
    """Return the index in the new text of each old line that can be matched. Linear in the text's length.

    Common head and tail, then lines that occur exactly once in both (so moved blocks are followed), then their equal
    neighbours. difflib is not used: it takes seconds on large files with many equal lines.
    """
    if old is new:
        return {index: index for index in range(len(old))}
    shorter = min(len(old), len(new))
    head = 0
    while head < shorter and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shorter - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    mapping = {index: index for index in range(head)}
    mapping.update({len(old) - 1 - back: len(new) - 1 - back for back in range(tail)})

    old_middle, new_middle = range(head, len(old) - tail), range(head, len(new) - tail)
    old_count = Counter(old[index] for index in old_middle)
    new_count = Counter(new[index] for index in new_middle)
    place = {new[index]: index for index in new_middle if new_count[new[index]] == 1}
    taken: set[int] = set()
    for index in old_middle:
        if old_count[old[index]] == 1 and old[index] in place:
            mapping[index] = place[old[index]]
            taken.add(place[old[index]])

    for step, order in ((1, old_middle), (-1, reversed(old_middle))):
        for index in order:
            if index in mapping or (index - step) not in mapping:
                continue
            target = mapping[index - step] + step
            if target in new_middle and target not in taken and old[index] == new[target]:
                mapping[index] = target
                taken.add(target)
    return mapping


def _key(problem: Problem) -> _Key:
    return (problem.severity, problem.code, problem.source, problem.message)


def _line(lines: Sequence[str], problem: Problem) -> str:
    return lines[problem.line - 1] if 0 < problem.line <= len(lines) else ""
