from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_bridge.language_client.server.text_sync import (
    TextSync,
    announced_sync,
    common_head,
    common_tail,
    content_changes,
)
from lsp_bridge.language_client.text.positions import PositionEncoding, characters, chosen, in_utf16, units
from tests.support.examples import examples

ENCODINGS: tuple[PositionEncoding, ...] = ("utf-8", "utf-16", "utf-32")
texts = st.lists(
    st.sampled_from(["a", "b", "ab", "\n", "\r\n", "\r", "é", "€", "𝒳", "😀", "\u2028", "\x0c"])
).map("".join)


def apply(text: str, changes: list[dict[str, Any]], encoding: PositionEncoding) -> str:
    """As a server would, and written without a look at the client: on encoded units, character by character."""
    width = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    codec = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}[encoding]
    for change in changes:
        if "range" not in change:
            text = change["text"]
            continue
        lines: list[str] = []
        line = ""
        for index, char in enumerate(text):
            line += char
            if char == "\n" or (char == "\r" and text[index + 1 : index + 2] != "\n"):
                lines.append(line)
                line = ""
        lines.append(line)

        def before(position: dict[str, int], lines: list[str] = lines) -> str:
            inside = lines[position["line"]].encode(codec)
            part = inside[: position["character"] * width].decode(codec)
            assert not part.endswith(("\r", "\n")), "no place is inside of or after a line end"
            return "".join(lines[: position["line"]]) + part

        start, end = before(change["range"]["start"]), before(change["range"]["end"])
        assert text.startswith(start)
        text = start + change["text"] + text[len(end) :]
    return text


@settings(max_examples=examples(600))
@given(texts, texts, st.sampled_from(ENCODINGS))
def test_the_edits_make_the_new_text_of_the_old(before: str, after: str, encoding: PositionEncoding) -> None:
    assert apply(before, content_changes(before, after, "incremental", encoding), encoding) == after


@settings(max_examples=examples(300))
@given(texts, texts, texts, texts, st.sampled_from(ENCODINGS))
def test_an_edit_in_the_middle_makes_it_too(
    head: str, old: str, new: str, tail: str, encoding: PositionEncoding
) -> None:
    before, after = head + old + tail, head + new + tail
    assert apply(before, content_changes(before, after, "incremental", encoding), encoding) == after


@given(st.text(alphabet="ab", max_size=9), st.text(alphabet="ab", max_size=9), st.integers(0, 3))
def test_common_ends_are_as_long_as_can_be(one: str, other: str, blocks: int) -> None:
    one, other = "a" * 4096 * blocks + one, "a" * 4096 * blocks + other
    head = common_head(one, other)
    assert one[:head] == other[:head]
    assert head == min(len(one), len(other)) or one[head] != other[head]
    tail = common_tail(one, other, min(len(one), len(other)) - head)
    assert one[len(one) - tail :] == other[len(other) - tail :]
    longest = tail == min(len(one), len(other)) - head
    assert longest or one[len(one) - tail - 1] != other[len(other) - tail - 1]


def test_a_small_change_is_a_small_edit() -> None:
    before = "x = 1\r\n" * 10_000
    after = before[:35_000] + "é" + before[35_000:]
    [change] = content_changes(before, after, "incremental", "utf-16")
    place = {"line": 5000, "character": 0}
    assert change == {"range": {"start": place, "end": place}, "text": "é"}


def test_full_sends_all_and_none_nothing() -> None:
    assert content_changes("a", "b", "full", "utf-16") == [{"text": "b"}]
    assert content_changes("a", "b", "none", "utf-16") == []


def test_a_text_with_a_lone_carriage_return_is_sent_whole() -> None:
    assert content_changes("a\rb\n", "a\rc\n", "incremental", "utf-16") == [{"text": "a\rc\n"}]


@pytest.mark.parametrize(
    ("announced", "expected"),
    [
        ({}, TextSync(True, "full", False)),
        ({"textDocumentSync": 0}, TextSync(False, "none", None)),
        ({"textDocumentSync": 1}, TextSync(True, "full", False)),
        ({"textDocumentSync": 2}, TextSync(True, "incremental", False)),
        ({"textDocumentSync": {}}, TextSync(False, "none", None)),
        ({"textDocumentSync": {"openClose": True, "change": 2}}, TextSync(True, "incremental", None)),
        ({"textDocumentSync": {"openClose": True, "change": 0, "save": True}}, TextSync(True, "none", False)),
        (
            {"textDocumentSync": {"openClose": True, "change": 1, "save": {"includeText": True}}},
            TextSync(True, "full", True),
        ),
        ({"textDocumentSync": "junk"}, TextSync(False, "none", None)),
        ({"textDocumentSync": {"openClose": 1, "change": 99, "save": 3}}, TextSync(False, "none", None)),
    ],
)
def test_what_a_server_announces_is_what_it_gets(announced: dict[str, Any], expected: TextSync) -> None:
    assert announced_sync(announced) == expected


@given(texts.map(lambda text: text.replace("\n", "").replace("\r", "")), st.sampled_from(ENCODINGS))
def test_columns_come_back_from_units(line: str, encoding: PositionEncoding) -> None:
    for column in range(len(line) + 1):
        assert characters(line, units(line[:column], encoding), encoding) == column


def test_the_columns_of_diagnostics_are_brought_to_utf16() -> None:
    def at(character: int) -> dict[str, Any]:
        return {"range": {"start": {"line": 1, "character": character}, "end": {"line": 9, "character": 2}}}

    text = "x\n😀é = y"
    [moved] = in_utf16([at(6)], text, "utf-8")
    assert moved["range"] == {"start": {"line": 1, "character": 3}, "end": {"line": 9, "character": 2}}
    assert in_utf16([at(6)], text, "utf-16") == (at(6),)
    junk = [{}, {"range": 5}, {"range": {"start": {"line": "x"}}}, {"range": {"start": None}}]
    assert list(in_utf16(junk, text, "utf-8")) == junk


@pytest.mark.parametrize(
    ("picked", "encoding"), [(None, "utf-16"), ("utf-8", "utf-8"), ("utf-7", "utf-16"), (3, "utf-16")]
)
def test_the_encoding_is_what_the_server_picked(picked: object, encoding: str) -> None:
    assert chosen(picked) == encoding
