"""Which kind of working copies a workspace gets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.copies.programs import GitProgram, Stop
from tools.process.programs import find_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.copies.working_copy import WorkingCopies


def copies_for(workspace: Path, folder: Path, links: Sequence[str]) -> WorkingCopies:
    """Working copies of ``workspace``, kept below ``folder`` (private; made when the first copy is). Blocking.

    ``links``: names or paths of ignored folders that copies read through links. Raises nothing: what does not work
    is told by the methods of what is returned.
    """
    from daemon.copies.git_copies import GitCopies
    from daemon.copies.plain_copies import PlainCopies
    from daemon.copies.repository import Repository

    workspace = Path(os.path.realpath(workspace))
    program = find_program("git", workspace)
    if program is None:
        return PlainCopies(workspace, folder, links)
    git, stop = GitProgram(program), Stop()
    repository = Repository.of(git, stop, workspace)
    inside = repository is not None and (
        workspace == repository.top
        # A folder that the repository around it ignores (one of dotfiles, say) has nothing to do with it.
        or not git.ask(
            stop, repository.top, "check-ignore", "-z", "--stdin", given=os.fsencode(workspace), fails=True
        )
        or bool(git.ask(stop, workspace, "ls-files", "-z", "--", ".", fails=True))
    )
    return GitCopies(workspace, folder, links, program, repository=inside)
