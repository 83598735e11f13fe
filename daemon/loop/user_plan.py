"""The user's changes to the plan: the operations of the ``goal`` tool, by goal ids.

They work while a turn is running, too: everything happens on the event loop, and the model is notified between two
steps, or with the next prompt (``daemon.state.notes``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.loop.undo import PERSON, Restorer, UnknownChangeError
from daemon.model.events import GoalRemoved
from daemon.model.messages import whole_characters
from daemon.plan.tree import Added, Change, PlanError
from daemon.state.goal_events import goal_event
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.loop.session import Session
    from daemon.model.goals import Goal
    from daemon.model.permissions import FileDiff


class UserPlan:
    """User actions on the plan of ``session`` from the client ``by``. Stateless: made for each request.

    Every operation raises PlanError, with the plan unchanged, when it is not possible, and StoreError.
    """

    def __init__(self, session: Session, by: str) -> None:
        self._session = session
        self._tree = session.state.plan
        self._by = by or PERSON

    def add(
        self,
        description: str,
        reason: str = "",
        *,
        parent_id: str | None = None,
        before_id: str | None = None,
    ) -> str:
        """Add a goal under ``parent_id`` (None: at the top), before ``before_id`` (None: last). Returns its id."""
        for goal_id in (parent_id, before_id):
            if goal_id is not None:
                self._goal(goal_id)
        changes = self._tree.plan_add(
            [whole_characters(description)],
            whole_characters(reason),
            parent_id=parent_id,
            before_id=before_id,
        )
        self._record(changes)
        return next(change.goal.id for change in changes if isinstance(change, Added))

    def rename(self, goal_id: str, description: str) -> None:
        """Another description; a finished goal keeps its own."""
        self._record(self._tree.plan_rename(self._goal(goal_id), whole_characters(description)))

    def move(self, goal_id: str, parent_id: str | None = None, before_id: str | None = None) -> None:
        """Put a goal under another parent (None: at the top), before a goal there (None: last)."""
        for other in (parent_id, before_id):
            if other is not None:
                self._goal(other)
        self._record(self._tree.plan_move(self._goal(goal_id), parent_id, before_id))

    def focus(self, goal_id: str) -> None:
        """The model is to work on this goal now."""
        self._record(self._tree.plan_focus(self._goal(goal_id)))

    def done(self, goal_id: str, summary: str) -> None:
        """The goal is reached; the summary replaces its details in what the model sees."""
        self._record(self._tree.plan_done(whole_characters(summary), self._goal(goal_id)))

    async def abandon(
        self, goal_id: str, reason: str, *, revert_files: bool = False, dry_run: bool = False
    ) -> tuple[FileDiff, ...]:
        """Abandon a goal; ``revert_files`` undoes the changes that were made for it and the goals below it.

        Returns the undone files. With ``dry_run`` nothing is changed: they are those that would be. Raises Busy when
        files would be undone while a turn is running, and Refused when they cannot be; the plan is unchanged then.
        """
        reason = whole_characters(reason)
        # Check first, because files must not be touched for an impossible change.
        self._tree.plan_abandon(reason if reason.strip() or not dry_run else "?", self._goal(goal_id))
        files: tuple[FileDiff, ...] = ()
        if revert_files or dry_run:
            try:
                restorer = Restorer(self._session)
                files = (await restorer.restore(goal_id=goal_id, dry_run=dry_run, by=self._by)).files
            except UnknownChangeError:
                pass  # no file was changed for it, which is no reason to keep the goal
        if dry_run:
            return files
        try:
            self._record(self._tree.plan_abandon(reason, self._goal(goal_id)), reason)
        except PlanError as error:
            if files:
                raise PlanError(
                    t("The files were reverted, but the plan changed in the meantime. {error}", error=error)
                ) from error
            raise
        return files

    def _goal(self, goal_id: str) -> Goal:
        goal = self._tree.goals.get(goal_id)
        if goal is None:
            known = [t("{number} is {i}", number=number, i=i) for i, number in self._tree.numbers().items()]
            shown = ", ".join(known[:30]) + (", …" if len(known) > 30 else "")
            raise PlanError(
                t("There is no goal with the id {goal_id!r} in this session. ", goal_id=goal_id[:100])
                + (t("Ids by number: {shown}.", shown=shown) if known else t("The plan is empty."))
            )
        return goal

    def _record(self, changes: Sequence[Change], reason: str = "") -> None:
        session = self._session
        for change in changes:
            event = goal_event(
                change, session.session_id, session.services.now(), self._by, plan=session.state.plan
            )
            if isinstance(event, GoalRemoved):
                event = event.model_copy(update={"reason": reason.strip()})
            session.emit(event)
