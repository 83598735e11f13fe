"""The branches of a session by name, and their stored results."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from daemon.explore.results import ResultError, StoredResult, load_result
from daemon.model.branches import BranchMeta, child_id, root_of, session_of
from tools.errors import ToolError
from tools.localization import noted, t
from tools.text.truncate import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from daemon.loop.session import Session

FOREIGN = noted(
    "This session was not started by you on this machine, so its branches may have been made by anyone. "
    "Nothing of them is written to your files."
)
_MAX_NAMED = 12


def find_branch(session: Session, name: str) -> BranchMeta:
    """Return the branch of that id, in either case. Raises ToolError that lists those there are."""
    branches = session.state.children.branches
    wanted = name.strip()
    for candidate in (wanted, wanted.upper()):
        if (branch := branches.get(candidate)) is not None:
            return branch
        if session.branch_id and (branch := branches.get(f"{session.branch_id}.{candidate}")) is not None:
            return branch
    shown = one_line(wanted, 80) or "(empty)"
    if not branches:
        raise ToolError(t("There is no branch {shown}: this session has no explorations.", shown=shown))
    raise ToolError(
        t("There is no branch {shown}. {values}", shown=shown, values=described(list(branches.values())))
    )


def described(branches: Sequence[BranchMeta]) -> str:
    """Return those there are, in a line."""
    names = [f"{branch.id} ({one_line(branch.description, 60)}; {_status(branch)})" for branch in branches]
    more = len(names) - _MAX_NAMED
    return t("Branches: {names}", names=", ".join(names[-_MAX_NAMED:])) + (
        t(" and {more} older ones.", more=more) if more > 0 else "."
    )


def _status(branch: BranchMeta) -> str:
    return "removed" if branch.removed else branch.status


def session_id_of(session: Session, branch: BranchMeta) -> str:
    """Return the id of the branch's own session."""
    above = session.branch_id
    if above is not None and branch.id.startswith(f"{above}."):
        return session_of(root_of(session.session_id), branch.id)
    return child_id(session.session_id, branch.id)


def result_folder(session: Session, branch: BranchMeta) -> Path:
    """Return where the result of a branch is stored."""
    return session.services.store.folder(session_id_of(session, branch)) / "result"


async def stored_result(session: Session, branch: BranchMeta) -> StoredResult:
    """Return the result of an ended branch. Raises ToolError when nothing usable is stored."""
    if branch.removed:
        raise ToolError(t("Branch {id} was removed by the user, and its changes were deleted.", id=branch.id))
    if branch.status == "exploring":
        raise ToolError(t("Branch {id} is still exploring: wait until it ends.", id=branch.id))
    try:
        result = await asyncio.to_thread(load_result, result_folder(session, branch))
    except ResultError as error:
        raise ToolError(t("Branch {id} cannot be used. {error}", id=branch.id, error=error)) from error
    if result is None:
        raise ToolError(
            t(
                "The changes of branch {id} are not stored: it failed, or Goalwright was stopped, before "
                "they were saved.",
                id=branch.id,
            )
        )
    return result
