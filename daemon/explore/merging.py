"""Merge branches into the main tree, as one change that the user reviews.

Merging uses stored results only, so it works after a restart and when the copies are gone. The write goes through
``tools.change`` like that of any tool: one question for all files, all of them or none, on exactly the merged contents.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import stat
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from daemon.explore.branch_choice import note_choice, refuse_model
from daemon.explore.ignored_changes import short_names
from daemon.explore.merge_plan import (
    ABSENT,
    FileVersion,
    MergePlan,
    Pick,
    conflicts_text,
    names,
    plan_merge,
    remarks,
)
from daemon.explore.results import FOREIGN, find_branch, result_folder, stored_result
from daemon.files.blobs import Blobs
from daemon.loop.tool_context import SessionFiles, explore_context
from daemon.model.branches import BranchMeta, Choice
from daemon.model.messages import whole_characters
from tools.change import ChangeOutcome, apply_changes
from tools.diff.unified_diff import shown_name
from tools.files.regular_files import sha256
from tools.localization import t
from tools.paths import explain_os_error
from tools.ports import Editors, ToolResult
from tools.text.truncate import head, one_line
from tools.tool import FileChange, Permission, PermissionAsk, ToolContext, ToolError
from tools.writing import atomic, buffers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.copies.working_copy import BranchChange
    from daemon.loop.session import Session
    from tools.language_ports import Diagnostics

_MAX_SUMMARY = 600


class BranchPart(Struct, frozen=True):
    """A selected part of one branch: all of it, or a file or folder."""

    branch: BranchMeta
    path: str = ""
    """Relative, with ``/``; empty: all."""


class Selection(Struct, frozen=True):
    """The result of a selection."""

    told: ToolResult
    branches: tuple[BranchMeta, ...]
    written: tuple[str, ...]


async def select(
    session: Session, choice: Sequence[str], permission: Permission, tool_call_id: str
) -> ToolResult:
    """Apply the model's choice: branches (``A``) or parts of them (``A:src/a.py``, ``B:docs``).

    Raises ToolError, also where the choice is the user's, and PermissionDeniedError.
    """
    refuse_model(session, {part.branch.explore_start_id for part in parse_choice(session, choice)})
    return (await merge_selected(session, choice, permission, tool_call_id, session.diagnostics)).told


async def merge_selected(
    session: Session,
    choice: Sequence[str],
    permission: Permission,
    tool_call_id: str,
    diagnostics: Diagnostics,
    *,
    by: str = "",
) -> Selection:
    """Merge the selected parts and return the full result. ``by``: the user who chose; texts are then for users."""
    if session.foreign:
        raise ToolError(t(FOREIGN))
    parts = parse_choice(session, choice)
    picks, beside = await _picked(session, parts)
    branches = tuple({part.branch.id: part.branch for part in parts}.values())
    services = session.services
    plan, planned = await asyncio.to_thread(_planned, picks, services.workspace, services.editors)
    if plan.conflicts:
        kept = _shown_by if by else partial(_kept, session, branches=branches)
        words = await asyncio.to_thread(lambda: conflicts_text(plan, kept(picks), by_user=bool(by)))
        raise ToolError(words)
    head = _head(parts)
    note = "\n".join(filter(None, [head, remarks(plan), beside]))
    if not plan.files:
        if plan.left_out and not plan.same:
            raise ToolError(t("None of these files can be written.\n{plan}", plan=remarks(plan)))
        why = t("Nothing needed to be written.")
        if not picks:
            no_files = t("It changed no files: there is nothing to merge.")
            why = t("There is nothing else to merge.") if beside else no_files
        told = ToolResult(f"{note}\n{why}", title=t("{branches}: nothing to write", branches=_ids(branches)))
        # Results of an earlier merge count as used until it is undone, so this adds nothing.
        if fresh := [branch for branch in branches if not _is_used(session, branch)]:
            _choose(session, fresh, _choice(tool_call_id, by, f"{head} {why}", used=bool(picks)))
        return Selection(told, branches, ())

    def worded(ask: PermissionAsk) -> PermissionAsk:
        title = t("Merge branch {branches}: {title}", branches=_ids(branches), title=ask.title)
        return replace(ask, title=title, detail=ask.detail or head)

    context = _context(session, planned, permission, tool_call_id, diagnostics)
    outcome = await apply_changes(_changes(plan, services.workspace), context, worded)
    result = outcome.result(note)
    written = tuple(dict.fromkeys(applied.file.name for applied in outcome.files))
    _choose(session, branches, _choice(tool_call_id, by, _summary(head, written, outcome)))
    metadata = {
        **result.metadata,
        "selected": [branch.id for branch in branches],
        "left_out": [whole_characters(name) for name, _ in plan.left_out],
    }
    told = ToolResult(result.content, f"{_ids(branches)}: {result.title}", metadata)
    return Selection(told, branches, written)


def parse_choice(session: Session, choice: Sequence[str]) -> tuple[BranchPart, ...]:
    """Return the selected parts. Raises ToolError for an unknown branch, or a path outside the workspace."""
    parts: dict[tuple[str, str], BranchPart] = {}
    for item in choice:
        name, _, path = item.partition(":")
        branch = find_branch(session, name)
        path = _relative(path.strip(), session.services.workspace)
        parts.setdefault((branch.id, path), BranchPart(branch, path))
    if not parts:
        raise ToolError(
            t('Nothing is selected: name a branch ("A"), or files and folders of branches ("A:src/a.py").')
        )
    return tuple(parts.values())


def _relative(path: str, workspace: Path) -> str:
    root = f"{workspace.as_posix().rstrip('/')}/"
    # The folder itself means the whole branch, as "." does.
    inside = f"{path}/".removeprefix(root).removesuffix("/")
    words = [word for word in inside.split("/") if word not in ("", ".")]
    if inside.startswith("/") or ".." in words:
        raise ToolError(
            t(
                "{path} is not in the workspace. Name files as the branch does, relative to the workspace.",
                path=head(path, 200),
            )
        )
    return "/".join(words)


async def _picked(session: Session, parts: Sequence[BranchPart]) -> tuple[list[Pick], str]:
    """Return the changes to merge, and a note about ignored files that are left out because they were not named."""
    picks: dict[tuple[str, str], Pick] = {}
    beside: dict[tuple[str, str], BranchChange] = {}
    for part in parts:
        result = await stored_result(session, part.branch)
        changes = result.changes
        wanted = [change for change in changes if _is_in(change, part.path)]
        ignored = [change for change in result.ignored if _is_in(change, part.path)]
        if part.path and not wanted:
            wanted, ignored = ignored, []
        beside.update({(part.branch.id, change.name): change for change in ignored})
        if part.path and not wanted:
            there = names([change.name for change in changes]) or "nothing"
            raise ToolError(
                t(
                    "Branch {id} did not change {path}. It changed: {there}.",
                    id=part.branch.id,
                    path=head(part.path, 200),
                    there=there,
                )
            )
        for change in wanted:
            picks.setdefault((part.branch.id, change.name), Pick(part.branch.id, change))
    left = [change for key, change in beside.items() if key not in picks]
    named = (
        t("Not merged, because they are ignored: {left}. Select them by name.", left=short_names(left))
        if left
        else ""
    )
    return list(picks.values()), named


def _is_in(change: BranchChange, path: str) -> bool:
    """Return whether it is what ``path`` names, or below it."""
    return not path or change.name == path or change.name.startswith(f"{path}/")


def _state_now(workspace: Path, name: str, editors: Editors) -> FileVersion:
    path = workspace / name
    if Path(os.path.realpath(path.parent)) != path.parent:
        return FileVersion("other", why=t("a folder above it is a symbolic link"))
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        found = None
    except NotADirectoryError:
        above = next((folder for folder in path.parents if os.path.lexists(folder)), path)
        way = (above.relative_to(workspace).as_posix(),)
        return FileVersion("absent", why=t("what was a folder above it is now a file"), in_the_way=way)
    except OSError as error:
        return FileVersion("other", why=explain_os_error(error, t("it cannot be inspected")).rstrip("."))
    if found is not None and stat.S_ISLNK(found.st_mode):
        return FileVersion("link", os.fsencode(path.readlink()))
    if found is not None and stat.S_ISDIR(found.st_mode):
        return _folder_now(workspace, path)
    if found is not None and not stat.S_ISREG(found.st_mode):
        return FileVersion("other", why=t("there is now something that is not a regular file"))
    open_file = editors.opened(path)
    if open_file is not None and open_file.refusal:
        return FileVersion("other", why=open_file.refusal.rstrip("."))
    try:
        data = atomic.read_or_none(path)
        if open_file is not None and open_file.unsaved:
            data = buffers.as_saved(data, open_file.text)
    except (OSError, ToolError) as error:
        why = explain_os_error(error, t("it cannot be read")) if isinstance(error, OSError) else str(error)
        return FileVersion("other", why=why.rstrip("."))
    if data is None:
        return ABSENT
    bits = None if found is None else stat.S_IMODE(found.st_mode)
    executable = None if bits is None or os.name == "nt" else bool(bits & stat.S_IXUSR)
    return FileVersion("file", data, executable, mode=bits)


def _folder_now(workspace: Path, path: Path) -> FileVersion:
    inside: list[str] = []

    def failed(error: OSError) -> None:
        raise error

    try:
        for folder, folders, files in os.walk(path, onerror=failed):
            name = Path(folder).relative_to(workspace).as_posix()
            links = [one for one in folders if (Path(folder) / one).is_symlink()]
            inside += [f"{name}/{one}" for one in (*files, *links)]
            if not folders and not files:
                inside.append(f"{name}/")
    except OSError as error:
        return FileVersion(
            "other", why=explain_os_error(error, t("it is a folder that cannot be read")).rstrip(".")
        )
    return FileVersion("absent", why=t("there is now a folder with this name"), in_the_way=tuple(inside))


def _changes(plan: MergePlan, workspace: Path) -> list[FileChange]:
    return [
        FileChange(
            workspace / file.name,
            file.before.content if file.before.kind == "file" else None,
            file.after.content if file.after.kind == "file" else None,
            file.mode,
        )
        for file in plan.files
    ]


def _planned(picks: Sequence[Pick], workspace: Path, editors: Editors) -> tuple[MergePlan, dict[Path, str]]:
    """Return the plan, and the hash of each file that it is made on, as the user sees it. Blocking."""
    current = {name: _state_now(workspace, name, editors) for name in {pick.change.name for pick in picks}}
    plan = plan_merge(picks, current)
    files = (file for file in plan.files if file.before.kind == "file")
    return plan, {workspace / file.name: sha256(file.before.content) for file in files}


def _context(
    session: Session,
    planned: dict[Path, str],
    permission: Permission,
    tool_call_id: str,
    diagnostics: Diagnostics,
) -> ToolContext:
    # What it was planned on counts as read; the model has yet to read the merged result.
    files = SessionFiles({str(path): sha for path, sha in planned.items()}, session.services.editors)
    context = explore_context(session, tool_call_id)
    return replace(context, permission=permission, files=files, diagnostics=diagnostics)


def _shown_by(picks: Sequence[Pick]) -> dict[str, list[str]]:
    """Return the commands that show the branches' versions to a user, by name of the file."""
    found: dict[str, list[str]] = {}
    for pick in picks:
        name = shlex.quote(shown_name(pick.change.name))
        found.setdefault(pick.change.name, []).append(f"goalwright explore diff {pick.branch} {name}")
    return found


