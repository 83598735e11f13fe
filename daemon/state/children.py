"""The state of a session's branches and sub-agents, folded from its events. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from daemon.model import notice_codes
from daemon.model.branches import BranchMeta, Choice, SubagentMeta
from daemon.model.events import (
    BranchCompleted,
    BranchGoalAdded,
    BranchMessageAdded,
    BranchPlaced,
    BranchRemoved,
    BranchSelected,
    BranchStarted,
    Event,
    ExploreCompleted,
    FilesRestored,
    Notice,
    SubagentCompleted,
    SubagentStarted,
)
from daemon.model.messages import Usage, added, priced, subtracted
from daemon.plan.goal_stats import with_message

if TYPE_CHECKING:
    from daemon.model.traces import CarriedChildren

Spent = tuple[Usage, float]
"""Tokens and US dollars."""


class Children(Struct):
    """Branches and sub-agents by id, in the order in which they were started."""

    branches: dict[str, BranchMeta] = field(default_factory=dict[str, BranchMeta])
    subagents: dict[str, SubagentMeta] = field(default_factory=dict[str, SubagentMeta])
    usage: dict[str, Usage] = field(default_factory=dict[str, Usage])
    cost: dict[str, float] = field(default_factory=dict[str, float])
    """Cost of each branch so far within the session's total, by branch id."""
    explored: dict[str, None] = field(default_factory=dict[str, None])
    """Explorations whose end is in the log, by the goal that started them."""
    persons_choice: dict[str, None] = field(default_factory=dict[str, None])
    """Explorations whose choice is the user's; one that the user leaves to the model is removed."""
    choices: dict[str, tuple[Choice, ...]] = field(default_factory=dict[str, tuple[Choice, ...]])
    """Choices of an exploration, oldest first."""
    awaited: dict[str, None] = field(default_factory=dict[str, None])
    """Explorations for whose choice a call of the running turn waits."""

    @classmethod
    def carried(cls, carried: CarriedChildren) -> Children:
        """Return those of a snapshot."""
        return cls(
            {branch.id: branch for branch in carried.branches},
            {agent.id: agent for agent in carried.subagents},
            dict(carried.branch_usage),
            dict(carried.branch_cost),
            dict.fromkeys(carried.explored),
            dict.fromkeys(carried.persons_choice),
            dict(carried.choices),
        )

    def chosen(self, explore_start_id: str) -> list[Choice]:
        """Return the choices among the branches of an exploration that hold."""
        return [choice for choice in self.choices.get(explore_start_id, ()) if not choice.undone]

    def used(self, explore_start_id: str) -> str | None:
        """Return the ids of the branches of which something was taken over, like ``A, B``; None for none."""
        ids = [name for choice in self.chosen(explore_start_id) if choice.used for name in choice.branch_ids]
        return ", ".join(dict.fromkeys(ids)) or None

    def unended(self) -> list[str]:
        """Explorations whose end is not in the log: they are under way, or broke off."""
        started = dict.fromkeys(branch.explore_start_id for branch in self.branches.values())
        return [start_id for start_id in started if start_id not in self.explored]

    def of(self, explore_start_id: str) -> list[BranchMeta]:
        """Return the branches of one exploration."""
        return [branch for branch in self.branches.values() if branch.explore_start_id == explore_start_id]

    def started_by(self, call_id: str) -> SubagentMeta | None:
        """Return the sub-agent that a call started."""
        return next((meta for meta in self.subagents.values() if meta.tool_call_id == call_id), None)

    def apply(self, event: Event) -> Spent | None:
        """Process one event; returns its contribution to the session's totals, None for other events."""
        match event:
            case BranchStarted():
                self.branches[event.branch.id] = event.branch
            case SubagentStarted():
                self.subagents[event.subagent.id] = event.subagent
            case SubagentCompleted():
                self.subagents[event.subagent.id] = event.subagent
                return event.subagent.usage, event.subagent.cost
            case ExploreCompleted():
                self.explored[event.explore_start_id] = None
            case BranchSelected():
                start_id = event.explore_start_id
                self.choices[start_id] = (*self.choices.get(start_id, ()), event.choice)
                if event.choice.by and start_id not in self.explored:
                    self.persons_choice[start_id] = None  # nobody asks, but it is still the user's choice
            case FilesRestored():
                self._restored(event)
            case Notice():
                self._noticed(event.code, event.about)
            case BranchMessageAdded():
                return self._message(event)
            case BranchCompleted():
                return self._ended(event)
            case BranchGoalAdded() if branch := self.branches.get(event.branch_id):
                self._update(branch, {"goal_count": branch.goal_count + 1})
            case BranchPlaced() if branch := self.branches.get(event.branch_id):
                self._update(branch, {"node": event.node})
            case BranchRemoved() if branch := self.branches.get(event.branch_id):
                self._update(branch, {"removed": True})
            case _:
                pass
        return None

    def _noticed(self, code: str, start_id: str) -> None:
        if code == notice_codes.CHOICE_AWAITED:
            self.persons_choice[start_id] = self.awaited[start_id] = None
        elif code == notice_codes.CHOICE_MADE:
            self.awaited.pop(start_id, None)
        elif code == notice_codes.CHOICE_LEFT:
            self.persons_choice.pop(start_id, None)

    def _restored(self, event: FilesRestored) -> None:
        undone, changes = event.action != "redo", set(event.changes)
        for start_id, choices in self.choices.items():
            self.choices[start_id] = tuple(
                choice.model_copy(update={"undone": undone}) if choice.tool_call_id in changes else choice
                for choice in choices
            )

    def _message(self, event: BranchMessageAdded) -> Spent:
        message = event.message
        spent = priced(message.usage, message.cost), message.cost or 0.0
        self._count(event.branch_id, spent)
        branch = self.branches.get(event.branch_id)
        if branch is not None:
            stats = with_message(branch.cumulative_stats, message)
            self._update(branch, {"cumulative_stats": stats, "last_message": message})
        return spent

    def _ended(self, event: BranchCompleted) -> Spent:
        branch = self.branches.get(event.branch_id)
        if branch is not None:
            self._update(
                branch,
                {
                    "status": event.status,
                    "summary": event.summary,
                    "cumulative_stats": event.cumulative_stats,
                    "last_message": event.last_message or branch.last_message,
                    "score": event.score,
                },
            )
        # Its sub-agents' share was not in its messages.
        counted, cost = self.usage.get(event.branch_id, Usage()), self.cost.get(event.branch_id, 0.0)
        spent = subtracted(event.usage, counted), max(0.0, event.cost - cost)
        self._count(event.branch_id, spent)
        return spent

    def _count(self, branch_id: str, spent: Spent) -> None:
        before = self.usage.get(branch_id, Usage())
        usage, cost = spent
        self.usage[branch_id] = added(before, usage)
        self.cost[branch_id] = self.cost.get(branch_id, 0.0) + cost

    def _update(self, branch: BranchMeta, updates: dict[str, object]) -> None:
        self.branches[branch.id] = branch.model_copy(update=updates)
