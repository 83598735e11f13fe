"""Code lenses: Accept and Reject where a proposed change would land. Pure except for the two ports.

All waiting requests are shown, from any session: a turn in a terminal can be answered in the editor too.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from lsp_bridge.server.editor.given import (
    ACCEPT_CHANGES,
    ACCEPT_HUNK,
    REJECT_CHANGES,
    REJECT_HUNK,
    SHOW_CHANGES,
)
from lsp_bridge.server.editor.hunk_decisions import Decisions, HunkPositions, hunk_positions, parts
from tools.localization import t

if TYPE_CHECKING:
    from pathlib import Path

    from daemon.model.permissions import FileDiff, PermissionRequest
    from daemon.permission.service import PermissionService
    from tools.tool import ProposedFile


@dataclass(frozen=True, slots=True)
class Proposal:
    """A file that some waiting request would change."""

    request: PermissionRequest
    file: FileDiff
    change: ProposedFile


def proposals(waiting: PermissionService, path: Path) -> list[Proposal]:
    """Return the proposals that change the file ``path`` (resolved), oldest first."""
    found: list[Proposal] = []
    for request in waiting.pending():
        for file in request.files:
            change = waiting.proposed(request.request_id, file.path)
            if change is not None and path in {one.path for one in change.changes}:
                found.append(Proposal(request, file, change))
    return found


async def code_lenses(
    waiting: PermissionService, path: Path, text: str, decisions: Decisions
) -> list[types.CodeLens]:
    """Return the lenses of a file whose text in the editor is ``text``."""
    lenses: list[types.CodeLens] = []
    for proposal in proposals(waiting, path):
        place = await asyncio.to_thread(hunk_positions, proposal.change, text)
        hunks = _of_hunks(proposal, place, decisions)
        lenses += _of_file(proposal, place, decisions, alone=parts(proposal.file) == 1 and bool(hunks))
        lenses += hunks
    return lenses


def _of_file(
    proposal: Proposal, place: HunkPositions, decisions: Decisions, *, alone: bool
) -> list[types.CodeLens]:
    """Return the lenses at the top: for the whole file, and for the request where it has more files. Editors cut long
    lines.

    ``alone``: there is one hunk and it has lenses of its own, which do the same.
    """
    request, file = proposal.request, proposal.file
    here = {"requestId": request.request_id, "path": file.path}
    count = parts(file)
    lenses: list[types.CodeLens] = []
    if place.current:
        left = decisions.undecided(request, [file])
        what = _whole(file, proposal.change) if count == 1 else _changes(left, count)
        if count > 1 and left == count and len(request.files) > 1:
            what = t("this file")
        if left and not alone:
            lenses.append(_lens(0, t("Accept {what}", what=what), ACCEPT_CHANGES, here))
            everything = count > 1 and left == count and len(request.files) == 1
            verb = t("Reject all") if everything else t("Reject {what}", what=what)
            lenses.append(_lens(0, verb, REJECT_CHANGES, here))
    else:
        # Accepting would be refused at the time of writing.
        lenses.append(
            _lens(0, t("Reject: this file has changed since it was proposed"), REJECT_CHANGES, here)
        )
    lenses.append(_lens(0, t("Show diff"), SHOW_CHANGES, here))
    if len(request.files) > 1:
        whole = {"requestId": request.request_id}
        lenses.append(_lens(0, t("Accept {count} files", count=len(request.files)), ACCEPT_CHANGES, whole))
        lenses.append(_lens(0, t("Reject {count} files", count=len(request.files)), REJECT_CHANGES, whole))
    return lenses


def _of_hunks(proposal: Proposal, place: HunkPositions, decisions: Decisions) -> list[types.CodeLens]:
    request, file = proposal.request, proposal.file
    count = parts(file)
    if len(place.lines) != max(file.hunks, 1) or (count == 1 and file.hunks > 1):
        return []
    lenses: list[types.CodeLens] = []
    for number, line in enumerate(place.lines):
        if line is None:
            continue
        about = {"requestId": request.request_id, "path": file.path, "hunk": number}
        decided = decisions.of(request.request_id, file.path, number)
        if decided is None:
            lenses.append(_lens(line, t("Accept"), ACCEPT_HUNK, about))
            lenses.append(_lens(line, t("Reject"), REJECT_HUNK, about))
        elif decided:
            lenses.append(_lens(line, t("Accepted (reject instead)"), REJECT_HUNK, about))
        else:
            lenses.append(_lens(line, t("Rejected (accept instead)"), ACCEPT_HUNK, about))
    return lenses


def _changes(left: int, count: int) -> str:
    if left == count:
        return t("all {count} changes", count=count)
    return t("the other change") if left == 1 else t("the other {left} changes", left=left)


def _whole(file: FileDiff, change: ProposedFile) -> str:
    if change.source is not None:
        return t("this move")
    return {"create": t("this new file"), "update": t("this change"), "delete": t("this deletion")}[file.kind]


def _lens(line: int, title: str, command: str, argument: dict[str, Any]) -> types.CodeLens:
    start = types.Position(line, 0)
    return types.CodeLens(
        types.Range(start, start), types.Command(title=title, command=command, arguments=[argument])
    )
