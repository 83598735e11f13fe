"""Actions of clients on a session's branches: inspect, choose, remove. All raise ToolError with a message for the user
when an action is not possible.

Files are named as in the branch's result. A name with characters that cannot be shown may be given as it was displayed.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.explore.branch_choice import pending_choices, settle, who_chose
from daemon.explore.merging import Selection, merge_selected
from daemon.explore.results import FOREIGN, find_branch, remove_result, result_folder, stored_result
from daemon.explore.scoring import renames
from daemon.loop.undo import PERSON
from daemon.model import notice_codes
from daemon.model.events import BranchRemoved
from daemon.model.permissions import FileDiff
from daemon.permission.service import CallInfo, CallPermission
from tools.diff.unified_diff import limited, of_change, shown_name
from tools.localization import t
from tools.text.truncate import head, one_line
from tools.tool import FileChange, ToolError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.copies.working_copy import BranchChange
    from daemon.loop.session import Session
    from tools.ports import ToolResult

SELECT_CALL = "select_"
"""Beginning of the ids of the calls by which users choose branches."""
MAX_FILES = 500
"""Most changed files to show."""
_MAX_DIFF_LINES = 2_000
_MAX_DIFFED = 4 << 20
"""Bytes; a larger file is only named."""


async def branch_files(session: Session, branch_id: str) -> tuple[tuple[FileDiff, ...], tuple[FileDiff, ...]]:
    """Return the changes of an ended branch as diffs against its base, and those to files that git ignores."""
    result = await stored_result(session, find_branch(session, branch_id))
    return await asyncio.to_thread(lambda: (_diffs(result.changes), _diffs(result.ignored)))


async def branch_content(session: Session, branch_id: str, path: str) -> tuple[bytes | None, bytes | None]:
    """Return a changed file as the branch found it, and as it left it; None: there was no such file."""
    branch = find_branch(session, branch_id)
    result = await stored_result(session, branch)
    for change in (*result.changes, *result.ignored):
        if path in (change.name, shown_name(change.name)):
            return change.before, change.after
    raise ToolError(t("Branch {id} did not change {path}.", id=branch.id, path=head(shown_name(path), 200)))


async def branch_patch(session: Session, branch_id: str) -> bytes:
    """Return a branch's changes as a binary git patch."""
    return (await stored_result(session, find_branch(session, branch_id))).patch


async def select_for_user(session: Session, choice: Sequence[str], by: str = "") -> ToolResult:
    """Apply the user's own choice: ``A``, or parts like ``A:src/a.py``; also while the model works.

    The change is always shown for review, even where edits run without approval: the branch was chosen by its
    description, and nobody has looked at its change. The model is notified: by the tool call that waits for the choice,
    or by a note. Raises PermissionDeniedError when the review rejects the change.
    """
    call_id = f"{SELECT_CALL}{uuid.uuid4().hex[:12]}"
    info = CallInfo(
        call_id,
        "explore",
        goal_id=session.state.plan.current_id,
        timeout_s=session.config.settings.approval.permission_timeout_s,
        alone=True,
        review=True,
    )
    permission = CallPermission(session.services.permissions, session, info)
    async with contextlib.AsyncExitStack() as stack:
        if not session.running:
            await stack.enter_async_context(session.files.lock)  # a turn that begins now waits for it
        # In a running turn this is one more writer beside its tools: each write compares the disk with its plan.
        diagnostics = session.diagnostics.aside()
        stack.push_async_callback(diagnostics.close)
        selection = await merge_selected(session, choice, permission, call_id, diagnostics, by=by or PERSON)
    _tell_model(session, selection, by or PERSON)
    return selection.told


async def remove_branch(session: Session, branch_id: str, by: str = "") -> None:
    """Remove what a branch that has ended did; its messages stay to be read. Once more does nothing."""
    if session.foreign:
        raise ToolError(t(FOREIGN))
    branch = find_branch(session, branch_id)
    if branch.removed:
        return
    if branch.status == "exploring":
        raise ToolError(t("Branch {id} is still exploring. Cancel it, or wait until it ends.", id=branch.id))
    try:
        await asyncio.to_thread(remove_result, result_folder(session, branch))
    except OSError as error:
        raise ToolError(
            t(
                "Branch {id} could not be removed ({strerror}).",
                id=branch.id,
                strerror=error.strerror or error,
            )
        ) from error
    if not find_branch(session, branch_id).removed:
        session.emit(BranchRemoved(**session.record.here(), branch_id=branch.id, by=by))


def _tell_model(session: Session, selection: Selection, by: str) -> None:
    who = who_chose(by)
    ids = ", ".join(branch.id for branch in selection.branches)
    starts = {branch.explore_start_id for branch in selection.branches}
    heard = [
        settle(
            session,
            start,
            t("{who} chose {ids}. {content}", who=who, ids=ids, content=selection.told.content),
        )
        for start in pending_choices(session)
        if start in starts
    ]
    if any(heard):
        return
    described = ", ".join(
        f"{branch.id} ({one_line(branch.description, 80)})" for branch in selection.branches
    )
    written = ", ".join(shown_name(name) for name in selection.written[:20])
    more = t(" and {count} more", count=len(selection.written) - 20) if len(selection.written) > 20 else ""
    files = (
        t(" Written on disk: {written}{more}.", written=written, more=more)
        if written
        else t(" Nothing needed to be written.")
    )
    session.notice(
        "info",
        t("The user merged branch {described}.{files}", described=described, files=files),
        notice_codes.BRANCH_SELECTED,
    )


def _diffs(changes: Sequence[BranchChange]) -> tuple[FileDiff, ...]:
    moved = renames(changes)
    sources = set(moved.values())
    shown = [change for change in changes if change.name not in sources]
    return tuple(_diff(change, moved.get(change.name)) for change in shown[:MAX_FILES])


def _diff(change: BranchChange, source: str | None) -> FileDiff:
    name = shown_name(change.name)
    if source is not None:
        text, added, removed = (
            t("Moved from {source} to {name}\n", source=shown_name(source), name=name),
            0,
            0,
        )
    elif max(len(change.before or b""), len(change.after or b"")) > _MAX_DIFFED:
        text, added, removed = t("{name} is too large to show\n", name=name), 0, 0
    else:
        diff = of_change(FileChange(Path(change.name), change.before, change.after), change.name)
        text, added, removed = limited(diff.text, max_lines=_MAX_DIFF_LINES), diff.added, diff.removed
    if change.before_mode != change.after_mode and change.before is not None and change.after is not None:
        # The name identifies the file, because in a list of diffs a mere change of mode is not otherwise visible.
        text = t(
            "Mode of {name} changed from {before_mode:o} to {after_mode:o}\n{text}",
            name=name,
            before_mode=change.before_mode or 0,
            after_mode=change.after_mode or 0,
            text=text,
        )
    kind = "update" if source is not None else change.kind
    origin = None if source is None else shown_name(source)
    return FileDiff(path=name, kind=kind, diff=text, added=added, removed=removed, moved_from=origin)
