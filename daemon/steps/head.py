"""What the head of a dump says of a trace: its task, its status, its totals (source: seed 003, "tree.txt")."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from daemon.context.prompt_record import PromptHistory
from daemon.model.branches import BranchMeta, branch_of
from daemon.model.events import (
    BranchCompleted,
    Event,
    MessageAdded,
    PermissionAsked,
    PermissionReplied,
    SessionCreated,
    SessionUpdated,
    SystemPromptChanged,
    TurnEnded,
    TurnStarted,
)
from daemon.model.traces import Trace, TraceStatus, trace_status
from daemon.state.children import Children
from daemon.steps.spent import NOTHING, Spent
from tools.localization import t

if TYPE_CHECKING:
    from datetime import datetime

    from daemon.model.messages import StopReason

_TOLD = ("title", "agent", "model")


def stop_words(event: TurnEnded) -> str:
    """Why a turn ended as it did; empty when it ended as turns do."""
    if event.stop_reason == "max_tokens" and not event.detail:
        return t("The last answer was cut off: it had as many tokens as the model may give at once.")
    return event.detail


@dataclass(slots=True)
class TraceHead:
    """Of one session, as far as its events told."""

    trace_id: str
    task: str = ""
    """The mission."""
    status: TraceStatus = "idle"
    detail: str = ""
    """Why the last turn failed, or stopped early; empty when it ended as turns do."""
    title: str = ""
    agent: str = ""
    model: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    total_messages: int = 0
    total_tokens: int = 0
    """Sent and received, also by branches and sub-agents."""
    total_cost: float = 0.0
    """US dollars."""
    prompts: PromptHistory = field(default_factory=PromptHistory)
    """The system prompts that were in force."""
    _trace: Trace | None = None
    _children: Children = field(default_factory=Children)
    _asked: set[str] = field(default_factory=set[str])

    def apply(self, event: Event) -> Spent:
        """Take one event into account; returns what a branch or sub-agent took by it."""
        self.updated_at = event.time
        if isinstance(event, SessionCreated):
            self._trace = event.trace
            self.title, self.agent, self.model = event.trace.title, event.trace.agent, event.trace.model
            self.created_at = event.trace.created_at
        elif isinstance(event, SessionUpdated):
            self._update(event.updates)
            self._spend(event.usage.total if event.usage else 0, event.cost or 0.0)
        elif isinstance(event, SystemPromptChanged):
            self.prompts.apply(event)
        elif isinstance(event, MessageAdded):
            self.total_messages += 1
            self._spend(event.message.usage.total if event.message.usage else 0, event.message.cost or 0.0)
        elif isinstance(event, TurnStarted):
            self.detail = ""
            self._turn(running=True)
        elif isinstance(event, TurnEnded):
            self._asked.clear()
            self.detail = stop_words(event)
            self._turn(running=False, stop=event.stop_reason)
        elif isinstance(event, PermissionAsked):
            self._asked.add(event.request.request_id)
            self._turn()
        elif isinstance(event, PermissionReplied):
            self._asked.discard(event.request_id)
            self._turn()
        elif isinstance(event, BranchCompleted) and event.branch_id == branch_of(event.trace_id):
            return NOTHING  # its own end: the main line has it, too
        elif (spent := self._children.apply(event)) is not None:
            self._spend(spent[0].total, spent[1])
            return Spent(tokens=spent[0].total, cost=spent[1])
        return NOTHING

    def branch(self, branch_id: str) -> BranchMeta | None:
        """A branch that was started here."""
        return self._children.branches.get(branch_id)

    def break_off(self) -> None:
        """Nobody works on it any more."""
        if self.status in ("running", "waiting"):
            self.status = "failed"
            self.detail = t("It broke off: nobody works on it any more.")

    def _spend(self, tokens: int, cost: float) -> None:
        self.total_tokens += tokens
        self.total_cost += cost

    def _update(self, updates: dict[str, object]) -> None:
        # A log may have been written by anybody.
        if isinstance(mission := updates.get("mission"), str):
            self.task = mission
        for name in _TOLD:
            if isinstance(value := updates.get(name), str):
                setattr(self, name, value)

    def _turn(self, *, running: bool | None = None, stop: StopReason | None = None) -> None:
        trace = self._trace
        if trace is None:
            return
        if running is not None:
            trace = trace.model_copy(
                update={"running": running, "last_stop_reason": stop or trace.last_stop_reason}
            )
            self._trace = trace
        self.status = trace_status(trace, waiting=bool(self._asked))
