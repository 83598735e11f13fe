"""The events in a streamed answer, however its bytes are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.provider.http import EventReader
from tests.support.examples import examples

ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
LINES = st.lists(
    st.one_of(
        st.binary(max_size=12)
        .filter(lambda b: b"\n" not in b and b"\r" not in b)
        .map(lambda b: b"data: " + b),
        st.sampled_from([b"", b"event: x", b": a comment", b"data", b"id: 7"]),
    ),
    max_size=12,
)


def read(pieces: list[bytes]) -> list[bytes]:
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_events_end_with_an_empty_line(end: bytes) -> None:
    sent = end.join(
        [b"event: a", b"data: 1", b"", b": ping", b"data:2", b"data: 3", b"", b"data: not ended", b""]
    )
    assert read([sent, b"x"]) == [b"1", b"2\n3"]


@given(lines=LINES, end=ENDS, cuts=st.lists(st.integers(0, 200), max_size=8))
@settings(max_examples=examples(300), deadline=None)
def test_where_the_bytes_are_cut_makes_no_difference(lines: list[bytes], end: bytes, cuts: list[int]) -> None:
    whole = end.join([*lines, b"data: last", b"", b": rest"])
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    pieces = [whole[a:b] for a, b in itertools.pairwise(places)]
    assert read(pieces) == read([bytes([byte]) for byte in whole]) == read([whole])


def test_a_line_of_many_pieces_is_put_together() -> None:
    assert read([b"data: ", *[b"x" * 1000] * 1000, b"\n\n"]) == [b"x" * 1_000_000]
