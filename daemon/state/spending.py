"""The cost of each goal's model calls, and the limits on it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from daemon.model.events import BranchCompleted, BranchMessageAdded, Event, SubagentCompleted
from daemon.model.messages import Message, Usage, added, priced
from tools.text.amounts import money

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.model.traces import Budget
    from daemon.plan.tree import PlanTree
    from daemon.state.children import Children, Spent


class Spending(Struct):
    """Tokens and money by goal, cumulative: a message counts for its goal and all goals above it.

    Usage of branches counts for the goal of their exploration, that of a sub-agent for the goal of the call.
    """

    _usage: dict[str, Usage] = field(default_factory=dict[str, Usage])
    _cost: dict[str, float] = field(default_factory=dict[str, float])

    def usage(self, goal_id: str) -> Usage:
        """Return the usage of a goal and those below it."""
        return self._usage.get(goal_id, Usage())

    def cost(self, goal_id: str) -> float:
        """Return the cost of a goal and those below it in US dollars."""
        return self._cost.get(goal_id, 0.0)

    def of_all_goals(self, plan: PlanTree) -> Spent:
        """Return what all goals took together. O(goals at the top)."""
        usage, cost = Usage(), 0.0
        for goal in plan.children(None):
            usage, cost = added(usage, self.usage(goal.id)), cost + self.cost(goal.id)
        return usage, cost

    def add(self, message: Message, plan: PlanTree) -> None:
        """Count one message. O(depth of its goal)."""
        self.add_spent(message.goal_id, priced(message.usage, message.cost), message.cost or 0.0, plan)

    def add_spent(self, goal_id: str | None, usage: Usage, cost: float, plan: PlanTree) -> None:
        """Count work for a goal. O(its depth)."""
        if goal_id is None or goal_id not in plan.goals or not (usage.total or cost):
            return
        for above in (goal_id, *(goal.id for goal in plan.ancestors(goal_id))):
            self._usage[above] = added(self.usage(above), usage)
            self._cost[above] = self.cost(above) + cost

    def recount(self, messages: Sequence[Message], plan: PlanTree, children: Children) -> None:
        """Recount everything: goals have moved, or a session was opened."""
        self._usage.clear()
        self._cost.clear()
        for message in messages:
            self.add(message, plan)
        for branch in children.branches.values():
            usage, cost = children.usage.get(branch.id, Usage()), children.cost.get(branch.id, 0.0)
            self.add_spent(branch.explore_start_id, usage, cost, plan)
        for agent in children.subagents.values():
            self.add_spent(agent.goal_id, agent.usage, agent.cost, plan)

    def add_child(self, event: Event, spent: Spent, plan: PlanTree, children: Children) -> None:
        """Count what an event of a child adds."""
        if isinstance(event, BranchMessageAdded | BranchCompleted):
            branch = children.branches.get(event.branch_id)
            goal_id = None if branch is None else branch.explore_start_id
        elif isinstance(event, SubagentCompleted):
            goal_id = event.subagent.goal_id
        else:
            return
        self.add_spent(goal_id, *spent, plan)


class ExceededLimit(Struct, frozen=True):
    """A limit that is reached. ``goal_id`` None: that of the session."""

    goal_id: str | None
    unit: str
    """``usd`` or ``tokens``."""
    used: float
    limit: float

    @property
    def key(self) -> str:
        """Names the limit, e.g. to remember that it was raised."""
        return f"{self.goal_id or 'session'} {self.unit}"

    @property
    def words(self) -> str:
        """E.g. ``$5.02 of $5.00``."""
        if self.unit == "usd":
            return f"{money(self.used)} of {money(self.limit)}"
        return f"{round(self.used):,} of {round(self.limit):,} tokens"


def exceeded_limit(
    budget: Budget,
    *,
    usage: Usage,
    cost: float,
    plan: PlanTree,
    spending: Spending,
    raised: dict[str, float],
) -> ExceededLimit | None:
    """Return the first limit that is reached: the session's, then those of the current goal and the goals above it.

    ``raised``: limits that the user raised, by ``ExceededLimit.key``.
    """
    found = [
        ExceededLimit(None, "usd", cost, budget.session_usd) if budget.session_usd is not None else None,
        ExceededLimit(None, "tokens", usage.total, budget.session_tokens)
        if budget.session_tokens is not None
        else None,
    ]
    current = plan.goals.get(plan.current_id or "")
    chain = [] if current is None else [current, *plan.ancestors(current.id)]
    for goal in chain:
        if budget.goal_usd is not None:
            found.append(ExceededLimit(goal.id, "usd", spending.cost(goal.id), budget.goal_usd))
        if budget.goal_tokens is not None:
            found.append(ExceededLimit(goal.id, "tokens", spending.usage(goal.id).total, budget.goal_tokens))
    for item in found:
        if item is None:
            continue
        limit = raised.get(item.key, item.limit)
        if item.used >= limit:
            return ExceededLimit(item.goal_id, item.unit, item.used, limit)
    return None
