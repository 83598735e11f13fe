"""The working copies of all branches of a daemon: opened when an exploration needs them, settled after a crash."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.workspace_key import real_workspace, workspace_key
from tools.process.programs import find_program

if TYPE_CHECKING:
    from daemon.copies.working_copy import BranchChange, OrphanedCopy, WorkingCopies
    from daemon.loop.services import Services


def copies_for(workspace: Path, folder: Path, links: Sequence[str]) -> WorkingCopies:
    """Return the working copies of ``workspace``, below ``folder`` (private; made with the first copy). Blocking.

    ``links``: names or paths of ignored folders that copies read through links. Never raises: the methods of the result
    report what does not work.
    """
    from daemon.copies.git_copies import GitCopies
    from daemon.copies.git_program import CancelToken, GitProgram
    from daemon.copies.plain_copies import PlainCopies
    from daemon.copies.repository import Repository

    workspace = real_workspace(workspace)
    program = find_program("git", workspace)
    if program is None:
        return PlainCopies(workspace, folder, links)
    git = GitProgram(program, CancelToken())
    repository = Repository.of(git, workspace)
    inside = repository is not None and (
        workspace == repository.top
        # A surrounding repository that ignores this folder (such as one of dotfiles) is unrelated to it.
        or not git.ask(
            repository.top, "check-ignore", "-z", "--stdin", given=os.fsencode(workspace), fails=True
        )
        or bool(git.ask(workspace, "ls-files", "-z", "--", ".", fails=True))
    )
    return GitCopies(workspace, folder, links, program, repository=inside)


OpenCopies = Callable[[Path, Path, Sequence[str]], "WorkingCopies"]
"""Workspace, folder for the copies, ignored folders that are links in them."""


class BranchCopies:
    """The working copies of a daemon's branches. ``state_folder``: the user's, outside any workspace."""

    def __init__(self, workspace: Path, state_folder: Path, open_copies: OpenCopies) -> None:
        self._workspace = workspace
        self._folder = state_folder / "branches"
        self._open = open_copies
        self._recovering: asyncio.Task[None] | None = None

    def recover(self, services: Services) -> None:
        """Begin to remove what branches left when the daemon was killed; costs nothing when nothing is there."""
        folder = self._folder / workspace_key(self._workspace)
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
        from daemon.explore.ignored_changes import ignored_changes
        from daemon.explore.results import has_result, in_workspace, save_result
        from daemon.files.history import SessionHistory

        def keep(left: OrphanedCopy) -> None:
            folder = services.store.folder(left.session_id)
            # Without a folder, the user has removed the session. A result was stored when the branch had ended: since
            # then only its tests have written, which changes nothing of it.
            if folder.is_dir() and not has_result(folder / "result"):
                history = SessionHistory(folder / "files", services.now, read_only=True)
                ignored: tuple[BranchChange, ...] = ()
                with contextlib.suppress(OSError):  # what is known of the branch is stored without them
                    ignored, _ = ignored_changes(history, left.root, self._workspace, left.changes)
                save_result(folder / "result", in_workspace(left.changes)[0], left.patch, ignored)

        copies = await asyncio.to_thread(self._open, self._workspace, self._folder, ())
        await copies.recover(keep)
