"""The head of a dump: the trace's task, status and totals."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from daemon.context.prompt_record import PromptHistory
from daemon.model.events import Event, SessionUpdated, SystemPromptChanged, TurnEnded, TurnStarted
from daemon.model.traces import Trace, TraceStatus
from daemon.state.session_head import SessionHead
from tools.localization import t

if TYPE_CHECKING:
    from daemon.state.children import Spent

_UNKNOWN = datetime.min.replace(tzinfo=UTC)


def stop_words(event: TurnEnded) -> str:
    """Return why a turn ended as it did; empty when it ended as turns do."""
    if event.stop_reason == "max_tokens" and not event.detail:
        return t("The last response was cut off: it reached the model's output limit.")
    return event.detail


class TraceHead(SessionHead):
    """The head of one session, from its events so far."""

    def __init__(self, trace_id: str) -> None:
        super().__init__(
            Trace(trace_id=trace_id, workspace="", agent="", created_at=_UNKNOWN, updated_at=_UNKNOWN)
        )
        self.task = ""
        """The mission."""
        self.detail = ""
        """Why the last turn failed, or stopped early; empty when it ended as turns do."""
        self.updated_at: datetime | None = None
        self.prompts = PromptHistory()
        """The system prompts that were in force."""
        self._broke_off = False

    @property
    def status(self) -> TraceStatus:
        """As lists and dumps say it."""
        return "failed" if self._broke_off else super().status

    @property
    def created_at(self) -> datetime | None:
        """None until the first event."""
        return None if self.trace.created_at == _UNKNOWN else self.trace.created_at

    def apply(self, event: Event) -> Spent | None:
        """Take one event into account; returns what a branch or sub-agent took by it, None for other events."""
        self.updated_at = event.time
        if isinstance(event, SessionUpdated):
            # The log is untrusted.
            if isinstance(mission := event.updates.get("mission"), str):
                self.task = mission
        elif isinstance(event, SystemPromptChanged):
            self.prompts.apply(event)
        elif isinstance(event, TurnStarted | TurnEnded):
            self.detail = "" if isinstance(event, TurnStarted) else stop_words(event)
            self._broke_off = False
        return super().apply(event)

    def break_off(self) -> None:
        """Nobody works on it any more, or waits for an answer."""
        self.pending.clear()
        self.children.awaited.clear()
        if self.status == "running":
            self._broke_off = True
            self.detail = t("It was interrupted: nobody is working on it any more.")
