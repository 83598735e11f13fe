from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_bridge.cli.text import Cleaner, Style, clean, fit, one_line, shown, shown_line
from tools.text.terminal import replaced

ESCAPES = [
    "\x1b[31m",
    "\x1b[2J",
    "\x1b[?1049h",
    "\x1b]0;title\x07",
    "\x1b]8;;http://x\x1b\\",
    "\x1b]52;c;aGk=\x07",
    "\x1bP+q\x1b\\",
    "\x1bc",
    "\x1b(B",
    "\x9b31m",
    "\x9d0;title\x9c",
]
pieces = st.one_of(
    st.sampled_from(ESCAPES), st.text(), st.sampled_from(["\x1b", "[", "]", "\x07", "\x9b", "1", "m"])
)


@pytest.mark.parametrize("escape", [e for e in ESCAPES if not e.startswith("\x9d")])
def test_escape_sequences_are_removed_whole(escape: str) -> None:
    assert clean(f"a{escape}b") == "ab"
    assert Cleaner().feed(f"a{escape}b") == "ab"


@given(st.lists(pieces))
def test_nothing_that_a_terminal_obeys_is_left(parts: list[str]) -> None:
    text = "".join(parts)
    for safe in (clean(text), one_line(text), Style(color=False).diff(text)):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", safe)


@given(st.lists(pieces))
def test_pieces_are_as_safe_as_the_whole(parts: list[str]) -> None:
    cleaner = Cleaner()
    shown = "".join(cleaner.feed(part) for part in parts)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)


@pytest.mark.parametrize("escape", ESCAPES[:9])
def test_escape_sequence_cut_anywhere_leaves_nothing(escape: str) -> None:
    for cut in range(len(escape) + 1):
        cleaner = Cleaner()
        shown = cleaner.feed("a" + escape[:cut]) + cleaner.feed(escape[cut:] + "b")
        assert shown == "ab"


def test_sequence_that_never_ends_does_not_swallow_the_rest() -> None:
    cleaner = Cleaner()
    text = (
        cleaner.feed("\x1b]0;") + "".join(cleaner.feed("x" * 1000) for _ in range(10)) + cleaner.feed("end")
    )
    assert text.endswith("end")


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs"])))
def test_ordinary_text_is_untouched_in_any_pieces(text: str) -> None:
    text += "\n\tä漢😀"
    cleaner = Cleaner()
    assert clean(text) == text
    assert "".join(cleaner.feed(letter) for letter in text) == text


def test_letters_that_reorder_a_line_are_shown() -> None:
    assert clean("if x\u202e: #") == "if x<U+202E>: #"


@given(st.lists(pieces))
def test_document_keeps_its_marks_apart(parts: list[str]) -> None:
    text = "``\x1b[0m`" + "".join(parts)
    safe = replaced(text)
    assert all(new in (old, "\ufffd") for old, new in zip(text.replace("\r\n", "\n"), safe, strict=True))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", safe)


def test_one_line_is_one_line_and_short() -> None:
    assert one_line("a\r\n  b\tc") == "a b c"
    assert one_line("x" * 30, 10) == "x" * 9 + "…"


def test_wide_letters_take_two_columns() -> None:
    assert fit("漢字x", 4) == "漢字"
    assert fit("漢字x", 3) == "漢"
    assert fit("abc", 80) == "abc"


def test_diff_is_coloured_line_by_line() -> None:
    diff = "--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same\n"
    assert Style(color=False).diff(diff) == diff.rstrip()
    colored = Style(color=True).diff(diff).splitlines()
    assert colored[3] == "\x1b[31m-old\x1b[0m"
    assert colored[4] == "\x1b[32m+new\x1b[0m"
    assert colored[5] == " same"


def test_change_of_line_ends_can_be_seen_in_a_diff() -> None:
    assert Style(color=False).diff("-a\r\n+a\n") == "-a␍\n+a"


@pytest.mark.parametrize(
    ("hidden", "seen"),
    [
        ("echo ok \x1b]; touch PWNED;\x07", "echo ok ␛]; touch PWNED;␇"),
        ("echo ok \x1bP; touch\nPWNED \x1b\\", "echo ok ␛P; touch\nPWNED ␛\\"),
        ("\x1b[2Jrm -rf x", "␛[2Jrm -rf x"),
        ("rm x\recho", "rm x␍echo"),
        ("a\x08\x7f\x00", "a␈␡␀"),
        ("a\x9b0K\x85b", "a<U+009B>0K<U+0085>b"),
        ("x\u202e\u2066y\u200b\u2028", "x<U+202E><U+2066>y<U+200B><U+2028>"),
        ("a\u3164=\U000e0041", "a<U+3164>=<U+E0041>"),
        ("rm\u2800x\u034fy\ufe01", "rm<U+2800>x<U+034F>y<U+FE01>"),
    ],
)
def test_nothing_of_what_is_approved_is_hidden(hidden: str, seen: str) -> None:
    assert shown(hidden) == seen


@given(st.text())
def test_every_character_of_what_is_approved_has_a_shape(text: str) -> None:
    safe = shown(text)
    assert len(safe) >= len(text)
    assert not {letter for letter in safe if unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp")} - {
        "\n",
        "\t",
    }


def test_name_or_pattern_is_one_line() -> None:
    assert shown_line("a\n+b\tc\x1b") == "a␊+b␉c␛"


def test_escape_sequence_in_a_diff_is_shown() -> None:
    diff = '+x = "\x1b]0;"; __import__("os").system("touch PWNED"); y = "\x07"'
    assert Style(color=False).diff(diff) == '+x = "␛]0;"; __import__("os").system("touch PWNED"); y = "␇"'
