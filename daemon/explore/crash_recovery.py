"""End the explorations of a session whose daemon was killed, and the records of its branches.

An interrupted exploration is not restarted: its goal is abandoned, with the known results of its branches. So it blocks
no goal above it, and the model's next goal takes its place in the plan and refers to the attempt. The branches' changes
can still be merged with ``select``. Where all branches had ended, only the goal for choosing among them was missing: it
is added.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from daemon.context.handover import last_words
from daemon.explore.branch_choice import carry_over, decided_early, exploration_ended, follow_choices
from daemon.explore.branch_notes import results_text, short_summary
from daemon.explore.branch_task import BranchOutcome
from daemon.explore.score_text import score_table
from daemon.model.branches import BranchMeta, Score, child_id
from daemon.model.events import BranchCompleted
from daemon.model.messages import Usage
from daemon.model.traces import BranchTrace, Trace
from daemon.plan.explore_goals import (
    is_given_up,
    merge_of,
    plan_counted,
    plan_explored,
    plan_given_up,
)
from daemon.plan.goal_stats import with_message
from daemon.store.ids import parent_of
from tools.localization import noted, t
from tools.text.truncate import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from daemon.loop.session import Session
    from daemon.model.goals import Goal
    from daemon.store.trace_store import TraceStore

STOPPED = noted("Goalwright was stopped while this branch was working")
WHY = noted("Goalwright was stopped before the branches ended.")
_WORDS = 1_000
_LAST_EVENTS = 20
"""Behind the end of a branch in its own log there are few."""


async def settle_branches(session: Session, ended: Mapping[str, Trace]) -> None:
    """Bring the branches of a session that was just opened to rest. Raises StoreError.

    ``ended``: records of those that were at work when the daemon was killed, by their id.
    """
    trace = session.state.trace
    if isinstance(trace, BranchTrace) and trace.status == "exploring":
        await _settle_own(session, trace)
    broken: set[str] = set()
    for branch in [one for one in session.state.children.branches.values() if one.status == "exploring"]:
        end = await _end_of(session, branch, ended.get(branch.id))
        if end.status != "completed":  # otherwise it had ended, and only this record was missing
            broken.add(branch.explore_start_id)
        end.record(session, branch.id)
        session.record.goals(plan_counted(session.state.plan, branch.explore_start_id, end.stats))
    plan = session.state.plan
    for goal in list(plan.goals.values()):
        if goal.type == "explore_start" and not is_given_up(plan, goal.id):
            _end(session, goal, whole=goal.id not in broken)
    for start_id in session.state.children.unended():
        # Its goal had ended or was removed, and only this record was missing.
        merge, goal = merge_of(plan, start_id), plan.goals.get(start_id)
        text = (merge.merge_summary if merge else None) or (goal.summary if goal else None) or t(WHY)
        _completed(session, start_id, text)
    for start_id in session.state.children.choices:
        carry_over(session, start_id)
    follow_choices(session)  # a merge may have been undone right before the crash


async def _end_of(session: Session, branch: BranchMeta, own: Trace | None) -> BranchOutcome:
    """Return how a branch ended: by its own record, which was closed before; else by this session's record."""
    branch_id = child_id(session.session_id, branch.id)
    if isinstance(own, BranchTrace) and own.status != "exploring":
        score: Score | None = None
        if own.status == "completed":  # the daemon was killed before it was recorded here
            score = await asyncio.to_thread(_score, session.services.store, own)
        return BranchOutcome(
            branch_id, own.status, own.summary, "end_turn", stats=own.cumulative_stats,
            last_message=own.last_message, score=score, usage=own.usage, cost=own.total_cost,
        )  # fmt: skip
    words = branch.last_message.text() if branch.last_message is not None else ""
    summary = await _summary(session.services.store.folder(branch_id), words)
    children = session.state.children
    return BranchOutcome(
        branch_id, "abandoned", summary, "canceled", stats=branch.cumulative_stats,
        last_message=branch.last_message, usage=children.usage.get(branch.id, Usage()),
        cost=children.cost.get(branch.id, 0.0),
    )  # fmt: skip


def _score(store: TraceStore, own: BranchTrace) -> Score | None:
    """Return the score with which a branch ended: one of the last events of its log. Blocking."""
    for event in reversed(store.events(own.trace_id, after=max(0, own.last_event_id - _LAST_EVENTS))):
        if isinstance(event, BranchCompleted):
            return event.score
    return None


def _end(session: Session, start: Goal, *, whole: bool) -> None:
    """``whole``: none of its branches was at work any more."""
    branches = session.state.children.of(start.id)
    short = short_summary(branches)
    if whole and branches and {branch.id for branch in branches} >= set(start.branch_ids or ()):
        text = results_text(branches, score_table(branches), (), decided_early(session, start.id))
        changes = plan_explored(session.state.plan, start.id, short, text)
    else:
        text = f"{t(WHY)}\n\n{short}".strip()
        changes = plan_given_up(session.state.plan, start.id, text)
    session.record.goals(changes)
    _completed(session, start.id, text)


def _completed(session: Session, start_id: str, text: str) -> None:
    # The real duration is unknown: it is at least that of the longest branch.
    branches = session.state.children.of(start_id)
    took_ms = max((branch.cumulative_stats.duration_ms for branch in branches), default=0)
    exploration_ended(session, start_id, text, took_ms)


async def _settle_own(session: Session, trace: BranchTrace) -> None:
    own = [m for m in session.state.messages if m.sequence > trace.inherited]
    folder = session.services.store.folder(session.session_id)
    # If the main session was closed alone, its record decides, because the two must not contradict each other.
    known = _known_above(session, trace)
    if known is None:
        stats = trace.cumulative_stats
        for message in own:
            stats = with_message(stats, message)
        status, summary, score, last = "abandoned", "", None, own[-1] if own else None
    else:
        status, summary, score = known.status, known.summary, known.score
        stats, last = known.cumulative_stats, known.last_message
    BranchOutcome(
        session.session_id, status, summary or await _summary(folder, last_words(own)), "canceled", stats=stats,
        last_message=last, score=score, usage=trace.usage, cost=trace.total_cost,
    ).record(session, trace.id)  # fmt: skip
    session.record.snapshot()


def _known_above(session: Session, trace: BranchTrace) -> BranchMeta | None:
    """Return how the branch ended by the open session that started it; None where that has no end, or is not open."""
    above = session.features.sessions.get(parent_of(session.session_id))
    branch = above.state.children.branches.get(trace.id) if above is not None else None
    return branch if branch is not None and branch.status != "exploring" else None


async def _summary(folder: Path, words: str) -> str:
    kept = await asyncio.to_thread((folder / "result").is_dir)
    end = t("; its changes are kept.") if kept else t("; none of its changes are kept.")
    said = t(" Its last message: {words}", words=one_line(words, _WORDS)) if words.strip() else ""
    return f"{t(STOPPED)}{end}{said}"
