"""Laws of the comparison, on any texts, edits and problems."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lsp_bridge.language_client.diagnostics.diagnostics_diff import map_lines, new_problems
from tools.language_ports import Problem
from tools.text.lines import lsp_lines

PATH = Path("/w/a.py")
LINE = st.sampled_from(["x = 1", "y = 2", "print(z)", "", "    return x", "def f():", "\tpass", "é = '😀'"])
LINES = st.lists(LINE, max_size=12)
WORDS = ["z is not defined", "unused", "not a type"]


def problem(line: int, message: str) -> Problem:
    return Problem(PATH, line, 1, "error", message, "ty", "c")


def said_of(text: str) -> st.SearchStrategy[list[Problem]]:
    """Problems on the lines of a text, also several equal ones, and some beyond its end."""
    line = st.integers(1, len(lsp_lines(text)) + 1)
    return st.lists(st.builds(problem, line, st.sampled_from(WORDS)), max_size=8)


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, str]:
    """A text, and what some edits make of it: lines inserted, removed, rewritten, indented, moved."""
    old = draw(LINES)
    new = list(old)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(new)))
        kind = draw(st.sampled_from(["insert", "remove", "rewrite", "indent", "move"]))
        end = draw(st.integers(at, len(new)))
        if kind == "insert":
            new[at:at] = draw(st.lists(LINE, max_size=3))
        elif kind == "remove":
            del new[at:end]
        elif kind == "rewrite":
            new[at:end] = draw(st.lists(LINE, max_size=3))
        elif kind == "indent":
            new[at:end] = ["    " + line for line in new[at:end]]
        else:
            block = new[at:end]
            del new[at:end]
            to = draw(st.integers(0, len(new)))
            new[to:to] = block
    return "\n".join(old), draw(st.sampled_from(["\n", "\r\n"])).join(new)


@given(LINES.map("\n".join), st.data())
def test_without_a_change_nothing_is_new(text: str, data: st.DataObject) -> None:
    said = data.draw(said_of(text))
    assert new_problems(text, text, said, data.draw(st.permutations(said))) == []


@given(texts(), st.data())
def test_what_vanishes_or_moves_with_its_line_is_never_new(
    pair: tuple[str, str], data: st.DataObject
) -> None:
    before, after = pair
    baseline = data.draw(said_of(before))
    old_lines = [line.strip() for line in lsp_lines(before)]
    moved = map_lines(old_lines, [line.strip() for line in lsp_lines(after)])
    there = [problem(moved[p.line - 1] + 1, p.message) for p in baseline if p.line - 1 in moved]
    kept = [p for p in there if data.draw(st.booleans())]
    assert new_problems(before, after, baseline, kept) == []


@given(texts(), st.data())
def test_what_was_not_there_in_any_form_is_always_reported(
    pair: tuple[str, str], data: st.DataObject
) -> None:
    before, after = pair
    baseline = data.draw(said_of(before))
    current = data.draw(said_of(after))
    unheard = problem(data.draw(st.integers(1, len(lsp_lines(after)))), "never said before")
    assert unheard in new_problems(before, after, baseline, [*current, unheard])


@given(texts(), st.data())
def test_problems_are_counted(pair: tuple[str, str], data: st.DataObject) -> None:
    before, after = pair
    baseline, current = data.draw(said_of(before)), data.draw(said_of(after))
    new = new_problems(before, after, baseline, current)
    assert not Counter(new) - Counter(current)
    had, has, told = (Counter(p.message for p in some) for some in (baseline, current, new))
    for message, count in has.items():
        assert max(0, count - had[message]) <= told[message] <= count


@given(texts(), st.data())
def test_the_order_is_that_of_the_server(pair: tuple[str, str], data: st.DataObject) -> None:
    before, after = pair
    baseline, current = data.draw(said_of(before)), data.draw(said_of(after))
    left = iter(current)
    assert all(p in left for p in new_problems(before, after, baseline, current))
    assert (
        new_problems(before, after, None, current) == new_problems(None, after, baseline, current) == current
    )


def test_ten_thousand_problems_are_told_apart() -> None:
    lines = [f"value_{n} = missing_{n % 500}" for n in range(10_000)]
    before, after = "\n".join(lines), "\n".join(["# moved", *lines, "print(absent)"])
    baseline = [problem(n + 1, f"missing_{n % 500}") for n in range(10_000)]
    current = [problem(n + 2, f"missing_{n % 500}") for n in range(10_000)]
    added = problem(10_002, "absent")
    assert new_problems(before, after, baseline, [*current, added]) == [added]
