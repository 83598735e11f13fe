"""Valid descriptions of goals, which stand on terminals, in lists and in the context."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.plan.changes import PlanError, stored_line
from daemon.plan.tree import Added, PlanTree

INVISIBLE = [
    "\u200b",
    "\u2060\ufeff",
    "\u200d",
    "\u202e",
    " \u00ad ",
    "\u3164",
    "\u2800",
    "\u0301",
    "\x07",
    "\U000e0041",
]


@pytest.mark.parametrize("text", INVISIBLE, ids=ascii)
def test_invisible_description_is_refused(text: str) -> None:
    tree = PlanTree()
    with pytest.raises(PlanError, match="needs a description"):
        tree.plan_add([text], "")
    for change in tree.plan_add(["a"], ""):
        tree.apply(change)
    with pytest.raises(PlanError, match="needs a description"):
        tree.plan_rename(tree.goals["1"], text)


@pytest.mark.parametrize(
    ("given_text", "kept"),
    [
        ("pay \u202egpj.exe\u202c now", "pay gpj.exe now"),
        ("\u2066a\u2069 \u200eb\u200f \u061cc", "a b c"),
        ("zero\u200bwidth so\u00adft", "zerowidth soft"),
        ("hidden\U000e0068\U000e0069", "hidden"),
        ("line\u2028and\u2029paragraph\x85next", "line and paragraph next"),
        ("\u200cends\u200d \u200d\u200c x", "ends x"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("👩\u200d💻 work ❤️", "👩\u200d💻 work ❤️"),
        ("设计 数据库", "设计 数据库"),
        ("e\u0301te\u0301", "e\u0301te\u0301"),
        ("a\ud83d\ude00b\ud800", "a😀b\ufffd"),
    ],
    ids=ascii,
)  # fmt: skip
def test_bidi_and_invisible_characters_are_removed(given_text: str, kept: str) -> None:
    tree = PlanTree()
    (change,) = tree.plan_add([given_text], "")
    assert isinstance(change, Added)
    assert change.goal.description == kept


@given(st.text(max_size=30))
def test_stored_line_is_idempotent_without_control_characters(text: str) -> None:
    line = stored_line(text)
    assert stored_line(line) == line
    assert line == " ".join(line.split())
    assert {unicodedata.category(sign) for sign in line if sign not in "\u200c\u200d"}.isdisjoint(
        {"Cc", "Cf"}
    )
