"""The results of looking after stored traces: rebuilding, importing and deleting them."""

from __future__ import annotations

from datetime import datetime

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
