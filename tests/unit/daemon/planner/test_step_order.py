"""Needs between the steps of an answer: which step is meant, their order, and refused needs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.plan.dependencies import misplaced, waits_for
from daemon.plan.tree import PlanTree
from daemon.planner.plan_parser import BadPlanError, read_plan
from daemon.planner.replanning import revised
from tests.support.examples import examples
from tests.support.scenarios.goal_trees import by, grown
from tests.support.scenarios.plans import plan, step


def planned(tree: PlanTree, *steps: Any, revise: bool = False) -> str:
    """The tree with an answer in it: open goals in order, with what they need."""
    revision = revised(tree, read_plan(plan(*steps)), revise=revise)
    for change in revision.changes:
        tree.apply(change)
    return shown(tree)


def shown(tree: PlanTree) -> str:
    lines: list[str] = []
    for goal_id in tree.numbers():
        goal = tree.goals[goal_id]
        if goal.status in ("pending", "in_progress"):
            names = [tree.goals[need].description for need in goal.needs or () if need in tree.goals]
            lines.append(
                goal.description
                + ("" if goal.needs is None else f"<{' '.join(names)}>")
                + ("*" if goal.parallel else "")
            )
    return ", ".join(lines)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (["A", "B"], "A, B"),
        ([step("a", "A"), step("b", "B", "a", parallel=True)], "A<>, B<A>*"),
        # in an order that keeps the needs, and else as they were given
        ([step("a", "A", "c"), step("b", "B"), step("c", "C")], "B<>, C<>, A<C>"),
        # one step that says what it needs speaks for all
        (["A", {"goal": "B", "needs": [1]}, "C"], "A<>, B<A>, C<>"),
        # by place, by words, as one text, under other names, as numbers
        (["A", {"goal": "B", "needs": "1"}], "A<>, B<A>"),
        (["A", {"goal": "B", "needs": "step 1"}], "A<>, B<A>"),
        (
            ["Look at it", {"goal": "B", "depends_on": ["look at it"]}],
            "Look at it<>, B<Look at it>",
        ),
        ([{"id": 7, "goal": "A"}, {"id": 8, "goal": "B", "needs": [7]}], "A<>, B<A>"),
        ([{"id": "x", "goal": "A"}, "B", {"goal": "C", "needs": "x, 2"}], "A<>, B<>, C<A B>"),
        ([{"goal": "A", "needs": None}, "B"], "A, B"),
        # steps below others
        (
            [step("a", "A"), {"goal": "B", "needs": ["a"], "steps": [step("x", "b"), step("y", "c", "x")]}],
            "A<>, B<A>, b<>, c<b>",
        ),
        ([{"goal": "A", "steps": [step("x", "a", "b")]}, step("b", "B")], "B<>, A<>, a<B>"),
    ],
)
def test_needs_are_resolved_to_goals(steps: list[Any], expected: str) -> None:
    assert planned(PlanTree(), *steps) == expected


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([step("a", "A", "a")], '"A" needs itself: leave that out.'),
        (
            [step("a", "A", "c"), step("b", "B", "a"), step("c", "C", "b")],
            'in a circle: "A" needs "C" needs "B" needs "A".',
        ),
        ([step("a", "A"), step("b", "B", "x")], '"B" needs "x", but no step has that id. Ids: a, b.'),
        ([step("a", "A"), step("A", "B")], 'Two steps have the id "A"'),
        ([{"goal": "A", "id": "a", "steps": [step("x", "b", "a")]}], "but one is below the other:"),
        (
            [{"goal": "A", "steps": [step("x", "b")]}, step("c", "C", "x")],
            '"C" needs "b", which is below another step:',
        ),
        (
            [{"goal": "A", "steps": [step("x", "a", "b")]}, {"goal": "B", "id": "b", "needs": [1]}],
            'circle: "A" needs "B" needs "A"',
        ),
        ([{"goal": "A", "parallel": True, "steps": ["b", "c"]}], "is parallel and has steps below it"),
        ([{"goal": "A", "needs": [{"id": "b"}]}, "B"], '"needs" contained something other than ids:'),
        (["A", {"goal": "B", "steps": ["b", {"goal": "c", "needs": [1]}]}], 'could be "A" or "b"'),
    ],
)
def test_invalid_needs_are_refused_and_the_plan_is_unchanged(steps: list[Any], words: str) -> None:
    tree = grown("1, 2 x")
    before = tree.snapshot()
    with pytest.raises(BadPlanError) as refused:
        planned(tree, *steps)
    assert words in str(refused.value)
    assert tree.snapshot() == before


# -- goals that the new plan keeps --


def test_kept_goal_keeps_its_dependencies() -> None:
    tree = PlanTree()
    planned(tree, step("a", "A"), step("b", "B", "a"), step("c", "C", "b", parallel=True))
    assert planned(tree, {"keep": "3"}, {"keep": "2"}, {"keep": "1"}, revise=True) == "A<>, B<A>, C<B>*"


def test_dropped_goal_is_no_longer_needed() -> None:
    tree = PlanTree()
    planned(tree, step("a", "A"), step("b", "B", "a"), step("c", "C", "a", "b"))
    assert planned(tree, {"keep": "1"}, {"keep": "3"}, revise=True) == "A<>, C<A>"


def test_failed_goal_is_no_longer_needed_and_new_needs_count() -> None:
    tree = PlanTree()
    planned(tree, step("a", "A"), step("b", "B", "a"), step("c", "C", "a"))
    goal = tree.goals["1"]
    for change in tree.plan_focus(goal):
        tree.apply(change)
    tree.apply_counts(tree.count("1", tokens=1, cost=0.0, tools=()))
    for change in tree.plan_abandon("why", goal):
        tree.apply(change)
    answer = [step("n", "N"), {"keep": "1", "needs": ["n"]}, {"keep": "2"}]
    assert planned(tree, *answer, revise=True) == "N<>, B<N>, C<>"


def test_first_plan_must_include_its_dependencies() -> None:
    tree = grown("1, 2")
    tree.goals["2"] = tree.goals["2"].model_copy(update={"needs": ["1"]})
    with pytest.raises(BadPlanError, match="needs goal 1 1, which is not in the plan:"):
        planned(tree, {"keep": "2"})
    with pytest.raises(BadPlanError, match="needs goal 1 1, which is not in the plan:"):
        planned(tree, step("a", "A", "g1"))


def test_completed_goal_is_not_needed() -> None:
    assert planned(grown("1 x, 2"), {"keep": "2", "needs": ["g1"]}, step("a", "A", "1 1")) == "2<>, A<>"


def test_plain_list_has_no_needs() -> None:
    steps = read_plan("1. Look\n2. Build\n", any_list=True)
    assert [step.needs for step in steps] == [None, None]


# -- for any answer --

_names = st.sampled_from("abcdefg")
_steps = st.lists(
    st.builds(
        lambda name, needs, parallel, below: {
            "id": name,
            "goal": f"Do {name}",
            **({} if needs is None else {"needs": needs}),
            **({"parallel": True} if parallel else {}),
            **({"steps": below} if below and not parallel else {}),
        },
        _names,
        st.none() | st.lists(_names | st.sampled_from(["1", "2", "9", "g1"]), max_size=3),
        st.booleans(),
        st.lists(
            st.builds(
                lambda name, needs: {"goal": f"Part {name}", "needs": needs},
                _names,
                st.lists(_names, max_size=2),
            ),
            max_size=2,
        ),
    ),
    max_size=7,
)


@settings(deadline=None, max_examples=examples(400))
@given(_steps, st.booleans())
def test_accepted_plan_can_be_carried_out_to_the_end(steps: list[dict[str, Any]], revise: bool) -> None:
    tree = grown("1 x, 2, 3")
    try:
        revision = revised(tree, read_plan(json.dumps({"steps": steps}), most=50), revise=revise)
    except BadPlanError:
        return
    for change in revision.changes:
        tree.apply(change)
    assert misplaced(tree) == set()
    wanted = [g for g in tree.goals.values() if g.status != "completed" and g.id not in revision.aside]
    for _ in range(len(wanted)):
        free = [g for g in wanted if not tree.next_open(g.id) and not waits_for(tree, tree.goals[g.id])]
        free = [g for g in free if tree.goals[g.id].status in ("pending", "in_progress")]
        if not free:
            break
        for change in tree.plan_done("done", tree.goals[free[0].id]):
            tree.apply(change)
    assert {tree.goals[g.id].status for g in wanted} <= {"completed"}
    assert by(tree, "1") == "1"
