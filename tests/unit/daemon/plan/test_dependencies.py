"""Goals that need other goals: who waits for what, and what moves are refused."""

from __future__ import annotations

import pytest

from daemon.model.goals import GoalTree
from daemon.plan.dependencies import misplaced, needed, waits_for
from daemon.plan.port import SessionPlan
from daemon.plan.text import plan_to_prompt
from daemon.plan.tree import PlanError, PlanTree
from tests.support.scenarios.goal_trees import by, grown, shown


def linked(outline: str, **needs: str) -> PlanTree:
    """A tree from an outline, whose goals need others: ``_3="1 2"``."""
    tree = grown(outline)
    goals = tree.snapshot().goals
    wanted = {name.removeprefix("_").replace("_", "."): text.split() for name, text in needs.items()}
    changed = [
        goal.model_copy(update={"needs": [by(tree, one) for one in wanted[goal.description]]})
        if goal.description in wanted
        else goal
        for goal in goals
    ]
    return PlanTree(GoalTree(goals=changed, current_id=tree.current_id), last_id=tree.last_id)


def waiting(tree: PlanTree, name: str) -> str:
    return " ".join(goal.description for goal in waits_for(tree, tree.goals[by(tree, name)]))


@pytest.mark.parametrize(
    ("outline", "needs", "expected"),
    [
        ("1, 2, 3", {"_3": "1 2"}, "1 2"),
        ("1 x, 2, 3", {"_3": "1 2"}, "2"),
        ("1 x, 2 x, 3", {"_3": "1 2"}, ""),
        ("1 !, 3", {"_3": "1"}, "1"),
        ("1, 3, 3.1", {"_3": "1"}, "1"),
    ],
)
def test_goal_waits_for_its_own_and_its_parents_needs(
    outline: str, needs: dict[str, str], expected: str
) -> None:
    tree = linked(outline, **needs)
    assert waiting(tree, "3.1" if "3.1" in outline else "3") == expected


def test_replacement_of_an_abandoned_goal_satisfies_dependents() -> None:
    tree = linked("1 >, 3", _3="1")
    for change in tree.plan_abandon("why", tree.goals[by(tree, "1")]):
        tree.apply(change)
    assert waiting(tree, "3") == "1"
    for change in tree.plan_add(["1b"], "", parent_id=None, before_id=by(tree, "3")):
        tree.apply(change)
    assert waiting(tree, "3") == "1b"
    for change in tree.plan_done("done", tree.goals[by(tree, "1b")]):
        tree.apply(change)
    assert waiting(tree, "3") == ""


def test_removed_and_unknown_goals_do_not_block_others() -> None:
    tree = linked("1, 3", _3="1")
    for change in tree.plan_abandon("not wanted", tree.goals[by(tree, "1")]):
        tree.apply(change)
    assert waiting(tree, "3") == ""
    odd = PlanTree(GoalTree(goals=[tree.goals["2"].model_copy(update={"needs": ["77", "2", ""]})]))
    assert [goal.id for goal in needed(odd, odd.goals["2"])] == ["2"]
    assert misplaced(odd) == {("2", "2")}


@pytest.mark.parametrize(
    ("goal", "parent", "before", "expected"),
    [
        ("3", None, "1", "3, 1, 2"),
        ("2", None, "1", None),
        ("1", None, None, None),
        ("1", "3", None, None),
        ("2", "1", None, None),
        ("1", "2", None, None),
        ("3", "2", None, "1, 2, 2/3"),
    ],
)
def test_moves_respect_dependencies(
    goal: str, parent: str | None, before: str | None, expected: str | None
) -> None:
    tree = linked("1, 2, 3", _2="1")
    one = tree.goals[by(tree, goal)]
    place = [None if name is None else by(tree, name) for name in (parent, before)]
    if expected is None:
        with pytest.raises(
            PlanError,
            match="Goal 2 2 depends on goal 1 1, which must come before it and not above or below it:",
        ):
            tree.plan_move(one, *place)
        return
    for change in tree.plan_move(one, *place):
        tree.apply(change)
    assert shown(tree) == expected


def test_ended_goals_do_not_block_a_move() -> None:
    tree = linked("1 x, 2, 3", _3="1")
    for change in tree.plan_move(tree.goals[by(tree, "3")], None, by(tree, "1")):
        tree.apply(change)
    assert shown(tree) == "3, 1 x, 2"


def test_goals_begun_together_move_the_focus_to_their_parent() -> None:
    tree = grown("1, 1.1, 1.2, 2")
    for change in tree.plan_begin([tree.goals[by(tree, name)] for name in ("1.1", "1.2")]):
        tree.apply(change)
    assert tree.current_id == by(tree, "1")
    assert [goal.status for goal in tree.goals.values()] == ["in_progress"] * 3 + ["pending"]
    for change in tree.plan_begin([tree.goals[by(tree, name)] for name in ("1.2", "2")]):
        tree.apply(change)
    assert tree.current_id is None
    with pytest.raises(PlanError, match="it has ended"):
        grown("1 x").plan_begin([grown("1 x").goals["1"]])


def test_the_model_sees_what_an_open_goal_waits_for() -> None:
    tree = linked("1 x, 2, 3", _3="1 2")
    text = plan_to_prompt(tree, ids=True)
    assert "[ ] 3. 3  [needs g2]  (g3)" in text
    assert "needs" not in plan_to_prompt(tree)
    assert tree.find("3. 3  [needs g2]  (g3)").id == "3"


async def test_completing_a_goal_keeps_the_order_of_its_other_steps() -> None:
    tree = linked("1 >, 1.1, 1.2, 2", _1_2="1.1")
    await SessionPlan(tree, tree.apply, front="step").step(complete=True, summary="enough")
    assert shown(tree) == "1 x, 1.1, 1.2, 2"
