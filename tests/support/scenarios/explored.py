"""A session in which an exploration has ended: its goals, its branches and what they stored, without the exploring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from daemon.copies.working_copy import BranchChange, WorkingCopy
from daemon.explore.results import save_result
from daemon.loop.session import Session
from daemon.model.branches import BranchMeta, child_id
from daemon.model.events import BranchCompleted, BranchStarted, ExploreCompleted, GoalAdded
from daemon.model.goals import Goal, GoalStats

PLAIN = 0o100644
PROGRAM = 0o100755
LINK = 0o120000


def created(name: str, content: str | bytes, mode: int = PLAIN) -> BranchChange:
    """A new file."""
    return BranchChange(name, None, _bytes(content), None, mode)


def updated(
    name: str, before: str | bytes, after: str | bytes, mode: int = PLAIN, after_mode: int | None = None
) -> BranchChange:
    """A changed file."""
    return BranchChange(name, _bytes(before), _bytes(after), mode, after_mode or mode)


def deleted(name: str, before: str | bytes, mode: int = PLAIN) -> BranchChange:
    """A file that is gone."""
    return BranchChange(name, _bytes(before), None, mode, None)


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def explored(
    session: Session, results: Mapping[str, Sequence[BranchChange]], start: str = "1", merge: str = "2"
) -> None:
    """Branches by id, each with what it changed; the goals ``start`` and ``merge`` stand for them."""
    now, trace_id = session.services.now(), session.session_id
    goals = [
        Goal(
            id=start,
            type="explore_start",
            description="Try ways",
            status="completed",
            branch_ids=list(results),
        ),
        Goal(id=merge, type="explore_merge", description="Choose", status="pending", explore_start_id=start),
    ]
    for goal in goals:
        session.emit(GoalAdded(trace_id=trace_id, time=now, goal=goal))
    for name, changes in results.items():
        branch = BranchMeta(id=name, explore_start_id=start, description=f"Way {name}")
        session.emit(BranchStarted(trace_id=trace_id, time=now, explore_start_id=start, branch=branch))
        save_result(
            session.services.store.folder(child_id(trace_id, name)) / "result",
            changes,
            b"patch of " + name.encode(),
        )
        session.emit(
            BranchCompleted(
                trace_id=trace_id,
                time=now,
                branch_id=name,
                summary=f"{name} is done",
                cumulative_stats=GoalStats(),
            )
        )
    session.emit(
        ExploreCompleted(
            trace_id=trace_id,
            time=now,
            explore_start_id=start,
            explore_merge_id=merge,
            merge_summary="All ended.",
        )
    )


class FolderCopy(WorkingCopy):
    """A working copy that is just a folder."""

    def __init__(self, root: Path, environment: dict[str, str]) -> None:
        private = root.with_name(f"{root.name}.private")
        super().__init__(root, environment, (), private)

    async def outcome(self) -> tuple[Sequence[BranchChange], bytes]:
        return (), b""

    async def close(self) -> None:
        pass
