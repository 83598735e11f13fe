"""The port ``Plan`` of tools: what ``goal`` and ``step`` do, all of a call or none, each recorded as events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from daemon.model.goals import Goal, PlanFront
from daemon.plan.stepping import MARKS, Step
from daemon.plan.text import plan_to_prompt, progress_text, todo_text
from daemon.plan.tree import Added, Change, PlanError, PlanTree, Removed, Updated
from tools.base import ToolError

Operation = Callable[[PlanTree], list[Change]]
_NAMED = 5
"""Goals that are named in an answer; of more only the number is told."""


@dataclass(frozen=True, slots=True)
class _Call:
    """The operations of one call, in order. ``ending``: the goal that it completes or abandons."""

    operations: list[Operation]
    ending: Goal | None


class SessionPlan:
    """``record`` stores a change as an event and applies it to ``tree``.

    ``revert`` takes back what was changed in files for a goal, after approval, and returns words for the model. It
    raises ToolError or PermissionDenied: then nothing of the plan is changed. ``front``: how progress is told.
    """

    def __init__(
        self,
        tree: PlanTree,
        record: Callable[[Change], None],
        revert: Callable[[Goal], Awaitable[str]] | None = None,
        *,
        front: PlanFront = "goal",
    ) -> None:
        self._tree = tree
        self._record = record
        self._revert = revert
        self._front: PlanFront = front

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
        """See tools.base.Plan. They apply in the order done or abandon, focus, add, rename.

        ``focus`` may name a goal that the same call adds.
        """
        if done is not None and abandon is not None:
            raise ToolError("A goal is either done or abandoned: give one of the two.")
        if revert_files and abandon is None:
            raise ToolError("revert_files goes with abandon: it takes back what was changed for that goal.")
        if rename is not None and (done is not None or abandon is not None) and focus is None:
            raise ToolError("rename is for a goal that goes on: add what is to be done now as a new goal.")
        try:
            call = self._understood(add, reason or "", done, abandon, focus, rename)
            changes = self._planned(call.operations)
        except PlanError as error:
            raise self._refusal(error) from error
        lines: list[str] = []
        if revert_files and call.ending is not None:
            lines.append(await self._reverted(call.ending))
            # The person was asked, and may have changed the plan in the meantime.
            try:
                changes = self._planned(call.operations)
            except PlanError as error:
                raise ToolError(f"{lines[0]}\n{self._refusal(error)}") from error
        return self._done(changes, lines)

    async def step(
        self,
        *,
        plan: Sequence[str] = (),
        focus: str | None = None,
        complete: bool = False,
        summary: str | None = None,
    ) -> str:
        """See tools.base.Plan. They apply in the order complete, focus, plan (``daemon.plan.stepping``)."""
        step = Step(plan, focus, complete, summary or "")
        try:
            changes = step.changes(self._tree)
        except PlanError as error:
            raise self._refusal(error) from error
        there = (
            ("Not begun, and still planned", step.moved),
            ("Planned already", step.known),
            ("Done already, and not planned again", step.ended),
        )
        lines = [f"{what}: {self._names(ids)}." for what, ids in there if ids]
        return self._done(changes, [*lines, MARKS] if step.claimed else lines)

    def progress(self) -> str:
        """See tools.base.Plan."""
        return progress_text(self._tree) if self._front == "goal" else todo_text(self._tree)

    # -- planning --

    def _understood(
        self,
        add: Sequence[str],
        reason: str,
        done: str | None,
        abandon: str | None,
        focus: str | None,
        rename: str | None,
    ) -> _Call:
        tree = self._tree
        current = tree.goals.get(tree.current_id or "")
        ending = None if done is None and abandon is None else current
        # The numbers the model gives are those of the plan it has seen, before this call changes any of them;
        # a number that is not there yet, or that this call ends, is meant for what this call adds.
        target: Goal | None = None
        if focus is not None:
            try:
                target = tree.find(focus)
            except PlanError:
                if not add:
                    raise
            if target is not None and add and ending is not None and target.id == ending.id:
                target = None
        operations: list[Operation] = []
        if done is not None:
            operations.append(lambda plan: plan.plan_done(done, ending))
        if abandon is not None:
            operations.append(lambda plan: plan.plan_abandon(abandon, ending))
        if target is not None:
            aim = target
            operations.append(lambda plan: _focus(plan, aim, focus or ""))
        if add:
            operations.append(lambda plan: plan.plan_add(add, reason))
        if focus is not None and target is None:
            operations.append(lambda plan: plan.plan_focus(plan.find(focus)))
        if rename is not None:
            operations.append(lambda plan: _rename(plan, rename))
        return _Call(operations, ending)

    def _planned(self, operations: Sequence[Operation]) -> list[Change]:
        """The changes of all operations. Raises PlanError; the tree is as it was."""
        trial = self._tree
        changes: list[Change] = []
        for place, operation in enumerate(operations):
            planned = operation(trial)
            changes += planned
            if place < len(operations) - 1:
                # Each operation is planned on what those before it leave; the last one needs no trial.
                trial = trial.copy() if trial is self._tree else trial
                for change in planned:
                    trial.apply(change)
        return changes

    def _refusal(self, error: PlanError) -> ToolError:
        return ToolError(f"{error} The plan is unchanged.\n\n{plan_to_prompt(self._tree)}")

    async def _reverted(self, goal: Goal) -> str:
        if self._revert is None:
            raise ToolError(
                "Files cannot be taken back here: call again without revert_files, and mend them by hand. "
                "The plan is unchanged."
            )
        try:
            return await self._revert(goal)
        except ToolError as error:
            raise ToolError(f"{error} The plan is unchanged.") from error

    def _done(self, changes: Sequence[Change], lines: Sequence[str]) -> str:
        """Record the changes, and say what happened; ``lines``: what else there is to say."""
        ended = [line for change in changes if (line := self._ended(change))]
        for change in changes:
            self._record(change)
        return "\n".join([*ended, *lines, *self._told(changes), self._focused()])

    # -- what happened, in words; the plan itself is in each request --

    def _ended(self, change: Change) -> str:
        """About a goal that a change ends. Before the change: later it may have no number."""
        if isinstance(change, Removed):
            return f"Dropped, as nobody had worked on it: {self._tree.title(change.goal_id)}."
        if not isinstance(change, Updated):
            return ""
        status = change.updates.get("status")
        if status == "abandoned":
            below = f", with {_goals(len(change.affected))} below it" if change.affected else ""
            return f"Given up: {self._tree.title(change.goal_id)}{below}."
        if status == "completed":
            above = [self._tree.title(goal.goal_id) for goal in change.affected]
            also = f" With it: {'; '.join(above)}." if above else ""
            return f"Done: {self._tree.title(change.goal_id)}.{also}"
        return ""

    def _told(self, changes: Sequence[Change]) -> list[str]:
        """About what was added and renamed. After the changes: numbers are those of now."""
        lines: list[str] = []
        added = [change.goal for change in changes if isinstance(change, Added)]
        if added:
            if len(added) <= _NAMED:
                lines.append(f"Added: {'; '.join(self._tree.title(goal.id) for goal in added)}.")
            else:
                first, last = (self._tree.number_of(goal.id) for goal in (added[0], added[-1]))
                lines.append(f"Added: {first} to {last} ({_goals(len(added))}).")
        lines += [
            f"Renamed: {self._tree.title(change.goal_id)}."
            for change in changes
            if isinstance(change, Updated) and "description" in change.updates
        ]
        return lines

    def _names(self, goal_ids: Sequence[str]) -> str:
        """Without numbers, which change."""
        names = [self._tree.goals[goal_id].description for goal_id in goal_ids[:_NAMED]]
        more = [f"and {_goals(len(goal_ids) - _NAMED)} more"] if len(goal_ids) > _NAMED else []
        return "; ".join([*names, *more])

    def _focused(self) -> str:
        tree = self._tree
        if tree.current_id is not None:
            return f"Focus: {tree.title(tree.current_id)}."
        if (following := tree.next_open(None)) is not None:
            return f"No goal has the focus. Next to do: {tree.title(following.id)}."
        return "All goals of the plan are done." if tree.live_children(None) else "The plan is empty."


def _focus(plan: PlanTree, goal: Goal, number: str) -> list[Change]:
    if goal.id not in plan.goals:
        raise PlanError(f"Goal {number} was just dropped: focus another one.")
    return plan.plan_focus(goal)


def _rename(plan: PlanTree, description: str) -> list[Change]:
    if plan.current_id is None:
        raise PlanError("No goal has the focus, so there is nothing to rename: focus a goal first.")
    return plan.plan_rename(plan.goals[plan.current_id], description)


def _goals(count: int) -> str:
    return "1 goal" if count == 1 else f"{count} goals"
