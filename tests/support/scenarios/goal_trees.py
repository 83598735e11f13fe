"""Goal trees from outlines, and back, so that a test can show them in a line."""

from __future__ import annotations

from daemon.plan.tree import PlanTree


def grown(outline: str) -> PlanTree:
    """A tree from ``name status, …``: 1.1 stands below 1; x is done, ! abandoned, > in progress, else pending.

    All but pending goals were worked on.
    """
    tree = PlanTree()
    lines = [line.split() for line in outline.split(",") if line.strip()]
    ids: dict[str, str] = {}
    for number, *_ in lines:
        parent = ids.get(number.rpartition(".")[0])
        for change in tree.plan_add([number], "", parent_id=parent):
            tree.apply(change)
        ids[number] = str(tree.last_id)
    for number, *status in reversed(lines):
        goal = tree.goals[ids[number]]
        for change in tree.plan_focus(goal) if status and goal.status in ("pending", "in_progress") else []:
            tree.apply(change)
        if status:
            tree.apply_counts(tree.count(goal.id, tokens=1, cost=0.0, tools=()))
        if goal.status in ("completed", "abandoned") or (status == ["x"] and tree.next_open(goal.id)):
            continue
        if status == ["x"]:
            for change in tree.plan_done("done", tree.goals[goal.id]):
                tree.apply(change)
        elif status == ["!"]:
            for change in tree.plan_abandon("why", tree.goals[goal.id]):
                tree.apply(change)
    return tree


def by(tree: PlanTree, name: str) -> str:
    return next(goal.id for goal in tree.goals.values() if goal.description == name)


def shown(tree: PlanTree) -> str:
    """The live goals in order, with those above them, done ones with an x."""
    found: list[str] = []
    for goal_id in tree.numbers():
        goal = tree.goals[goal_id]
        names = [*(above.description for above in tree.ancestors(goal_id))][::-1]
        found.append("/".join([*names, goal.description]) + (" x" if goal.status == "completed" else ""))
    return ", ".join(found)
