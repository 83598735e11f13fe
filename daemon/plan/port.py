"""The port ``Plan`` of tools: the ``goal`` tool's operations, all of them or none, each recorded as events."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from daemon.model.goals import Goal
from daemon.plan.text import plan_to_prompt
from daemon.plan.tree import Change, PlanError, PlanTree
from tools.base import ToolError


class SessionPlan:
    """``record`` stores a change as an event and applies it to ``tree``."""

    def __init__(self, tree: PlanTree, record: Callable[[Change], None]) -> None:
        self._tree = tree
        self._record = record

    async def update(
        self,
        *,
        add: Sequence[str] = (),
        reason: str | None = None,
        done: str | None = None,
        abandon: str | None = None,
        focus: str | None = None,
        rename: str | None = None,
        revert_files: bool = False,
    ) -> str:
        """See tools.base.Plan."""
        if done is not None and abandon is not None:
            raise ToolError("A goal is either done or abandoned: give one of the two.")
        try:
            changes = self._try_on_a_copy(add, reason or "", done, abandon, focus)
        except PlanError as error:
            raise ToolError(f"{error} The plan is unchanged.\n\n{plan_to_prompt(self._tree)}") from error
        for change in changes:
            self._record(change)
        return plan_to_prompt(self._tree)

    def progress(self) -> str:
        """See tools.base.Plan."""
        return plan_to_prompt(self._tree)

    def _try_on_a_copy(
        self, add: Sequence[str], reason: str, done: str | None, abandon: str | None, focus: str | None
    ) -> list[Change]:
        trial = self._tree.copy()
        changes: list[Change] = []

        def take(planned: list[Change]) -> None:
            for change in planned:
                trial.apply(change)
            changes.extend(planned)

        # The numbers the model gives are those of the plan it has seen, before this call changes any of them;
        # a number that is not there yet is meant for what this call adds.
        target: Goal | None = None
        if focus is not None:
            try:
                target = trial.find(focus)
            except PlanError:
                if not add:
                    raise
        if done is not None:
            take(trial.plan_done(done))
        if abandon is not None:
            take(trial.plan_abandon(abandon))
        if target is not None:
            still = trial.goals.get(target.id)
            if still is None:
                raise PlanError(f"Goal {focus} was just dropped: focus another one.")
            take(trial.plan_focus(still))
        if add:
            take(trial.plan_add(add, reason))
        if focus is not None and target is None:
            take(trial.plan_focus(trial.find(focus)))
        return changes
