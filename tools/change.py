"""The only way in which the product writes files of the workspace.

plan (pure) → checks → rules and the person → checks again → version kept → atomic write → what the language
servers say. Nothing touches the disk before approval, not even mkdir; what is on disk is compared with what
the model has seen at plan, after approval and at write (source: architecture.md, "How a change flows").
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from tools import atomic
from tools.base import (
    ChangeKind,
    DiagnosticsReport,
    DiagnosticsRun,
    FileChange,
    PermissionAsk,
    ToolContext,
    ToolError,
    ToolResult,
)
from tools.diagnostics_text import describe, problems_metadata
from tools.diff import Diff, limited, of_change, shown_name
from tools.paths import Target, explain_os_error, folder_patterns, rule_target

_log = logging.getLogger(__name__)

BASELINE_TIMEOUT_S = 10.0
"""A baseline that takes longer than this is given up: the verdict is then "no fresh answer"."""
_SHORT_DIFF_LINES = 24

# Locks die with their last user, so that the table does not grow. One daemon a workspace: no other writer.
_locks: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class AppliedFile:
    """One written file. ``sha256`` is None when it was deleted; ``version`` is its id in the file history."""

    path: Path
    target: str
    kind: ChangeKind
    diff: Diff
    sha256: str | None
    version: str


@dataclass(frozen=True, slots=True)
class ChangeOutcome:
    """What was written, and what the language servers say about it."""

    files: tuple[AppliedFile, ...]
    report: DiagnosticsReport
    workspace: Path

    def result(self, note: str = "") -> ToolResult:
        """The tool result: "Edit applied" always first, then ``note``, a short diff, and the diagnostics."""
        lines = [_applied_line(file) for file in self.files]
        if note:
            lines.append(note)
        if len(self.files) == 1:
            body = self.files[0].diff.text.split("\n")[2:]
            if self.files[0].kind == "update" and len(body) <= _SHORT_DIFF_LINES:
                lines.append("\n".join(body).rstrip("\n"))
        if said := describe(self.report, self.workspace):
            lines.append(said)
        return ToolResult("\n".join(lines), title=self._title(), metadata=self._metadata())

    def _title(self) -> str:
        first = self.files[0]
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        added, removed = self._counts()
        return f"{shown_name(first.target)}{more} +{added} -{removed}"

    def _counts(self) -> tuple[int, int]:
        return sum(f.diff.added for f in self.files), sum(f.diff.removed for f in self.files)

    def _metadata(self) -> dict[str, Any]:
        added, removed = self._counts()
        return {
            "path": self.files[0].target,
            "diff": limited("".join(file.diff.text for file in self.files)),
            "added": added,
            "removed": removed,
            "sha256": self.files[0].sha256,
            "verdict": self.report.verdict,
            "diagnostics": problems_metadata(self.report, self.workspace),
            "files": [
                {
                    "path": file.target,
                    "kind": file.kind,
                    "added": file.diff.added,
                    "removed": file.diff.removed,
                    "sha256": file.sha256,
                    "version": file.version,
                }
                for file in self.files
            ],
        }


def sha256(data: bytes) -> str:
    """Hash of a file's content in hex, as ``Files.note_read`` wants it."""
    return hashlib.sha256(data).hexdigest()


async def base_of(target: Target, ctx: ToolContext) -> bytes | None:
    """The bytes a change of ``target`` is to be planned on; None when the file does not exist.

    Raises ToolError when the model must not change the file now: it never read it, it changed since, it has
    unsaved changes in the editor, or it cannot be read.
    """
    try:
        data = await asyncio.to_thread(atomic.read_or_none, target.path)
    except OSError as error:
        raise ToolError(explain_os_error(error, f"{target.rule} cannot be changed")) from error
    _check_base(target.path, target.rule, data, ctx)
    return data


def _check_unsaved(path: Path, name: str, ctx: ToolContext) -> None:
    if ctx.files.unsaved(path) is not None:
        message = (
            f"{name} has unsaved changes in the editor. Nothing was changed: "
            "ask the person to save or discard them, then read the file again."
        )
        raise ToolError(message)


def _check_base(path: Path, name: str, data: bytes | None, ctx: ToolContext) -> None:
    _check_unsaved(path, name, ctx)
    if data is None:
        return
    seen = ctx.files.last_read(path)
    if seen is None:
        raise ToolError(
            f"{name} exists and you have not read it in this session. Read it first, then change it."
        )
    if seen != sha256(data):
        message = f"{name} has changed since you read it. Nothing was written: read it again, then change it."
        raise ToolError(message)


