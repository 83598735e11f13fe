"""The only way in which the product writes files of the workspace.

plan (pure) → checks → rules and the user → checks again → version kept → atomic write → diagnostics of language
servers. Nothing touches the disk before approval, not even mkdir. The file on disk is compared with what the model has
seen when planning, after approval and when writing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct

from tools.access import suggestions
from tools.diagnostics_text import describe, problems_metadata
from tools.diff.unified_diff import limited, shown_name, without_head
from tools.files.regular_files import sha256
from tools.localization import noted, t
from tools.paths import Target, explain_os_error, folder_patterns, rule_target
from tools.process.background import finish
from tools.tool import (
    Counts,
    DiagnosticsReport,
    DiagnosticsRun,
    Diff,
    FileChange,
    Files,
    PermissionAsk,
    ProposedFile,
    ToolContext,
    ToolError,
    ToolResult,
    VersionKeeper,
)
from tools.writing import atomic, buffers, disk
from tools.writing.messages import not_taken_back, saved_otherwise, why_not_written
from tools.writing.proposal import alterations, propose
from tools.writing.transaction import IncompleteRollbackError, RollbackFailure, keep_left, write_through

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

MadeT = TypeVar("MadeT")

_log = logging.getLogger(__name__)

BASELINE_TIMEOUT_S = 10.0
"""Seconds for a baseline; if it takes longer it is abandoned: the verdict is then "no fresh answer"."""
_SMALL = 16_000
"""Bytes of a plan that is compared on the event loop."""
_SHORT_DIFF_LINES = 24
_ALTERED_DIFF_LINES = 200
_MAX_NAMED = 60
NOT_WRITTEN = "Stopped by the user before this change was approved: nothing was written."

# Locks disappear with their last user, so that the table does not grow. One daemon per workspace is the only writer.
_locks: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()


class AppliedFile(Struct, frozen=True):
    """One written file. ``sha256`` is None when it was deleted, or the model has not seen its content; ``version`` is
    its id in the file history."""

    file: ProposedFile
    change: FileChange
    sha256: str | None
    version: str

    @property
    def is_source(self) -> bool:
        """It is the old file of a move: part of the other file's story."""
        return self.change is self.file.source


class ChangeOutcome(Struct, frozen=True):
    """The result of a change: the written files, and diagnostics of language servers."""

    files: tuple[AppliedFile, ...]
    report: DiagnosticsReport
    workspace: Path
    altered: tuple[tuple[str, Diff | None], ...] = ()
    """The user's alterations of the proposal before accepting it (see tools.writing.proposal.alterations)."""
    saved: tuple[str, ...] = ()
    """Changes that editors made while saving files, as text for the model."""

    def result(self, note: str = "") -> ToolResult:
        """Return the tool result: "Edit applied" always first, then ``note``, a short diff, and the diagnostics."""
        shown = self._shown()
        lines = [_applied_line(file) for file in shown[:_MAX_NAMED]]
        if len(shown) > _MAX_NAMED:
            lines.append(f"… and {len(shown) - _MAX_NAMED} more files.")
        if note:
            lines.append(note)
        if len(shown) == 1 and (body := _short_body(shown[0])):
            lines.append(body)
        lines += _altered_lines(self.altered)
        lines += self.saved
        if said := describe(self.report, self.workspace):
            lines.append(said)
        return ToolResult("\n".join(lines), title=self._title(), metadata=self._metadata())

    def _shown(self) -> list[ProposedFile]:
        return [applied.file for applied in self.files if not applied.is_source]

    def _title(self) -> str:
        shown = self._shown()
        more = f" and {len(shown) - 1} more" if len(shown) > 1 else ""
        added, removed = _counts(shown)
        altered = " (altered by you)" if self.altered else ""
        return f"{shown_name(shown[0].name)}{more} +{added} -{removed}{altered}"

    def _metadata(self) -> dict[str, Any]:
        shown = self._shown()
        added, removed = _counts(shown)
        first = next(applied for applied in self.files if not applied.is_source)
        return {
            "path": shown[0].name,
            "diff": limited("".join(file.diff.text for file in shown)),
            "added": added,
            "removed": removed,
            "sha256": first.sha256,
            "altered": bool(self.altered),
            "verdict": self.report.verdict,
            "diagnostics": problems_metadata(self.report, self.workspace),
            "files": [_file_metadata(applied) for applied in self.files],
        }


