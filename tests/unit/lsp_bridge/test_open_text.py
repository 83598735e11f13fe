"""The text of an open document, against the simplest thing that could work."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_bridge.open_text import OpenText, Units

PIECES = st.sampled_from(["a", "ä", "😀", "\u2028", "\x0c", "\n", "\r\n", "\r", "bb\n", ""])
TEXT = st.lists(PIECES, max_size=20).map("".join)
PLACE = st.tuples(st.integers(0, 12), st.integers(0, 8))
CHANGES = st.lists(st.tuples(PLACE, PLACE, TEXT), max_size=6)


def offset(text: str, place: tuple[int, int], units: Units) -> int:
    """Where a position is, by the words of the protocol."""
    line, column = place
    starts = [0, *(found.end() for found in re.finditer(r"\r\n|\n|\r", text))]
    if line >= len(starts):
        return len(text)
    body = re.split(r"[\r\n]", text[starts[line] :])[0]
    codec = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}[units]
    width = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[units]
    at = 0
    while at < len(body) and len(body[: at + 1].encode(codec)) // width <= column:
        at += 1
    return starts[line] + at


@pytest.mark.parametrize("units", ["utf-8", "utf-16", "utf-32"])
@given(before=TEXT, changes=CHANGES)
def test_changes_of_parts_give_the_text_that_the_protocol_means(
    units: Units, before: str, changes: list[tuple[tuple[int, int], tuple[int, int], str]]
) -> None:
    open_text, text = OpenText(before), before
    for start, end, new in changes:
        first, last = offset(text, start, units), offset(text, end, units)
        text = text[:first] + new + text[max(first, last) :]
        open_text.replace(start, end, new, units)
        assert open_text.length == len(text)
    assert open_text.text == text


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_large_text_takes_thousands_of_changes(end: str) -> None:
    chance = random.Random(7)
    lines = [f"line {number} " + "x" * (number % 70) for number in range(6_000)]
    open_text = OpenText(end.join(lines))
    for _ in range(1_500 if end != "\r" else 50):
        first = chance.randrange(len(lines))
        last = min(first + chance.choice([0, 0, 0, 1, 2, 300]), len(lines) - 1)
        start, stop = chance.randrange(4), chance.randrange(4, 9)
        new = chance.choice(["", "y", end, f"a{end}b{end}", "z" * 300])
        open_text.replace((first, start), (last, stop), new)
        lines[first : last + 1] = (lines[first][:start] + new + lines[last][stop:]).split(end)
    assert open_text.text == end.join(lines)


def test_a_copy_keeps_the_text_of_its_time() -> None:
    text = OpenText("one\ntwo\n" * 20_000)
    copy = text.copy()
    assert copy.same(text)
    text.replace((9, 0), (9, 0), "x")
    assert not copy.same(text)
    text.replace((9, 0), (9, 1), "")
    assert copy.same(text)
    assert copy.text == "one\ntwo\n" * 20_000


def test_what_lies_outside_of_the_text_is_its_end() -> None:
    text = OpenText("one\ntwo")
    text.replace((0, 99), (0, 99), "!")
    text.replace((99, 0), (99, 9), "?")
    text.replace((1, 3), (0, 0), ".")
    assert text.text == "one!\ntwo.?"
