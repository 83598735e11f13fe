from __future__ import annotations

import contextlib
import re
import textwrap

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tools.matching.match import MatchError, find_edit

FILE = textwrap.dedent(
    '''\
    import os


    class Cart:
        """A cart."""

        def total(self):
            result = 0
            for item in self.items:
                result += item.price
            return result

        def clear(self):
            self.items = []
    '''
)


def edited(text: str, old: str, new: str, replace_all: bool = False) -> str:
    return find_edit(text, old, new, replace_all).apply(text)


def problem(text: str, old: str, new: str, replace_all: bool = False) -> MatchError:
    with pytest.raises(MatchError) as caught:
        find_edit(text, old, new, replace_all)
    return caught.value


def test_an_exact_unique_text_is_replaced() -> None:
    edit = find_edit(FILE, "result = 0", "result = Decimal(0)")
    assert (edit.strategy, edit.note) == ("exact", "")
    assert edit.apply(FILE) == FILE.replace("result = 0", "result = Decimal(0)")


def test_part_of_a_line_may_be_replaced() -> None:
    assert edited("a = foo(1)\n", "foo(", "bar(") == "a = bar(1)\n"


def test_several_places_are_refused_with_their_line_numbers() -> None:
    error = problem("x = 1\ny = 2\nx = 1\n", "x = 1", "x = 3")
    assert error.kind == "ambiguous"
    assert error.lines == (1, 3)
    assert "lines 1, 3" in str(error)


def test_overlapping_places_are_ambiguous() -> None:
    assert problem("aaa\n", "aa", "b").kind == "ambiguous"


def test_replace_all_changes_every_exact_match() -> None:
    assert edited("x x\nx\n", "x", "y", replace_all=True) == "y y\ny\n"


def test_replace_all_matches_across_mixed_line_ends() -> None:
    assert edited("a\r\nb\r\nc\na\nb\r\n", "a\nb", "X\nY", replace_all=True) == "X\r\nY\r\nc\nX\nY\r\n"


def test_replace_all_uses_no_looser_match() -> None:
    assert problem("\tfoo()\n", "    foo()\n", "    bar()\n", replace_all=True).kind == "absent"


def test_identical_and_empty_strings_are_refused() -> None:
    assert problem("a", "a", "a").kind == "identical"
    assert problem("a", "", "a").kind == "empty"


def test_line_ends_of_the_file_are_kept_line_by_line() -> None:
    text = "one\r\ntwo\nthree\r\nfour\n"
    edit = find_edit(text, "one\ntwo\nthree\n", "one\nTWO\nextra\nthree\n")
    assert edit.strategy == "line ends"
    assert edit.apply(text) == "one\r\nTWO\nextra\nthree\r\nfour\n"


def test_places_that_differ_in_line_ends_only_are_ambiguous() -> None:
    assert problem("a\nb\n\na\r\nb\r\n", "a\nb", "x").kind == "ambiguous"


def test_missing_final_newline_matches_and_stays_missing() -> None:
    assert edited("a\nfoo", "foo\n", "bar\n") == "a\nbar"
    assert edited("a\nfoo", "foo\n", "bar\nbaz\n") == "a\nbar\nbaz"


def test_trailing_blanks_of_the_file_are_kept_on_repeated_lines() -> None:
    text = "def f():   \n    a = 1\t\n    return a\n"
    edit = find_edit(text, "def f():\n    a = 1\n    return a", "def f():\n    a = 1\n    return b")
    assert edit.strategy == "trailing blanks"
    assert edit.apply(text) == "def f():   \n    a = 1\t\n    return b\n"


def test_trailing_blanks_in_old_string_do_not_split_a_word() -> None:
    assert problem("x = 10\n", "x = 1  ", "x = 2").kind == "absent"


def test_blank_lines_with_and_without_blanks_are_the_same() -> None:
    assert edited("a\n    \nb\n", "a\n\nb", "a\n\nc") == "a\n    \nc\n"


