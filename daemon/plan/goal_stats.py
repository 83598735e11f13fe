"""Numbers of goals: what one more message adds, and what moves along with a goal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from daemon.model.goals import GoalStats
from daemon.model.messages import Message, ToolResultPart, priced
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_SUMS = ("message_count", "total_tokens", "total_cost", "unpriced_tokens", "duration_ms")
"""The numbers that can be added up."""
_PREVIEW_SEGMENTS = 8
_PREVIEW_NAME = 40
_LEFT_OUT = "…"
_DIGITS = 18
TOOLS_OF_THE_PLAN = frozenset({"goal", "step", "read_progress"})
"""Tools that do nothing but read or change the plan."""


def with_counts(
    stats: GoalStats, tokens: int, cost: float, tools: Sequence[str], duration_ms: int = 0, unpriced: int = 0
) -> GoalStats:
    """Return ``stats`` after one more message. ``unpriced``: of its tokens, those whose price is not known."""
    return GoalStats(
        message_count=stats.message_count + 1,
        total_tokens=stats.total_tokens + tokens,
        total_cost=stats.total_cost + cost,
        unpriced_tokens=stats.unpriced_tokens + unpriced,
        duration_ms=stats.duration_ms + duration_ms,
        preview=extended_preview(stats.preview, tools),
    )


def with_message(stats: GoalStats, message: Message) -> GoalStats:
    """Return ``stats`` after this message, too."""
    unpriced = priced(message.usage, message.cost).unpriced
    cost, tools = message.cost or 0.0, tools_of(message)
    return with_counts(stats, tokens_of(message), cost, tools, worked_ms(message), unpriced)


def tokens_of(message: Message) -> int:
    """Return the tokens of the request that a message answers, as counted by its provider; 0 without a model.

    So the numbers of goals, branches and the session are sums of the same requests.
    """
    return 0 if message.usage is None else message.usage.total


def worked_ms(message: Message) -> int:
    """Return the work time of a message, in milliseconds.

    Calls that ran at the same time count once, so the times of messages can be added up.
    """
    return max(0, (message.duration_ms or 0) - (message.overlap_ms or 0))


class OverlapTimer:
    """Computes the new time of each message for a goal, where calls ran at the same time.

    A goal worked at least as long as each of its calls. Time that several calls for it and the goals below it share
    counts once.
    """

    def __init__(self) -> None:
        self._counted: dict[str, int] = {}

    def time_of(self, message: Message) -> Callable[[str], int]:
        """Return the new milliseconds of the next message by place: a goal, with or without those below it.

        Each place is to be asked for once.
        """
        took = message.duration_ms or 0
        if message.role != "tool" or not message.overlap_ms:
            self._counted = {}  # nothing that has ended ran in parallel with it
        counted = self._counted

        def new(place: str) -> int:
            known = counted.get(place, 0)
            counted[place] = max(known, took)
            return max(0, took - known)

        return new


def tools_of(message: Message) -> list[str]:
    """Return the tool whose result a message is: a call counts where it ran, not where it was requested.

    Changes of the plan are no work for a goal: their result is the plan itself.
    """
    results = [part.name for part in message.content if isinstance(part, ToolResultPart)]
    return [name for name in results if name not in TOOLS_OF_THE_PLAN]


def joined(stats: GoalStats, other: GoalStats) -> GoalStats:
    """Return the numbers of both; the preview stays, see ``joined_preview``."""
    return stats.model_copy(update={name: getattr(stats, name) + getattr(other, name) for name in _SUMS})


def parted(stats: GoalStats, other: GoalStats) -> GoalStats:
    """Return ``stats`` without ``other``, which is a part of it."""
    left: dict[str, Any] = {name: getattr(stats, name) - getattr(other, name) for name in _SUMS}
    if left["message_count"] <= 0:
        return GoalStats()
    # Sums of money are floats: a difference of zero may be slightly more or less.
    return stats.model_copy(update={name: max(type(value)(), value) for name, value in left.items()})


def extended_preview(preview: str | None, tools: Sequence[str]) -> str | None:
    """Extend a preview: ``read → edit`` and ``edit`` give ``read → edit × 2``; the oldest are dropped from a long
    one."""
    segments = preview.split(" → ") if preview else []
    for tool in tools:
        # A model can call a tool by any name, but the arrow and the cross are ours.
        wanted = head(" ".join(re.sub(r"[→×…]", "-", tool).split()), _PREVIEW_NAME).strip() or "?"
        name, _, count = segments[-1].partition(" × ") if segments else ("", "", "")
        if name == wanted:
            segments[-1] = f"{wanted} × {_times(count) + 1}"
        else:
            segments.append(wanted)
    return _shortened(segments)


def joined_preview(previews: Iterable[str | None]) -> str | None:
    """Previews one after another: ``read → edit`` and ``edit × 2`` make ``read → edit × 3``."""
    segments: list[str] = []
    for segment in (one for preview in previews if preview for one in preview.split(" → ")):
        name, _, count = segment.partition(" × ")
        last, _, before = segments[-1].partition(" × ") if segments else ("", "", "")
        if name != last:
            segments.append(segment)
        elif name != _LEFT_OUT:
            segments[-1] = f"{name} × {_times(before) + _times(count)}"
    return _shortened(segments)


def _times(count: str) -> int:
    # A forged trace may have a number of any length, which Python does not parse.
    return int(count) if count.isdecimal() and len(count) <= _DIGITS else 1


def _shortened(segments: list[str]) -> str | None:
    if len(segments) > _PREVIEW_SEGMENTS:
        segments = [_LEFT_OUT, *segments[-_PREVIEW_SEGMENTS + 1 :]]
    return " → ".join(segments) or None
