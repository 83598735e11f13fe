"""Resolve the dependencies of a plan's steps: names become places, and the steps get an order that respects them.
Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from daemon.model.goals import Goal
from daemon.plan.changes import PlanError
from daemon.plan.dependencies import needed
from daemon.planner.plan_parser import BadPlanError, PlanStep
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from daemon.plan.tree import PlanTree

_PLACE = re.compile(r"(?:step\s*|#)?(\d+(?:\.\d+)?)\.?", re.IGNORECASE)


def linked(
    steps: Sequence[PlanStep], tree: PlanTree, kept: Callable[[PlanStep], Goal | None]
) -> tuple[PlanStep, ...]:
    """Return the steps in an order in which each follows its needs; otherwise the order stays the same.

    ``id`` of each then is its place in the answer (``2``, ``2.1``), and ``needs`` are such ids. If any step states
    needs, a step without a statement has none. ``kept``: the open goal of the tree that a step keeps. Raises
    BadPlanError for unknown steps, cycles, and steps that cannot be parallel.
    """
    return _Answer(tree).linked(steps, kept)


@dataclass(slots=True)
class _Answer:
    tree: PlanTree
    steps: dict[str, PlanStep] = field(default_factory=dict[str, PlanStep])
    """By place."""
    goals: dict[str, Goal] = field(default_factory=dict[str, Goal])
    """Those that steps keep, by place."""
    named: dict[str, str] = field(default_factory=dict[str, str])
    """Places by the names that steps give themselves."""

    def linked(
        self, steps: Sequence[PlanStep], kept: Callable[[PlanStep], Goal | None]
    ) -> tuple[PlanStep, ...]:
        for place, step in _places(steps):
            self.steps[place] = step
            if (goal := kept(step)) is not None:
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