def _counts(files: Sequence[ProposedFile]) -> tuple[int, int]:
    return sum(file.diff.added for file in files), sum(file.diff.removed for file in files)


def _file_metadata(applied: AppliedFile) -> dict[str, Any]:
    source = applied.is_source
    return {
        "path": applied.file.source_name if source else applied.file.name,
        "kind": applied.change.kind,
        "added": 0 if source else applied.file.diff.added,
        "removed": 0 if source else applied.file.diff.removed,
        "sha256": applied.sha256,
        "version": applied.version,
    }


def _short_body(file: ProposedFile) -> str:
    """Return the diff itself, when it is short, to show the model the new content."""
    if file.change.kind != "update":
        return ""
    body = without_head(file.diff.text)
    return body.rstrip("\n") if body.count("\n") < _SHORT_DIFF_LINES else ""


def _altered_lines(altered: Sequence[tuple[str, Diff | None]]) -> list[str]:
    if not altered:
        return []
    lines = ["The user edited your change before accepting it; the text above is what was written."]
    for name, diff in altered:
        if diff is None:
            lines.append(f"Left out by the user, unchanged on disk: {shown_name(name)}")
        else:
            body = without_head(limited(diff.text, max_lines=_ALTERED_DIFF_LINES))
            lines.append(
                f"{shown_name(name)}, - as you proposed it, + as it was written:\n{body}".rstrip("\n")
            )
    return lines


async def base_of(target: Target, ctx: ToolContext) -> bytes | None:
    """Return the bytes a change of ``target`` is to be planned on; None when the file does not exist.

    Of a file with unsaved changes in the editor these are the bytes it would be saved with. Raises ToolError when
    the model must not change the file now: it never read it, it changed since, or it cannot be read.
    """
    return (await on_base(target, ctx, lambda base: None))[0]


async def on_base(
    target: Target, ctx: ToolContext, make: Callable[[bytes | None], MadeT]
) -> tuple[bytes | None, MadeT]:
    """Return the result of ``base_of``, and that of ``make`` (pure, may be slow) for it. Raises ToolError like both."""
    seen = ctx.files.last_read(target.path)
    if seen is None and ctx.permission.decide("edit", target.rule) == "deny":
        # Do not read a file that must not be changed: the rejection says what to do instead.
        await ctx.permission.ask(
            PermissionAsk("edit", (target.rule,), t("Edit {rule}", rule=shown_name(target.rule)))
        )

    def work() -> tuple[bytes | None, MadeT]:
        open_file = ctx.files.editors.opened(target.path)
        if open_file is not None and open_file.refusal:
            raise ToolError(open_file.refusal)
        unsaved = open_file.text if open_file is not None and open_file.unsaved else None
        try:
            on_disk = unsaved is None and target.path.is_file()
            if on_disk and (seen is None or target.path.stat().st_size > disk.MAX_READ):
                _check_base(target.rule, "", seen)  # unread, because it may be larger than the memory
            data = atomic.read_or_none(target.path)
        except OSError as error:
            raise ToolError(explain_os_error(error, f"{target.rule} cannot be changed")) from error
        if unsaved is not None:
            data = buffers.as_saved(data, unsaved)
        where = "in the editor, unsaved, " if unsaved is not None else ""
        _check_base(target.rule, _digest(data), seen, where)
        return data, make(data)

    await ctx.files.editors.settle(target.path)
    # Do everything in one thread call, because each call costs as much as the work itself.
    return await asyncio.to_thread(work)


def _digest(data: bytes | None) -> str | None:
    return None if data is None else sha256(data)


def _check_base(name: str, digest: str | None, seen: str | None, where: str = "") -> None:
    if digest is None:
        return
    if seen is None:
        raise ToolError(
            f"{name} exists and you have not read it in this session. Read it first, then change it.",
            told=t("The agent had not read the file."),
        )
    if seen != digest:
        message = f"{name} has changed {where}since you read it. Nothing was written: read it again, then change it."
        raise ToolError(message, told=t("The file has changed since the agent read it."))


