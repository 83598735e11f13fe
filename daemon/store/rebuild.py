"""Makes all that is derived from a trace's event log anew, and says what was wrong (``goalwright trace rebuild``).

The log itself is never changed, but for an event that was half written when the machine went down. All functions
block: call them in a thread. Nobody may be writing the trace meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from daemon.context.tokens import stored_calibration
from daemon.loop.state import SessionState
from daemon.model.goals import GoalTree
from daemon.model.traces import Trace
from daemon.store.base import NewerFormat, StoreError, TraceStore, refuse_newer


@dataclass(frozen=True, slots=True)
class RebuiltSession:
    """One session: the main line, a branch or a sub-agent."""

    session_id: str
    events: int = 0
    messages: int = 0
    goals: int = 0
    repaired: tuple[str, ...] = ()
    """What was wrong and is right now, in words; empty when all was as the log has it."""
    problems: tuple[str, ...] = ()
    """What is wrong and stays so."""
    failed: bool = False
    """It could not be rebuilt; ``problems`` say why."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A trace with its branches and sub-agents, the main line first."""

    trace_id: str
    sessions: tuple[RebuiltSession, ...]

    @property
    def failed(self) -> bool:
        """Whether one of them could not be rebuilt."""
        return any(session.failed for session in self.sessions)


def rebuild(store: TraceStore, trace_id: str) -> Rebuilt:
    """Rebuild a trace and its children, each by its own log. Raises UnknownTrace; see ``RebuiltSession.failed``."""
    waiting, sessions = [trace_id], list[RebuiltSession]()
    while waiting:
        session_id = waiting.pop(0)
        children = store.children(session_id)
        sessions.append(_rebuild_session(store, session_id, children))
        waiting[:0] = children
    return Rebuilt(trace_id, tuple(sessions))


def _rebuild_session(store: TraceStore, session_id: str, children: list[str]) -> RebuiltSession:
    try:
        before, tree, wrong = _derived(store, session_id)
        state, events = _replayed(store, session_id)
        problems = _problems(state, session_id, events, children)
        # The factor by which tokens are estimated is in no event; a wrong one only estimates badly.
        if before is not None:
            state.calibration = stored_calibration(before.carried.calibration)
        after = state.carrying()
        if before is not None and before != after:
            wrong.append("the metadata was not what the log says")
        if tree is not None and tree != state.plan.snapshot():
            wrong.append("the plan was not what the log says")
        if messages := store.restore_messages(session_id, state.messages):
            wrong.append(f"missing or not what the log says: {_count(messages, 'message')}")
        if cut := store.recover(session_id):
            wrong.append(f"cut off the log: {_count(cut, 'byte')} of an event that was half written")
        if wrong:
            store.save_snapshot(after, state.plan.snapshot())
        return RebuiltSession(
            session_id,
            events,
            len(state.messages),
            len(state.plan.snapshot().goals),
            tuple(wrong),
            tuple(problems),
        )
    except StoreError as error:
        return RebuiltSession(session_id, problems=(str(error),), failed=True)
    finally:
        store.close(session_id)


def _derived(store: TraceStore, session_id: str) -> tuple[Trace | None, GoalTree | None, list[str]]:
    """Metadata and plan as they are stored, and what is wrong with them. Raises NewerFormat."""
    wrong: list[str] = []
    trace: Trace | None = None
    tree: GoalTree | None = None
    try:
        trace = store.trace(session_id)
    except NewerFormat:
        raise
    except StoreError:
        wrong.append("the metadata was missing or damaged")
    try:
        tree = store.goal_tree(session_id)
    except NewerFormat:
        raise
    except StoreError:
        wrong.append("the plan was missing or damaged")
    return trace, tree, wrong


def _replayed(store: TraceStore, session_id: str) -> tuple[SessionState, int]:
    """The state as the log tells it, and of how many events. Raises StoreError."""
    events = store.events(session_id)
    first = events[0] if events else None
    if first is None or first.event != "session_created":
        raise StoreError(
            f"The log of session {session_id} is empty or has lost its beginning: nothing can be made from it."
        )
    # Ids become paths; a log that came with a repository, or in an archive, may say anything.
    if first.trace.trace_id != session_id or any(event.trace_id != session_id for event in events):
        raise StoreError(
            f"The log of session {session_id} has events of another one: nothing is made from it."
        )
    refuse_newer(session_id, first.trace.format)
    state = SessionState(first.trace)
    for event in events:
        state.apply(event)
    return state, len(events)


def _problems(state: SessionState, session_id: str, events: int, children: list[str]) -> list[str]:
    problems: list[str] = []
    if lost := state.trace.last_event_id - events:
        problems.append(
            f"damaged or of a newer version, and without effect: {_count(lost, 'event')} of the log"
        )
    there = {child.rpartition(":")[2].rpartition(".")[2] for child in children}
    for name in (*state.children.branches, *state.children.subagents):
        own = name.rpartition(".")[2]
        if own not in there:
            problems.append(f"the record of {name} is gone; what it reported is still here")
    return problems


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
