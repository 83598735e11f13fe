"""Derive from a hunk's own lines where and how it may be placed. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tools.diff.unified_diff import common_ends
from tools.matching.typography import LOOK_ALIKES
from tools.patching.hunk_search import HUNK_STRATEGIES, HunkStrategy
from tools.patching.model import Hunk, HunkLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_WORD = re.compile(r"\w")
_BLANKS = " \t"


class ChangeGroup(Struct, frozen=True):
    """Removed lines and their replacement. ``at`` counts the old lines before them."""

    at: int
    removed: tuple[HunkLine, ...]
    added: tuple[HunkLine, ...]


def groups(lines: Sequence[HunkLine], ends: bool) -> Iterator[ChangeGroup]:
    """Yield the changes between context lines, without what a change only repeats. ``ends``: line ends count."""
    at = 0
    removed: list[HunkLine] = []
    added: list[HunkLine] = []
    for line in [*lines, HunkLine(" ", "")]:
        if line.kind == "-":
            removed.append(line)
        elif line.kind == "+":
            added.append(line)
        else:
            if removed or added:
                yield _without_repeats(at, removed, added, ends)
                at += len(removed)
                removed, added = [], []
            at += 1


def _without_repeats(at: int, removed: list[HunkLine], added: list[HunkLine], ends: bool) -> ChangeGroup:
    def same(a: HunkLine, b: HunkLine) -> bool:
        return a.text == b.text and a.no_end == b.no_end and (a.cr == b.cr or not ends)

    top, tail = common_ends(removed, added, same)
    return ChangeGroup(
        at + top, tuple(removed[top : len(removed) - tail]), tuple(added[top : len(added) - tail])
    )


def outer_trimmed(lines: Sequence[HunkLine]) -> tuple[HunkLine, ...]:
    """Without blank lines at both ends that had no prefix: they may only be layout of the patch."""
    first, last = 0, len(lines)
    while first < last and lines[first].soft:
        first += 1
    while last > first and lines[last - 1].soft:
        last -= 1
    return tuple(lines[first:last])


def blanks_as_added(lines: Sequence[HunkLine]) -> tuple[HunkLine, ...] | None:
    """Return the reading in which blank lines without prefix, amid added lines, are added. None if there are none."""
    out = list(lines)
    before, waiting, changed = "", list[int](), False
    for index, line in enumerate(lines):
        if line.soft:
            waiting.append(index)
            continue
        if waiting and before == line.kind == "+":
            changed = True
            for at in waiting:
                out[at] = replace(out[at], kind="+")
        before, waiting = line.kind, []
    return tuple(out) if changed else None


def context_ends(lines: Sequence[HunkLine]) -> tuple[int, int]:
    """Return the numbers of context lines before the first change and after the last one."""
    kinds = [line.kind for line in lines]
    lead = next((at for at, kind in enumerate(kinds) if kind != " "), len(kinds))
    tail = next((at for at, kind in enumerate(reversed(kinds)) if kind != " "), len(kinds))
    return lead, tail


def has_word(lines: Sequence[HunkLine]) -> bool:
    """Return whether any of the lines has a letter or digit."""
    return any(_WORD.search(line.text) for line in lines)


def strategies_for(hunk: Hunk, lines: Sequence[HunkLine]) -> tuple[HunkStrategy, ...]:
    """Return the strategies for a hunk.

    One that changes only blanks or look-alikes must not be searched where those do not count: it would match its own
    result.
    """
    last = len(HUNK_STRATEGIES)
    for group in groups(lines, hunk.ends_stated):
        old = [line.text for line in group.removed]
        new = [line.text for line in group.added]
        if not old or len(old) != len(new):
            continue
        if _alike(old, new, lambda text: text.rstrip(_BLANKS)):
            last = min(last, HUNK_STRATEGIES.index("exact") + 1)
        elif _alike(old, new, lambda text: text.strip(_BLANKS)):
            last = min(last, HUNK_STRATEGIES.index("trailing blanks") + 1)
        elif _alike(old, new, lambda text: text.translate(LOOK_ALIKES).strip(_BLANKS)):
            last = min(last, HUNK_STRATEGIES.index("indentation") + 1)
    return HUNK_STRATEGIES[0 if hunk.ends_stated else 1 : last]


def _alike(old: list[str], new: list[str], form: Callable[[str], str]) -> bool:
    return [form(text) for text in old] == [form(text) for text in new]


class FinalEnd(Struct, frozen=True):
    """The hunk's marks about the final line end, on the last line of each side."""

    old_lacks: bool
    new_lacks: bool

    @property
    def one_sided(self) -> bool:
        """Whether it adds or removes the final line end."""
        return self.old_lacks != self.new_lacks


def final_end(lines: Sequence[HunkLine]) -> FinalEnd | None:
    """Return the marks of a hunk; None without any, or when one is on another line than the last of its side."""
    old = [line for line in lines if line.kind != "+"]
    new = [line for line in lines if line.kind != "-"]
    if any(line.no_end for line in [*old[:-1], *new[:-1]]):
        return None
    marks = FinalEnd(bool(old) and old[-1].no_end, bool(new) and new[-1].no_end)
    return marks if marks.old_lacks or marks.new_lacks else None