def test_a_dedented_text_is_found_and_the_new_one_indented_alike() -> None:
    old = "def total(self):\n    result = 0\n    for item in self.items:\n"
    new = "def total(self):\n    result = 1\n\n    for item in self.items:\n        # each\n"
    edit = find_edit(FILE, old, new)
    assert edit.strategy == "indentation"
    expected = FILE.replace("result = 0\n", "result = 1\n\n").replace(
        "self.items:\n", "self.items:\n            # each\n"
    )
    assert edit.apply(FILE) == expected


def test_a_text_indented_too_far_is_found_and_dedented() -> None:
    assert edited("def f():\n    pass\n", "    def f():\n        pass", "    def f():\n        return") == (
        "def f():\n    return\n"
    )


def test_a_new_text_that_cannot_be_dedented_is_refused() -> None:
    assert problem("f()\ng()\n", "    f()\n    g()", "    f()\n  h()").kind == "unclear"


def test_uneven_indentation_is_refused() -> None:
    assert problem("if a:\n    b()\n    c()\n", "if a:\n  b()\n      c()", "pass").kind == "absent"


def test_two_places_at_different_depths_are_ambiguous() -> None:
    text = "if a:\n    x = 1\n    y = 2\nelse:\n        x = 1\n        y = 2\n"
    error = problem(text, "  x = 1\n  y = 2\n", "  x = 2\n")
    assert (error.kind, error.lines) == ("ambiguous", (2, 5))


def test_spaces_are_found_as_tabs_and_the_file_keeps_its_tabs() -> None:
    text = "func f() {\n\tif a {\n\t\tb()\n\t}\n}\n"
    edit = find_edit(
        text,
        "    if a {\n        b()\n    }",
        "    if a {\n        b()\n        c()\n        if d {\n            e()\n        }\n    }",
    )
    assert edit.strategy == "tabs and spaces"
    assert (
        edit.apply(text) == "func f() {\n\tif a {\n\t\tb()\n\t\tc()\n\t\tif d {\n\t\t\te()\n\t\t}\n\t}\n}\n"
    )


def test_tabs_are_found_as_spaces_and_the_file_keeps_its_spaces() -> None:
    text = "def f():\n  if a:\n    b()\n"
    assert (
        edited(text, "\tif a:\n\t\tb()", "\tif a:\n\t\tc()\n\t\t\td()")
        == "def f():\n  if a:\n    c()\n      d()\n"
    )


def test_typographic_quotes_of_the_file_are_kept() -> None:
    text = "say(“hello”, ‘you’) – now\n"
    edit = find_edit(text, "say(\"hello\", 'you') - now", "say(\"hello\", 'me') - now")
    assert edit.strategy == "look-alike characters"
    assert edit.apply(text) == "say(“hello”, ‘me’) – now\n"


def test_typographic_quotes_of_the_model_are_not_written() -> None:
    assert edited('print("a")\n', "print(“a”)", "print(“a”)\nprint(“b”)") == 'print("a")\nprint("b")\n'


def test_no_break_spaces_are_kept() -> None:
    assert edited("a\u00a0= 1\nb = 2\n", "a = 1\nb = 2", "a = 1\nb = 3") == "a\u00a0= 1\nb = 3\n"


def test_deleting_a_line_from_its_first_word_removes_its_indent() -> None:
    text = "f:\n    # it isn't\n    # used\n"
    assert find_edit(text, "# it isn\u2019t\n", "").apply(text) == "f:\n    # used\n"
    assert find_edit(text, "# it isn't\n", "").apply(text) == "f:\n    # used\n"


def test_look_alikes_and_indentation_may_differ_together() -> None:
    text = "if x:\n        say(“a”)\n        go()\n"
    assert (
        edited(text, 'say("a")\ngo()\n', 'say("a")\nstay()\n') == "if x:\n        say(“a”)\n        stay()\n"
    )


def test_escaped_line_ends_are_read_as_line_ends() -> None:
    edit = find_edit("a = 1\nb = 2\n", "a = 1\\nb = 2", "a = 1\\nb = 3")
    assert edit.strategy == "escaped characters"
    assert edit.apply("a = 1\nb = 2\n") == "a = 1\nb = 3\n"