async def apply_changes(
    plan: Sequence[FileChange],
    ctx: ToolContext,
    worded: Callable[[PermissionAsk], PermissionAsk] = lambda ask: ask,
) -> ChangeOutcome:
    """Ask for the changes, write all of them or none, and report new diagnostics.

    The user's alterations before accepting are written, and the outcome reports them. Raises ToolError when nothing was
    written for a reason the model can act on, PermissionDeniedError when the answer was no. A cancellation while files
    are being written takes effect when they all are. ``worded``: returns the question in the caller's words.
    """
    names = {change.path: rule_target(change.path, ctx.workspace) for change in plan}
    _check_plan(plan, names)
    bases, proposal = await _aside(
        plan, lambda: ([_digest(change.before) for change in plan], propose(plan, names))
    )
    for change, digest in zip(plan, bases, strict=True):
        _check_base(names[change.path], digest, ctx.files.last_read(change.path))
    baseline = asyncio.create_task(_begin(ctx, [change.path for change in plan]))
    try:
        approval = await ctx.permission.ask(worded(_question(proposal, names.values())))
        run = await baseline
    except BaseException as error:
        baseline.cancel()
        if await finish(baseline) or isinstance(error, asyncio.CancelledError):
            ctx.on_stop(ToolResult(NOT_WRITTEN, metadata={"not_run": True, **_proposed(proposal)}))
            raise asyncio.CancelledError from error
        raise
    accepted, altered = proposal, ()
    if approval.changes is not None:
        plan = approval.changes
        _check_plan(plan, names)
        accepted = await asyncio.to_thread(propose, plan, names)
        altered = tuple(await asyncio.to_thread(alterations, proposal, accepted))
    counts = {file.change.path: (file.diff.added, file.diff.removed) for file in accepted}
    written = await write_approved(plan, ctx, counts, None if run is None else run.written)
    report = DiagnosticsReport("no_fresh_answer") if run is None else await run.report()
    by_path = dict(zip((change.path for change in plan), written.versions, strict=True))
    files = tuple(
        AppliedFile(file, change, written.digests.get(change.path), by_path[change.path])
        for file in accepted
        for change in file.changes
    )
    saved = ()
    if written.formatted:
        saved = await asyncio.to_thread(lambda: tuple(saved_otherwise(plan, written.formatted, names)))
    return ChangeOutcome(files, report, ctx.workspace, altered, saved)


async def _aside(plan: Sequence[FileChange], work: Callable[[], MadeT]) -> MadeT:
    """Run ``work`` in a thread, because hashing and comparing large files takes milliseconds; else the way there and
    back takes longer than the work."""
    small = sum(len(change.before or b"") + len(change.after or b"") for change in plan) <= _SMALL
    return work() if small else await asyncio.to_thread(work)


class Writing(Protocol):
    """The part of a ToolContext that a write needs: so an undo can write too, without being a tool."""

    @property
    def workspace(self) -> Path: ...
    @property
    def tool_call_id(self) -> str: ...
    @property
    def files(self) -> Files: ...
    @property
    def history(self) -> VersionKeeper: ...
    @property
    def journal(self) -> Path: ...


class Written(Struct, frozen=True):
    """The result of a write."""

    versions: list[str]
    """Ids of the versions kept, in the order of the plan."""
    digests: dict[Path, str | None]
    """Each file's new hash; None: deleted. Formatted files are left out, because the model has not seen them."""
    formatted: Mapping[Path, bytes | None]
    """Files that an editor saved with another content than approved."""


async def write_approved(
    plan: Sequence[FileChange],
    ctx: Writing,
    counts: Counts | None = None,
    done: Callable[[], None] | None = None,
) -> Written:
    """Write all of the approved changes or none, on exactly the contents they were planned on.

    Raises ToolError when nothing was written. A cancellation takes effect
    when everything is written, or undone. ``done``: called when everything is written, canceled or not.
    """
    names = {change.path: rule_target(change.path, ctx.workspace) for change in plan}
    commit = asyncio.ensure_future(_commit(plan, ctx, names, counts, done))
    # Never leave half a change behind: the write is finished (or undone) first, however often it is canceled.
    if await finish(commit):
        if not commit.cancelled() and (error := commit.exception()) is not None:
            _log.info("change not written, and canceled: %s", error)
        raise asyncio.CancelledError
    return commit.result()


def _check_plan(plan: Sequence[FileChange], names: Mapping[Path, str]) -> None:
    if not plan:
        raise ToolError("There is nothing to change.")
    if len({change.path for change in plan}) != len(plan):
        raise ToolError("The same file is changed twice in one call.")
    for change in plan:
        if change.before == change.after and change.mode is None:
            raise ToolError(
                f"{names[change.path]} already has this content: nothing to change.",
                told=t("The file already has the agent's change."),
            )


