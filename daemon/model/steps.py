"""Steps: the events of a trace as a tree to look at.

A step is derived from the events of a trace and stored nowhere, see ``daemon.steps``.
"""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from daemon.model.stored_model import Cost, Count, Model

StepType = Literal["goal", "thought", "evaluation", "response", "action", "result"]
StepStatus = Literal["planned", "in_progress", "completed", "failed", "skipped"]


class Step(Model):
    """One node of the tree; ``parent_id`` is a single one."""

    step_id: str
    trace_id: str
    step_type: StepType
    status: StepStatus
    sequence: Count
    """Rises in the order in which the steps came to be."""
    parent_id: str | None = None
    description: str
    data: dict[str, Any] = Field(default_factory=dict[str, Any])
    summary: str | None = None
    """Only for an ``evaluation``."""
    duration_ms: Count | None = None
    cost: Cost | None = None
    """US dollars."""
    tokens: Count | None = None
    unpriced_tokens: Count | None = None
    """Tokens of ``tokens`` whose price is not known, so that ``cost`` lacks them."""
    created_at: datetime
