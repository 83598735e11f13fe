"""Fuzz locates, never invents: what no rung may do, whatever the file and the call."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tools.matching.match import MatchError, find_edit
from tools.matching.typography import LOOK_ALIKES
from tools.text.lines import split_lines

PIECES = st.sampled_from(
    [
        "foo",
        "bar",
        "foobar",
        "x = 1",
        "x  = 1",
        "x = 10",
        "}",
        "{",
        "(",
        ")",
        ":",
        "if a:",
        "return x",
        '"q"',
        "“q”",
        "it's",
    ]
)
BLANKS = st.sampled_from(["", " ", "  ", "    ", "\t", "\t\t", "        ", "\u00a0"])
LINES = st.builds(
    lambda indent, body, trail: indent + body + trail, BLANKS, PIECES, st.sampled_from(["", "", " ", "\t"])
)
TEXTS = st.lists(st.one_of(LINES, st.sampled_from(["", "  "])), max_size=10).flatmap(
    lambda lines: st.lists(
        st.sampled_from(["\n", "\n", "\r\n", "\r"]), min_size=len(lines), max_size=len(lines)
    ).map(lambda ends: "".join(line + end for line, end in zip(lines, ends, strict=True)))
)
CALLS = st.lists(st.one_of(LINES, st.just("")), max_size=4).map("\n".join)


def said(text: str) -> list[str]:
    """Return the meaningful part: the bodies of lines without the blanks around them, in plain characters."""
    bodies = [line.body.translate(LOOK_ALIKES).strip(" \t") for line in split_lines(text)]
    while bodies and not bodies[-1]:
        bodies.pop()
    return bodies


@settings(max_examples=examples(200))
@given(TEXTS, CALLS, CALLS)
def test_what_is_replaced_says_what_old_string_says(text: str, old: str, new: str) -> None:
    try:
        edit = find_edit(text, old, new)
    except MatchError:
        return
    (span,) = edit.spans
    found = text[span.start : span.end]
    assert said(found) == said(old) or re.sub(r"\s", "", found) == re.sub(r"\s", "", old)
    assert edit.apply(text).startswith(text[: span.start])
    assert edit.apply(text).endswith(text[span.end :])


@settings(max_examples=examples(200))
@given(TEXTS, CALLS, CALLS)
def test_what_is_written_says_what_new_string_says(text: str, old: str, new: str) -> None:
    try:
        edit = find_edit(text, old, new)
    except MatchError:
        return
    (span,) = edit.spans
    assert said(span.replacement) == said(new) or re.sub(r"\s", "", span.replacement).translate(
        LOOK_ALIKES
    ) == re.sub(r"\s", "", new).translate(LOOK_ALIKES)


@settings(max_examples=examples(150))
@given(TEXTS, CALLS, CALLS)
def test_an_exact_text_that_stands_there_twice_is_never_replaced(text: str, old: str, new: str) -> None:
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    first = plain.find(old)
    if not old or first < 0 or plain.find(old, first + 1) < 0:
        return
    try:
        find_edit(text, old, new)
    except MatchError as error:
        assert error.kind in ("ambiguous", "identical")
        return
    raise AssertionError("an ambiguous text was replaced")


@settings(max_examples=examples(150))
@given(TEXTS, CALLS, CALLS)
def test_replace_all_changes_exact_places_only(text: str, old: str, new: str) -> None:
    try:
        edit = find_edit(text, old, new, replace_all=True)
    except MatchError:
        return
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    for span in edit.spans:
        found = text[span.start : span.end].replace("\r\n", "\n").replace("\r", "\n")
        assert old.startswith(found) and old[len(found) :] in ("", "\n")
    if "\n" not in old:
        assert len(edit.spans) == plain.count(old)


@settings(max_examples=examples(150))
@given(TEXTS, CALLS, CALLS, st.booleans())
def test_line_ends_are_never_split_or_invented(text: str, old: str, new: str, everywhere: bool) -> None:
    try:
        edit = find_edit(text, old, new, everywhere)
    except MatchError:
        return
    kinds = {line.end for line in split_lines(text) if line.end} or {"\n"}
    for span in edit.spans:
        assert not (text[span.start - 1 : span.start + 1] == "\r\n" and span.start)
        assert text[span.end - 1 : span.end + 1] != "\r\n" or span.end in (0, len(text))
        assert {line.end for line in split_lines(span.replacement) if line.end} <= kinds


@settings(max_examples=examples(150))
@given(TEXTS, CALLS, CALLS)
def test_a_refusal_says_where_and_never_fails(text: str, old: str, new: str) -> None:
    try:
        find_edit(text, old + "\nnowhere()", new)
    except MatchError as error:
        assert str(error)
        assert all(1 <= line <= len(split_lines(text)) + 1 for line in error.lines)
        return
    raise AssertionError("found what is not there")
