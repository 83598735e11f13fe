"""Values that clients show of a session (never stored: they follow from the events)."""

from __future__ import annotations

from daemon.model.goals import GoalStats
from daemon.model.messages import Usage
from daemon.model.stored_model import Cost, Count, Model
from daemon.model.traces import TraceStatus


class ViewUpdate(Model):
    """New values of a session's status, totals and numbers, ready to show; null: unchanged."""

    status: TraceStatus | None = None
    total_messages: Count | None = None
    total_tokens: Count | None = None
    """Sent and received, also by branches and sub-agents."""
    total_cost: Cost | None = None
    """US dollars."""
    usage: Usage | None = None
    """``total_tokens`` in detail."""
    goal_numbers: dict[str, str | None] | None = None
    """New display numbers by goal id; null: the goal has none any more."""
    branches: dict[str, GoalStats] | None = None
    """Statistics of a branch so far, by its id."""