def test_a_text_escaped_like_json_is_unescaped() -> None:
    text = 'x = "a"\ny = "b\\n"\n'
    assert (
        edited(text, 'x = \\"a\\"\\ny = \\"b\\\\n\\"', 'x = \\"c\\"\\ny = \\"b\\\\n\\"')
        == 'x = "c"\ny = "b\\n"\n'
    )


def test_an_escape_that_belongs_to_the_code_is_not_guessed() -> None:
    assert problem("a()\nb()\n", "a()\\nb()", 'a()\\nprint("x\\n")').kind == "unclear"


def test_escape_present_in_the_file_is_kept() -> None:
    assert edited('print("a\\nb")\n', 'print("a\\nb")', 'print("c\\nd")') == 'print("c\\nd")\n'


@pytest.mark.parametrize(
    "form", ["{n}→{line}", "   {n}→{line}", "{n:6}\t{line}", "{n:05}| {line}", "{n}: {line}"]
)
def test_copied_line_numbers_are_removed_from_both(form: str) -> None:
    lines = FILE.splitlines()[6:9]
    old = "\n".join(form.format(n=n, line=line) for n, line in enumerate(lines, 7))
    new = old.replace("result = 0", "result = 1")
    edit = find_edit(FILE, old, new)
    assert edit.strategy == "line numbers"
    assert edit.apply(FILE) == FILE.replace("result = 0", "result = 1")


def test_single_number_before_a_tab_counts_only_at_its_own_line() -> None:
    assert problem("a\nfoo\n", "9\tfoo", "9\tbar").kind == "absent"
    assert edited("a\nfoo\n", "2\tfoo", "2\tbar") == "a\nbar\n"


def test_numbers_that_do_not_rise_are_text() -> None:
    assert problem("foo\nbar\n", "3\tfoo\n7\tbar", "x").kind == "absent"


def test_different_words_numbers_and_operators_never_match() -> None:
    for old in ("result = 1\n", "result == 0\n", "Result = 0\n", "result  = 0\n", "result=0\n"):
        assert problem(FILE, f"            {old}", "x").kind == "absent"


def test_absent_text_error_shows_the_nearest_lines() -> None:
    error = problem(FILE, "        for item in self.item:\n            result += item.price\n", "x")
    assert error.kind == "absent"
    assert error.lines == (9,)
    assert "-         for item in self.item:" in str(error)
    assert "+         for item in self.items:" in str(error)


def test_an_absent_text_in_an_empty_file_has_no_nearest_place() -> None:
    assert "No similar place" in str(problem("", "foo", "bar"))


def test_edit_that_is_already_applied_is_reported() -> None:
    once = edited(FILE, "result = 0", "result = 1")
    assert problem(once, "result = 0", "result = 1").kind == "already_applied"


def test_insertion_is_not_applied_twice() -> None:
    once = edited(FILE, "import os\n", "import os\nimport sys\n")
    assert problem(once, "import os\n", "import os\nimport sys\n").kind == "already_applied"


def test_additional_blank_line_may_be_inserted() -> None:
    assert edited("a\n\nb\n", "a\n", "a\n\n") == "a\n\n\nb\n"


def test_added_lines_after_a_partial_indentation_are_unclear() -> None:
    text = "class A:\n    x = 1\n    z = 3\n"
    assert problem(text, "z = 3", "z = 3\ny = 2").kind == "unclear"
    assert edited(text, "x = 1", "x = 1\ny = 2") == "class A:\n    x = 1\n    y = 2\n    z = 3\n"
    assert edited(text, "x = 1", "x = 1\n    y = 2") == "class A:\n    x = 1\n    y = 2\n    z = 3\n"


def test_match_inside_a_deeper_indentation_is_not_exact() -> None:
    text = "if a:\n    if b:\n        f(1)\n    f(2)\n"
    assert edited(text, "      f(", "      g(") == text.replace("f(1)", "g(1)")
    assert problem(text, "      f(", "      g(\n      h(").kind == "unclear"
    assert edited(text, "  f(2)", "  f(3)") == text.replace("f(2)", "f(3)")
    assert edited(text, "  f(2)", "  f(3)\n  g()") == text.replace("f(2)", "f(3)\n    g()")


