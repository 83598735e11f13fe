"""The working copies of all branches of a daemon: opened when an exploration needs them, settled after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.copies.base import WorkingCopies
from daemon.model.traces import BranchTrace
from daemon.workspace_key import workspace_key

if TYPE_CHECKING:
    from daemon.loop.interrupted import Took
    from daemon.loop.services import Services
    from daemon.loop.session import Session

OpenCopies = Callable[[Path, Path, Sequence[str]], WorkingCopies]
"""Workspace, folder for the copies, ignored folders that are links in them."""


def copies_of(workspace: Path, folder: Path, links: Sequence[str]) -> WorkingCopies:
    """As the workspace has it, with git or without. Blocking."""
    from daemon.copies.choice import copies_for

    return copies_for(workspace, folder, links)


class BranchCopies:
    """See the module. ``state_folder``: the person's, outside of any workspace."""

    def __init__(self, workspace: Path, state_folder: Path, open_copies: OpenCopies = copies_of) -> None:
        self._workspace = workspace
        self._folder = state_folder / "branches"
        self._open = open_copies
        self._recovering: asyncio.Task[None] | None = None

    def recover(self, services: Services) -> None:
        """Begin to remove what branches left when the daemon was killed; costs nothing when nothing is there."""
        key = workspace_key(self._workspace)
        folder = self._folder / key
        if folder.is_dir() and any(folder.iterdir()):
            self._recovering = asyncio.create_task(self._recover(services))

    async def recovered(self) -> None:
        """Return when nothing of an earlier daemon is left."""
        if self._recovering is not None:
            await asyncio.wait({self._recovering})

    async def open(self, links: Sequence[str]) -> WorkingCopies:
        """To make copies with. See ``Services.copies``."""
        await self.recovered()
        return await asyncio.to_thread(self._open, self._workspace, self._folder, links)

    async def settle(self, session: Session, took: Mapping[str, Took]) -> None:
        """A session is opened: bring an exploration to rest that the end of an earlier daemon broke off.

        ``took``: what its branches came to, see ``settle_branches``.
        """
        trace = session.state.trace
        explores = bool(session.state.children.unended()) or any(
            goal.type == "explore_start" and goal.status in ("pending", "in_progress")
            for goal in session.state.plan.goals.values()
        )
        if explores or (isinstance(trace, BranchTrace) and trace.status == "exploring"):
            from daemon.explore.recovery import settle_branches

            await self.recovered()
            await settle_branches(session, took)

    async def _recover(self, services: Services) -> None:
        from daemon.explore.recovery import recover_copies

        copies = await asyncio.to_thread(self._open, self._workspace, self._folder, ())
        await recover_copies(copies, services)