def _proposed(proposal: Sequence[ProposedFile]) -> dict[str, object]:
    """Metadata of a change that was proposed and not written."""
    added, removed = _counts(proposal)
    diff = "\n".join(limited(file.diff.text) for file in proposal)
    return {"diff": diff, "added": added, "removed": removed}


def _question(proposal: Sequence[ProposedFile], targets: Iterable[str]) -> PermissionAsk:
    added, removed = _counts(proposal)
    first, targets = proposal[0], tuple(targets)
    kinds = {
        "create": noted("Create {name}"),
        "update": noted("Edit {name}"),
        "delete": noted("Delete {name}"),
    }
    title = t("Change {count} files", count=len(proposal))
    if len(proposal) == 1 and first.source is not None:
        source = shown_name(first.source_name)
        title = t("Move {source} to {name}", source=source, name=shown_name(first.name))
    elif len(proposal) == 1:
        title = t(kinds[first.change.kind], name=shown_name(first.name))
    return PermissionAsk(
        permission="edit",
        targets=targets,
        title=f"{title} (+{added} -{removed})",
        suggestions=suggestions("edit", folder_patterns(targets)),
        proposal=tuple(proposal),
    )


async def _begin(ctx: ToolContext, paths: Sequence[Path]) -> DiagnosticsRun | None:
    """Return the baseline, or None: trouble with a language server must not stop an edit."""
    try:
        async with asyncio.timeout(BASELINE_TIMEOUT_S):
            return await ctx.diagnostics.begin(paths)
    except TimeoutError:
        _log.warning("diagnostics baseline took longer than %s s", BASELINE_TIMEOUT_S)
    except Exception:
        _log.exception("diagnostics baseline failed")
    return None


async def _commit(
    plan: Sequence[FileChange],
    ctx: Writing,
    names: Mapping[Path, str],
    counts: Counts | None,
    done: Callable[[], None] | None,
) -> Written:
    """Commit the changes, from the check after approval to the new hashes."""
    async with contextlib.AsyncExitStack() as stack:
        for path in sorted(names):
            await stack.enter_async_context(_locks.setdefault(path, asyncio.Lock()))
        if not ctx.workspace.is_dir():
            raise ToolError(f"Nothing was written: the workspace {ctx.workspace} was deleted or renamed.")
        kept, versions, by_path = ctx.history, list[str](), dict[Path, str]()
        try:
            if any(ctx.files.editors.opened(change.path) is not None for change in plan):
                parts = await asyncio.to_thread(buffers.split, plan, names, ctx.files)
            else:
                parts = buffers.Parts(plan)
            versions += await kept.keep(plan, ctx.tool_call_id, counts)
            by_path |= zip((change.path for change in plan), versions, strict=True)

            async def late(left: RollbackFailure) -> None:
                await keep_left(kept, by_path, [left])

            parts = await write_through(parts, ctx.files, ctx.journal, late)
        except IncompleteRollbackError as half:
            await keep_left(kept, by_path, half.left)
            why = why_not_written(half.cause, plan, names)[0]
            raise ToolError(not_taken_back(why, half.left, names)) from half
        except Exception as error:
            if not isinstance(error, atomic.NotUndoneError):  # then a part of it is on disk
                kept.failed(versions)
            if isinstance(error, (atomic.ChangedOnDiskError, OSError)):
                raise ToolError(" ".join(why_not_written(error, plan, names))) from error
            raise
        formatted = await buffers.settled(parts)
        if settled := {path: data for path, data in formatted.items() if data is not None}:
            await kept.settle(versions, settled)
        kept.written(versions)
        if done is not None:
            done()
        digests = await _aside(
            plan,
            lambda: {change.path: _digest(change.after) for change in plan if change.path not in formatted},
        )
        for path, digest in digests.items():
            if digest is not None:
                ctx.files.note_read(path, digest)
        return Written(versions, digests, formatted)


def _applied_line(file: ProposedFile) -> str:
    kind = {"create": ", new file", "update": "", "delete": ", deleted"}[file.change.kind]
    if file.source is not None:
        kind = f", moved from {shown_name(file.source_name)}"
    elif file.change.mode is not None:
        kind += f", mode {file.change.mode:o}"
    return f"Edit applied: {shown_name(file.name)} (+{file.diff.added} -{file.diff.removed}{kind})"
