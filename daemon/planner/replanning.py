"""A plan that the model answered with, as changes of the goal tree. Pure; nothing that is done is touched."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from daemon.plan.dependencies import misplaced, stand_in, waits_for
from daemon.plan.goal_index import ENDED
from daemon.plan.tree import MAX_SUMMARY, Added, Change, PlanError, PlanTree, Updated
from daemon.planner.plan_parser import BadPlanError, PlanStep
from daemon.planner.step_order import linked
from tools.localization import noted, t
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.model.goals import Goal

REPLACED = noted("Abandoned: it is not in the new plan.")


@dataclass(frozen=True, slots=True)
class Revision:
    """``changes`` turn the tree into the new plan, in order."""

    changes: tuple[Change, ...]
    steps: int
    """How many steps the plan has, those that stayed among them."""
    aside: frozenset[str]
    """Open goals that the plan does not name, and that stay nevertheless."""


def revised(
    tree: PlanTree, steps: Sequence[PlanStep], *, revise: bool, why: str = "", failed: str | None = None
) -> Revision:
    """Return the changes that make ``steps`` the open work, in this order as far as dependencies allow it.

    A step that names an open goal, by number or by its description, keeps it. ``revise``: open goals that no step names
    are abandoned with the reason ``why``; otherwise they stay as they are, and aside. New steps are at the top level;
    those before the first kept goal are at the place of ``failed`` (the id of the goal that failed). Raises
    BadPlanError and PlanError; ``tree`` is not changed.
    """
    work = _TreeEdit(tree.copy())
    steps = linked(steps, tree, lambda step: _kept(tree, step))
    rows = [_StepMatch(step, _kept(tree, step)) for step in steps]
    _check_once(tree, rows)
    inner = {id(below): _kept(tree, below) for step in steps for below in step.steps}
    kept = {row.goal.id for row in rows if row.goal is not None} | {
        g.id for g in inner.values() if g is not None
    }
    named = _family(tree, kept)
    untouched = [goal for goal in _open_goals(tree) if goal.id not in named]
    home = _home(tree, failed)
    aside = frozenset(goal.id for goal in untouched if not revise)
    # Unlink before adding anything, because a new goal would count as the replacement of an abandoned one.
    _unlink(work, untouched)
    # Add before abandoning: a parent with an open sub-goal does not end with the abandoned ones.
    _place(work, rows, inner, home if revise else None)
    _link(work, [*steps, *(below for step in steps for below in step.steps)])
    if revise:
        _give_up(work, untouched, why.strip() or t(REPLACED))
        _unlink(work, ())
    _check_needs(work, aside)
    return Revision(tuple(work.changes), len(rows), aside)


@dataclass(frozen=True, slots=True)
class _StepMatch:
    step: PlanStep
    goal: Goal | None


@dataclass(slots=True)
class _TreeEdit:
    """A copy of the tree on which each operation is tried, and the changes so far."""

    tree: PlanTree
    changes: list[Change] = field(default_factory=list[Change])
    ids: dict[str, str] = field(default_factory=dict[str, str])
    """Goals by the ids of their steps, once placed."""

    def do(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self.tree.apply(change)
        self.changes += changes

    def add(self, step: PlanStep, parent_id: str | None, before_id: str | None = None) -> str:
        """Add the goal of a step after its needs. Returns its id."""
        said: dict[str, object] = {"parallel": step.parallel is True}
        if step.needs is not None:
            said["needs"] = [self.ids[need] for need in step.needs]
        changes = [
            replace(change, goal=change.goal.model_copy(update=said)) if isinstance(change, Added) else change
            for change in self.tree.plan_add([step.goal], step.why, parent_id=parent_id, before_id=before_id)
        ]
        self.do(changes)
        self.ids[step.id] = next(change.goal.id for change in changes if isinstance(change, Added))
        return self.ids[step.id]

    def update(self, goal_id: str, updates: dict[str, object]) -> None:
        """Update fields of a goal that differ."""
        goal = self.tree.goals[goal_id]
        new = {name: value for name, value in updates.items() if getattr(goal, name) != value}
        if new:
            self.do([Updated(goal_id, new, self.tree.current_id)])


def _kept(tree: PlanTree, step: PlanStep) -> Goal | None:
    if step.keep:
        try:
            goal = tree.find(step.keep)
        except PlanError as error:
            raise BadPlanError(f'A step keeps "{head(step.keep, 60)}". {error}') from error
        if tree.ended_root(goal.id) is None:
            return goal
        raise BadPlanError(f"Goal {tree.title(goal.id)} has ended: add the remaining work as a new step.")
    wanted = " ".join(step.goal.split()).casefold()
    same = [goal for goal in _open_goals(tree) if goal.description.casefold() == wanted]
    return same[0] if len(same) == 1 else None


def _check_once(tree: PlanTree, rows: Sequence[_StepMatch]) -> None:
    seen: set[str] = set()
    for row in rows:
        if row.goal is not None and row.goal.id in seen:
            raise BadPlanError(f"Two steps keep goal {tree.title(row.goal.id)}: list each goal once.")
        if row.goal is not None:
            seen.add(row.goal.id)


def _open_goals(tree: PlanTree) -> list[Goal]:
    """Return open goals in the order of the plan; explorations are not for the planner."""
    found: list[Goal] = []
    todo = list(reversed(tree.live_children(None)))
    while todo:
        goal = todo.pop()
        if goal.status in ENDED:
            continue
        if goal.type == "normal":
            found.append(goal)
        todo += reversed(tree.live_children(goal.id))
    return found


def _family(tree: PlanTree, kept: set[str]) -> set[str]:
    """These goals, those above and those below them."""
    found = set(kept)
    for goal_id in kept:
        found |= {above.id for above in tree.ancestors(goal_id)}
        found |= {below.id for below in tree.descendants(goal_id)}
    return found


def _home(tree: PlanTree, failed: str | None) -> str | None:
    """Return the goal above ``failed``, if a part of it is finished already or it is still open."""
    for above in tree.ancestors(failed or ""):
        return above.id if tree.ended_root(above.id) is None else None
    return None


def _place(
    work: _TreeEdit, rows: Sequence[_StepMatch], inner: dict[int, Goal | None], home: str | None
) -> None:
    tree = work.tree
    work.ids |= {row.step.id: row.goal.id for row in rows if row.goal is not None}
    work.ids |= {below.id: goal.id for row in rows for below in row.step.steps if (goal := inner[id(below)])}
    follows: str | None = None
    before: list[str | None] = [None] * len(rows)
    for at in range(len(rows) - 1, -1, -1):
        before[at] = follows
        goal = rows[at].goal
        if goal is None:
            continue
        if goal.parent_id is None and follows is not None:
            # The others are not in place yet; needs are checked when all are.
            work.do(tree.plan_move(tree.goals[goal.id], None, follows, keep_needs=False))
        top = [goal, *tree.ancestors(goal.id)][-1].id
        # A goal below another one stays there; the steps before it go before that other goal.
        follows = top
    elsewhere = False
    for row, follows in zip(rows, before, strict=True):
        goal = row.goal
        if goal is None:
            near = home if not elsewhere else None
            parent = near if near is not None and follows != near else None
            goal_id = work.add(row.step, parent, follows if parent is None else None)
        else:
            goal_id = goal.id
            above = {one.id for one in tree.ancestors(goal.id)}
            elsewhere = elsewhere or home not in above
        for below in row.step.steps:
            if inner[id(below)] is None:
                work.add(below, goal_id)


def _link(work: _TreeEdit, steps: Sequence[PlanStep]) -> None:
    """Update the needs of kept goals, where the answer states them."""
    for step in steps:
        goal_id = work.ids[step.id]
        said: dict[str, object] = {}
        if step.needs is not None:
            said["needs"] = [work.ids[need] for need in step.needs]
        if step.parallel is not None:
            said["parallel"] = step.parallel
        work.update(goal_id, said)


def _unlink(work: _TreeEdit, left_out: Sequence[Goal]) -> None:
    """Remove needs of continuing goals for abandoned ones that the new plan does not have either."""
    tree, going = work.tree, {goal.id for goal in left_out}
    for goal in list(tree.goals.values()):
        if goal.needs and goal.status not in ENDED and goal.id not in going:
            stays = [
                need for need in goal.needs if (found := stand_in(tree, need)) and found.status != "abandoned"
            ]
            work.update(goal.id, {"needs": stays})


def _check_needs(work: _TreeEdit, aside: frozenset[str]) -> None:
    """Refuse a plan in which a goal waits for one behind it, or for one that has no turn. Raises BadPlanError."""
    tree = work.tree
    for goal_id, need_id in sorted(misplaced(tree)):
        if goal_id not in aside:
            raise BadPlanError(
                f"Goal {tree.title(goal_id)} needs goal {tree.title(need_id)}, which does not come before "
                "it: change the order or the needs."
            )
    for goal_id in work.ids.values():
        if left := [need for need in waits_for(tree, tree.goals[goal_id]) if need.id in aside]:
            raise BadPlanError(
                f"Goal {tree.title(goal_id)} needs goal {tree.title(left[0].id)}, which is not in the "
                "plan: keep it as well, or say what is needed instead."
            )


def _give_up(work: _TreeEdit, untouched: Sequence[Goal], why: str) -> None:
    tree = work.tree
    going = {goal.id for goal in untouched}
    for goal in untouched:
        if goal.id not in tree.goals or tree.ended_root(goal.id) is not None:
            continue
        below = list(tree.descendants(goal.id))
        if any(one.type != "normal" or (one.id not in going and one.status not in ENDED) for one in below):
            continue  # something below continues
        if any(one.status == "completed" for one in below):
            _end_half_done(work, goal, why)
        else:
            work.do(tree.plan_abandon(head(why, MAX_SUMMARY), tree.goals[goal.id]))


def _end_half_done(work: _TreeEdit, goal: Goal, why: str) -> None:
    """End a goal but keep its finished parts in the plan; abandoning it would remove them."""
    tree = work.tree
    for child in tree.children(goal.id):
        if child.status in ENDED:
            continue
        if any(one.status == "completed" for one in tree.descendants(child.id)):
            _end_half_done(work, child, why)
        else:
            work.do(tree.plan_abandon(head(why, MAX_SUMMARY), tree.goals[child.id]))
    if tree.goals[goal.id].status not in ENDED:
        done = tree.summary_of_children(goal.id)
        work.do(
            tree.plan_done(
                t(
                    "{done}\nThe rest was abandoned: {why}",
                    done=head(done, MAX_SUMMARY - 300),
                    why=head(why, 250),
                ),
                tree.goals[goal.id],
            )
        )
