"""Metadata, status, totals, open questions and children of a session, as the sum of its events. Pure.

The one source of what lists, clients, dumps and the trace API say of a session, live and stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from daemon.model.branches import branch_of
from daemon.model.events import (
    BranchCompleted,
    Event,
    MessageAdded,
    PermissionAsked,
    PermissionReplied,
    SessionCreated,
    SessionUpdated,
    TurnEnded,
    TurnStarted,
)
from daemon.model.messages import Usage, added, priced
from daemon.model.permissions import Mode
from daemon.model.traces import BranchTrace, Carried, Trace, TraceStatus, trace_status
from daemon.state.children import Children

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.state.children import Spent

_NAMES = ("title", "titled_by", "summary", "summarized_by", "model", "agent")
"""Metadata fields that events change; the numbers are counted, and the id and workspace never change."""


class SessionHead:
    """Adds up the events of one session, as far as lists and dumps need it."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace.model_copy(update={"carried": Carried()})
        self.pending = {request.request_id: request for request in trace.carried.pending}
        self.children = Children.carried(trace.carried)
        """Branches and sub-agents, and what of the totals is theirs."""

    @property
    def status(self) -> TraceStatus:
        """As clients, lists and dumps say it. A question outside a turn counts, too: the user has to answer."""
        return "waiting" if self.pending or self.children.awaited else trace_status(self.trace)

    def apply(self, event: Event) -> Spent | None:
        """Take one event into account; returns what a branch or sub-agent took by it, None for other events."""
        match event:
            case MessageAdded():
                message = event.message
                count = self.trace.message_count + 1
                self._spend(priced(message.usage, message.cost), message.cost or 0.0, message_count=count)
            case TurnStarted():
                self._set(running=True)
            case TurnEnded():
                self._set(last_stop_reason=event.stop_reason, running=False)
                self.children.awaited.clear()
            case PermissionAsked():
                self.pending[event.request.request_id] = event.request
            case PermissionReplied():
                self.pending.pop(event.request_id, None)
            case SessionCreated():
                # The id becomes a path, and the log is untrusted.
                kept = {"trace_id": self.trace.trace_id, "carried": Carried()}
                self.trace = event.trace.model_copy(update=kept)
            case SessionUpdated():
                self._rename(event.updates)
                self._spend(priced(event.usage, event.cost), event.cost or 0.0)
            case BranchCompleted() if event.branch_id == branch_of(event.trace_id):
                self._end_branch(event)  # our own end: the main session has it, too
            case _:
                if (spent := self.children.apply(event)) is not None:
                    self._spend(*spent)
                return spent
        return None

    def _set(self, **fields: object) -> None:
        self.trace = self.trace.model_copy(update=fields)

    def _rename(self, updates: Mapping[str, object]) -> None:
        """Apply known and valid fields; a damaged or untrusted log may contain anything here."""
        fields: dict[str, object] = {
            name: value for name in _NAMES if isinstance(value := updates.get(name), str)
        }
        for name, by in (("title", "titled_by"), ("summary", "summarized_by")):
            if name in fields:
                fields.setdefault(by, "")
        if updates.get("model", "") is None:
            fields["model"] = None
        if "mode" in updates:
            fields["mode"] = next((known for known in get_args(Mode) if known == updates["mode"]), None)
        self._set(**fields)

    def _spend(self, usage: Usage, cost: float, **fields: object) -> None:
        """Add to the totals; ``fields``: what else changes."""
        if usage.total or cost:
            fields["usage"] = added(self.trace.usage, usage)
            fields["total_cost"] = self.trace.total_cost + cost
        if fields:
            self._set(**fields)

    def _end_branch(self, event: BranchCompleted) -> None:
        if isinstance(self.trace, BranchTrace):
            self._set(
                status=event.status,
                summary=event.summary,
                cumulative_stats=event.cumulative_stats,
                last_message=event.last_message,
            )
