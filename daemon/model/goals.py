"""Goals with the fields of the trace format, and the data of a plan's steps. Operations on the tree live in
``daemon/plan``."""

from typing import Literal

from pydantic import Field

from daemon.model.stored_model import Cost, Count, Model

GoalStatus = Literal["pending", "in_progress", "completed", "abandoned"]
GoalType = Literal["normal", "explore_start", "explore_merge"]
PlanFront = Literal["goal", "step"]
"""The tool by which a model keeps its plan."""


class GoalStats(Model):
    """Statistics of the work on a goal."""

    message_count: Count = 0
    total_tokens: Count = 0
    total_cost: Cost = 0.0
    """US dollars."""
    unpriced_tokens: Count = 0
    """Tokens of ``total_tokens`` whose price is not known, so that ``total_cost`` lacks them."""
    duration_ms: Count = 0
    """Time at work: answers of the model and calls of tools, without the time in between."""
    preview: str | None = None
    """Tool calls in short, e.g. ``read → edit × 2``."""


class Goal(Model):
    """One goal. ``id`` only grows and is never reused; the numbers people see are computed."""

    id: str
    parent_id: str | None = None
    branch_id: str | None = None
    type: GoalType = "normal"
    description: str
    reason: str = ""
    status: GoalStatus = "pending"
    summary: str | None = None
    branch_ids: list[str] | None = None
    explore_start_id: str | None = None
    merge_summary: str | None = None
    selected_branch: str | None = None
    self_stats: GoalStats = GoalStats()
    cumulative_stats: GoalStats = GoalStats()
    needs: list[str] | None = None
    """Ids of the goals that must be done before this one starts; None: only the order of the plan counts."""
    parallel: bool = False
    """A sub-agent may work on it in parallel with work on other goals."""


class GoalTree(Model):
    """The plan: a flat list whose ``parent_id`` makes the tree; list order is sibling order."""

    mission: str = ""
    current_id: str | None = None
    goals: list[Goal] = Field(default_factory=list[Goal])
