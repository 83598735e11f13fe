"""Conditions for the numbers of every step tree whose turns have ended."""

from __future__ import annotations

import math

from daemon.model.steps import Step
from daemon.steps.fold import StepFold

_CENT = 1e-9


def check_sums(fold: StepFold) -> None:
    """The steps at the top and what no step shows took what the trace took, and no step less than those below it."""
    top = fold.tree.children(None)
    assert sum(step.tokens or 0 for step in top) + fold.unshown.tokens == fold.head.trace.usage.total
    cost = sum(step.cost or 0 for step in top) + fold.unshown.cost
    assert math.isclose(cost, fold.head.trace.total_cost, abs_tol=_CENT)
    for step in fold.tree.filter("goal"):
        below = fold.tree.children(step.step_id)
        assert (step.tokens or 0) >= sum(child.tokens or 0 for child in below), told(step, below)
        assert (step.cost or 0) >= sum(child.cost or 0 for child in below) - _CENT, told(step, below)
        # What was done at once takes a goal as long as the longest of it.
        assert all((step.duration_ms or 0) >= (child.duration_ms or 0) for child in below), told(step, below)


def told(step: Step, below: list[Step]) -> str:
    """A goal with its children, and what each took."""
    return "\n".join(
        f"{one.step_type} {one.description}: {one.tokens} {one.cost} {one.duration_ms}"
        for one in (step, *below)
    )
