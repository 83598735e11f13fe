"""Doubts that no single rung sees: rival places, lost line ends, and typography that only new_string has."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.matching.match import MatchError, find_edit

BLOCK = ('say("it\'s - a")', "    if done:", "        go('b')")
OLD = "\n".join(BLOCK) + "\n"
NEW = OLD.replace("go", "stay")
LOOSE: dict[str, Callable[[str], str]] = {
    "trailing blanks": lambda line: line + "  ",
    "indentation": lambda line: "    " + line,
    "double quotes": lambda line: line.replace('"', "“"),
    "single quotes": lambda line: line.replace("'", "’"),
    "dashes": lambda line: line.replace("-", "–"),
    "no-break spaces": lambda line: line.replace("e:", "e\u00a0:").replace(" - ", "\u00a0-\u00a0"),
    "indentation and quotes": lambda line: "  " + line.replace('"', "”"),
    "indentation and trailing blanks": lambda line: "        " + line + " ",
}
PAIRS = list(itertools.permutations((k for k in LOOSE if k != "no-break spaces"), 2))


def block(kind: str) -> str:
    return "".join(LOOSE[kind](line) + "\n" for line in BLOCK)


def problem(text: str, old: str, new: str) -> MatchError:
    with pytest.raises(MatchError) as caught:
        find_edit(text, old, new)
    return caught.value


@pytest.mark.parametrize(("one", "other"), PAIRS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_two_places_that_differ_in_two_ways_are_both_named(one: str, other: str, end: str) -> None:
    text = ("first()\n" + block(one) + "middle()\n" + block(other) + "last()\n").replace("\n", end)
    error = problem(text, OLD, NEW)
    assert (error.kind, sorted(error.lines)) == ("ambiguous", [2, 6])
    assert "line 2 " in str(error) or "lines 2, 6" in str(error)


@pytest.mark.parametrize("kind", [kind for kind in LOOSE if kind != "no-break spaces"])
def test_escaped_match_with_an_unescaped_candidate_is_ambiguous(kind: str) -> None:
    text = OLD + "middle()\n" + block(kind)
    escaped_old, escaped_new = (part.replace("\n", "\\n") for part in (OLD, NEW))
    assert problem(text, escaped_old, escaped_new).kind == "ambiguous"


def test_candidate_with_uneven_indentation_counts_as_ambiguous() -> None:
    uneven = "  " + BLOCK[0] + "\n" + BLOCK[1] + "\n    " + BLOCK[2] + "\n"
    error = problem(block("trailing blanks") + "middle()\n" + uneven, OLD, NEW)
    assert (error.kind, sorted(error.lines)) == ("ambiguous", [1, 5])


@given(st.permutations(sorted(LOOSE)), st.integers(2, 3), st.data())
def test_several_candidates_of_any_kinds_are_ambiguous(
    kinds: list[str], count: int, data: st.DataObject
) -> None:
    kinds = [kind for kind in kinds if kind != "no-break spaces"][:count]
    text = "".join("x()\n" * data.draw(st.integers(1, 3)) + block(kind) for kind in kinds)
    error = problem(text, OLD, NEW)
    assert error.kind == "ambiguous"
    assert len(set(error.lines)) == count


@pytest.mark.parametrize(
    ("after", "new"),
    [
        ("\n", "c()"), ("\n\n", "c()"), ("   \n", "c()"), ("", "c()"), ("d()\n", ""), ("    d()\n", ""),
        ("\n", "x()\n    c()"), ("\n    b()\n", "    c()"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", ["", "a()\n", "if a:\n"])
def test_missing_line_end_in_new_string_is_dropped_if_harmless(before: str, after: str, new: str) -> None:
    edit = find_edit(before + "old()\n" + after, "old()\n", new)
    assert edit.apply(before + "old()\n" + after) == before + new + after
    assert edit.note == ""


@pytest.mark.parametrize("after", ["d()", "d()\n", "    d()\n", "\td()", ")\n", "d()\n\n"])
@pytest.mark.parametrize("new", ["c()", "x()\nc()", "\nc()"])
@pytest.mark.parametrize("before", ["", "a()\n", "\n"])
def test_missing_line_end_is_kept_and_noted_if_lines_would_join(before: str, after: str, new: str) -> None:
    edit = find_edit(before + "old()\n" + after, "old()\n", new)
    assert edit.apply(before + "old()\n" + after) == before + new + "\n" + after
    assert "line end" in edit.note


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ("a = f(x,\n  y)\n", "x,\n", "x, ", "a = f(x,   y)\n"),
        ("a = [\n]\n", "[\n", "[", "a = []\n"),
        ("a = one\n    + two\n", "one\n", "three", "a = three\n    + two\n"),
    ],
)
def test_match_within_a_line_may_join_lines_without_a_gap(text: str, old: str, new: str, after: str) -> None:
    assert find_edit(text, old, new).apply(text) == after


@pytest.mark.parametrize(("old", "new"), [("a\n", "a"), ("a \\\n", "a"), ("a\n", "b ")])
def test_possible_join_of_whole_lines_is_unclear(old: str, new: str) -> None:
    assert problem(old + "b\n", old, new).kind == "unclear"


CONTENT = ["—", "–", "−", "\u00a0", "\u202f", "…", "×"]


@pytest.mark.parametrize("brought", CONTENT)
@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ('p("a")\n', "p(“a”)", "p(“a{}b”)", 'p("a{}b")\n'),
        ('p("a")\nq()\n', "p(“a”)\nq()\n", "p(“a”)\n# 1{}2\nq()\n", 'p("a")\n# 1{}2\nq()\n'),
        ("p(“a”)\n", 'p("a")', 'p("a{}b")', "p(“a{}b”)\n"),
        ("p(1)  \nq()\n", "p(1)\nq()", "p(1)\nr(‘{}’)", "p(1)  \nr(‘{}’)\n"),
        ("    p(1)\n    q()\n", "p(1)\nq()\n", "p(1)\nr(“{}”)\n", "    p(1)\n    r(“{}”)\n"),
        ("it’s\n", "it's", "it's {}", "it’s {}\n"),
    ],
)
def test_typography_that_only_new_string_has_is_content(
    brought: str, text: str, old: str, new: str, after: str
) -> None:
    assert find_edit(text, old, new.format(brought)).apply(text) == after.format(brought)


def test_other_quote_kind_is_content_beside_plain_quotes() -> None:
    text = "p(\"a\", 'b')\n"
    assert find_edit(text, "p(“a”, 'b')", "p(“a”, ‘c’)").apply(text) == 'p("a", ‘c’)\n'
    assert problem('p("a")\n', "p(“a”)", "p(“a”, ‘b’)").kind == "unclear"


@pytest.mark.parametrize("more", ['p("x", “y”)', 'p(“x”, "y")'])
def test_inconsistent_quote_spelling_is_unclear(more: str) -> None:
    assert problem('p("a")\n', "p(“a”)", f"p(“a”)\n{more}").kind == "unclear"
    assert problem('p("a", "b")\n', 'p(“a”, "b")', 'p(“a”, "b")\np(“c”)').kind == "unclear"


def test_no_break_spaces_at_line_ends_are_treated_as_a_habit() -> None:
    text = "def f():\n    return 1\n"
    old, new = "def\u00a0f():\u00a0\n", "def\u00a0f():\u00a0\n    x\u00a0=\u00a02\u00a0\n"
    assert find_edit(text, old, new).apply(text) == "def f():\n    x = 2\n    return 1\n"


def test_typography_of_unchanged_lines_is_kept_when_adding_lines() -> None:
    text = "# it’s\nx = 1\n"
    assert find_edit(text, "# it's\nx = 1", "# it's\nx = 2\ny = 3").apply(text) == "# it’s\nx = 2\ny = 3\n"


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ("a()\nb()\nc()\n", "\nb()\n", "\nd()\n", "a()\nd()\nc()\n"),
        ("a()\nb()\nc()\n", "b()\n\n", "d()\n\n", "a()\nd()\nc()\n"),
        ("a()\nb()\nc()\n", "\n\nb()\n  \n", "\n\nd()\n  \n", "a()\nd()\nc()\n"),
        ("a()\nb()\nc()\n", "b()\n\n", "d()\n", "a()\nd()\nc()\n"),
        ("a()\r\n  b()\r\n  c()", "\n  b()\n\n", "\n  d()\n\n", "a()\r\n  d()\r\n  c()"),
        ("if a:\n    b()\n    c()\n", "\nb()\nc()\n\n", "\nd()\nc()\n\n", "if a:\n    d()\n    c()\n"),
        ("a()\nb()\n", "\nb()\n", "c()\n", "a()\nc()\n"),
    ],
)
def test_surrounding_blank_lines_missing_in_the_file_are_ignored(
    text: str, old: str, new: str, after: str
) -> None:
    assert find_edit(text, old, new).apply(text) == after


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("a()\nx b()\nc()\n", "\n\nb()\n", "\n\nd()\n"),
        ("a()\nb() x\nc()\n", "b()\n\n", "d()\n\n"),
        ("a()\nb()\nc()\nb()\n", "b()\n\n", "d()\n\n"),
        ("d()\n\nb()\nc()\n", "b()\n\n", "d()\n\n"),
        ("a()\nb()\nc()\n", "b()\n\n", ""),
        ("a()\nb()\n\nc()\n", "b()\n\n\n", "d()\n"),
        ("a()\nb()\nc()\n", "b()\n\nc()\n", "d()\n\nc()\n"),
    ],
)
def test_blank_lines_that_leave_a_doubt_are_context(text: str, old: str, new: str) -> None:
    assert problem(text, old, new).kind in ("absent", "ambiguous", "already_applied")


def test_code_fence_around_both_texts_is_stripped() -> None:
    old, new = "```python\na()\nb()\n```", "```python\na()\nc()\n```"
    assert find_edit("a()\nb()\n", old, new).apply("a()\nb()\n") == "a()\nc()\n"
    assert problem("```\na()\nb()\n```\n", old, new).kind == "absent"
    assert problem("xa()\nb()\n", old, new).kind == "absent"


def test_replacement_with_certain_file_indentation_is_kept_as_is() -> None:
    text = "class A:\n    x = 1\n\n    def f(self):\n        a()\n        b()\n"
    old, new = "def f(self):\n    a()\n    b()\n", "    def f(self):\n        a()\n        c()\n"
    assert find_edit(text, old, new).apply(text) == text.replace("b()", "c()")
    assert problem(text, "a()\nb()\n", "        a()\n        c()\n").kind == "unclear"
    moved = "    def f(self):\n        a()\n        b()\n"
    assert problem(text, old, moved).kind == "unclear"


def test_escapes_in_new_string_are_line_ends_only_if_proven() -> None:
    text = "if a:\n    b()\n    c()\n"
    assert find_edit(text, text, "if a:\\n    b()\\n    d()\\n").apply(text) == text.replace("c()", "d()")
    assert problem(text, text, "if a:\\n    x()\\n    d()\\n").kind == "unclear"
    assert problem(text, text, 'if a:\\n    b("\\t")\\n    c()\\n').kind == "unclear"


def test_escapes_of_characters_that_are_not_ascii_are_unescaped() -> None:
    text = "# “é” 😀\nx = 1\n"
    old, new = (
        "# \\u201c\\u00e9\\u201d \\ud83d\\ude00\\nx = 1\\n",
        "# \\u201c\\u00e8\\u201d \\ud83d\\ude00\\nx = 1\\n",
    )
    assert find_edit(text, old, new).apply(text) == "# “è” 😀\nx = 1\n"
    assert problem(text, "# \\ud83d\\nx = 1", "# y\\nx = 1").kind == "absent"


@pytest.mark.parametrize("first", ["b()", "    b()"])
def test_leading_line_end_is_kept_if_lines_would_join(first: str) -> None:
    text = f"a()\n{first}\nc()\n"
    edit = find_edit(text, f"\n{first}\n", first.replace("b", "d") + "\n")
    assert (edit.apply(text), "line end" in edit.note) == (text.replace("b", "d"), True)
    assert find_edit("f(a,\n)\n", ",\n)", ",)").apply("f(a,\n)\n") == "f(a,)\n"
    assert find_edit("f(a,\n)\n", "\n)\n", ")\n").apply("f(a,\n)\n") == "f(a,)\n"
