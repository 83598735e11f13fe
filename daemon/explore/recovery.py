"""After a crash (kill -9 at any stage): no copy stays, what branches had changed is kept, and their records end.

An exploration that broke off is not begun again: its goal is abandoned, with what is known of its branches. So it
blocks no goal above it, and what the model does next takes its place in the plan and is told what was tried. What the
branches had changed can still be taken over with ``select``. Where all branches had ended, only the goal for choosing
among them was missing: it is added.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.explore.chosen import carry_over, early_words, follow_choices
from daemon.explore.score_text import score_table
from daemon.explore.words import results_text, short_summary
from daemon.loop.recording import Recorder
from daemon.model.branches import BranchMeta, child_id
from daemon.model.events import BranchCompleted, ExploreCompleted
from daemon.model.goals import Goal
from daemon.model.messages import Usage
from daemon.model.traces import BranchTrace
from daemon.model.words import cut_line
from daemon.plan.counting import counted
from daemon.plan.exploring import is_given_up, merge_of, plan_counted, plan_explored, plan_given_up

if TYPE_CHECKING:
    from daemon.explore.copies.base import LeftBehind, WorkingCopies
    from daemon.loop.services import Services
    from daemon.loop.session import Session

STOPPED = "Goalwright was stopped in the middle of this branch"
WHY = "Goalwright was stopped before the branches had ended."
_WORDS = 1_000


async def recover_copies(copies: WorkingCopies, services: Services) -> None:
    """Store what had been done in copies that a crash left, and remove each once that is stored. Never raises."""
    from daemon.explore.results import save_result

    def keep(left: LeftBehind) -> None:
        folder = services.trace_folder(left.session_id)
        if folder.is_dir():  # else the person has removed the session
            save_result(folder / "result", left.changes, left.patch)

    await copies.recover(keep)


async def settle_branches(session: Session) -> None:
    """Bring the branches of a session that was just opened to rest. Raises StoreError."""
    trace = session.state.trace
    if isinstance(trace, BranchTrace) and trace.status == "exploring":
        await _settle_own(session, trace)
    branches = _exploring(session)
    for branch in branches:
        folder = session.services.trace_folder(child_id(session.session_id, branch.id))
        words = branch.last_message.text() if branch.last_message is not None else ""
        usage = session.state.children.usage.get(branch.id, Usage())
        session.emit(
            BranchCompleted(
                trace_id=session.session_id,
                time=session.services.now(),
                branch_id=branch.id,
                status="abandoned",
                summary=await _summary(folder, words),
                cumulative_stats=branch.cumulative_stats,
                last_message=branch.last_message,
                usage=usage,
                cost=session.state.children.cost.get(branch.id, 0.0),
            )
        )
        for change in plan_counted(session.state.plan, branch.explore_start_id, branch.cumulative_stats):
            Recorder(session).goal(change)
    broken = {branch.explore_start_id for branch in branches}
    plan = session.state.plan
    for goal in list(plan.goals.values()):
        if goal.type == "explore_start" and not is_given_up(plan, goal.id):
            _end(session, goal, whole=goal.id not in broken)
    for start_id in session.state.children.unended():
        # Its goal had ended, or was taken away; only to say so was missing.
        merge, goal = merge_of(plan, start_id), plan.goals.get(start_id)
        text = (merge.merge_summary if merge else None) or (goal.summary if goal else None) or WHY
        _completed(session, start_id, text)
    for start_id in session.state.children.choices:
        carry_over(session, start_id)
    follow_choices(session)  # a merge may have been taken back right before the crash


def _end(session: Session, start: Goal, *, whole: bool) -> None:
    """``whole``: none of its branches was at work any more."""
    branches = session.state.children.of(start.id)
    record = Recorder(session).goal
    short = short_summary(branches)
    if whole and branches and {branch.id for branch in branches} >= set(start.branch_ids or ()):
        chosen = early_words(session.state.children.chosen(start.id))
        text = results_text(branches, score_table(branches), (), chosen)
        changes = plan_explored(session.state.plan, start.id, short, text)
    else:
        text = f"{WHY}\n\n{short}".strip()
        changes = plan_given_up(session.state.plan, start.id, text)
    for change in changes:
        record(change)
    _completed(session, start.id, text)


def _completed(session: Session, start_id: str, text: str) -> None:
    merge = merge_of(session.state.plan, start_id)
    session.emit(
        ExploreCompleted(
            trace_id=session.session_id,
            time=session.services.now(),
            explore_start_id=start_id,
            explore_merge_id=merge.id if merge is not None else None,
            merge_summary=text,
        )
    )


async def _settle_own(session: Session, trace: BranchTrace) -> None:
    own = [m for m in session.state.messages if m.sequence > trace.inherited]
    words = next((text for m in reversed(own) if m.role == "assistant" and (text := m.text())), "")
    stats = trace.cumulative_stats
    for message in own:
        calls = [call.name for call in message.tool_calls()]
        stats = counted(stats, message.tokens or 0, message.cost or 0.0, calls)
    session.emit(
        BranchCompleted(
            trace_id=session.session_id,
            time=session.services.now(),
            branch_id=trace.id,
            status="abandoned",
            summary=await _summary(session.services.trace_folder(session.session_id), words),
            cumulative_stats=stats,
            last_message=own[-1] if own else None,
            usage=trace.usage,
            cost=trace.total_cost,
        )
    )
    session.snapshot()


def _exploring(session: Session) -> list[BranchMeta]:
    return [branch for branch in session.state.children.branches.values() if branch.status == "exploring"]


async def _summary(folder: Path, words: str) -> str:
    kept = await asyncio.to_thread((folder / "result").is_dir)
    end = "; what it had changed is kept." if kept else "; nothing that it had changed is kept."
    said = f" What it said last: {cut_line(words, _WORDS)}" if words.strip() else ""
    return f"{STOPPED}{end}{said}"
