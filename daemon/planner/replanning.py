"""A plan that the model answered with, as changes of the goal tree. Pure; nothing that is done is touched."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from daemon.model.goals import Goal
from daemon.plan.dependencies import misplaced, needed, stand_in, waits_for
from daemon.plan.goal_index import ENDED
from daemon.plan.tree import MAX_SUMMARY, Added, Change, PlanError, PlanTree, Updated
from daemon.planner.plan_parser import BadPlanError, PlanStep
from tools.localization import noted, t
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REPLACED = noted("Abandoned: it is not in the new plan.")


class Revision(Struct, frozen=True):
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
    steps, kept = _linked(steps, tree)
    _check_once(tree, [kept[step.id] for step in steps if step.id in kept])
    named = _family(tree, {goal.id for goal in kept.values()})
    untouched = [goal for goal in _open_goals(tree) if goal.id not in named]
    home = _home(tree, failed)
    aside = frozenset(goal.id for goal in untouched if not revise)
    # Unlink before adding anything, because a new goal would count as the replacement of an abandoned one.
    _unlink(work, untouched)
    # Add before abandoning: a parent with an open sub-goal does not end with the abandoned ones.
    _place(work, steps, kept, home if revise else None)
    _link(work, [*steps, *(below for step in steps for below in step.steps)])
    if revise:
        _give_up(work, untouched, why.strip() or t(REPLACED))
        _unlink(work, ())
    _check_needs(work, aside)
    return Revision(tuple(work.changes), len(steps), aside)


class _TreeEdit(Struct):
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


def _check_once(tree: PlanTree, kept: Sequence[Goal]) -> None:
    seen: set[str] = set()
    for goal in kept:
        if goal.id in seen:
            raise BadPlanError(f"Two steps keep goal {tree.title(goal.id)}: list each goal once.")
        seen.add(goal.id)


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


def _place(work: _TreeEdit, steps: Sequence[PlanStep], kept: Mapping[str, Goal], home: str | None) -> None:
    """Put the steps into the tree, in order. ``kept``: the goals that steps keep, by their ids."""
    tree = work.tree
    work.ids |= {step_id: goal.id for step_id, goal in kept.items()}
    follows: str | None = None
    before: list[str | None] = [None] * len(steps)
    for at in range(len(steps) - 1, -1, -1):
        before[at] = follows
        goal = kept.get(steps[at].id)
        if goal is None:
            continue
        if goal.parent_id is None and follows is not None:
            # The others are not in place yet; needs are checked when all are.
            work.do(tree.plan_move(tree.goals[goal.id], None, follows, keep_needs=False))
        top = [goal, *tree.ancestors(goal.id)][-1].id
        # A goal below another one stays there; the steps before it go before that other goal.
        follows = top
    elsewhere = False
    for step, follows in zip(steps, before, strict=True):
        goal = kept.get(step.id)
        if goal is None:
            near = home if not elsewhere else None
            parent = near if near is not None and follows != near else None
            goal_id = work.add(step, parent, follows if parent is None else None)
        else:
            goal_id = goal.id
            above = {one.id for one in tree.ancestors(goal.id)}
            elsewhere = elsewhere or home not in above
        for below in step.steps:
            if below.id not in kept:
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


# -- the dependencies of steps: names become places, and the steps get an order that respects them --

_PLACE = re.compile(r"(?:step\s*|#)?(\d+(?:\.\d+)?)\.?", re.IGNORECASE)


def _linked(steps: Sequence[PlanStep], tree: PlanTree) -> tuple[tuple[PlanStep, ...], Mapping[str, Goal]]:
    """Return the steps in an order in which each follows its needs, otherwise in the same order; and the open goals
    that steps keep, by the ids of the steps.

    ``id`` of each then is its place in the answer (``2``, ``2.1``), and ``needs`` are such ids. If any step states
    needs, a step without a statement has none. Raises BadPlanError for unknown steps, cycles, and steps that cannot be
    parallel.
    """
    answer = _Answer(tree)
    return answer.linked(steps), answer.goals


class _Answer(Struct):
    tree: PlanTree
    steps: dict[str, PlanStep] = field(default_factory=dict[str, PlanStep])
    """By place."""
    goals: dict[str, Goal] = field(default_factory=dict[str, Goal])
    """Those that steps keep, by place."""
    named: dict[str, str] = field(default_factory=dict[str, str])
    """Places by the names that steps give themselves."""

    def linked(self, steps: Sequence[PlanStep]) -> tuple[PlanStep, ...]:
        for place, step in _places(steps):
            self.steps[place] = step
            if (goal := _kept(self.tree, step)) is not None:
                self.goals[place] = goal
            if (name := step.id.casefold()) and self.named.setdefault(name, place) != place:
                raise BadPlanError(f'Two steps have the id "{head(step.id, 60)}": give each its own id.')
            if step.parallel and step.steps:
                raise BadPlanError(
                    f'{self._name(place)} is parallel and has steps below it: mark those as "parallel" '
                    "instead."
                )
        given = any(step.needs is not None for step in self.steps.values())
        needs = {place: self._needs(place) for place in self.steps}
        top = [
            replace(
                step,
                id=str(number),
                needs=_given(step, needs[str(number)], given),
                steps=tuple(
                    replace(below, id=place, needs=_given(below, needs[place], given), steps=())
                    for place in self._ordered(
                        [f"{number}.{n}" for n in range(1, len(step.steps) + 1)], needs
                    )
                    for below in (self.steps[place],)
                ),
            )
            for number, step in enumerate(steps, 1)
        ]
        order = self._ordered([step.id for step in top], needs)
        return tuple(top[int(place) - 1] for place in order)

    def _needs(self, place: str) -> tuple[str, ...]:
        step = self.steps[place]
        if step.needs is None:
            # A kept goal keeps those of its needs that the plan still has.
            goal = self.goals.get(place)
            wanted = {need.id for need in needed(self.tree, goal)} if goal is not None else set[str]()
            return tuple(other for other, one in self.goals.items() if one.id in wanted)
        found = (self._meant(place, name) for name in step.needs)
        needs = tuple(dict.fromkeys(need for need in found if need is not None))
        for need in needs:
            self._check(place, need)
        return needs

    def _meant(self, place: str, name: str) -> str | None:
        """Return the place of the step that a name means; None for a goal that is done already."""
        if (found := self.named.get(name.casefold())) is not None:
            return found
        number = match[1] if (match := _PLACE.fullmatch(name)) else None
        try:
            goal = self.tree.find(name)
        except PlanError:
            goal = None
        keeping = [other for other, one in self.goals.items() if goal is not None and one.id == goal.id]
        beside = f"{place.rpartition('.')[0]}.{number}" if "." in place and number else ""
        words = [other for other, step in self.steps.items() if step.goal.casefold() == name.casefold()]
        places = [other for other in (number, beside) if other in self.steps]
        meant = list(dict.fromkeys([*places, *keeping, *words]))
        if len(meant) == 1:
            return meant[0]
        if meant:
            what = " or ".join(self._name(other) for other in meant)
            raise BadPlanError(
                f'{self._name(place)} needs "{head(name, 60)}", which could be {what}: give steps an "id", '
                "and use that."
            )
        if goal is None:
            known = ", ".join(step.id or other for other, step in self.steps.items())
            raise BadPlanError(
                f'{self._name(place)} needs "{head(name, 60)}", but no step has that id. Ids: {known}.'
            )
        if goal.status == "completed":
            return None
        raise BadPlanError(
            f"{self._name(place)} needs goal {self.tree.title(goal.id)}, which is not in the plan: keep it "
            "as well, or leave it out of the needs."
        )

    def _check(self, place: str, need: str) -> None:
        if need == place:
            raise BadPlanError(f"{self._name(place)} needs itself: leave that out.")
        above = place.rpartition(".")[0]
        if need == above or need.rpartition(".")[0] == place:
            raise BadPlanError(
                f"{self._name(place)} needs {self._name(need)}, but one is below the other: leave that out."
            )
        if "." in need and need.rpartition(".")[0] != above:
            raise BadPlanError(
                f"{self._name(place)} needs {self._name(need)}, which is below another step: name that "
                "whole step."
            )

    def _ordered(self, level: Sequence[str], needs: Mapping[str, tuple[str, ...]]) -> list[str]:
        """Return places of one level in order; what steps below need counts for the step above."""
        waits: dict[str, list[str]] = {place: [] for place in level}
        for place, wanted in needs.items():
            mine = place if place in waits else place.partition(".")[0]
            if mine in waits:
                waits[mine] += [need for need in wanted if need in waits and need != mine]
        done: list[str] = []
        left = list(level)
        while left:
            ready = next((place for place in left if all(need in done for need in waits[place])), None)
            if ready is None:
                raise BadPlanError(f"These steps need each other in a circle: {self._circle(left, waits)}.")
            done.append(ready)
            left.remove(ready)
        return done

    def _circle(self, left: Sequence[str], waits: Mapping[str, Sequence[str]]) -> str:
        way = [left[0]]
        while way[-1] not in way[:-1]:
            way.append(next(need for need in waits[way[-1]] if need in left))
        return " needs ".join(map(self._name, way[way.index(way[-1]) :]))

    def _name(self, place: str) -> str:
        step = self.steps[place]
        goal = self.goals.get(place)
        return f'"{head(step.goal or (goal.description if goal is not None else step.keep), 60)}"'


def _places(steps: Sequence[PlanStep]) -> list[tuple[str, PlanStep]]:
    found: list[tuple[str, PlanStep]] = []
    for number, step in enumerate(steps, 1):
        found.append((str(number), step))
        found += [(f"{number}.{n}", below) for n, below in enumerate(step.steps, 1)]
    return found


def _given(step: PlanStep, needs: tuple[str, ...], given: bool) -> tuple[str, ...] | None:
    """Return a step's needs for the record: None leaves a kept goal unchanged, and new ones to their order."""
    return needs if step.needs is not None or (given and not step.keep) else None
