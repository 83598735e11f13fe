from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.text.lines import (
    Line,
    diff_lines,
    diff_lines_and_ends,
    each_line,
    line_end_at,
    line_number,
    lines_with_ends,
    lsp_line_starts,
    lsp_lines,
    split_lines,
    to_lf,
)

# All characters at which str.splitlines() splits, and a half of a pair, which an editor may send.
TEXT = st.text("ab\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029\ud83d", max_size=12)


@pytest.mark.parametrize(
    ("text", "file", "lsp", "diff"),
    [
        ("", [], [""], []),
        ("a", ["a"], ["a"], ["a"]),
        ("a\n", ["a\n"], ["a", ""], ["a"]),
        ("a\r\nb", ["a\r\n", "b"], ["a", "b"], ["a", "b"]),
        ("a\rb\n\n", ["a\r", "b\n", "\n"], ["a", "b", "", ""], ["a\rb", ""]),
        ("a\r", ["a\r"], ["a", ""], ["a\r"]),
        ("a\fb\u2028c\n", ["a\fb\u2028c\n"], ["a\fb\u2028c", ""], ["a\fb\u2028c"]),
    ],
)
def test_three_ways_to_count_lines(text: str, file: list[str], lsp: list[str], diff: list[str]) -> None:
    assert lines_with_ends(text) == file
    assert lsp_lines(text) == lsp
    assert diff_lines(text) == diff


@given(TEXT)
def test_split_lines_loses_nothing(text: str) -> None:
    lines = split_lines(text)
    assert "".join(line.body + line.end for line in lines) == text
    assert all(text.startswith(line.body, line.start) for line in lines)
    assert all(line.end for line in lines[:-1])
    assert not any(end in line.body for line in lines for end in "\r\n")
    assert {line.end for line in lines} <= {"\n", "\r\n", "\r", ""}


@given(TEXT)
def test_lines_of_a_file_are_the_same_in_every_form(text: str) -> None:
    lines = split_lines(text)
    assert list(each_line(text)) == lines
    assert lines_with_ends(text) == [line.body + line.end for line in lines]


@given(TEXT)
def test_lsp_has_one_more_line_after_a_final_line_end(text: str) -> None:
    lines = split_lines(text)
    if not lines or lines[-1].end:
        lines.append(Line(len(text), "", ""))
    assert lsp_lines(text) == [line.body for line in lines]
    assert lsp_line_starts(text) == [line.start for line in lines]


@given(TEXT)
def test_lines_of_a_diff_end_with_a_line_feed(text: str) -> None:
    bodies, ends = diff_lines_and_ends(text)
    assert bodies == diff_lines(text)
    assert [body + end for body, end in zip(bodies, ends, strict=True)] == re.findall(
        r"[^\n]*\n|[^\n]+", text
    )
    assert all(end in ("\n", "\r\n") for end in ends[:-1])


def test_line_numbers_count_every_kind_of_line_end() -> None:
    text = "a\r\nb\rc\nd"
    assert [line_number(text, text.index(c)) for c in "abcd"] == [1, 2, 3, 4]


@given(TEXT)
def test_to_lf_changes_only_line_ends(text: str) -> None:
    assert to_lf(text) == "".join(line.body + ("\n" if line.end else "") for line in split_lines(text))


@pytest.mark.parametrize(
    ("text", "offset", "end"),
    [
        ("", 0, "\n"),
        ("a", 1, "\n"),
        ("a\r\nb", 0, "\r\n"),
        ("a\r\nb", 4, "\r\n"),
        ("a\rb\n", 0, "\r"),
        ("\nb", 2, "\n"),
    ],
)
def test_new_line_gets_the_end_of_its_neighbour(text: str, offset: int, end: str) -> None:
    assert line_end_at(text, offset) == end
