"""The working copies of all branches of a daemon: opened when an exploration needs them, settled after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.copies.choice import copies_for
from daemon.copies.working_copy import WorkingCopies
from daemon.workspace_key import workspace_key

if TYPE_CHECKING:
    from daemon.copies.working_copy import OrphanedCopy
    from daemon.loop.services import Services

OpenCopies = Callable[[Path, Path, Sequence[str]], WorkingCopies]
"""Workspace, folder for the copies, ignored folders that are links in them."""


class BranchCopies:
    """The working copies of a daemon's branches. ``state_folder``: the user's, outside any workspace."""

    def __init__(self, workspace: Path, state_folder: Path, open_copies: OpenCopies = copies_for) -> None:
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
        """Return when all remains of an earlier daemon are removed."""
        if self._recovering is not None:
            await asyncio.wait({self._recovering})

    async def open(self, links: Sequence[str]) -> WorkingCopies:
        """To make copies with. See ``Services.copies``."""
        await self.recovered()
        return await asyncio.to_thread(self._open, self._workspace, self._folder, links)

    async def _recover(self, services: Services) -> None:
        """Store the work in copies that a crash left, and remove each once it is stored."""
        from daemon.explore.results import save_result

        def keep(left: OrphanedCopy) -> None:
            folder = services.store.folder(left.session_id)
            if folder.is_dir():  # otherwise the user has removed the session
                save_result(folder / "result", left.changes, left.patch)

        copies = await asyncio.to_thread(self._open, self._workspace, self._folder, ())
        await copies.recover(keep)
