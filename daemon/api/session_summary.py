"""The API's view of one session: metadata, goal tree, branches, sub-agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from daemon.model.branches import BranchMeta, SubagentMeta, child_id
from daemon.model.goals import GoalStats, GoalTree
from daemon.model.messages import Message, added
from daemon.model.traces import BranchTrace, Trace, TraceMeta, TraceStatus, trace_status
from daemon.plan.goal_index import GoalIndex
from daemon.plan.goal_stats import with_message
from daemon.state.session_state import SessionState
from daemon.store.facts import aware

Live = Callable[[str], SessionState | None]
"""The state of an open session, a branch or sub-agent too."""
JsonObject = dict[str, Any]
"""As the API answers it, in snake_case. Not free of secrets before ``daemon.model.encoding`` has encoded it."""


_GONE = timedelta(days=1)
"""A session of another daemon in which nothing happened for so long was interrupted."""


def status_of(trace: Trace, state: SessionState | None, *, elsewhere: bool = False) -> TraceStatus:
    """Return the status of a trace; ``state``: of its live session.

    A stored trace with a running turn was interrupted: its daemon is gone, and this one, the only one of the workspace,
    does not work on it. ``elsewhere``: another daemon may.
    """
    if state is not None:
        return state.status
    return "failed" if trace.running and not (elsewhere and is_recent(trace)) else trace_status(trace)


def is_recent(trace: Trace) -> bool:
    """Return whether something happened in a trace that another daemon may work on."""
    return datetime.now(UTC) - aware(trace.updated_at) < _GONE


class SessionSummary(Struct, frozen=True):
    """A snapshot of one session for the API, as of one event."""

    trace: Trace
    tree: GoalTree
    branches: tuple[BranchMeta, ...]
    subagents: tuple[SubagentMeta, ...]
    status: TraceStatus
    foreign: bool

    @classmethod
    def live(cls, state: SessionState, *, foreign: bool, others: Live = lambda _: None) -> SessionSummary:
        """Return the snapshot of a live session. Fast: frozen objects are shared. ``others``: the states of live
        sub-agents."""
        return cls(
            state.trace,
            state.plan.snapshot(),
            tuple(state.children.branches.values()),
            tuple(_so_far(agent, state, others) for agent in state.children.subagents.values()),
            status_of(state.trace, state),
            foreign,
        )

    @classmethod
    def stored(
        cls,
        trace: Trace,
        tree: GoalTree,
        branches: tuple[BranchMeta, ...],
        subagents: tuple[SubagentMeta, ...],
        *,
        foreign: bool,
        elsewhere: bool = False,
    ) -> SessionSummary:
        """Return the snapshot of a stored session. Branches that were exploring count as abandoned, running sub-agents
        as failed, unless another daemon works on it ``elsewhere``."""
        status = status_of(trace, None, elsewhere=elsewhere)
        if status in ("running", "waiting"):
            return cls(trace, tree, branches, subagents, status, foreign)
        ended = tuple(
            branch.model_copy(update={"status": "abandoned"}) if branch.status == "exploring" else branch
            for branch in branches
        )
        failed: dict[str, Any] = {"status": "failed", "stop_reason": "error"}
        stopped = tuple(
            agent.model_copy(update=failed) if agent.status == "running" else agent for agent in subagents
        )
        return cls(trace, tree, ended, stopped, status, foreign)

    def goal_index(self) -> GoalIndex:
        """Return the goals, indexed."""
        return GoalIndex(self.tree)

    def meta(self) -> JsonObject:
        """Return the metadata as in lists."""
        return TraceMeta.of(self.trace, self.tree.mission, self.status, foreign=self.foreign).stored()

    def plan(self) -> JsonObject:
        """Return ``goal_tree`` and ``goal_numbers``."""
        index = self.goal_index()
        plan = index.snapshot()  # a stored one may be damaged
        # Goal by goal, because dumping everything at once would hold the interpreter for the whole time.
        head = plan.model_copy(update={"goals": []}).stored()
        tree = {**head, "goals": [goal.stored() for goal in plan.goals]}
        return {"goal_tree": tree, "goal_numbers": index.numbers()}

    def children(self) -> JsonObject:
        """Return ``branches`` and ``subagents``, by id."""
        return {
            "branches": {branch.id: branch.stored() for branch in self.branches},
            "subagents": {agent.id: agent.stored() for agent in self.subagents},
        }

    def detail(self) -> JsonObject:
        """Return the response of ``GET /api/traces/{trace_id}``."""
        return {**self.meta(), **self.plan(), **self.children()}

    def connected(self) -> JsonObject:
        """Return the session part of a ``connected`` frame. Takes a moment for large plans: call it in a thread."""
        return {**self.plan(), **self.children(), "trace": self.meta()}

    def branch(self, name: str) -> BranchMeta | None:
        """Return the branch with an id."""
        return next((branch for branch in self.branches if branch.id == name), None)

    def subagent(self, name: str) -> SubagentMeta | None:
        """Return the sub-agent with an id."""
        return next((agent for agent in self.subagents if agent.id == name), None)


def _so_far(meta: SubagentMeta, above: SessionState, live: Live) -> SubagentMeta:
    """Return a sub-agent with its usage so far: the parent's record has that only after its end."""
    state = live(child_id(above.trace.trace_id, meta.id)) if meta.status == "running" else None
    if state is None:
        return meta
    usage, cost = state.trace.usage, state.trace.total_cost
    for agent in state.children.subagents.values():
        if agent.status == "running":
            below = _so_far(agent, state, live)
            usage, cost = added(usage, below.usage), cost + below.cost
    return meta.model_copy(update={"usage": usage, "cost": cost, "message_count": len(state.messages)})


def held_by(messages: Sequence[Message]) -> GoalStats:
    """Return statistics of messages, counted as for goals and branches."""
    stats = GoalStats()
    for message in messages:
        stats = with_message(stats, message)
    return stats


def branch_detail(meta: BranchMeta, own: SessionSummary | None) -> JsonObject:
    """Return the response of ``GET /api/traces/{trace_id}/branches/{branch_id}``.

    ``own``: the branch's session, None when it has none yet.
    """
    inherited = own.trace.inherited if own is not None and isinstance(own.trace, BranchTrace) else 0
    return {**meta.stored(), "inherited": inherited, **_own(own)}


def subagent_detail(meta: SubagentMeta, own: SessionSummary | None, stats: GoalStats) -> JsonObject:
    """Return the details of a sub-agent in the same fields as those of a branch. ``stats``: of its messages."""
    goals = own.tree.goals if own is not None else ()
    return {
        **meta.stored(),
        "explore_start_id": None,
        "description": meta.prompt,
        "cumulative_stats": stats.stored(),
        "goal_count": sum(1 for _ in goals),
        "last_message": None,
        **_own(own),
    }


def _own(own: SessionSummary | None) -> JsonObject:
    if own is None:
        return {"goal_tree": GoalTree().stored(), "goal_numbers": {}, "branches": {}, "subagents": {}}
    return {**own.plan(), **own.children()}
