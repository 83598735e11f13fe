"""Code lenses, Accept and Reject where a proposed change would land, and the decisions by them, hunk by hunk.

All waiting requests are shown, from any session: a turn in a terminal can be answered in the editor too. The decisions
are shared by the editors of a daemon, except by those that show questions themselves (VS Code keeps its own choice,
including the user's manual edits). Pure except for the two ports.
"""

from __future__ import annotations

import asyncio
import bisect
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from msgspec import Struct, field

from daemon.model.permissions import FileAnswer, FileDiff, PermissionRequest
from lsp_bridge.server.editor.given import (
    ACCEPT_CHANGES,
    ACCEPT_HUNK,
    REJECT_CHANGES,
    REJECT_HUNK,
    SHOW_CHANGES,
)
from tools.diff.unified_diff import hunk_spans, opcodes
from tools.localization import t
from tools.text.decoding import decode
from tools.text.lines import split_lines, to_lf
from tools.tool import ProposedFile, ToolError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from daemon.permission.service import PermissionService


class Decisions(Struct):
    """Decisions by request, file and part: accepted or not. Missing ones are undecided."""

    _by_request: dict[str, dict[tuple[str, int], bool]] = field(
        default_factory=dict[str, dict[tuple[str, int], bool]]
    )

    def of(self, request_id: str, path: str, part: int) -> bool | None:
        """Return the decision on one part; None: there is none yet."""
        return self._by_request.get(request_id, {}).get((path, part))

    def decide(self, request: PermissionRequest, path: str, part: int, accepted: bool) -> None:
        """Set or change the decision on one part of a file."""
        self._by_request.setdefault(request.request_id, {})[path, part] = accepted

    def decide_rest(self, request: PermissionRequest, files: Sequence[FileDiff], accepted: bool) -> None:
        """Decide the undecided parts of these files."""
        made = self._by_request.setdefault(request.request_id, {})
        for file in files:
            for part in range(parts(file)):
                made.setdefault((file.path, part), accepted)

    def undecided(self, request: PermissionRequest, files: Sequence[FileDiff] | None = None) -> int:
        """Return how many parts are still to be decided."""
        made = self._by_request.get(request.request_id, {})
        shown = request.files if files is None else files
        return sum((file.path, part) not in made for file in shown for part in range(parts(file)))

    def answers(self, request: PermissionRequest) -> tuple[FileAnswer, ...] | None:
        """Return the answer once all is decided: the files that are not accepted unchanged. None: nothing is
        accepted."""
        made = self._by_request.get(request.request_id, {})
        found: list[FileAnswer] = []
        anything = False
        for file in request.files:
            count = parts(file)
            taken = tuple(part for part in range(count) if made.get((file.path, part)))
            anything = anything or bool(taken)
            if len(taken) < count:
                found.append(FileAnswer(path=file.path, hunks=taken))
        return tuple(found) if anything else None

    def keep(self, waiting: Collection[str]) -> None:
        """Forget all requests but these, which still wait."""
        for request_id in self._by_request.keys() - set(waiting):
            del self._by_request[request_id]


class HunkPositions(Struct, frozen=True):
    """``lines``: for each hunk the line (from 0) where it lands, or None where that cannot be said any more.

    ``current``: the text is still the one that the change was made for.
    """

    lines: tuple[int | None, ...]
    current: bool


def hunk_positions(file: ProposedFile, text: str) -> HunkPositions:
    """Return where the hunks of ``file`` land in ``text``. Slow for long files: call it in a thread."""
    base, after = file.base, file.change.after
    if base is None:
        return HunkPositions((), not text)
    try:
        old = decode(base)
        new = None if after is None else decode(after, old.codec)
    except ToolError:
        return HunkPositions((), True)  # binary: there is no text to compare
    current = to_lf(old.text) == to_lf(text)
    if new is None:
        return HunkPositions((), current)
    before = split_lines(old.text)
    starts = [line.start for line in before]
    spans = [
        (_line(starts, start, len(old.text)), _line(starts, end, len(old.text)))
        for start, end, _, _ in hunk_spans(old.text, new.text)
    ]
    shown = split_lines(text)
    last = max(len(shown) - 1, 0)
    if current:
        return HunkPositions(tuple(min(first, last) for first, _ in spans), True)
    codes = opcodes([line.body for line in before], [line.body for line in shown])
    kept = [(i1, i2, j1) for tag, i1, i2, j1, _ in codes if tag == "equal"]

    def mapped(first: int, end: int) -> int | None:
        return next((min(first - i1 + j1, last) for i1, i2, j1 in kept if i1 <= first and end <= i2), None)

    return HunkPositions(tuple(mapped(first, end) for first, end in spans), False)


def parts(file: FileDiff) -> int:
    """Return how many parts of a file can be accepted one by one; 1: only the whole file.

    As the VS Code extension counts (``diff/choice.ts``): hunks that the user cannot see, because the diff was cut off,
    are not decided one by one.
    """
    return max(file.hunks, 1) if len(file.shown_hunks) == file.hunks else 1


def _line(starts: list[int], offset: int, length: int) -> int:
    """Return the line that begins at ``offset``; behind the last one for the end of the text."""
    return len(starts) if offset >= length else bisect.bisect_right(starts, offset) - 1


class Proposal(Struct, frozen=True):
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
