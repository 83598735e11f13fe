"""Ids of children, and branches as data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.model.branches import (
    BRANCH_ID,
    CheckRun,
    branch_name,
    branch_of,
    child_id,
    is_within,
    root_of,
    session_of,
)

names = st.lists(st.sampled_from(["A", "B", "Z", "AA", "s1", "s12"]), max_size=4)


@given(names)
def test_an_id_tells_its_main_line_and_its_branch(path: list[str]) -> None:
    session_id = "20261122-100000-000000abcd"
    for name in path:
        session_id = child_id(session_id, name)
    assert root_of(session_id) == "20261122-100000-000000abcd"
    assert (branch_of(session_id) or "").split(".") == (path or [""])
    assert session_of(root_of(session_id), branch_of(session_id)) == session_id
    assert not path or BRANCH_ID.fullmatch(branch_of(session_id) or "")


def test_branches_are_named_by_letters_that_go_on_after_z() -> None:
    assert [branch_name(n) for n in (0, 1, 25, 26, 27, 51, 52, 701, 702)] == [
        "A", "B", "Z", "AA", "AB", "AZ", "BA", "ZZ", "AAA"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("session_id", "above", "within"),
    [
        ("t", "t", True),
        ("t:A", "t", True),
        ("t:A.s1", "t", True),
        ("t:A.s1", "t:A", True),
        ("t:AB", "t:A", False),
        ("t:A", "t:A.s1", False),
        ("t2:A", "t", False),
        ("t2", "t", False),
    ],
)
def test_who_is_whose_child(session_id: str, above: str, within: bool) -> None:
    assert is_within(session_id, above) is within


def test_a_test_run_without_an_end_is_neither_good_nor_bad() -> None:
    assert CheckRun(command="make test").ok is None
    assert CheckRun(command="make test", exit_code=0).ok is True
    assert CheckRun(command="make test", exit_code=1).ok is False
