from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_bridge.language_client.diagnostics.diagnostics_diff import map_lines, new_problems
from lsp_bridge.language_client.text.positions import character_column
from tools.text.lines import lsp_lines
from tools.tool import Problem

FILE = Path("/w/a.py")


def problem(line: int, message: str = "m", column: int = 1, code: str = "c") -> Problem:
    return Problem(FILE, line, column, "error", message, "s", code)


def test_an_unchanged_problem_is_not_new() -> None:
    assert new_problems("a\nb", "a\nb", [problem(2)], [problem(2)]) == []


def test_a_problem_below_inserted_lines_is_not_new() -> None:
    assert new_problems("a\nb", "x\ny\na\nb", [problem(2)], [problem(4)]) == []


def test_a_problem_in_a_block_that_was_indented_is_not_new() -> None:
    before, after = "a()\nb()", "try:\n    a()\n    b()\nfinally:\n    pass"
    assert new_problems(before, after, [problem(2)], [problem(3, column=5)]) == []


def test_a_problem_in_a_block_that_was_moved_is_not_new() -> None:
    before, after = "one\ntwo\nthree\nfour", "three\nfour\none\ntwo"
    assert new_problems(before, after, [problem(1)], [problem(3)]) == []


def test_another_message_on_the_same_line_is_new() -> None:
    new = problem(1, "other")
    assert new_problems("a", "a", [problem(1)], [problem(1), new]) == [new]


def test_another_code_is_another_problem() -> None:
    new = problem(1, code="d")
    assert new_problems("a", "a", [problem(1)], [new]) == [new]


def test_a_second_occurrence_of_a_known_problem_is_new() -> None:
    assert new_problems("f()", "f()\nf()", [problem(1)], [problem(1), problem(2)]) == [problem(2)]


def test_of_two_equal_problems_the_one_on_an_old_line_is_old() -> None:
    before, after = "a\nf()\nb", "a\nf()\nc\nf()\nb"
    assert new_problems(before, after, [problem(2)], [problem(2), problem(4)]) == [problem(4)]


def test_a_known_problem_on_a_rewritten_line_is_reported() -> None:
    assert new_problems("f(1)", "f(2)", [problem(1)], [problem(1)]) == [problem(1)]


def test_without_a_baseline_all_problems_are_new() -> None:
    assert new_problems(None, "a", [], [problem(1)]) == [problem(1)]
    assert new_problems("a", "a", None, [problem(1)]) == [problem(1)]


def test_line_ends_do_not_matter() -> None:
    assert new_problems("a\r\nb\r\n", "x\na\nb\n", [problem(2)], [problem(3)]) == []


def test_lines_are_those_of_the_protocol() -> None:
    assert lsp_lines("a\r\nb\rc\nd\x0ce\u2028f") == ["a", "b", "c", "d\x0ce\u2028f"]


def test_columns_are_counted_in_characters() -> None:
    assert character_column("x = '\U0001f600' + y", 11) == 10
    assert character_column("é" * 4, 3) == 3


LINES = st.lists(st.sampled_from(["", "a", "b", "f()", "x = 1", "}", "return"]), max_size=30)
PATIENT = settings(deadline=None)  # a busy machine is not a wrong answer
KEYS = st.sampled_from(["one", "two"])


@st.composite
def insertions(draw: st.DrawFn) -> tuple[list[str], list[str], list[int]]:
    """Old lines, new lines with some inserted, and for each old line its new index."""
    old = draw(LINES)
    new: list[str] = []
    places: list[int] = []
    for line in old:
        new += draw(st.lists(st.sampled_from(["", "a", "f()", "new"]), max_size=2))
        places.append(len(new))
        new.append(line)
    return old, new, places


@PATIENT
@given(insertions(), st.data())
def test_insertions_never_report_old_problems(
    edit: tuple[list[str], list[str], list[int]], data: st.DataObject
) -> None:
    old, new, places = edit
    known = (
        data.draw(st.lists(st.tuples(st.integers(0, max(0, len(old) - 1)), KEYS), max_size=12)) if old else []
    )
    baseline = [problem(line + 1, key) for line, key in known]
    current = [problem(places[line] + 1, key) for line, key in known]
    assert new_problems("\n".join(old), "\n".join(new), baseline, current) == []


@PATIENT
@given(insertions(), st.data())
def test_exactly_the_added_problems_are_reported(
    edit: tuple[list[str], list[str], list[int]], data: st.DataObject
) -> None:
    old, new, places = edit
    known = (
        data.draw(st.lists(st.tuples(st.integers(0, max(0, len(old) - 1)), KEYS), max_size=12)) if old else []
    )
    baseline = [problem(line + 1, key) for line, key in known]
    kept = [problem(places[line] + 1, key) for line, key in known]
    lines = st.integers(1, max(1, len(new)))
    added = data.draw(st.lists(st.builds(problem, lines, st.sampled_from(["three", "four"])), max_size=6))
    twins = data.draw(st.lists(st.builds(problem, lines, KEYS), max_size=6))
    current = data.draw(st.permutations([*kept, *added, *twins]))
    reported = new_problems("\n".join(old), "\n".join(new), baseline, current)
    assert Counter(p for p in reported if p.message in ("three", "four")) == Counter(added)
    # Of equal problems on equal lines nobody can say which is the older one, but their number is right.
    assert Counter(p.message for p in reported) == Counter(p.message for p in [*added, *twins])


@PATIENT
@given(LINES, st.data())
def test_removing_lines_makes_no_problem_new(old: list[str], data: st.DataObject) -> None:
    keep = data.draw(st.lists(st.booleans(), min_size=len(old), max_size=len(old)))
    baseline = [problem(index + 1, f"m{index % 2}") for index in range(len(old))]
    kept = [index for index, stays in enumerate(keep) if stays]
    current = [problem(place + 1, f"m{index % 2}") for place, index in enumerate(kept)]
    after = "\n".join(old[index] for index in kept)
    assert new_problems("\n".join(old), after, baseline, current) == []


@PATIENT
@given(LINES, LINES)
def test_mapped_lines_are_equal_and_no_two_lines_become_one(old: list[str], new: list[str]) -> None:
    mapping = map_lines(old, new)
    assert all(old[source] == new[target] for source, target in mapping.items())
    assert len(set(mapping.values())) == len(mapping)
