"""Mirrors the events of a branch into the main session's log, as ``branch_…`` events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from daemon.model.events import (
    BranchGoalAdded,
    BranchGoalUpdated,
    BranchMessageAdded,
    Delta,
    Event,
    GoalAdded,
    GoalMoved,
    GoalRemoved,
    GoalUpdated,
    MessageAdded,
)
from daemon.model.goals import GoalStats
from daemon.model.meters import Metered
from daemon.plan.goal_stats import with_message

if TYPE_CHECKING:
    from daemon.loop.session import Session
    from daemon.model.messages import Message


class EventMirror:
    """Follows one branch from the moment it begins its own work, until ``close``."""

    def __init__(self, main: Session, branch: Session, branch_id: str) -> None:
        self._main = main
        self._branch_id = branch_id
        self.stats = GoalStats()
        """Statistics of the branch's own messages."""
        self.last_message: Message | None = None
        self._bus = main.services.bus
        self._bus.subscribe(branch.session_id, self._heard)

    def close(self) -> None:
        """Stop listening."""
        self._bus.unsubscribe(self._heard)

    def _heard(self, item: Event | Delta | Metered) -> None:
        if isinstance(item, Delta | Metered):
            return
        if isinstance(item, MessageAdded):
            message = item.message
            self.stats = with_message(self.stats, message)
            self.last_message = message
        if (event := self._mirrored(item)) is not None:
            self._main.emit(event)

    def _mirrored(self, event: Event) -> Event | None:
        where: dict[str, Any] = {
            "trace_id": self._main.session_id, "time": event.time, "branch_id": self._branch_id,
        }  # fmt: skip
        match event:
            case MessageAdded():
                return BranchMessageAdded(**where, message=event.message, affected_goals=event.affected_goals)
            case GoalAdded():
                return BranchGoalAdded(**where, goal=event.goal, parent_id=event.parent_id)
            case GoalUpdated():
                updates, affected = event.updates, event.affected_goals
            case GoalMoved():
                updates = {"parent_id": event.parent_id, "before_id": event.before_id}
                affected = event.affected_goals
            case GoalRemoved():
                updates, affected = {"removed": True}, ()
            case _:
                return None
        current_id = None if isinstance(event, GoalMoved) else event.current_id
        return BranchGoalUpdated(
            **where, goal_id=event.goal_id, updates=updates, affected_goals=affected, current_id=current_id
        )
