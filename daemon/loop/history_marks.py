"""When past turns become history: less of them is sent from then on (source: seed 001, "History")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.context.profiles import CACHE_LASTS_S, PRUNE_MINIMUM
from daemon.model.events import ContextMarked, Marks

if TYPE_CHECKING:
    from daemon.loop.assembly import Assembly
    from daemon.loop.record import Record


def mark_history(record: Record, assembly: Assembly, sequence: int) -> None:
    """At the prompt with this sequence, where that is the agent's way, or where it costs nothing.

    A provider forgets a prefix after some minutes. Then the request is paid in full anyway, and what is left
    out saves; while the prefix is cached, changing it would cost more than it saves.
    """
    profile = assembly.profile
    if profile.history == "cold" and not _is_cold(record):
        return
    before = assembly.window().tokens
    marks = Marks(record.state.marks.pruned, sequence)
    freed = before - assembly.window(marks).tokens
    if freed < (1 if profile.history == "always" else PRUNE_MINIMUM):
        return
    record.emit(
        ContextMarked(
            trace_id=record.session_id,
            time=record.now(),
            history_before=sequence,
            freed_tokens=freed,
        )
    )


def _is_cold(record: Record) -> bool:
    last = next((m for m in reversed(record.state.messages) if m.role == "assistant"), None)
    return last is not None and (record.now() - last.created_at).total_seconds() > CACHE_LASTS_S
