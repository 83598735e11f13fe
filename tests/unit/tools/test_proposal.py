"""The rest of a proposed change when the user accepts parts of it: exactly these parts, byte for byte."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unidiff.patch import PatchSet

from tools.diff.unified_diff import hunk_spans, unified
from tools.tool import FileChange, ProposedFile, ToolError
from tools.writing.proposal import (
    alterations,
    choosable_hunks,
    keep_line_ends,
    propose,
    with_hunks,
    with_text,
)

PATH = Path("/w/a.txt")
LINES = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", "", "  x"]), st.sampled_from(["\n", "\n", "\r\n", "\r"])),
    max_size=60,
).map(lambda lines: "".join(body + end for body, end in lines))


def proposed(before: bytes | None, after: bytes | None) -> ProposedFile:
    (file,) = propose([FileChange(PATH, before, after)], {PATH: "a.txt"})
    return file


def after_of(changes: tuple[FileChange, ...]) -> bytes | None:
    (change,) = changes
    return change.after


@given(LINES, LINES)
def test_hunk_spans_equal_the_diff_and_rebuild_the_change(old: str, new: str) -> None:
    spans = hunk_spans(old, new)
    assert (
        len(spans)
        == len(unified(old, new, "x").hunks)
        == sum(map(len, PatchSet(unified(old, new, "x").text)))
    )
    made, at = "", 0
    for start, end, first, last in spans:
        made += old[at:start] + new[first:last]
        at = end
    assert made + old[at:] == new


@given(LINES, LINES, st.randoms(use_true_random=False))
def test_a_part_and_then_the_rest_is_the_whole(old: str, new: str, random: object) -> None:
    before, after = old.encode("utf-16"), new.encode("utf-16")
    file = proposed(before, after)
    count = len(choosable_hunks(file))
    numbers = [n for n in range(count) if random.random() < 0.5]  # type: ignore[attr-defined]  # a Random
    part = with_hunks(file, numbers)
    if not numbers:
        assert part == ()
        return
    half = after_of(part)
    assert half is not None
    removed = sum(hunk.removed for n, hunk in enumerate(PatchSet(file.diff.text)[0]) if n in numbers)
    assert proposed(before, half).diff.removed <= removed
    rest = [n for n in range(count) if n not in numbers]
    spans = hunk_spans(old, new)
    expected, at = "", 0
    for number, (start, end, first, last) in enumerate(spans):
        expected += old[at:start] + (new[first:last] if number in numbers else old[start:end])
        at = end
    assert half.decode("utf-16") == expected + old[at:]
    if not rest:
        assert half == after


@given(LINES, LINES, st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]), st.sampled_from(["\n", "\r\n"]))
def test_text_edited_in_an_editor_keeps_encoding_and_line_ends(
    old: str, new: str, codec: str, shown: str
) -> None:
    before, after = old.encode(codec), new.encode(codec)
    text = new.replace("\r\n", "\n").replace("\r", "\n").replace("\n", shown)
    changes = with_text(proposed(before, after), text)
    assert changes == () if before == after else after_of(changes) == after


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a\r\nb\r\n", "a\nx\nb\n", "a\r\nx\r\nb\r\n"),
        ("a\nb\r\nc\n", "a\nb\nx\nc\n", "a\nb\r\nx\r\nc\n"),
        ("a\r\nb\n", "x\na\nb\n", "x\r\na\r\nb\n"),
        ("a\r\nb", "a\nb\nc", "a\r\nb\r\nc"),
        ("a\n", "a\r\nb\r\n", "a\nb\n"),
        ("", "a\r\n", "a\n"),
    ],
)
def test_new_lines_take_the_line_end_of_their_neighbours(old: str, new: str, expected: str) -> None:
    assert keep_line_ends(old, new) == expected


def test_new_deleted_and_binary_files_have_no_hunks() -> None:
    for before, after in ((None, b"x\n"), (b"x\n", None), (b"\0\1", b"\0\2")):
        file = proposed(before, after)
        assert choosable_hunks(file) == ()
        assert with_hunks(file, []) == ()
        with pytest.raises(ToolError, match="accept it whole"):
            with_hunks(file, [0])


def test_edited_text_is_refused_for_deletions_and_bad_encodings() -> None:
    with pytest.raises(ToolError, match="Accept or reject"):
        with_text(proposed(b"x\n", None), "y\n")
    with pytest.raises(ToolError, match="no character"):
        with_text(proposed(b"caf\xe9 au lait, d\xe9j\xe0 vu\n", b"caf\xe9\n"), "caf\u4e2d\n")


def test_move_is_one_file_with_its_hunks() -> None:
    old = b"".join(b"line %d\n" % number for number in range(30))
    new = old.replace(b"line 2\n", b"two\n").replace(b"line 25\n", b"x\n")
    target = Path("/w/b.txt")
    plan = [FileChange(PATH, old, None), FileChange(target, None, new, mode=0o755, moved_from=PATH)]
    names = {PATH: "a.txt", target: "b.txt"}
    (file,) = propose(plan, names)
    assert file.diff.text.startswith(
        "rename from a.txt\nrename to b.txt\nmode 100755\n--- a/a.txt\n+++ b/b.txt\n@@"
    )
    assert (file.diff.added, file.diff.removed, len(choosable_hunks(file))) == (2, 2, 2)
    source, moved = with_hunks(file, [0])
    assert source == plan[0]
    assert moved.after == old.replace(b"line 2\n", b"two\n")
    assert (moved.mode, moved.moved_from) == (0o755, PATH)
    assert with_hunks(file, []) == ()


def test_alterations_compare_the_proposal_with_the_written_files() -> None:
    first, second, third = (Path(f"/w/{name}") for name in "abc")
    names = {first: "a", second: "b", third: "c"}
    proposal = propose([FileChange(path, b"old\n", b"new\n") for path in names], names)
    written = propose([FileChange(first, b"old\n", b"new\n"), FileChange(second, b"old\n", b"mine\n")], names)
    (b, diff), (c, none) = alterations(proposal, written)
    assert (b, c, none) == ("b", "c", None)
    assert diff is not None and diff.text.endswith("-new\n+mine\n")


def test_a_change_of_mode_alone_is_shown() -> None:
    (file,) = propose([FileChange(PATH, b"x\n", b"x\n", mode=0o755)], {PATH: "a.txt"})
    assert file.diff.text == "new mode 100755\n"


def test_hunk_numbers_count_over_windows_of_long_files() -> None:
    old = "".join(f"line {number}\n" for number in range(5000))
    new = old.replace("line 100\n", "x\n").replace("line 4000\n", "y\nz\n")
    file = proposed(old.encode(), new.encode())
    for wanted in itertools.chain.from_iterable(itertools.combinations(range(2), n) for n in (1, 2)):
        made = after_of(with_hunks(file, wanted))
        expected = old
        expected = expected.replace("line 100\n", "x\n") if 0 in wanted else expected
        expected = expected.replace("line 4000\n", "y\nz\n") if 1 in wanted else expected
        assert made == expected.encode()


def test_move_onto_a_file_shows_the_text_that_is_lost() -> None:
    target = Path("/w/b.txt")
    plan = [FileChange(PATH, b"x\n", None), FileChange(target, b"precious\n", b"x\n", moved_from=PATH)]
    gone, replaced = propose(plan, {PATH: "a.txt", target: "b.txt"})
    assert (gone.change.kind, gone.diff.removed) == ("delete", 1)
    assert "-precious\n+x\n" in replaced.diff.text
    assert replaced.source is None


def test_a_chain_of_moves_shows_every_file() -> None:
    b, c = Path("/w/b.txt"), Path("/w/c.txt")
    plan = [
        FileChange(c, None, b"old b\n", moved_from=b),
        FileChange(b, b"old b\n", b"old a\n", moved_from=PATH),
        FileChange(PATH, b"old a\n", None),
    ]
    files = propose(plan, {PATH: "a.txt", b: "b.txt", c: "c.txt"})
    assert [(file.name, file.change.kind) for file in files] == [
        ("c.txt", "create"),
        ("b.txt", "update"),
        ("a.txt", "delete"),
    ]
    assert "-old b\n+old a\n" in files[1].diff.text


@pytest.mark.parametrize(("before", "word"), [(b"a\n", "new mode"), (None, "new file mode")])
def test_permission_bits_are_shown_beside_a_text_change(before: bytes | None, word: str) -> None:
    (file,) = propose([FileChange(PATH, before, b"b\n", mode=0o755)], {PATH: "a.txt"})
    assert file.diff.text.startswith(f"{word} 100755\n--- ")
    assert "+b\n" in file.diff.text
