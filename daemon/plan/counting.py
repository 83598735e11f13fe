"""Numbers of goals: what one more message adds, and what moves along with a goal."""

from __future__ import annotations

import re
from collections.abc import Sequence

from daemon.model.goals import GoalStats
from tools.cutting import head

_PREVIEW_SEGMENTS = 8
_PREVIEW_NAME = 40


def counted(stats: GoalStats, tokens: int, cost: float, tools: Sequence[str]) -> GoalStats:
    """``stats`` after one more message."""
    return GoalStats(
        message_count=stats.message_count + 1,
        total_tokens=stats.total_tokens + tokens,
        total_cost=stats.total_cost + cost,
        preview=extended_preview(stats.preview, tools),
    )


def joined(stats: GoalStats, other: GoalStats) -> GoalStats:
    """The numbers of both; the preview stays, as nobody knows in what order the two worked."""
    return stats.model_copy(
        update={
            "message_count": stats.message_count + other.message_count,
            "total_tokens": stats.total_tokens + other.total_tokens,
            "total_cost": stats.total_cost + other.total_cost,
        }
    )


def parted(stats: GoalStats, other: GoalStats) -> GoalStats:
    """``stats`` without ``other``, which is a part of it."""
    count = max(0, stats.message_count - other.message_count)
    if count == 0:
        return GoalStats()
    return stats.model_copy(
        update={
            "message_count": count,
            "total_tokens": max(0, stats.total_tokens - other.total_tokens),
            # Sums of money are floats: what is left of nothing is a little more or less than zero.
            "total_cost": max(0.0, stats.total_cost - other.total_cost),
        }
    )


def extended_preview(preview: str | None, tools: Sequence[str]) -> str | None:
    """``read → edit`` and ``edit`` make ``read → edit × 2``; the oldest fall out of a long one."""
    segments = preview.split(" → ") if preview else []
    for tool in tools:
        # A model can call a tool by any name; the arrow and the cross are ours.
        wanted = head(" ".join(re.sub(r"[→×…]", "-", tool).split()), _PREVIEW_NAME).strip() or "?"
        name, _, count = segments[-1].partition(" × ") if segments else ("", "", "")
        if name == wanted:
            segments[-1] = f"{wanted} × {(int(count) if count.isdecimal() else 1) + 1}"
        else:
            segments.append(wanted)
    if len(segments) > _PREVIEW_SEGMENTS:
        segments = ["…", *segments[-_PREVIEW_SEGMENTS + 1 :]]
    return " → ".join(segments) or None
