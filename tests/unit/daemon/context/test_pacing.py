"""When a full compaction is tried again after one that freed too little."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.context.pacing import doublings, ever_in_vain, freed_too_little, in_vain, next_try
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
def test_it_is_too_little_above_four_fifths_of_the_trigger_or_of_what_there_was(
    before: int, after: int, little: bool
) -> None:
    assert freed_too_little(before, after, 10_000) is little


def test_only_those_in_a_row_since_one_that_freed_enough_count() -> None:
    bad, good = mark(11_000, 10_500), mark(11_000, 5_000)
    assert in_vain([], 10_000) == []
    assert in_vain([bad, good], 10_000) == []
    assert in_vain([bad, good, bad, bad], 10_000) == [bad, bad]


def test_those_by_hand_and_after_an_overflow_do_not_count_unless_they_freed_enough() -> None:
    bad = mark(11_000, 10_500)
    assert in_vain([bad, mark(9_000, 8_900, "manual"), mark(11_000, 10_000, "overflow")], 10_000) == [bad]
    assert in_vain([bad, mark(9_000, 3_000, "manual")], 10_000) == []


def test_one_that_freed_too_little_was_told_of_whatever_came_after_it() -> None:
    bad, good = mark(11_000, 10_500), mark(11_000, 5_000)
    assert ever_in_vain([bad, good], 10_000)
    assert not ever_in_vain([good, mark(11_000, 10_500, "overflow")], 10_000)
    assert not ever_in_vain([bad], 50_000)


def test_those_of_a_lower_trigger_say_nothing() -> None:
    assert in_vain([mark(11_000, 10_500)] * 3, 50_000) == []


def test_the_growth_doubles_for_each_that_freed_little_but_not_for_one_that_halved_the_context() -> None:
    bad, fair = mark(11_000, 10_500), mark(25_000, 10_500)
    assert [doublings([bad] * count) for count in range(5)] == [0, 0, 1, 2, 3]
    assert doublings([bad, bad, fair, fair]) == 1
    tries = [next_try(11_000, PROFILE, MOST, doubled) for doubled in range(4)]
    assert tries == [12_100, 13_200, 15_400, 19_800]


def test_near_to_what_the_model_takes_it_is_tried_whatever_the_last_ones_freed() -> None:
    assert next_try(11_000, PROFILE, MOST, 50) == int(MOST * 0.9)
    # What cannot be shortened is there itself: each time half of the rest.
    assert next_try(160_000, PROFILE, MOST, 50) == 164_000


@given(
    st.integers(min_value=0, max_value=300_000),
    st.integers(min_value=1_000, max_value=300_000),
    st.integers(min_value=0, max_value=100_000),
)
def test_the_next_one_never_comes_at_once(left: int, trigger: int, doubled: int) -> None:
    again = next_try(left, replace(PROFILE, compact_at=trigger), MOST, doubled)
    assert again > left
    assert again <= max(int(MOST * 0.9), (left + MOST) // 2, left + 2_000)
