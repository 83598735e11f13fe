"""The text of an open document, against the simplest thing that could work."""

from __future__ import annotations

import itertools
import json
import random
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_bridge.server.documents.open_text import OpenText, PartChange

if TYPE_CHECKING:
    from lsp_bridge.language_client.text.positions import PositionEncoding

PIECES = st.sampled_from(
    ["a", "ä", "😀", "\u2028", "\x0c", "\n", "\r\n", "\r", "bb\n", "", "\ud83d", "\ude00"]
)
TEXT = st.lists(PIECES, max_size=20).map("".join).map(lambda text: from_json(text))
PLACE = st.tuples(st.integers(0, 12), st.integers(0, 8))
CHANGES = st.lists(st.tuples(PLACE, PLACE, TEXT), max_size=6)

CODECS: dict[PositionEncoding, tuple[str, int]] = {
    "utf-8": ("utf-8", 1),
    "utf-16": ("utf-16-le", 2),
    "utf-32": ("utf-32-le", 4),
}


def from_json(text: str) -> str:
    return json.loads(json.dumps(text))


def of(text: str, units: PositionEncoding) -> bytes:
    return text.encode(CODECS[units][0], "surrogatepass")


def offset(data: bytes, place: tuple[int, int], units: PositionEncoding) -> int:
    """Where a position is, by the words of the protocol: by the units, whatever they mean."""
    width = CODECS[units][1]
    each = (data[at : at + width] for at in range(0, len(data), width))
    text = "".join(chr(int.from_bytes(unit, "little")) for unit in each)
    line, column = place
    starts = [0, *(found.end() for found in re.finditer(r"\r\n|\n|\r", text))]
    if line >= len(starts):
        return len(data)
    at = starts[line] + min(column, len(re.split(r"[\r\n]", text[starts[line] :])[0]))
    while units == "utf-8" and at < len(text) and ord(text[at]) & 0xC0 == 0x80:
        at -= 1  # not within a character; halves of UTF-16 are something else: editors do hold them
    return at * width


@pytest.mark.parametrize("units", ["utf-8", "utf-16", "utf-32"])
@given(before=TEXT, changes=CHANGES)
def test_changes_of_parts_give_the_text_that_the_protocol_means(
    units: PositionEncoding, before: str, changes: list[tuple[tuple[int, int], tuple[int, int], str]]
) -> None:
    open_text, data = OpenText(before), of(before, units)
    for start, end, new in changes:
        first, last = sorted((offset(data, start, units), offset(data, end, units)))
        data = data[:first] + of(new, units) + data[last:]
        if units != "utf-16":  # there halves have a place of their own until they meet
            data = of(from_json(data.decode(CODECS[units][0], "surrogatepass")), units)
        open_text = open_text.changed([PartChange(start, end, new)], units)
        text = data.decode(CODECS[units][0], "surrogatepass")
        assert open_text.length == len(text)
        assert open_text.text == text
        assert open_text.lines() == OpenText(text).lines()
    at_once = OpenText(before).changed(itertools.starmap(PartChange, changes), units)
    assert at_once.read() == open_text.text


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_large_text_takes_thousands_of_changes(end: str) -> None:
    chance = random.Random(7)
    lines = [f"line {number} " + "x" * (number % 70) for number in range(6_000)]
    open_text = OpenText(end.join(lines))
    for _ in range(1_500):
        first = chance.randrange(len(lines))
        last = min(first + chance.choice([0, 0, 0, 1, 2, 300]), len(lines) - 1)
        start, stop = chance.randrange(4), chance.randrange(4, 9)
        new = chance.choice(["", "y", end, f"a{end}b{end}", "z" * 300])
        open_text = open_text.changed([PartChange((first, start), (last, stop), new)])
        lines[first : last + 1] = (lines[first][:start] + new + lines[last][stop:]).split(end)
    assert open_text.text == end.join(lines)


def test_a_text_stays_as_it_is_when_it_is_changed() -> None:
    text = OpenText("one\ntwo\n" * 20_000)
    changed = text.changed([PartChange((9, 0), (9, 0), "x")])
    assert text.read() == "one\ntwo\n" * 20_000
    assert changed.text != text.text
    assert changed.changed([PartChange((9, 0), (9, 1), "")]).text == text.text


def test_what_lies_outside_of_the_text_is_its_end() -> None:
    text = OpenText("one\ntwo")
    text = text.changed([PartChange((0, 99), (0, 99), "!")])
    text = text.changed([PartChange((99, 0), (99, 9), "?")])
    assert text.text == "one!\ntwo?"


def test_a_range_that_is_told_backwards_is_turned_round() -> None:
    text = OpenText("abc\ndef\n")
    text = text.changed([PartChange((1, 2), (0, 1), "X")])
    assert text.text == "aXf\n"


def test_an_emoji_that_is_typed_in_two_halves_is_one() -> None:
    text = OpenText("head\n")
    text = text.changed([PartChange((0, 0), (0, 0), "\ud83d")])
    text = text.changed([PartChange((0, 1), (0, 1), "\ude00")])
    assert text.text == "😀head\n"
    text = text.changed([PartChange((0, 2), (0, 3), "H")])
    assert text.text == "😀Head\n"
    text = text.changed([PartChange((0, 1), (0, 2), "")])
    assert text.text == "\ud83dHead\n"