def test_stray_escape_beside_the_old_text_is_not_written() -> None:
    text = "import os\n"
    assert problem(text, "import os", "import os\\nimport sys").kind == "unclear"
    assert edited("split(x)\n", "split(x)", "split(/\\n/)") == "split(/\\n/)\n"
    assert edited("p(x)\n", "p(x)", 'p("\\n  ")') == 'p("\\n  ")\n'


def test_deleting_the_rest_of_a_line_removes_its_indentation() -> None:
    assert edited("def f():\n    a()\n    b()\n", "a()\n", "") == "def f():\n    b()\n"


def test_a_stale_deletion_is_not_called_applied() -> None:
    error = problem("a = 1\nb = 2\nc = 3\n", "a = 1\nstale = 0\nb = 2", "a = 1\nb = 2")
    assert error.kind == "absent"
    assert "it may already be applied." in str(error)


def test_deleting_leaves_the_rest() -> None:
    assert edited("a\nb\nc\n", "b\n", "") == "a\nc\n"


def test_a_lost_line_end_does_not_join_lines() -> None:
    assert edited("def f():\n    a()\n    b()\n", "    a()\n", "    c()") == "def f():\n    c()\n    b()\n"
    assert edited("a\nb\nc\n", "a\nb\n", "x\nb") == "x\nb\nc\n"
    assert edited("a\nb\n", "a\n", "x") == "x\nb\n"
    assert edited("a\n\nb\n", "a\n", "x") == "x\nb\n"


def test_extra_line_end_at_the_end_of_the_file_is_ignored() -> None:
    assert edited("a\nb\n", "b\n\n", "c\n\n") == "a\nc\n"
    assert edited("a\nb\n", "a\n\n", "c\n\n") == "c\nb\n"


def test_blanks_that_only_the_call_has_do_not_get_into_the_file() -> None:
    assert edited("a\nb\n", "a  \nb  \n", "a  \nc  \n") == "a\nc\n"
    assert edited("a\nb\n", "a  \nb  \n", "a  \nc\t\n") == "a\nc\t\n"


def test_replacement_that_may_be_indented_already_is_unclear() -> None:
    text = "class A:\n    def f(self):\n        a()\n        b()\n"
    assert problem(text, "a()\nb()\n", "        a()\n        c()\n").kind == "unclear"


def test_replacement_with_ambiguous_tab_width_is_unclear() -> None:
    text = "if a:\n\tif b:\n\t\tc()\n"
    assert problem(text, "  c()\n", "  if d:\n      c()\n").kind == "unclear"
    assert edited(text, "  if b:\n    c()\n", "  if b:\n    if d:\n      c()\n") == (
        "if a:\n\tif b:\n\t\tif d:\n\t\t\tc()\n"
    )


def test_new_typography_is_kept_unless_it_may_be_a_model_habit() -> None:
    assert edited("a = 1\n", "a = 1", "a = “1”") == "a = “1”\n"
    assert problem('p("a")\n', "p(“a”)", "p(‘b’)").kind == "unclear"
    assert edited('p("a")\n', "p(“a”)", "p(“a – b”)") == 'p("a – b")\n'


def test_numbers_in_new_lines_are_not_taken_for_line_numbers() -> None:
    text = "a = {\n    0: 'x',\n}\n"
    assert edited(text, "1: a = {\n2:     0: 'x',\n", "a = {\n    1: 'y',\n    0: 'x',\n") == (
        "a = {\n    1: 'y',\n    0: 'x',\n}\n"
    )
    assert problem("a\nb\n", "1: a\n2: b", "1: a\n7: c\n2: b").kind == "unclear"


