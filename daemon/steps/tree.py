"""Steps as a tree: looked up by id, by parent, by type. No I/O.

The order of children is that of the plan for goals, and that of time for all else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from daemon.model.steps import Step, StepType


class StepTree:
    """The steps of one trace, or of one branch. Only ``StepFold`` changes it."""

    def __init__(self, trace_id: str, steps: Iterable[Step] = ()) -> None:
        """``steps``: parents before their children; one with an unknown parent goes to the top."""
        self.trace_id = trace_id
        self._steps: dict[str, Step] = {}
        self._children: dict[str | None, list[str]] = {}
        for step in steps:
            self.add(step)

    @property
    def total_steps(self) -> int:
        """How many there are."""
        return len(self._steps)

    def get(self, step_id: str) -> Step | None:
        """Return the step with an id."""
        return self._steps.get(step_id)

    def children(self, step_id: str | None) -> list[Step]:
        """Return the children of a step in order; None: those at the top. None of an unknown one."""
        return [self._steps[child] for child in self._children.get(step_id, ())]

    def child_count(self, step_id: str | None) -> int:
        """Return how many children a step has."""
        return len(self._children.get(step_id, ()))

    def walk(self, step_id: str | None = None) -> Iterator[tuple[int, Step]]:
        """Yield all steps below one (None: all), depth first, each with its depth from 0."""
        todo = [(0, child) for child in reversed(self._children.get(step_id, ()))]
        while todo:
            depth, below = todo.pop()
            yield depth, self._steps[below]
            todo += [(depth + 1, child) for child in reversed(self._children.get(below, ()))]

    def filter(self, step_type: StepType | None = None) -> list[Step]:
        """Return all steps of one type, or all, depth first: goals are in the order of the plan."""
        return [step for _, step in self.walk() if step_type is None or step.step_type == step_type]

    def line(self, step_id: str | None) -> Iterator[Step]:
        """Yield a step, its parent, its grandparent, …; nothing for an unknown one."""
        while (step := self._steps.get(step_id or "")) is not None:
            yield step
            step_id = step.parent_id

    def copy(self) -> StepTree:
        """Return an independent copy; the steps, which never change, are shared."""
        twin = StepTree(self.trace_id)
        twin._steps = dict(self._steps)
        twin._children = {parent: list(below) for parent, below in self._children.items()}
        return twin

    def let_go(self) -> None:
        """Delete everything, for the last owner. Call it in a thread.

        Freeing ten thousand steps at once takes 40 ms in which nothing else runs; one by one, other threads get their
        turn.
        """
        while self._steps:
            self._steps.popitem()
        while self._children:
            self._children.popitem()

    # -- changed by the fold --

    def add(self, step: Step, before_id: str | None = None) -> None:
        """Put a step among the children of its parent, before one of them (None: last)."""
        parent = step.parent_id if step.parent_id in self._steps else None
        if parent != step.parent_id:
            step = step.model_copy(update={"parent_id": parent})
        self._steps[step.step_id] = step
        self._insert(step.step_id, parent, before_id)

    def replace(self, step: Step) -> None:
        """Another state of a step that stays where it is."""
        self._steps[step.step_id] = step

    def move(self, step: Step, before_id: str | None = None) -> None:
        """Another state of a step, whose ``parent_id`` or place has changed."""
        siblings = self._children[self._steps[step.step_id].parent_id]
        # Moved steps are usually new, so search thousands from the end.
        place = next(at for at in range(len(siblings) - 1, -1, -1) if siblings[at] == step.step_id)
        del siblings[place]
        self._steps[step.step_id] = step
        self._insert(step.step_id, step.parent_id, before_id)

    def _insert(self, step_id: str, parent: str | None, before_id: str | None) -> None:
        siblings = self._children.setdefault(parent, [])
        if before_id is not None and before_id in siblings:
            siblings.insert(siblings.index(before_id), step_id)
        else:
            siblings.append(step_id)
