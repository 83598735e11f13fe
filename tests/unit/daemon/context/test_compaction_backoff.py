"""When a full compaction is tried again after one that freed too little."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from daemon.context.compaction_backoff import (
    doublings,
    ever_failed,
    failed_in_a_row,
    freed_too_little,
    next_try,
)
from daemon.context.profiles import ContextProfile
from daemon.model.messages import CompactionPart

PROFILE = ContextProfile("plain", window=200_000, compact_at=10_000, keep_steps=3)
MOST = 168_000


def mark(before: int, after: int, reason: str = "threshold") -> CompactionPart:
    return CompactionPart(kind="carried", reason=reason, before=before, after=after)


@pytest.mark.parametrize(
    ("before", "after", "little"),
    [(10_100, 7_900, False), (10_100, 8_100, True), (30_000, 9_000, True), (9_000, 7_500, True)],
)
def test_compaction_freed_too_little_if_above_four_fifths(before: int, after: int, little: bool) -> None:
    assert freed_too_little(before, after, 10_000) is little


def test_only_failures_since_the_last_success_count() -> None:
    bad, good = mark(11_000, 10_500), mark(11_000, 5_000)
    assert failed_in_a_row([], 10_000) == []
    assert failed_in_a_row([bad, good], 10_000) == []
    assert failed_in_a_row([bad, good, bad, bad], 10_000) == [bad, bad]


def test_manual_and_overflow_runs_count_only_if_they_freed_much() -> None:
    bad = mark(11_000, 10_500)
    assert failed_in_a_row([bad, mark(9_000, 8_900, "manual"), mark(11_000, 10_000, "overflow")], 10_000) == [
        bad
    ]
    assert failed_in_a_row([bad, mark(9_000, 3_000, "manual")], 10_000) == []


def test_ever_in_vain_is_not_reset_by_later_compactions() -> None:
    bad, good = mark(11_000, 10_500), mark(11_000, 5_000)
    assert ever_failed([bad, good], 10_000)
    assert not ever_failed([good, mark(11_000, 10_500, "overflow")], 10_000)
    assert not ever_failed([bad], 50_000)


def test_failures_below_a_lower_trigger_do_not_count() -> None:
    assert failed_in_a_row([mark(11_000, 10_500)] * 3, 50_000) == []


def test_growth_doubles_per_failed_compaction_unless_it_halved() -> None:
    bad, fair = mark(11_000, 10_500), mark(25_000, 10_500)
    assert [doublings([bad] * count) for count in range(5)] == [0, 0, 1, 2, 3]
    assert doublings([bad, bad, fair, fair]) == 1
    tries = [next_try(11_000, PROFILE, MOST, doubled) for doubled in range(4)]
    assert tries == [12_100, 13_200, 15_400, 19_800]


def test_near_the_model_limit_compaction_is_always_tried() -> None:
    assert next_try(11_000, PROFILE, MOST, 50) == int(MOST * 0.9)
    # What cannot be shortened is there itself: each time half of the rest.
    assert next_try(160_000, PROFILE, MOST, 50) == 164_000


@given(
    st.integers(min_value=0, max_value=300_000),
    st.integers(min_value=1_000, max_value=300_000),
    st.integers(min_value=0, max_value=100_000),
)
def test_next_compaction_never_starts_immediately(left: int, trigger: int, doubled: int) -> None:
    again = next_try(left, replace(PROFILE, compact_at=trigger), MOST, doubled)
    assert again > left
    assert again <= max(int(MOST * 0.9), (left + MOST) // 2, left + 2_000)
