"""What the head of a dump says of a trace: its task, its status, its totals (source: seed 003, "tree.txt")."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from daemon.model.traces import TraceStatus


@dataclass(slots=True)
class TraceHead:
    """Of one session, as far as its events told."""

    trace_id: str
    task: str = ""
    """The mission."""
    status: TraceStatus = "idle"
    title: str = ""
    agent: str = ""
    model: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    total_messages: int = 0
    total_tokens: int = 0
    """Sent and received, also by branches and sub-agents that have ended."""
    total_cost: float = 0.0
    """US dollars."""
