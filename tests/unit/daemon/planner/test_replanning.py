"""A plan that was answered, as changes of the tree."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.plan.tree import PlanError, PlanTree
from daemon.planner.plan_parser import BadPlanError, PlanStep
from daemon.planner.replanning import revised
from tests.support.scenarios.goal_trees import by, grown, shown


def steps(text: str) -> list[PlanStep]:
    """``A, =2.1, B(b c)``: new steps, goals kept by number, steps with steps below."""
    found: list[PlanStep] = []
    for word in filter(None, map(str.strip, text.split(","))):
        if word.startswith("="):
            found.append(PlanStep("", keep=word[1:]))
        else:
            name, _, below = word.rstrip(")").partition("(")
            found.append(PlanStep(name, steps=tuple(PlanStep(one) for one in below.split())))
    return found


@pytest.mark.parametrize(
    ("outline", "answer", "failed", "expected"),
    [
        ("", "A, B(b c)", None, "A, B, B/b, B/c"),
        ("", "", None, ""),
        ("1", "A", None, "A"),
        ("1, 2, 3", "=1, =3", None, "1, 3"),
        ("1, 2, 3", "=3, =1", None, "3, 1"),
        ("1, 2", "2, 1", None, "2, 1"),
        ("1 x, 2, 3", "A, =3, B", None, "1 x, A, 3, B"),
        ("1 x, 2 x", "A", None, "1 x, 2 x, A"),
        ("1 x, 2", "", None, "1 x"),
        ("1 x, 2 !, 3", "A, =2", "2", "1 x, A, 3"),
        ("1, 1.1 x, 1.2 !, 1.3, 2", "A, =2", "1.2", "1, 1/1.1 x, 1/A, 2"),
        ("1, 1.1 x, 1.2 !, 1.3, 2", "=2", "1.2", "1 x, 1/1.1 x, 2"),
        ("1, 1.1 x, 1.2 !, 1.3, 2", "=1.2, A, =2, B", "1.2", "1, 1/1.1 x, 1/1.3, 1/A, 2, B"),
        ("1, 1.1, 1.2, 2", "=1.2, A", None, "1, 1/1.2, A"),
        ("1, 1.1, 1.2, 2", "=1, A", None, "1, 1/1.1, 1/1.2, A"),
        ("1, 1.1, 1.1.1 x, 1.1.2, 1.2", "A", None, "1 x, 1/1.1 x, 1/1.1/1.1.1 x, A"),
        ("1, 2", "A, =2(a)", None, "A, 2"),
    ],
)
def test_new_plan_keeps_done_goals_and_abandons_unnamed_ones(
    outline: str, answer: str, failed: str | None, expected: str
) -> None:
    tree = grown(outline)
    wanted = steps(answer.replace("(a)", "") if "=2(a)" in answer else answer)
    before = tree.snapshot()
    revision = revised(tree, wanted, revise=True, failed=None if failed is None else by(tree, failed))
    assert tree.snapshot() == before
    for change in revision.changes:
        tree.apply(change)
    assert shown(tree) == expected
    assert revision.steps == len(wanted)
    assert revision.aside == frozenset()


def test_first_plan_abandons_no_goals() -> None:
    tree = grown("1, 2, 3 x")
    revision = revised(tree, steps("=2, A"), revise=False)
    for change in revision.changes:
        tree.apply(change)
    assert shown(tree) == "1, 2, 3 x, A"
    assert revision.aside == {by(tree, "1")}


def test_replaced_goal_with_work_keeps_the_reason() -> None:
    tree = grown("1 >, 2")
    revision = revised(tree, steps("A, B"), revise=True, why="It did not work.")
    for change in revision.changes:
        tree.apply(change)
    gone = tree.goals[by(tree, "1")]
    assert (gone.status, gone.summary) == ("abandoned", "It did not work.")
    assert sorted(tree.numbers().values()) == ["1", "2"]
    assert tree.current_id is None


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("=7", "no goal 7"),
        ("=1", "has ended"),
        ("=2, =2", "list each goal once"),
        ("=nothing", "no goal nothing"),
    ],
)
def test_invalid_keep_is_refused_with_a_reason(answer: str, words: str) -> None:
    with pytest.raises(BadPlanError, match=words):
        revised(grown("1 x, 2"), steps(answer), revise=True)


_outlines = st.lists(st.sampled_from(["1", "1.1", "1.2", "1.2.1", "2", "2.1", "3"]), unique=True).map(sorted)
_marks = st.lists(st.sampled_from(["", " >", " x", " !"]), min_size=7, max_size=7)
_answers = st.lists(st.sampled_from(["A", "B", "=1", "=2", "=1.1", "=3", "C(c d)"]), max_size=6)


@settings(deadline=None)
@given(_outlines, _marks, _answers, st.booleans(), st.integers(0, 9))
def test_any_revision_keeps_done_goals_and_a_valid_tree(
    names: list[str], marks: list[str], answer: list[str], revise: bool, failed: int
) -> None:
    tree = grown(", ".join(name + mark for name, mark in zip(names, marks, strict=False)))
    numbers = tree.numbers()
    done = {goal.id for goal in tree.goals.values() if goal.status == "completed" and goal.id in numbers}
    ids = list(tree.goals)
    try:
        revision = revised(
            tree, steps(", ".join(answer)), revise=revise, failed=ids[failed] if failed < len(ids) else None
        )
    except (BadPlanError, PlanError):
        return
    for change in revision.changes:
        tree.apply(change)
    now = tree.numbers()
    assert all(tree.goals[goal_id].status == "completed" and goal_id in now for goal_id in done)
    _check(tree)


def _check(tree: PlanTree) -> None:
    for goal in tree.goals.values():
        if goal.status in ("pending", "in_progress"):
            assert tree.ended_root(goal.id) is None
    assert tree.current_id is None or tree.ended_root(tree.current_id) is None
