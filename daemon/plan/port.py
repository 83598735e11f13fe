"""The port ``Plan`` of tools: what ``goal`` and ``step`` do, all of a call or none, each recorded as events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from daemon.plan.goal_index import ENDED
from daemon.plan.goal_lookup import known_focus, place_of_new
from daemon.plan.step_tool import MARKS, StepCall
from daemon.plan.text import plan_to_prompt, progress_text, todo_text
from daemon.plan.tree import Added, Change, Focus, Moved, PlanError, PlanTree, Removed, Updated
from tools.localization import english
from tools.text.truncate import short
from tools.tool import PlanChange, PlanEdit, PlanOperation, ToolError

if TYPE_CHECKING:
    from daemon.model.goals import Goal, PlanFront

Operation = Callable[[PlanTree], list[Change]]
_Place = Callable[[PlanTree], tuple[str | None, str | None]]
"""Returns the parent and the next sibling of a goal that is to be added or moved."""
_NAMED = 5
"""Most goals to name in an answer; of the rest only the number is given."""
_RENUMBERED = 12
"""Goals with another number that an answer names."""


class StaleNumberError(PlanError):
    """A display number that names another goal than when the model saw the plan."""


class SessionPlan:
    """``record`` stores a change as an event and applies it to ``tree``.

    ``revert`` undoes the file changes for a goal, after approval, and returns a text for the model. It raises ToolError
    or PermissionDeniedError: then the plan is unchanged. ``front``: the tool's terms for progress. ``seen``: the plan
    at the model's last request; a number that has another meaning since is rejected, and the goal in focus is that of
    this plan, or what the model has focused since.
    """

    def __init__(
        self,
        tree: PlanTree,
        record: Callable[[Change], None],
        revert: Callable[[Goal], Awaitable[str]] | None = None,
        *,
        front: PlanFront = "goal",
        seen: PlanTree | None = None,
    ) -> None:
        self._tree = tree
        self._record = record
        self._revert = revert
        self._front: PlanFront = front
        self._seen = seen
        self.changed: Sequence[PlanChange] = ()
        """Changes of the plan by the latest call."""

    async def update(self, edit: PlanEdit) -> str:
        """Apply the operations in the order done or abandon, focus, add or move, rename.

        ``focus`` may name a goal that the same call adds.
        """
        try:
            operations, ending = self._understood(edit)
            changes = self._planned(operations)
        except PlanError as error:
            raise self._refusal(error) from error
        lines: list[str] = []
        if edit.revert_files and ending is not None:
            lines.append(await self._reverted(ending))
            # The user was asked, and may have changed the plan in the meantime.
            try:
                changes = self._planned(operations)
            except PlanError as error:
                raise ToolError(f"{lines[0]}\n{self._refusal(error)}") from error
        return self._done(changes, lines, focused=edit.focus is not None)

    async def step(
        self,
        *,
        plan: Sequence[str] = (),
        focus: str | None = None,
        complete: bool = False,
        summary: str | None = None,
    ) -> str:
        """Apply the operations in the order complete, focus, plan (``daemon.plan.step_tool``)."""
        step = StepCall(plan, focus, complete, summary or "", self._seen)
        try:
            changes = step.changes(self._tree)
        except PlanError as error:
            raise self._refusal(error) from error
        there = (
            ("Not started, and still planned", step.moved),
            ("Planned already", step.known),
            ("Already done, and not planned again", step.ended),
        )
        lines = [f"{what}: {self._names(ids)}." for what, ids in there if ids]
        return self._done(changes, [*lines, MARKS] if step.claimed else lines, focused=focus is not None)

    def progress(self) -> str:
        return progress_text(self._tree, ids=True) if self._front == "goal" else todo_text(self._tree)

    # -- planning --

    def _understood(self, edit: PlanEdit) -> tuple[list[Operation], Goal | None]:
        """Return the operations of a call, in order, and the goal that it completes or abandons."""
        subject = self._subject(edit)
        ending = subject if edit.ends else None
        target = self._focused_first(edit, ending)
        operations: list[Operation] = []
        if (done := edit.done) is not None:
            operations.append(lambda plan: plan.plan_done(done, ending))
        if (abandon := edit.abandon) is not None:
            operations.append(lambda plan: plan.plan_abandon(abandon, ending))
        if (aim := target) is not None:
            operations.append(lambda plan: _focus(plan, aim, edit.focus or ""))
        if edit.add:
            operations.append(self._adding(edit, subject, focused=target is not None))
        elif edit.place is not None and subject is not None:
            operations.append(self._moving(edit, subject))
        if (focus := edit.focus) is not None and target is None:
            operations.append(lambda plan: plan.plan_focus(plan.find(focus)))
        if (rename := edit.rename) is not None:
            named = None if edit.goal is None and edit.focus is not None else subject
            operations.append(lambda plan: _rename(plan, rename, named))
        return operations, ending

    def _subject(self, edit: PlanEdit) -> Goal | None:
        if edit.goal is not None:
            return self._find(edit.goal)
        # What is ended or renamed without a name is the goal that the model worked on.
        meant = edit.ends or (edit.rename is not None and edit.focus is None)
        return known_focus(self._tree, self._seen if meant else None)

    def _focused_first(self, edit: PlanEdit, ending: Goal | None) -> Goal | None:
        """Return the goal to focus before anything is added; None for none, and for one that the call adds.

        A number that does not exist yet, or that this call ends, refers to the goals that the call adds.
        """
        if edit.focus is None:
            return None
        try:
            target = self._find(edit.focus)
        except StaleNumberError:
            raise
        except PlanError:
            if not edit.add:
                raise
            return None
        return None if edit.add and ending is not None and target.id == ending.id else target

    def _find(self, text: str) -> Goal:
        """Return the goal that ``text`` names in the plan that the model has seen, before this call changes any
        number."""
        tree, seen = self._tree, self._seen
        if seen is None or tree.with_id(text) is not None:
            return tree.find(text)
        try:
            meant = seen.find(text)
        except PlanError:
            return tree.find(text)
        try:
            found = tree.find(text)
        except PlanError:
            found = None
        if found is not None and found.id == meant.id:
            return found
        now = "names no goal" if found is None else f"is {tree.title(found.id)} (g{found.id})"
        there = tree.number_of(meant.id)
        where = f"now number {there}" if there is not None else "no longer in the plan"
        raise StaleNumberError(
            f"{short(text.strip(), 80)} {now} since the plan changed. Before, it was "
            f"{short(meant.description, 100)!r} (g{meant.id}), {where}: refer to the goal that you mean by "
            "its id."
        )

    def _adding(self, edit: PlanEdit, subject: Goal | None, *, focused: bool) -> Operation:
        def add(plan: PlanTree, place: _Place) -> list[Change]:
            parent, following = place(plan)
            return plan.plan_add(edit.add, edit.reason or "", parent_id=parent, before_id=following)

        if edit.place is not None:
            return partial(add, place=self._place(edit))
        if subject is None or subject.id == self._tree.current_id or edit.done is not None:
            chosen = focused or edit.abandon is not None or (edit.goal is not None and edit.done is None)

            def add_there(plan: PlanTree) -> list[Change]:
                parent = Focus.CURRENT if chosen else place_of_new(self._tree, self._seen, plan)
                return plan.plan_add(edit.add, edit.reason or "", parent_id=parent)

            return add_there
        if edit.abandon is not None:
            # The alternative takes the place of the goal, which may leave the plan.
            following = self._tree.following(subject.id)
            return partial(add, place=lambda _: (subject.parent_id, following))
        return partial(add, place=lambda _: (subject.id, None))

    def _moving(self, edit: PlanEdit, subject: Goal) -> Operation:
        place = self._place(edit)
        return lambda plan: plan.plan_move(plan.goal(subject.id), *place(plan))

    def _place(self, edit: PlanEdit) -> _Place:
        """Return the place that ``before`` or ``after`` names. The call may have removed that goal or the next by
        then."""
        beside = self._find(edit.place or "")
        there = beside.parent_id, self._tree.following(beside.id)

        def place(plan: PlanTree) -> tuple[str | None, str | None]:
            if beside.id not in plan.goals:
                return there
            parent = plan.goal(beside.id).parent_id
            return parent, beside.id if edit.before is not None else plan.following(beside.id)

        return place

    def _planned(self, operations: Sequence[Operation]) -> list[Change]:
        """Return the changes of all operations. Raises PlanError; the tree is unchanged."""
        trial = self._tree
        changes: list[Change] = []
        for place, operation in enumerate(operations):
            planned = operation(trial)
            changes += planned
            if place < len(operations) - 1:
                # Plan each operation on the result of those before it; the last one needs no trial.
                trial = trial.copy() if trial is self._tree else trial
                for change in planned:
                    trial.apply(change)
        return changes

    def _refusal(self, error: PlanError) -> ToolError:
        return ToolError(f"{english(error)} The plan is unchanged.\n\n{self._shown()}")

    def _shown(self) -> str:
        return plan_to_prompt(self._tree, ids=self._front == "goal")

    async def _reverted(self, goal: Goal) -> str:
        if self._revert is None:
            raise ToolError(
                "Files cannot be reverted here: call again without revert_files, and fix them yourself. "
                "The plan is unchanged."
            )
        try:
            return await self._revert(goal)
        except ToolError as error:
            raise ToolError(f"{english(error)} The plan is unchanged.") from error

    def _done(self, changes: Sequence[Change], lines: Sequence[str], *, focused: bool) -> str:
        """Record the changes, and describe them; ``lines``: further text. ``focused``: the model named a focus."""
        ended = [line for change in changes if (line := self._ended(change))]
        named = self._front == "goal"  # by numbers, which change; steps are named by their descriptions
        numbers = self._tree.numbers() if named and any(map(_shifts, changes)) else {}
        names = {goal_id: goal.description for goal_id, goal in self._tree.goals.items()}
        focus = self._tree.current_id
        for change in changes:
            self._record(change)
        if self._seen is not None and (focused or self._tree.current_id != focus):
            self._seen.current_id = self._tree.current_id  # by the model itself
        self.changed = _changed(
            changes, names | {i: goal.description for i, goal in self._tree.goals.items()}
        )
        shifted = self._shifted(numbers) if numbers else []
        return "\n".join([*ended, *lines, *self._change_lines(changes), *shifted, self._focused()])

    # -- descriptions of changes; the plan itself is in each request --

    def _ended(self, change: Change) -> str:
        """About a goal that a change ends. Before the change: later it may have no number."""
        if isinstance(change, Removed):
            return f"Deleted, because it had not been started: {self._tree.title(change.goal_id)}."
        if not isinstance(change, Updated):
            return ""
        status = change.updates.get("status")
        if status == "abandoned":
            below = f", with {_goals(len(change.affected_goals))} below it" if change.affected_goals else ""
            return f"Abandoned: {self._tree.title(change.goal_id)}{below}."
        if status == "completed":
            above = [self._tree.title(goal.goal_id) for goal in change.affected_goals]
            also = f" With it: {'; '.join(above)}." if above else ""
            return f"Done: {self._tree.title(change.goal_id)}.{also}"
        return ""

    def _change_lines(self, changes: Sequence[Change]) -> list[str]:
        """Describe added and renamed goals. Call it after the changes: it uses the new numbers."""
        lines: list[str] = []
        added = [change.goal for change in changes if isinstance(change, Added)]
        if added:
            if len(added) <= _NAMED:
                lines.append(f"Added: {'; '.join(self._tree.title(goal.id) for goal in added)}.")
            else:
                first, last = (self._tree.number_of(goal.id) for goal in (added[0], added[-1]))
                lines.append(f"Added: {first} to {last} ({_goals(len(added))}).")
        if self._front == "goal":
            moved = [change.goal_id for change in changes if isinstance(change, Moved)]
            lines += [f"Moved: {self._title(goal_id)}." for goal_id in moved]
        lines += [
            f"Renamed: {self._tree.title(change.goal_id)}."
            for change in changes
            if isinstance(change, Updated) and "description" in change.updates
        ]
        return lines

    def _shifted(self, before: Mapping[str, str]) -> list[str]:
        """Return the open goals that have another number than ``before``."""
        tree = self._tree
        now = [
            goal_id
            for goal_id, number in tree.numbers().items()
            if before.get(goal_id, number) != number and tree.goals[goal_id].status not in ENDED
        ]
        if not now:
            return []
        titles = "; ".join(self._title(goal_id) for goal_id in now[:_RENUMBERED])
        more = f"; and {_goals(len(now) - _RENUMBERED)} more" if len(now) > _RENUMBERED else ""
        return [f"Numbers now: {titles}{more}."]

    def _title(self, goal_id: str) -> str:
        return f"{self._tree.title(goal_id)} (g{goal_id})"

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
        top = tree.children(None)
        given_up = sum(goal.status == "abandoned" for goal in top)
        if not top or given_up == len(top):
            return "The plan has no goals left: all were abandoned." if top else "The plan is empty."
        if given_up:
            return f"No goal is open: {len(top) - given_up} done, {given_up} abandoned."
        return "All goals of the plan are done."


def _changed(changes: Sequence[Change], names: Mapping[str, str]) -> list[PlanChange]:
    """Return the changes of each goal, and of those that were completed or abandoned with it."""
    done: list[tuple[PlanOperation, str]] = []
    for change in changes:
        if isinstance(change, Added):
            done.append(("added", change.goal.id))
        elif isinstance(change, Removed):
            done.append(("removed", change.goal_id))
        elif isinstance(change, Moved):
            done.append(("moved", change.goal_id))
        else:
            done += _updated(change)
    return [PlanChange(operation, goal_id, names.get(goal_id, "")) for operation, goal_id in done]


def _updated(change: Updated) -> list[tuple[PlanOperation, str]]:
    status = change.updates.get("status")
    if status == "completed" or status == "abandoned":
        others = [other.goal_id for other in change.affected_goals if other.status == status]
        return [(status, goal_id) for goal_id in (change.goal_id, *others)]
    if "description" in change.updates:
        return [("renamed", change.goal_id)]
    return [("focused", change.goal_id)] if change.current_id == change.goal_id else []


def _focus(plan: PlanTree, goal: Goal, number: str) -> list[Change]:
    if goal.id not in plan.goals:
        raise PlanError(f"Goal {number} was just deleted: focus another one.")
    return plan.plan_focus(goal)


def _shifts(change: Change) -> bool:
    """Numbers of other goals may change with it."""
    ended = isinstance(change, Updated) and change.updates.get("status") == "abandoned"
    return ended or isinstance(change, Added | Moved | Removed)


def _rename(plan: PlanTree, description: str, goal: Goal | None) -> list[Change]:
    if goal is not None:
        return plan.plan_rename(goal, description)
    if plan.current_id is None:
        raise PlanError("No goal has the focus, so there is nothing to rename: focus a goal first.")
    return plan.plan_rename(plan.goals[plan.current_id], description)


def _goals(count: int) -> str:
    return "1 goal" if count == 1 else f"{count} goals"
