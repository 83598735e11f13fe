"""What is known of a branch's result, as facts to compare it by (source: issue 7, scoreboard)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from daemon.explore.copies.base import BranchChange, WorkingCopy
from daemon.model.branches import CheckRun, Score

if TYPE_CHECKING:
    from daemon.loop.session import Session


async def score_branch(
    child: Session,
    copy: WorkingCopy,
    changes: Sequence[BranchChange],
    *,
    test: CheckRun | None,
    duration_ms: int,
) -> Score:
    """The facts of a branch that has ended, while its copy is still there. Never raises for what is not known."""
    return Score(test=test, files=len(changes), duration_ms=duration_ms)
