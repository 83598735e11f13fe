"""Numbers of a trace that is damaged, or that somebody forged."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from daemon.model.goals import GoalStats
from daemon.model.messages import Usage
from daemon.model.traces import Carried, Trace

NONE = [-1, -(10**9), -0.5, float("nan"), float("inf"), float("-inf"), "-5", "nan"]


@pytest.mark.parametrize("value", NONE)
def test_invalid_token_and_cost_numbers_are_read_as_zero(value: Any) -> None:
    assert Usage.model_validate({"input": value, "cacheRead": value}) == Usage()
    stats = GoalStats.model_validate({"message_count": value, "total_tokens": value, "total_cost": value})
    assert stats == GoalStats()
    trace = Trace.model_validate(
        {
            "trace_id": "t",
            "workspace": "/",
            "created_at": 0,
            "updated_at": 0,
            "message_count": value,
            "total_cost": value,
        }
    )
    assert (trace.message_count, trace.total_cost) == (0, 0.0)
    assert Carried.model_validate({"last_goal_id": value}).last_goal_id == 0


def test_valid_numbers_are_kept_and_huge_sums_stay_finite() -> None:
    usage = Usage.model_validate({"input": 12, "output": "7", "cache_write": 10**400})
    assert (usage.input, usage.output) == (12, 7)
    assert math.isfinite(usage.total / 1)
    stats = GoalStats.model_validate({"total_cost": 1e308})
    assert math.isfinite(stats.total_cost * 1_000)


def test_non_numeric_usage_is_refused() -> None:
    for value in ("many", None, [1]):
        with pytest.raises(ValidationError):
            Usage.model_validate({"input": value})
