"""Changes of the plan by the user, and abandoned goals whose successors continue them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from daemon.model.goals import Goal, GoalStats, GoalTree
from daemon.plan.tree import (
    MAX_DEPTH,
    MAX_DESCRIPTION,
    Added,
    Change,
    Moved,
    PlanError,
    PlanTree,
    Removed,
    Updated,
)


def tree_of(*lines: str) -> PlanTree:
    """A plan from lines like ``a``, ``a/b`` and ``→ a/b``: each is added below the one before the last slash."""
    tree = PlanTree()
    for line in lines:
        path = line.removeprefix("→ ").rpartition("/")
        parent = named(tree, path[0].rpartition("/")[2]).id if path[0] else None
        do(tree, tree.plan_add([path[2]], "", parent_id=parent))
        if line.startswith("→ "):
            do(tree, tree.plan_focus(named(tree, path[2])))
    return tree


def do(tree: PlanTree, changes: list[Change]) -> None:
    for change in changes:
        tree.apply(change)


def named(tree: PlanTree, description: str) -> Goal:
    (found,) = [goal for goal in tree.goals.values() if goal.description == description]
    return found


def work(tree: PlanTree, description: str, tokens: int = 10, cost: float = 0.5) -> None:
    tree.apply_counts(tree.count(named(tree, description).id, tokens=tokens, cost=cost, tools=["read"]))


def shown(tree: PlanTree) -> list[str]:
    return [f"{number} {tree.goals[i].description}" for i, number in tree.numbers().items()]


def focus(tree: PlanTree) -> str | None:
    return tree.goals[tree.current_id].description if tree.current_id else None


def move(tree: PlanTree, goal: str, parent: str | None, before: str | None = None) -> list[Change]:
    return tree.plan_move(
        named(tree, goal),
        named(tree, parent).id if parent else None,
        named(tree, before).id if before else None,
    )


# -- add --


def test_goal_is_added_at_the_given_place_and_focus_stays() -> None:
    tree = tree_of("→ a", "a/a1", "b")
    do(tree, tree.plan_add(["a0"], "", parent_id="1", before_id="2"))
    do(tree, tree.plan_add(["first"], "", parent_id=None, before_id="1"))
    do(tree, tree.plan_add(["last"], "", parent_id=None))
    assert shown(tree) == ["1 first", "2 a", "2.1 a0", "2.2 a1", "3 b", "4 last"]
    assert focus(tree) == "a"


@pytest.mark.parametrize(
    ("parent", "before", "words"),
    [
        ("77", None, "no longer in the plan"),
        ("4", None, "completed: new goals must be below an open goal"),
        ("5", None, "abandoned"),
        ("6", None, "abandoned together with a goal above it"),
        (None, "77", "no longer in the plan"),
        (None, "2", "is not under the new parent:"),
        ("1", "1", "is not under the new parent:"),
    ],
)
def test_goal_is_not_added_below_or_beside_ended_goals(
    parent: str | None, before: str | None, words: str
) -> None:
    tree = tree_of("a", "a/a1", "b", "done", "gone", "gone/below")
    do(tree, tree.plan_done("x", named(tree, "below")))  # "gone" completes with it
    tree = PlanTree(
        GoalTree(
            goals=[
                g.model_copy(update={"status": "abandoned"}) if g.description == "gone" else g
                for g in tree.snapshot().goals
            ]
        )
    )
    do(tree, tree.plan_done("x", named(tree, "done")))
    with pytest.raises(PlanError, match=words):
        tree.plan_add(["x"], "", parent_id=parent, before_id=before)


def test_goals_are_not_nested_without_end() -> None:
    tree = PlanTree()
    for level in range(MAX_DEPTH):
        do(tree, tree.plan_add([f"level {level}"], "", parent_id=str(level) if level else None))
    with pytest.raises(PlanError, match="already nested 50 deep"):
        tree.plan_add(["x"], "", parent_id=str(MAX_DEPTH))
    do(tree, tree.plan_add(["other", "third"], "", parent_id=None))
    with pytest.raises(PlanError, match="nested more than"):
        tree.plan_move(tree.goals["1"], named(tree, "other").id)
    do(tree, tree.plan_move(tree.goals["2"], named(tree, "other").id))
    assert tree.number_of(str(MAX_DEPTH)) == ".".join(["2", *["1"] * (MAX_DEPTH - 1)])


# -- rename --


def test_an_open_goal_gets_another_description() -> None:
    tree = tree_of("→ a", "b")
    assert tree.plan_rename(named(tree, "b"), " new\x1b[31m \n text ") == [
        Updated("2", {"description": "new [31m text"}, current_id="1")
    ]
    assert tree.plan_rename(named(tree, "b"), " b ") == []


@pytest.mark.parametrize("end", [PlanTree.plan_done, PlanTree.plan_abandon])
def test_ended_goal_cannot_be_renamed(
    end: Callable[[PlanTree, str, Goal], list[Change]],
) -> None:
    tree = tree_of("a")
    work(tree, "a")
    do(tree, end(tree, "x", named(tree, "a")))
    with pytest.raises(PlanError, match="its description can no longer change"):
        tree.plan_rename(named(tree, "a"), "b")


@pytest.mark.parametrize(
    ("text", "words"), [(" \n", "description"), ("x" * (MAX_DESCRIPTION + 1), "too long")]
)
def test_description_must_not_be_empty_or_invalid(text: str, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        tree_of("a").plan_rename(Goal(id="1", description="a"), text)


# -- move --


def test_goal_moves_with_its_children_and_statistics() -> None:
    tree = tree_of("a", "a/a1", "a1/deep", "b", "b/b1")
    work(tree, "deep", tokens=100)
    work(tree, "a1", tokens=10)
    work(tree, "a", tokens=1)
    work(tree, "b1", tokens=5)
    do(tree, move(tree, "a1", "b", before="b1"))
    assert shown(tree) == ["1 a", "2 b", "2.1 a1", "2.1.1 deep", "2.2 b1"]
    stats = {goal.description: goal.cumulative_stats for goal in tree.snapshot().goals}
    numbers = {name: (its.message_count, its.total_tokens) for name, its in stats.items()}
    assert numbers == {"a": (1, 1), "a1": (2, 110), "deep": (1, 100), "b": (3, 115), "b1": (1, 5)}
    assert tree.goals["1"].cumulative_stats.total_cost == pytest.approx(0.5)
    do(tree, move(tree, "a1", None))
    assert shown(tree) == ["1 a", "2 b", "2.1 b1", "3 a1", "3.1 deep"]
    assert tree.goals[named(tree, "b").id].cumulative_stats.total_tokens == 5


def test_goal_whose_work_moved_away_has_no_usage() -> None:
    tree = tree_of("a", "a/a1", "b")
    for _ in range(3):
        work(tree, "a1", cost=0.1)
    do(tree, move(tree, "a1", "b"))
    assert named(tree, "a").cumulative_stats == GoalStats()
    assert named(tree, "b").cumulative_stats.total_cost == pytest.approx(0.3)


def test_move_within_a_goal_keeps_the_numbers_of_ancestors() -> None:
    tree = tree_of("a", "a/x", "a/y", "x/deep")
    work(tree, "deep")
    (change,) = move(tree, "deep", "y")
    assert isinstance(change, Moved)
    assert [item.goal_id for item in change.affected_goals] == [named(tree, "x").id, named(tree, "y").id]


@pytest.mark.parametrize(
    ("goal", "before", "order"),
    [
        ("c", "a", "c a b d"),
        ("a", None, "b c d a"),
        ("a", "d", "b c a d"),
        ("d", "b", "a d b c"),
        ("a", "a", "a b c d"),
        ("a", "b", "a b c d"),
        ("d", None, "a b c d"),
    ],
)
def test_siblings_are_put_in_another_order(goal: str, before: str | None, order: str) -> None:
    tree = tree_of("a", "b", "c", "d")
    changes = move(tree, goal, None, before)
    assert bool(changes) == (order != "a b c d")
    do(tree, changes)
    assert [g.description for g in tree.children(None)] == order.split()
    assert [g.description for g in tree.snapshot().goals] == order.split()


def test_goal_may_move_before_ended_ones() -> None:
    tree = tree_of("done", "gone", "open")
    work(tree, "gone")
    do(tree, tree.plan_done("x", named(tree, "done")))
    do(tree, tree.plan_abandon("x", named(tree, "gone")))
    do(tree, move(tree, "open", None, before="done"))
    assert shown(tree) == ["1 open", "2 done"]
    do(tree, move(tree, "open", None, before="gone"))
    assert shown(tree) == ["1 done", "2 open"]


def test_moved_goal_keeps_the_focus_and_starts_its_new_parents() -> None:
    tree = tree_of("a", "→ a/a1", "b", "b/b1")
    do(tree, move(tree, "a1", "b1"))
    assert focus(tree) == "a1"
    assert {g.description: g.status for g in tree.snapshot().goals} == {
        "a": "in_progress",
        "a1": "in_progress",
        "b": "in_progress",
        "b1": "in_progress",
    }


def test_parent_stays_open_when_its_last_open_goal_leaves() -> None:
    for leave in ("move", "abandon"):
        tree = tree_of("a", "a/x", "→ a/y")
        work(tree, "y")
        do(tree, tree.plan_done("x", named(tree, "x")))
        goal = named(tree, "y")
        do(tree, tree.plan_move(goal, None) if leave == "move" else tree.plan_abandon("no", goal))
        assert named(tree, "a").status == "in_progress"


@pytest.mark.parametrize(
    ("goal", "parent", "before", "words"),
    [
        ("a", "a", None, "below itself"),
        ("a", "deep", None, "is below goal 1 a"),
        ("done", None, "a", "only open goals"),
        ("a", "done", None, "new goals must be below an open goal"),
        ("a", None, "deep", "is not under the new parent:"),
        ("deep", None, "deep", "A goal cannot be placed before itself:"),
    ],
)
def test_impossible_move_is_refused_with_a_reason(
    goal: str, parent: str | None, before: str | None, words: str
) -> None:
    tree = tree_of("a", "a/a1", "a1/deep", "done")
    do(tree, tree.plan_done("x", named(tree, "done")))
    with pytest.raises(PlanError, match=words):
        move(tree, goal, parent, before)


def test_invalid_changes_of_a_damaged_log_are_ignored() -> None:
    tree = tree_of("a", "a/a1")
    before = tree.snapshot()
    for change in (
        Moved("1", "2", None),
        Moved("1", "1", None),
        Moved("2", "77", None),
        Moved("9", None, None),
    ):
        tree.apply(change)
    tree.apply(Added(Goal(id="2", description="twice"), None))
    tree.apply(Updated("2", {"parent_id": "9", "id": "8", "status": "asleep"}, current_id=None))
    assert tree.snapshot() == before


# -- done and abandon --


def test_user_ends_another_goal_and_the_focus_stays() -> None:
    tree = tree_of("→ a", "b", "c", "c/c1")
    work(tree, "c")
    do(tree, tree.plan_done("as it is", named(tree, "b")))
    do(tree, tree.plan_abandon("not wanted", named(tree, "c")))
    assert {g.description: g.status for g in tree.snapshot().goals} == {
        "a": "in_progress",
        "b": "completed",
        "c": "abandoned",
        "c1": "abandoned",
    }
    assert focus(tree) == "a"


def test_focus_leaves_a_goal_ended_by_the_user() -> None:
    tree = tree_of("a", "a/b", "→ b/c")
    work(tree, "c")
    do(tree, tree.plan_abandon("not wanted", named(tree, "b")))
    assert focus(tree) == "a"
    tree = tree_of("a", "→ a/b", "b/c")
    do(tree, tree.plan_done("as it is", named(tree, "c")))  # "b" and "a" complete with it
    assert focus(tree) is None


def test_ended_goal_cannot_be_ended_again() -> None:
    tree = tree_of("a", "b")
    work(tree, "b")
    do(tree, tree.plan_done("x", named(tree, "a")))
    do(tree, tree.plan_abandon("x", named(tree, "b")))
    for goal in (named(tree, "a"), named(tree, "b")):
        with pytest.raises(PlanError, match=goal.status):
            tree.plan_done("y", goal)
        with pytest.raises(PlanError, match=goal.status):
            tree.plan_abandon("y", goal)
        with pytest.raises(PlanError, match=goal.status):
            tree.plan_focus(goal)
    with pytest.raises(PlanError, match="no longer in the plan"):
        tree.plan_done("y", Goal(id="77", description="dropped meanwhile"))


# -- successors --


def replace(tree: PlanTree, goal: str, by: str) -> None:
    do(tree, tree.plan_focus(named(tree, goal)))
    work(tree, goal)
    do(tree, tree.plan_abandon(f"{goal} fails"))
    do(tree, tree.plan_add([by], ""))


def test_successor_knows_all_earlier_attempts() -> None:
    tree = tree_of("A", "test")
    for goal, by in (("A", "B"), ("B", "C"), ("C", "D")):
        replace(tree, goal, by)
    assert [goal.summary for goal in tree.predecessors(named(tree, "D").id)] == [
        "A fails",
        "B fails",
        "C fails",
    ]
    assert [goal.summary for goal in tree.predecessors(named(tree, "B").id)] == ["A fails"]
    assert tree.predecessors(named(tree, "test").id) == tree.predecessors("77") == []
    assert shown(tree) == ["1 D", "2 test"]


def test_only_the_first_of_several_successors_replaces_the_goal() -> None:
    tree = tree_of("A")
    work(tree, "A")
    do(tree, tree.plan_abandon("A fails", named(tree, "A")))
    do(tree, tree.plan_add(["B", "C"], ""))
    assert tree.replaced == {named(tree, "B").id: "1"}


def test_user_goal_replaces_an_abandoned_one_without_the_focus() -> None:
    tree = tree_of("A", "→ b")
    work(tree, "A")
    do(tree, tree.plan_abandon("A fails", named(tree, "A")))
    do(tree, tree.plan_add(["B"], "", parent_id=None))
    assert [goal.description for goal in tree.predecessors(named(tree, "B").id)] == ["A"]
    assert focus(tree) == "b"


def test_dropped_successor_frees_the_place_for_another() -> None:
    tree = tree_of("A")
    replace(tree, "A", "B")
    assert tree.plan_abandon("not needed") == [Removed("2", current_id=None)]
    do(tree, tree.plan_abandon("not needed"))
    do(tree, tree.plan_add(["C"], ""))
    assert tree.replaced == {"3": "1"}
    assert focus(tree) == "C"


def test_goal_added_after_other_work_is_no_successor() -> None:
    tree = tree_of("→ A", "b")
    work(tree, "A")
    do(tree, tree.plan_abandon("A fails"))
    do(tree, tree.plan_focus(named(tree, "b")))
    do(tree, tree.plan_done("x"))
    do(tree, tree.plan_add(["c"], ""))
    assert tree.replaced == {}
    assert tree.current_id is None


def test_the_ended_root_is_the_topmost_ended_goal() -> None:
    tree = tree_of("a", "a/b", "b/c", "a/d")
    do(tree, tree.plan_done("x", named(tree, "c")))
    roots = {goal.description: tree.ended_root(goal.id) for goal in tree.goals.values()}
    assert roots == {"a": None, "b": "2", "c": "2", "d": None}
    work(tree, "a")
    do(tree, tree.plan_abandon("x", named(tree, "a")))
    assert {tree.ended_root(i) for i in tree.goals} == {"1"}
    assert tree.ended_root(None) is None
    assert tree.ended_root("77") is None


def test_summary_derived_from_children_is_recognised() -> None:
    tree = tree_of("a", "a/b", "a/c")
    do(tree, tree.plan_done("one", named(tree, "b")))
    do(tree, tree.plan_done("two", named(tree, "c")))
    assert named(tree, "a").summary == tree.summary_of_children("1") == "one; two"
