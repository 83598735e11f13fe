from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.copies.working_copy import BranchChange
from daemon.explore.merge_plan import (
    ABSENT,
    FileVersion,
    MergePlan,
    Pick,
    UnmergeableFile,
    conflicts_text,
    merge_states,
    of_change,
    plan_merge,
    remarks,
)
from tests.support.scenarios.explored import LINK, PLAIN, PROGRAM, created, deleted, updated

SIDES = ("ours", "theirs")


def file(content: str | bytes, *, program: bool = False) -> FileVersion:
    data = content.encode() if isinstance(content, str) else content
    return FileVersion("file", data, program, mode=0o755 if program else 0o644)


def plan(*picks: tuple[str, BranchChange], **now: FileVersion) -> MergePlan:
    """Names in ``now`` have ``_`` for ``.``"""
    current = {name.replace("_", "."): state for name, state in now.items()}
    return plan_merge([Pick(branch, change) for branch, change in picks], current)


def conflict(found: MergePlan) -> str:
    assert not found.files
    (only,) = found.conflicts
    return only.reason


def written(found: MergePlan) -> dict[str, bytes | None]:
    assert not found.conflicts
    return {item.name: item.after.content if item.after.kind == "file" else None for item in found.files}


OLD = "one\ntwo\nthree\nfour\nfive\n"


@pytest.mark.parametrize(
    ("change", "now", "after"),
    [
        (updated("a", OLD, "x\n"), file(OLD), b"x\n"),
        (updated("a", "one\r\n", "two\r\n"), file("one\r\n"), b"two\r\n"),
        (updated("a", "end", "other end"), file("end"), b"other end"),
        (updated("a", b"\0\1", b"\0\2"), file(b"\0\1"), b"\0\2"),
        (updated("a", b"\xff\xfea\0", b"\xff\xfeb\0"), file(b"\xff\xfea\0"), b"\xff\xfeb\0"),
        (created("a", "new"), ABSENT, b"new"),
        (deleted("a", OLD), file(OLD), None),
        # Both changed it, in different places.
        (
            updated("a", OLD, OLD.replace("one", "1")),
            file(OLD.replace("five", "5")),
            b"1\ntwo\nthree\nfour\n5\n",
        ),
        (updated("a", OLD, OLD.replace("one", "1")), file(OLD + "six"), b"1\ntwo\nthree\nfour\nfive\nsix"),
        (
            updated("a", OLD.replace("\n", "\r\n"), OLD.replace("one", "1").replace("\n", "\r\n")),
            file(OLD.replace("five", "5").replace("\n", "\r\n")),
            b"1\r\ntwo\r\nthree\r\nfour\r\n5\r\n",
        ),
    ],
)
def test_merge_plan_writes_the_expected_content(
    change: BranchChange, now: FileVersion, after: bytes | None
) -> None:
    assert written(plan(("A", change), a=now)) == {"a": after}


@pytest.mark.parametrize(
    ("change", "now", "reason"),
    [
        (
            updated("a", OLD, OLD.replace("one", "1")),
            file(OLD.replace("one", "eins")),
            "both sides changed the same lines",
        ),
        (
            updated("a", OLD, OLD.replace("one", "1")),
            file(OLD.replace("\n", "\r\n")),
            "both sides changed the same lines",
        ),
        (
            updated("a", OLD, OLD.replace("one", "1")),
            ABSENT,
            "the current file deleted it, but branch A changed it",
        ),
        (
            deleted("a", OLD),
            file(OLD + "x"),
            "branch A deleted it, but the current file has other changes",
        ),
        (created("a", "mine"), file("yours"), "both created it, with different contents"),
        (updated("a", b"\0one", b"\0two"), file(b"\0three"), "it is not text"),
        (updated("a", "é\n", "é\nx\n"), file("é\n".encode("utf-16")), "encoding was changed"),
        (
            updated("a", OLD, "x"),
            FileVersion("absent", why="there is now a folder with this name", in_the_way=("a/x",)),
            "there is now a folder with this name",
        ),
        (updated("a", OLD, "x"), FileVersion("link", b"b"), "the current file has a symbolic link"),
        (
            updated("a", "x", "y"),
            FileVersion("absent", why="what was a folder above it is now a file", in_the_way=("above",)),
            "what was a folder above it is now a file",
        ),
        (created("a", "x"), FileVersion(in_the_way=("a/y", "a/z/")), "than the selection deletes: a/y, a/z/"),
        (created("a", "x"), FileVersion(in_the_way=("a/",)), "an empty folder with this name exists:"),
    ],
)
def test_merge_plan_detects_the_conflict(change: BranchChange, now: FileVersion, reason: str) -> None:
    assert reason in conflict(plan(("A", change), a=now))


