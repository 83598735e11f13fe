"""The results of looking after stored traces: rebuilding, importing, deleting and counting them."""

from datetime import datetime

from pydantic import Field

from daemon.model.stored_model import Model


class RebuiltSession(Model):
    """The findings about one session: the main session, a branch or a sub-agent."""

    session_id: str
    events: int = 0
    messages: int = 0
    goals: int = 0
    repaired: tuple[str, ...] = ()
    """Problems that were fixed."""
    problems: tuple[str, ...] = ()
    """Problems that remain."""
    failed: bool = False
    """It could not be rebuilt."""


class TraceRebuildResult(Model):
    """The rebuilt sessions, the main session first."""

    trace_id: str
    sessions: tuple[RebuiltSession, ...]
    failed: bool = False
    """One of them could not be rebuilt."""


class TraceImportResult(Model):
    """The result of an import. The trace counts as imported: it can be read, and nothing in it acts in the user's
    name."""

    trace_id: str
    title: str
    files: int
    size: int
    """Bytes, unpacked."""
    sessions: tuple[RebuiltSession, ...]
    left_out: tuple[str, ...] = ()
    """Names in the archive that are no part of a trace."""
    dropped: tuple[str, ...] = ()
    """Branches and sub-agents whose log could not be read, and why."""


class PrunedTrace(Model):
    """One that was deleted, or would be."""

    trace_id: str
    title: str
    used: datetime
    """When something happened in it last."""
    size: int
    """Bytes."""
    reason: str


class TracePruneResult(Model):
    """Oldest first."""

    deleted: tuple[PrunedTrace, ...]
    kept: int
    kept_bytes: int | None
    """Null: no limit is set, so nothing was measured."""
    freed: int
    """Bytes."""
    limited: bool
    """Whether there is any limit at all."""
    problems: tuple[str, ...] = ()
    dry_run: bool = False


class StatsGroup(Model):
    """The sums of a group. Branches and sub-agents count with their own model and agent."""

    key: str = Field(description="The day (YYYY-MM-DD, UTC), or a name; empty: unknown.")
    sessions: int = Field(description="Main sessions that have a part in it.")
    finished: int = Field(description="Those whose last turn came to its end.")
    calls: int = Field(description="Answers of models.")
    input: int = Field(description="Tokens that were not cached.")
    output: int
    cache_read: int
    cache_write: int
    cost: float = Field(description="US dollars, without `unpriced` calls.")
    unpriced: int = Field(description="Calls whose price is not known.")
    model_ms: int = Field(description="Milliseconds that models took.")