async def apply_changes(plan: Sequence[FileChange], ctx: ToolContext) -> ChangeOutcome:
    """Ask for the changes, write all of them or none, and report what is new among the diagnostics.

    Raises ToolError when nothing was written for a reason the model can act on, PermissionDenied when the
    answer was no. A cancellation while files are being written takes effect when they all are.
    """
    names = {change.path: rule_target(change.path, ctx.workspace) for change in plan}
    _check_plan(plan, names, ctx)
    diffs = await asyncio.to_thread(lambda: [of_change(change, names[change.path]) for change in plan])
    baseline = asyncio.create_task(_begin(ctx, [change.path for change in plan]))
    try:
        await ctx.permission.ask(_question(plan, diffs, names))
        run = await baseline
    except BaseException:
        baseline.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await baseline
        raise
    commit = asyncio.ensure_future(_commit(plan, ctx, names))
    try:
        versions = await asyncio.shield(commit)
    except asyncio.CancelledError:
        # Never leave half a change behind: the write is finished (or undone) first, however often canceled.
        while not commit.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({commit})
        if not commit.cancelled() and (error := commit.exception()) is not None:
            _log.info("change not written, and canceled: %s", error)
        raise
    report = DiagnosticsReport("no_fresh_answer") if run is None else await run.report()
    files = tuple(
        AppliedFile(
            change.path,
            names[change.path],
            change.kind,
            diff,
            None if change.after is None else sha256(change.after),
            version,
        )
        for change, diff, version in zip(plan, diffs, versions, strict=True)
    )
    return ChangeOutcome(files, report, ctx.workspace)


def _check_plan(plan: Sequence[FileChange], names: dict[Path, str], ctx: ToolContext) -> None:
    if not plan:
        raise ToolError("There is nothing to change.")
    if len(names) != len(plan):
        raise ToolError("The same file is changed twice in one go.")
    for change in plan:
        if change.before == change.after:
            raise ToolError(f"{names[change.path]} would stay as it is: nothing to change.")
        _check_base(change.path, names[change.path], change.before, ctx)


def _question(plan: Sequence[FileChange], diffs: Sequence[Diff], names: dict[Path, str]) -> PermissionAsk:
    added, removed = sum(diff.added for diff in diffs), sum(diff.removed for diff in diffs)
    first = plan[0]
    verb = (
        {"create": "Create", "update": "Edit", "delete": "Delete"}[first.kind] if len(plan) == 1 else "Change"
    )
    what = shown_name(names[first.path]) if len(plan) == 1 else f"{len(plan)} files"
    return PermissionAsk(
        permission="edit",
        targets=tuple(names.values()),
        title=f"{verb} {what} (+{added} -{removed})",
        suggestions=folder_patterns(names.values()),
        changes=tuple(plan),
    )


async def _begin(ctx: ToolContext, paths: Sequence[Path]) -> DiagnosticsRun | None:
    """The baseline, or None: trouble with a language server must not stop an edit."""
    try:
        return await asyncio.wait_for(ctx.diagnostics.begin(paths), BASELINE_TIMEOUT_S)
    except TimeoutError:
        _log.warning("diagnostics baseline took longer than %s s", BASELINE_TIMEOUT_S)
    except Exception:
        _log.exception("diagnostics baseline failed")
    return None


async def _commit(plan: Sequence[FileChange], ctx: ToolContext, names: dict[Path, str]) -> list[str]:
    """From the check after approval to the new hashes. Returns the ids of the versions kept."""
    async with contextlib.AsyncExitStack() as stack:
        for path in sorted(names):
            await stack.enter_async_context(_locks.setdefault(path, asyncio.Lock()))
        try:
            for change in plan:
                _check_unsaved(change.path, names[change.path], ctx)
            await asyncio.to_thread(atomic.verify, plan)
            versions = list(await ctx.history.keep(plan, ctx.tool_call_id))
            await asyncio.to_thread(atomic.write_all, plan)
            ctx.history.written(versions)
        except atomic.Moved as error:
            name = names[error.path]
            message = (
                f"{name} {error.what} while the approval was awaited. Nothing was written: "
                "read the file again and redo the change on what it says now."
            )
            raise ToolError(message) from error
        except OSError as error:
            what = names[plan[0].path] if len(plan) == 1 else "The files"
            message = explain_os_error(error, f"{what} could not be written")
            raise ToolError(f"{message} Nothing was changed.") from error
        for change in plan:
            if change.after is not None:
                ctx.files.note_read(change.path, sha256(change.after))
        return versions


def _applied_line(file: AppliedFile) -> str:
    kind = {"create": ", new file", "update": "", "delete": ", deleted"}[file.kind]
    return f"Edit applied: {shown_name(file.target)} (+{file.diff.added} -{file.diff.removed}{kind})"
