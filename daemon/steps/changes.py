"""What an event does to the steps (source: seed 003, "WebSocket 事件")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from daemon.model.steps import Step


@dataclass(frozen=True, slots=True)
class StepAdded:
    """``step_added`` of seed 003. ``before_id``: the sibling that it stands before; None: last."""

    step: Step
    before_id: str | None = None


@dataclass(frozen=True, slots=True)
class StepUpdated:
    """``step_updated`` of seed 003: fields of the step that have changed, JSON-able.

    With a ``parent_id`` among them the step has moved; ``before_id``, which is none of its fields, then says before
    which sibling it stands (None: last).
    """

    step_id: str
    updates: dict[str, Any]


StepChange = StepAdded | StepUpdated