def test_merge_into_a_renamed_file_is_a_conflict_with_both_sides() -> None:
    found = plan(("A", updated("a.py", OLD, OLD + "six\n")), b_py=file(OLD))
    assert "deleted it, but" in conflict(found)
    text = conflicts_text(found, {"a.py": ["kept/x (branch A)"]})
    assert (
        "six" in text
        and "(nothing)" in text
        and "kept/x (branch A)" in text
        and "Nothing was written" in text
    )


def test_one_conflict_blocks_the_merge_and_names_the_other_files() -> None:
    change = updated("a", OLD, OLD.replace("one", "1"))
    found = plan(("A", change), ("A", created("b", "x")), a=file(OLD.replace("one", "eins")))
    assert [item.name for item in found.conflicts] == ["a"]
    text = conflicts_text(found, {})
    assert "eins" in text and "    1" in text and "line 1" in text
    assert "select them by name: b" in text


def test_conflict_text_is_limited() -> None:
    picks = [Pick("A", updated(f"f{n:03}", "a\n" * 50, "b" * 5000 + "\n" + "b\n" * 500)) for n in range(200)]
    found = plan_merge(picks, {pick.change.name: file("c\n" * 50) for pick in picks})
    assert len(found.conflicts) == 200
    text = conflicts_text(found, {})
    assert len(text) < 12_000
    assert "and 175 more" in text


def test_changes_of_two_branches_to_one_file_merge_or_conflict() -> None:
    top, end = updated("a", OLD, "0\n" + OLD), updated("a", OLD, OLD + "6\n")
    assert written(plan(("A", top), ("B", end), a=file(OLD))) == {"a": f"0\n{OLD}6\n".encode()}
    (merged,) = plan(("A", top), ("B", end), a=file(OLD)).files
    assert merged.branches == ("A", "B")
    other = updated("a", OLD, "00\n" + OLD)
    found = plan(("A", top), ("B", other), a=file(OLD))
    assert "same lines" in conflict(found)
    assert found.conflicts[0].sides == ("branch A", "branch B")
    assert "deleted it" in conflict(plan(("A", top), ("B", deleted("a", OLD)), a=file(OLD)))
    elsewhere = updated("a", "other beginning\n", "x\n")
    assert "changed it from different starting points" in conflict(
        plan(("A", top), ("B", elsewhere), a=file(OLD))
    )


def test_file_and_folder_of_the_same_name_conflict() -> None:
    both = plan(("A", created("x", "file")), ("B", created("x/y", "inner")))
    assert "file and a folder" in both.conflicts[0].reason


def test_merge_turns_a_file_into_a_folder_and_back() -> None:
    opened = [("A", deleted("x", "file")), ("A", created("x/y", "inner"))]
    below = FileVersion(why="what was a folder above it is now a file", in_the_way=("x",))
    now = {"x": file("file"), "x/y": below}
    assert written(plan(*opened, **now)) == {"x": None, "x/y": b"inner"}
    closed = [("A", deleted("x/y", "inner")), ("A", deleted("x/z/w", "deep")), ("A", created("x", "file"))]
    folder = FileVersion(why="there is now a folder with this name", in_the_way=("x/y", "x/z/w"))
    now = {"x": folder, "x/y": file("inner"), "x/z/w": file("deep")}
    assert written(plan(*closed, **now)) == {"x": b"file", "x/y": None, "x/z/w": None}


def test_blocked_type_change_is_a_conflict_with_usable_advice() -> None:
    below = FileVersion(why="what was a folder above it is now a file", in_the_way=("x",))
    alone = plan(("A", created("x/y", "inner")), **{"x/y": below})
    assert "x must be a folder, but is a file that the selection does not delete" in conflict(alone)
    changes = [("A", deleted("x", "file")), ("A", created("x/y", "inner")), ("A", created("other", "1"))]
    mine = plan(*changes, **{"x": file("mine"), "x/y": below})
    assert [one.name for one in mine.conflicts] == ["x", "x/y"]
    assert "select them by name: other." in conflicts_text(mine, {})
    # A name stands for all below it: to select the deletion would select the conflict, too.
    folder = FileVersion(in_the_way=("x/y/mine",))
    deeper = plan(*changes, **{"x": file("file"), "x/y": folder})
    assert [one.name for one in deeper.conflicts] == ["x/y"]
    assert "select them by name: other." in conflicts_text(deeper, {})


