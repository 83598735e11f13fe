"""The test command of an exploration: found, allowed once, run in each copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.explore.copies.base import WorkingCopy
from daemon.loop.services import Services
from daemon.model.branches import CheckRun

if TYPE_CHECKING:
    from daemon.loop.session import Session


async def agree_on_test(session: Session, call_id: str) -> str | None:
    """The command that checks the branches of the exploration ``call_id``, once it is allowed; None: none is."""
    return None


async def run_test(command: str, copy: WorkingCopy, services: Services, timeout_s: float) -> CheckRun:
    """Run the test command in a branch's copy. ``services``: the branch's own."""
    return CheckRun(command=command, detail="not run")
