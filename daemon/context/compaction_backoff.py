"""Decide when a full compaction is worth its cost: one that frees too little must not be repeated at each call. Pure.

The results of earlier ones are in their marks, so a restart changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.context.profiles import ContextProfile
    from daemon.model.messages import CompactionPart

_ENOUGH = 0.8
"""A compaction that leaves more than this share of the trigger, or of the tokens before, frees too little."""
_FAIR = 0.5
"""Share of the tokens before: a compaction that left no more than this is worth repeating, even above the trigger."""
_GROWTH = 0.1
"""Growth before the next compaction, as a share of the trigger or of what the last one left, whichever is larger."""
_NEAR = 0.9
"""Share of the model's limit from which a compaction must not be delayed."""
_MOST_DOUBLINGS = 20


class FailedAttempts(Struct, frozen=True):
    """Attempts without a result, which no message records."""

    profile: ContextProfile
    """With which they were made: with another one it may be different."""
    tokens: int
    """Tokens of the context at the last one."""
    tries: int


def freed_too_little(before: int, after: int, trigger: int) -> bool:
    """Return whether a compaction brought the context (tokens) not far enough down."""
    return after > _ENOUGH * trigger or after > _ENOUGH * before


def failed_in_a_row(done: Sequence[CompactionPart], trigger: int) -> list[CompactionPart]:
    """Return the newest compactions, oldest first, that freed too little in a row.

    Those that the user requested, or after an overflow, do not count, unless they freed enough. One that started below
    the trigger was done when that was lower, and does not count.
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


def ever_failed(done: Sequence[CompactionPart], trigger: int) -> bool:
    """Return whether one at this trigger freed too little, so that the user was informed."""
    return any(
        mark.reason == "threshold"
        and mark.before > trigger
        and freed_too_little(mark.before, mark.after, trigger)
        for mark in done
    )


def doublings(row: Sequence[CompactionPart]) -> int:
    """Return how often the required growth has doubled after compactions that freed too little."""
    return max(sum(mark.after > _FAIR * mark.before for mark in row) - 1, 0)


def next_try(left: int, profile: ContextProfile, most: int, doubled: int = 0) -> int:
    """Return the tokens at which a context that could only be reduced to ``left`` is compacted again.

    ``most``: the model's limit minus its answer. Near that limit it is tried however little the last one freed, but
    each time only when half of the free room is used: a context that cannot be shortened is not tried at each call.
    """
    grown = left + int(max(profile.compact_at, left) * _GROWTH) * 2 ** min(doubled, _MOST_DOUBLINGS)
    near = max(int(most * _NEAR), (left + most) // 2)
    return min(grown, max(near, left + profile.window // 100))