def test_modes_follow_the_branch_and_keep_the_rest_of_the_bits() -> None:
    made = updated("a", "x", "x", PLAIN, PROGRAM)
    (merged,) = plan(("A", made), a=FileVersion("file", b"x", executable=False, mode=0o640)).files
    assert merged.mode == 0o750 and merged.after.content == b"x"
    taken = updated("a", "x", "y", PROGRAM, PLAIN)
    (merged,) = plan(("A", taken), a=file("x", program=True)).files
    assert merged.mode == 0o644
    (merged,) = plan(("A", created("run", "#!", PROGRAM))).files
    assert merged.mode == 0o755
    (merged,) = plan(("A", created("note", "n"))).files
    assert merged.mode is None
    # The person made it a program, the branch changed the text.
    (merged,) = plan(("A", updated("a", "x\n", "y\n")), a=file("x\n", program=True)).files
    assert merged.mode is None and merged.after.executable


def test_unwritable_changes_are_left_out_and_named() -> None:
    found = plan(
        ("A", BranchChange("link", None, b"a", None, LINK)),
        ("A", deleted("old-link", "a", LINK)),
        ("A", created(os.fsdecode(b"odd\xff"), "x")),
        ("A", created("sub/.GIT/hooks/post-checkout", "x")),
        ("A", created(".trace/x", "x")),
        ("A", created("good", "x")),
    )
    assert [item.name for item in found.files] == ["good"]
    assert len(found.left_out) == 5 and not found.conflicts
    text = remarks(found)
    assert (
        "a merge does not write symbolic links:" in text and "odd\\udcff" in text and "link, old-link" in text
    )


# -- laws --

lines = st.lists(st.sampled_from(["a", "b", "c", "d", "", "same"]), max_size=6)
ends = st.sampled_from(["\n", "\r\n"])
texts = st.builds(
    lambda rows, end, last: (end.join(rows) + (end if last else "")).encode(), lines, ends, st.booleans()
)
contents = st.one_of(texts, texts, st.binary(max_size=6))
states = st.one_of(
    st.just(ABSENT),
    st.builds(lambda content, program: file(content, program=program), contents, st.booleans()),
    st.builds(lambda content: FileVersion("link", content), texts),
)
wanted = st.builds(
    lambda before, after, modes: BranchChange(
        "f",
        before,
        after,
        None if before is None else modes[0],
        None if after is None else modes[1],
    ),
    st.none() | contents,
    st.none() | contents,
    st.tuples(st.sampled_from([PLAIN, PROGRAM]), st.sampled_from([PLAIN, PROGRAM])),
).filter(lambda change: (change.before, change.before_mode) != (change.after, change.after_mode))


@given(wanted)
def test_onto_an_unchanged_tree_a_merge_gives_exactly_the_branch(change: BranchChange) -> None:
    before, after = of_change(change)
    (merged,) = plan_merge([Pick("A", change)], {"f": before}).files
    assert (merged.after.kind, merged.after.content) == (after.kind, after.content)
    assert merged.after.executable == after.executable


@given(wanted)
def test_merging_changes_already_present_does_nothing(change: BranchChange) -> None:
    _, after = of_change(change)
    found = plan_merge([Pick("A", change), Pick("B", change)], {"f": after})
    assert found == MergePlan(same=("f",))


@given(states, states, states)
def test_merge_result_is_independent_of_the_order_of_sides(
    base: FileVersion, ours: FileVersion, theirs: FileVersion
) -> None:
    one = merge_states(base, ours, theirs, sides=SIDES)
    other = merge_states(base, theirs, ours, sides=SIDES)
    assert isinstance(one, UnmergeableFile) == isinstance(other, UnmergeableFile)
    if isinstance(one, FileVersion) and isinstance(other, FileVersion):
        assert (one.kind, one.content, one.executable) == (other.kind, other.content, other.executable)


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.data())
def test_no_line_that_only_one_side_added_is_lost(sides: list[bool], data: st.DataObject) -> None:
    base = [f"line {n}\n" for n in range(30)]
    ours, theirs = list(base), list(base)
    for number, mine in enumerate(sides):
        side, word = (ours, "ours") if mine else (theirs, "theirs")
        side.insert(data.draw(st.integers(0, len(side))), f"{word} {number}\n")
    found = merge_states(file("".join(base)), file("".join(ours)), file("".join(theirs)), sides=SIDES)
    if isinstance(found, FileVersion):
        merged = found.content.decode().splitlines(keepends=True)
        assert sorted(merged) == sorted([*base, *(set(ours) - set(base)), *(set(theirs) - set(base))])


@given(wanted, states)
def test_merge_plan_never_guesses(change: BranchChange, now: FileVersion) -> None:
    found = plan_merge([Pick("A", change)], {"f": now})
    assert len(found.files) + len(found.same) + len(found.conflicts) + len(found.left_out) == 1
    before, after = of_change(change)
    if any(merged.after.kind == "absent" for merged in found.files):
        assert after.kind == "absent" and (now.kind, now.content) == (before.kind, before.content)
    if now.kind == "link" and change.after is not None:
        assert not found.files