def _kept(session: Session, picks: Sequence[Pick], branches: Sequence[BranchMeta]) -> dict[str, list[str]]:
    """Return the paths of the branches' versions, by name of the file: the model may read them."""
    folders = {branch.id: result_folder(session, branch) / "contents" for branch in branches}
    workspace = session.services.workspace
    found: dict[str, list[str]] = {}
    for pick in picks:
        if pick.change.after is None:
            continue
        path = Blobs(folders[pick.branch]).path(sha256(pick.change.after))
        name = path.relative_to(workspace) if path.is_relative_to(workspace) else path
        found.setdefault(pick.change.name, []).append(
            t("{name} (branch {branch})", name=name.as_posix(), branch=pick.branch)
        )
    return found


# -- effects on the plan --


def _choose(session: Session, branches: Sequence[BranchMeta], choice: Choice) -> None:
    """Record the choice in each exploration, and end its goal of the choice."""
    for start_id in dict.fromkeys(branch.explore_start_id for branch in branches):
        ids = tuple(branch.id for branch in branches if branch.explore_start_id == start_id)
        note_choice(session, start_id, choice.model_copy(update={"branch_ids": ids}))


def _is_used(session: Session, branch: BranchMeta) -> bool:
    return branch.id in (session.state.children.used(branch.explore_start_id) or "").split(", ")


def _choice(tool_call_id: str, by: str, summary: str, *, used: bool = True) -> Choice:
    return Choice(branch_ids=(), tool_call_id=tool_call_id, summary=summary, used=used, by=by)


def _head(parts: Sequence[BranchPart]) -> str:
    words: dict[str, list[str]] = {}
    described = {part.branch.id: part.branch.description for part in parts}
    for part in parts:
        words.setdefault(part.branch.id, []).append(part.path)
    said = [
        t("branch {branch} ({described})", branch=branch, described=one_line(described[branch], 80))
        if "" in paths
        else t(
            "{paths} of branch {branch} ({described})",
            paths=names(paths),
            branch=branch,
            described=one_line(described[branch], 80),
        )
        for branch, paths in words.items()
    ]
    return t("Selected: {said}.", said=", ".join(said))


def _ids(branches: Sequence[BranchMeta]) -> str:
    return ", ".join(branch.id for branch in branches)


def _summary(head: str, written: Sequence[str], outcome: ChangeOutcome) -> str:
    altered = t(" The user edited it before accepting.") if outcome.altered else ""
    return one_line(
        t("{head} Written: {written}.{altered}", head=head, written=names(written), altered=altered),
        _MAX_SUMMARY,
    )
