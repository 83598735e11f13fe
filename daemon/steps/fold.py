"""Events → steps. Pure: the same events give the same steps, live and read from the log (source: seed 003)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from daemon.model.events import Event
from daemon.model.steps import Step
from daemon.steps.head import TraceHead
from daemon.steps.tree import StepTree


@dataclass(frozen=True, slots=True)
class StepAdded:
    """``step_added`` of seed 003. ``before_id``: the sibling that it stands before; None: last."""

    step: Step
    before_id: str | None = None


@dataclass(frozen=True, slots=True)
class StepUpdated:
    """``step_updated`` of seed 003: fields of the step that have changed, JSON-able.

    With a ``parent_id`` among them (or a ``before_id``, which is none of its fields) the step has moved.
    """

    step_id: str
    updates: dict[str, Any]


class StepFold:
    """The steps of one session (main line, branch or sub-agent), as the sum of its events."""

    def __init__(self, trace_id: str, *, cut: int | None = None) -> None:
        """``cut``: the most characters of a text in ``data``, images are then left out too; None: all is whole."""
        self.tree = StepTree(trace_id)
        self.head = TraceHead(trace_id)
        """What the trace is about, its status and totals."""
        self.last_event_id = 0
        self._cut = cut

    def apply(self, event: Event) -> list[StepAdded | StepUpdated]:
        """Take one event into account; what it did to the steps. One that was applied already does nothing."""
        raise NotImplementedError
