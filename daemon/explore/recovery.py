"""After a crash (kill -9 at any stage): no copy stays, what branches had changed is kept, and their records end.

An exploration that broke off is not begun again: its goal is abandoned, with what is known of its branches. So it
blocks no goal above it, and what the model does next takes its place in the plan and is told what was tried. What the
branches had changed can still be taken over with ``select``.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.explore.words import short_summary
from daemon.loop.recording import Recorder
from daemon.model.branches import BranchMeta, child_id
from daemon.model.events import BranchCompleted, ExploreCompleted
from daemon.model.messages import Usage
from daemon.model.traces import BranchTrace
from daemon.model.words import cut_line
from daemon.plan.counting import counted
from daemon.plan.exploring import plan_counted, plan_given_up

if TYPE_CHECKING:
    from daemon.explore.copies.base import WorkingCopies
    from daemon.loop.services import Services
    from daemon.loop.session import Session

log = logging.getLogger(__name__)

STOPPED = "Goalwright was stopped in the middle of this branch"
_WORDS = 1_000


async def recover_copies(copies: WorkingCopies, services: Services) -> None:
    """Remove the copies that a crash left, and store what had been done in them. Never raises."""
    from daemon.explore.results import save_result

    for left in await copies.recover():
        try:
            folder = services.trace_folder(left.session_id)
            if folder.is_dir():  # else the person has removed the session
                await asyncio.to_thread(save_result, folder / "result", left.changes, left.patch)
        except Exception as error:  # one branch's record must not keep those of others from being recovered
            log.warning("what the branch %s had changed is lost: %s", left.session_id, error)


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
    for start_id in dict.fromkeys(branch.explore_start_id for branch in branches):
        _end(session, start_id)


def _end(session: Session, start_id: str) -> None:
    why = "Goalwright was stopped before the branches had ended."
    short = short_summary(session.state.children.of(start_id))
    for change in plan_given_up(session.state.plan, start_id, f"{why}\n{short}"):
        Recorder(session).goal(change)
    session.emit(
        ExploreCompleted(
            trace_id=session.session_id,
            time=session.services.now(),
            explore_start_id=start_id,
            merge_summary=f"{why}\n\n{short}",
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
