"""Rebuild everything that is derived from a trace's event log, and report problems (``goalwright trace rebuild``).

The log itself is never changed, except for an event that was half written when the machine went down. All functions
block: call them in a thread. Nothing may write the trace meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from daemon.model.maintenance import RebuiltSession, TraceRebuildResult
from daemon.store.replay import beginning_lost, replayed_events
from daemon.store.trace_store import NewerFormatError, StoreError
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.model.goals import GoalTree
    from daemon.model.traces import Trace
    from daemon.state.session_state import SessionState
    from daemon.store.files import FileTraceStore

T = TypeVar("T")
_NAMED = 5


def rebuild(store: FileTraceStore, trace_id: str) -> TraceRebuildResult:
    """Rebuild a trace and its children, each by its own log. Raises UnknownTraceError; see
    ``RebuiltSession.failed``."""
    waiting, sessions = [trace_id], list[RebuiltSession]()
    while waiting:
        session_id = waiting.pop(0)
        children = store.children(session_id)
        sessions.append(_rebuild_session(store, session_id, children))
        waiting[:0] = children
    failed = any(session.failed for session in sessions)
    return TraceRebuildResult(trace_id=trace_id, sessions=tuple(sessions), failed=failed)


def _rebuild_session(store: FileTraceStore, session_id: str, children: list[str]) -> RebuiltSession:
    try:
        wrong = list[str]()
        before = _derived(store.trace, session_id, t("the metadata was missing or damaged"), wrong)
        tree = _derived(store.goal_tree, session_id, t("the plan was missing or damaged"), wrong)
        state, events = replayed_events(store, session_id)
        lost = store.without_effect(session_id)
        problems = _problems(state, lost, children)
        if headless := beginning_lost(store, session_id):
            problems.insert(
                0, t("the start of the log is missing: the session's initial data is taken from its metadata")
            )
        # No event contains the token estimation factor; a wrong one only makes estimates worse.
        if before is not None:
            state.set_calibration(before.carried.calibration)
        after = state.carrying()
        if before is not None and before != after:
            wrong.append(t("the metadata did not match the log"))
        if tree is not None and tree != state.plan.snapshot():
            wrong.append(t("the plan did not match the log"))
        wrong += _set_aside(store, session_id, state, before, tree, damaged=bool(lost) or headless)
        if messages := store.restore_messages(session_id, state.messages):
            wrong.append(
                t("missing or not matching the log: {messages}", messages=_count(messages, "message"))
            )
        if cut := store.recover(session_id):
            wrong.append(t("removed from the log: {cut} of an incomplete event", cut=_count(cut, "byte")))
        if wrong:
            store.save_snapshot(after, state.plan.snapshot())
        return RebuiltSession(
            session_id=session_id,
            events=events,
            messages=len(state.messages),
            goals=len(state.plan.snapshot().goals),
            repaired=tuple(wrong),
            problems=tuple(problems),
        )
    except StoreError as error:
        return RebuiltSession(session_id=session_id, problems=(str(error),), failed=True)
    finally:
        store.close(session_id)


def _derived(read: Callable[[str], T], session_id: str, problem: str, wrong: list[str]) -> T | None:
    """Return a stored record; None, and a ``problem`` more in ``wrong``, when it cannot be read. Raises
    NewerFormatError."""
    try:
        return read(session_id)
    except NewerFormatError:
        raise
    except StoreError:
        wrong.append(problem)
        return None


def _set_aside(
    store: FileTraceStore,
    session_id: str,
    state: SessionState,
    before: Trace | None,
    tree: GoalTree | None,
    *,
    damaged: bool,
) -> list[str]:
    """Keep records that would be removed because the log lacks them: they may be the only copy. Returns a text."""
    after, goals = state.trace, len(state.plan.snapshot().goals)
    had = before.message_count if before is not None else 0
    planned = len(tree.goals) if tree is not None else 0
    # A complete log is right even with less content; one that lost something may be wrong.
    behind = before is not None and before.last_event_id > after.last_event_id
    richer = (damaged or behind) and (had > after.message_count or planned > goals or behind)
    kept = {message.message_id for message in state.messages}
    places = store.set_aside(session_id, kept, snapshot=richer)
    words: list[str] = []
    if richer and (copies := [place for place in places if "msg_" not in place]):
        words.append(
            t(
                "metadata and plan had more than the log ({had} and {planned} instead of {message_count:,} "
                "and {goals:,}): a copy of them is kept as {copies}",
                had=_count(had, "message"),
                planned=_count(planned, "goal"),
                message_count=after.message_count,
                goals=goals,
                copies=_named(copies),
            )
        )
    if moved := [place for place in places if "msg_" in place]:
        words.append(
            t(
                "set aside because the log does not have {count}: {moved}",
                count=_count(len(moved), "message"),
                moved=_named(moved),
            )
        )
    return words


def _named(places: list[str]) -> str:
    more = len(places) - _NAMED
    return ", ".join(places[:_NAMED]) + (t(" and {more:,} more", more=more) if more > 0 else "")


def _problems(state: SessionState, lost: list[int], children: list[str]) -> list[str]:
    """``lost``: lines of the log that have no effect."""
    problems: list[str] = []
    if lost:
        problems.append(
            t(
                "damaged or from a newer version, and ignored: {count} of the log ({lost})",
                count=_count(len(lost), "event"),
                lost=_lines(lost),
            )
        )
    there = {child.rpartition(":")[2].rpartition(".")[2] for child in children}
    for name in (*state.children.branches, *state.children.subagents):
        own = name.rpartition(".")[2]
        if own not in there:
            problems.append(t("the data of {name} is missing; its report is still here", name=name))
    return problems


def _lines(numbers: list[int]) -> str:
    return _named([t("line {number}", number=number) for number in numbers])


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
