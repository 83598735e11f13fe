"""When a full compaction is worth its price: one that frees too little must not be done at each call. Pure.

What came of earlier ones stands in their marks, so that a restart changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.context.profiles import ContextProfile
    from daemon.model.messages import CompactionPart

_ENOUGH = 0.8
"""One that leaves more than this share of the trigger, or of what there was, frees too little."""
_FAIR = 0.5
"""One that left no more than this share of what there was is worth doing as often, even above the trigger."""
_GROWTH = 0.1
"""Of the trigger, or of what was left when that is more: what must come after a compaction before the next one."""
_NEAR = 0.9
"""Of what the model takes: from here on there is no time to lose."""
_MOST_DOUBLINGS = 20


@dataclass(frozen=True, slots=True)
class Vain:
    """Tries that came to nothing, so that no message tells of them."""

    profile: ContextProfile
    """With which they were made: with another one it may be different."""
    tokens: int
    """Of the context at the last one."""
    tries: int


def freed_too_little(before: int, after: int, trigger: int) -> bool:
    """Whether a compaction brought the context (tokens) not far enough down."""
    return after > _ENOUGH * trigger or after > _ENOUGH * before


def in_vain(done: Sequence[CompactionPart], trigger: int) -> list[CompactionPart]:
    """The newest compactions, oldest first, as far as one after the other freed too little.

    Those at the person's wish or after an overflow do not count, unless they freed enough. One that began below the
    trigger was done when it was lower, and says nothing about now.
    """
    found: list[CompactionPart] = []
    for mark in reversed(done):
        if not freed_too_little(mark.before, mark.after, trigger):
            break
        if mark.reason == "threshold":
            if mark.before <= trigger:
                break
            found.insert(0, mark)
    return found


def ever_in_vain(done: Sequence[CompactionPart], trigger: int) -> bool:
    """Whether there was one at this trigger that freed too little, so that the person was told."""
    return any(
        mark.reason == "threshold"
        and mark.before > trigger
        and freed_too_little(mark.before, mark.after, trigger)
        for mark in done
    )


def doublings(row: Sequence[CompactionPart]) -> int:
    """How often the growth that is asked for has doubled after those that freed too little."""
    return max(sum(mark.after > _FAIR * mark.before for mark in row) - 1, 0)


def next_try(left: int, profile: ContextProfile, most: int, doubled: int = 0) -> int:
    """Tokens at which a context that could only be brought down to ``left`` is compacted again.

    ``most``: what the model takes, its answer put aside. Near to that it is tried however little the last one freed,
    but each time only when half of what was free is taken: a context that nothing can shorten is not asked about at
    each call.
    """
    grown = left + int(max(profile.compact_at, left) * _GROWTH) * 2 ** min(doubled, _MOST_DOUBLINGS)
    near = max(int(most * _NEAR), (left + most) // 2)
    return min(grown, max(near, left + profile.window // 100))
