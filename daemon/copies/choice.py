"""Choose the kind of working copies for a workspace."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tools.process.programs import find_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.copies.working_copy import WorkingCopies


def copies_for(workspace: Path, folder: Path, links: Sequence[str]) -> WorkingCopies:
    """Return the working copies of ``workspace``, below ``folder`` (private; made with the first copy). Blocking.

    ``links``: names or paths of ignored folders that copies read through links. Never raises: the methods of the result
    report what does not work.
    """
    from daemon.copies.git_copies import GitCopies
    from daemon.copies.git_program import CancelToken, GitProgram
    from daemon.copies.plain_copies import PlainCopies
    from daemon.copies.repository import Repository

    workspace = Path(os.path.realpath(workspace))
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
