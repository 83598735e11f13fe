"""The three-way merge behind undo: both sides' changes, or a refusal."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tools.diff.merge import MergeConflictError, merge
from tools.text.lines import lines_with_ends

BASE = b"".join(b"line %d\n" % n for n in range(1, 13))


def changed(*replacements: tuple[bytes, bytes], base: bytes = BASE) -> bytes:
    for old, new in replacements:
        assert base.count(old) == 1
        base = base.replace(old, new)
    return base


def test_changes_in_different_places_are_both_kept() -> None:
    ours = changed((b"line 2\n", b"line two\n"))
    theirs = changed((b"line 9\n", b""))
    assert merge(BASE, ours, theirs) == changed((b"line 2\n", b"line two\n"), (b"line 9\n", b""))


def test_change_on_one_side_only_is_taken_unmerged() -> None:
    binary = b"\0\1\2"
    assert merge(binary, binary, b"x") == b"x"
    assert merge(binary, b"x", binary) == b"x"
    assert merge(binary, b"x", b"x") == b"x"


def test_the_same_change_on_both_sides_is_one() -> None:
    both = changed((b"line 5\n", b"five\n"))
    ours = changed((b"line 11\n", b"eleven\n"), base=both)
    theirs = changed((b"line 1\n", b"one\n"), base=both)
    merged = changed((b"line 1\n", b"one\n"), (b"line 11\n", b"eleven\n"), base=both)
    assert merge(BASE, ours, theirs) == merged


def test_conflicting_edits_report_line_base_and_both_sides() -> None:
    ours = changed((b"line 1\n", b"line 1\nmore\n"), (b"line 5\n", b"ours\n"))
    with pytest.raises(MergeConflictError) as caught:
        merge(BASE, ours, changed((b"line 5\n", b"theirs\n")))
    (clash,) = caught.value.clashes
    assert (clash.line, clash.base, clash.ours, clash.theirs) == (6, "line 5\n", "ours\n", "theirs\n")


def test_adjacent_replacements_on_both_sides_merge() -> None:
    ours = changed((b"line 5\n", b"five\n"))
    theirs = changed((b"line 6\n", b"six\n"))
    assert merge(BASE, ours, theirs) == changed((b"line 5\n", b"five\n"), (b"line 6\n", b"six\n"))


@pytest.mark.parametrize("place", [b"line 4\n", b"line 5\n"])
def test_an_insertion_at_the_border_of_a_change_is_a_conflict(place: bytes) -> None:
    ours = changed((place, place + b"inserted\n"))
    with pytest.raises(MergeConflictError):
        merge(BASE, ours, changed((b"line 5\n", b"five\n")))


def test_different_insertions_at_one_place_are_a_conflict() -> None:
    with pytest.raises(MergeConflictError):
        merge(BASE, changed((b"line 5\n", b"line 5\na\n")), changed((b"line 5\n", b"line 5\nb\n")))


def test_deletion_and_insertion_among_equal_lines_conflict() -> None:
    base = b"a\n}\n}\n}\nb\n"
    with pytest.raises(MergeConflictError):
        merge(base, b"a\n}\n}\n}\n}\nb\n", b"a\n}\n}\nb\n")


def test_lines_keep_their_own_ends() -> None:
    base = b"a\r\nb\nc\rd\r\ne"
    assert merge(base, b"A\r\nb\nc\rd\r\ne", b"a\r\nb\nc\rd\r\nE") == b"A\r\nb\nc\rd\r\nE"


def test_a_changed_line_end_is_a_change() -> None:
    with pytest.raises(MergeConflictError):
        merge(b"a\nb\n", b"a\r\nb\n", b"x\nb\n")


@pytest.mark.parametrize("codec", ["utf-16", "utf-8-sig", "cp1251"])
def test_encodings_are_kept(codec: str) -> None:
    def text(first: str, last: str) -> bytes:
        return f"{first}\nэто середина файла\nи ещё одна строка\n{last}\n".encode(codec)

    merged = merge(text("первая", "последняя"), text("моя", "последняя"), text("первая", "другая"))
    assert merged == text("моя", "другая")


def test_contents_in_different_encodings_are_not_mixed() -> None:
    base = "ä\nmiddle\nend\n".encode()
    ours = "ä\nmiddle\nEND\n".encode("cp1252")
    with pytest.raises(MergeConflictError, match="encoding"):
        merge(base, ours, "ö\nmiddle\nend\n".encode())


def test_a_conflict_is_shown_in_the_files_own_letters() -> None:
    with pytest.raises(MergeConflictError) as caught:
        merge("ä\n".encode(), "ö\n".encode(), "ü\n".encode())
    (clash,) = caught.value.clashes
    assert (clash.base, clash.ours, clash.theirs) == ("ä\n", "ö\n", "ü\n")


def test_a_file_that_became_utf_16_is_not_merged() -> None:
    with pytest.raises(MergeConflictError, match="encoding"):
        merge(b"a\nb\nc\n", "a\nb\nC\n".encode("utf-16"), b"A\nb\nc\n")


def test_binary_data_is_not_merged() -> None:
    with pytest.raises(MergeConflictError, match="not text"):
        merge(b"\0\1\n\2\n", b"\0\1\n\3\n", b"\0\7\n\2\n")


ENDS = st.sampled_from(["\n", "\r\n", "\r"])
WORDS = st.sampled_from(["", "a", "b", "}", "ä", "long line"])
TEXTS = st.lists(st.tuples(WORDS, ENDS).map("".join), max_size=12).map("".join)


@given(TEXTS, TEXTS, TEXTS)
@settings(max_examples=examples(500), deadline=None)
def test_merging_is_symmetric_and_loses_no_side(base: str, ours: str, theirs: str) -> None:
    contents = base.encode(), ours.encode(), theirs.encode()
    try:
        merged = merge(*contents)
    except MergeConflictError:
        with pytest.raises(MergeConflictError):
            merge(contents[0], contents[2], contents[1])
        return
    assert merged == merge(contents[0], contents[2], contents[1])
    if ours == base:
        assert merged == contents[2]
    if theirs == base:
        assert merged == contents[1]
    assert "".join(lines_with_ends(merged.decode())) == merged.decode()


@st.composite
def disjoint_edits(draw: st.DrawFn) -> tuple[list[str], list[str], list[str], list[str]]:
    """A base of different lines, edits of each side with at least a line between, and both of them together."""
    count = draw(st.integers(5, 30))
    base = [f"{n} {draw(WORDS)}{draw(ENDS)}" for n in range(count)]
    sides: dict[int, dict[int, list[str]]] = {0: {}, 1: {}}
    at = draw(st.integers(0, 2))
    while at < count:
        new = [f"new {at} {n}{draw(ENDS)}" for n in range(draw(st.integers(0, 3)))]
        sides[draw(st.integers(0, 1))][at] = new
        at += draw(st.integers(2, 5))

    def applied(*edits: dict[int, list[str]]) -> list[str]:
        every = {n: new for side in edits for n, new in side.items()}
        return [line for n in range(count) for line in every.get(n, [base[n]])]

    return base, applied(sides[0]), applied(sides[1]), applied(sides[0], sides[1])


@given(disjoint_edits())
@settings(max_examples=examples(500), deadline=None)
def test_edits_apart_from_each_other_always_merge(edits: tuple[list[str], ...]) -> None:
    base, ours, theirs, both = ("".join(lines).encode() for lines in edits)
    assert merge(base, ours, theirs) == both