def test_single_line_at_a_lesser_depth_is_unclear() -> None:
    text = "for a in b:\n    x = f(a)\n    for c in a:\n        y = g(c)\n"
    assert problem(text, "        x = f(a)\n", "        x = h(a)\n").kind == "unclear"
    assert edited(
        text, "        x = f(a)\n        for c in a:\n", "        x = h(a)\n        for c in a:\n"
    ) == (text.replace("f(a)", "h(a)"))


def test_line_numbers_of_another_place_resolve_no_ambiguity() -> None:
    text = "x()\ny()\nif a:\n    x()\n    y()\n"
    assert problem(text, "4→x()\n5→y()", "4→x()\n5→z()").kind == "ambiguous"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_replace_all_reaches_the_last_line_without_its_end(end: str) -> None:
    text = end.join(["a", "b", "a"])
    assert edited(text, "a\n", "c\n", replace_all=True) == end.join(["c", "b", "c"])


WORDS = st.sampled_from(
    ["alpha", "beta = 1", "    gamma(2)", "\tdelta", "", "  ", "x += y  ", "“q”", 'say("q")', "}"]
)
ENDS = st.sampled_from(["\n", "\r\n"])
LINES = st.lists(st.tuples(WORDS, ENDS), min_size=1, max_size=12)


def skeleton(text: str) -> str:
    """All that carries meaning: everything but blanks, line ends and typography."""
    return re.sub(r"\s", "", text).translate(str.maketrans("“”", '""'))


@given(LINES, st.data())
def test_any_match_strategy_changes_only_the_requested_text(
    lines: list[tuple[str, str]], data: st.DataObject
) -> None:
    text = "".join(body + end for body, end in lines)
    first = data.draw(st.integers(0, len(lines) - 1))
    last = data.draw(st.integers(first, len(lines) - 1))
    shift = data.draw(st.sampled_from(["", "  ", "\t"]))
    piece = [body.rstrip() for body, _ in lines[first : last + 1]]
    old = "\n".join(shift + body if body else body for body in piece)
    new = old + "\n" + shift + "NEW"
    assume(old.strip())
    try:
        edit = find_edit(text, old, new)
    except MatchError:
        return
    (span,) = edit.spans
    after = edit.apply(text)
    assert after.startswith(text[: span.start])
    assert after.endswith(text[span.end :])
    assert skeleton(span.replacement) == skeleton(text[span.start : span.end]) + "NEW"


@given(LINES, st.data())
def test_an_exact_edit_applied_twice_is_refused(lines: list[tuple[str, str]], data: st.DataObject) -> None:
    text = "".join(body + end for body, end in lines)
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    old, new = text[start:end], text[start:end] + "ADDED"
    try:
        once = edited(text, old, new)
    except MatchError:
        return
    with pytest.raises(MatchError):
        find_edit(once, old, new)


def test_first_line_repeated_without_its_indentation_is_unclear() -> None:
    text = "class A:\n    def f(self):\n        return 1\n"
    with pytest.raises(MatchError, match="after the indentation"):
        find_edit(text, "def f(self):\n        return 1", "@cached\ndef f(self):\n        return 1")


def test_look_alike_character_is_kept_at_its_own_position() -> None:
    made = find_edit("don\u2019t do it\n", "don't do it", "don't and can't do it")
    assert made.apply("don\u2019t do it\n") == "don\u2019t and can't do it\n"


def test_deleting_line_ends_keeps_the_blanks_before_them() -> None:
    assert find_edit("a\n  \nb", "\n", "", replace_all=True).apply("a\n  \nb") == "a  b"


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("hello\n", "a" + "\n" * 60_000 + "b"),
        ("hello\n", "a" + " " * 100_000 + "b"),
        ("hello\n", "```\n```" + " " * 100_000 + "b"),
        ("\u201ca\u201d" + " " * 150_000 + "b\n", '"a"' + " " * 150_000 + "b"),
    ],
)
def test_time_stays_bounded_for_long_runs_of_blanks(text: str, old: str) -> None:
    # Each took minutes, in one call into the pattern matcher that stops all other threads.
    with contextlib.suppress(MatchError):
        find_edit(text, old, old + "c")
