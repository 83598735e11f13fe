"""Write a rename that a language server computed, through the one way in which files are written.

The model may have read none of the files. That is safe here: the server worked on a text, and only if that is the
current text (on disk, or unsaved in an editor) is it changed; otherwise the whole rename is rejected.
"""

from __future__ import annotations

import asyncio
import re
import stat
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tools.change import apply_changes
from tools.diff.unified_diff import hunk_spans, limited, shown_name, without_head
from tools.files.regular_files import sha256
from tools.paths import explain_os_error, may_read, rule_target
from tools.search import ripgrep
from tools.search.unsaved import overlaid
from tools.text.decoding import decode, splice_bytes
from tools.text.lines import lsp_lines
from tools.tool import FileChange, Files, ToolContext, ToolError, ToolResult
from tools.writing import atomic, buffers
from tools.writing.proposal import propose

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tools.language_ports import Position, RenamedText
    from tools.ports import Editors

_PREVIEW_LINES = 200
_PREVIEW_CHARACTERS = 16_000
_FILES_NAMED = 8
_NAME = re.compile(r"[\w$]+")


class _Computed(Struct, frozen=True):
    """The files port for changes that were computed on the current text: their bases count as read.

    Files that the model has not read stay unread after the change.
    """

    files: Files
    bases: Mapping[Path, str]

    @property
    def editors(self) -> Editors:
        return self.files.editors

    def note_read(self, path: Path, sha256: str) -> None:
        base = self.bases.get(path)
        if base is None or self.files.last_read(path) == base:
            self.files.note_read(path, sha256)

    def last_read(self, path: Path) -> str | None:
        return self.bases.get(path) or self.files.last_read(path)


async def plan_rename(files: Sequence[RenamedText], ctx: ToolContext) -> list[FileChange]:
    """Return the changes of a rename. Raises ToolError, which refuses the whole, when one of them cannot be made."""
    unsaved = {
        file.moved_from or file.path: ctx.files.editors.unsaved(file.moved_from or file.path)
        for file in files
    }
    return await asyncio.to_thread(
        lambda: [
            change for file in files for change in _changes(file, unsaved[file.moved_from or file.path], ctx)
        ]
    )


async def apply_rename(plan: Sequence[FileChange], ctx: ToolContext) -> ToolResult:
    """Ask for the changes and write all of them or none. Raises like ``apply_changes``."""
    bases = {change.path: sha256(change.before) for change in plan if change.before is not None}
    outcome = await apply_changes(plan, replace(ctx, files=_Computed(ctx.files, bases)))
    result = outcome.result()
    # A recorded hash means that the model has seen the file.
    read = [ctx.files.last_read(applied.change.path) == applied.sha256 for applied in outcome.files]
    files = [
        entry if seen else {**entry, "sha256": None}
        for entry, seen in zip(result.metadata["files"], read, strict=True)
    ]
    return replace(result, metadata={**result.metadata, "files": files, "sha256": None})


def name_at(text: str, at: Position) -> str:
    """Return the name at a position; empty for none."""
    lines = lsp_lines(text)
    line = lines[at.line - 1] if at.line <= len(lines) else ""
    return next((found[0] for found in _NAME.finditer(line) if found.start() < at.column <= found.end()), "")


async def still_named(name: str, ctx: ToolContext) -> str:
    """Return where the old name is left after a rename, as text for the model; empty for nowhere.

    A language server renames only what it knows to be the symbol, and only in the files of its project: texts, other
    languages and often the tests are not among them, so that "clean" would mislead. Never raises ToolError.
    """
    if not name or ctx.permission.decide("grep", name) == "deny":
        return ""
    pattern = rf"\b{re.escape(name)}\b" if re.fullmatch(r"\w+", name) else re.escape(name)
    try:
        found = await ripgrep.find_lines(ctx.workspace, pattern, None, ripgrep.ripgrep(ctx.workspace))
        found = await overlaid(found, ctx.workspace, pattern, None, ctx, None)
    except ToolError as error:
        return f"It is unknown whether the old name still occurs anywhere: {error}"
    return await asyncio.to_thread(_named_in, name, pattern, found, ctx)


def _named_in(name: str, pattern: str, found: ripgrep.SearchResult, ctx: ToolContext) -> str:
    files: dict[str, list[int]] = {}
    for path, number, text in found.lines:
        files.setdefault(path, []).extend([number] * max(1, len(re.findall(pattern, text))))
    readable = [path for path in sorted(files) if may_read(ctx.workspace / path, ctx) == "allow"]
    if not readable:
        return ""
    shown = [_places(path, files[path]) for path in readable[:_FILES_NAMED]]
    more = len(readable) - len(shown)
    listed = ", ".join(shown) + (f" and in {more} more file{'s' if more > 1 else ''}" if more else "")
    cut = " The search was stopped early: there may be more." if found.cut else ""
    return (
        f"The name {name} still occurs in {listed}.{cut} The language server did not recognize these "
        "places as the same symbol, or does not know the files: change those that are meant."
    )


def _places(path: str, numbers: Sequence[int]) -> str:
    several = f" ({len(numbers)} places)" if len(numbers) > 1 else ""
    return f"{shown_name(path)}:{numbers[0]}{several}"


def preview(plan: Sequence[FileChange], ctx: ToolContext) -> str:
    """Return the diffs of a plan, bounded; blocking."""
    names = {change.path: rule_target(change.path, ctx.workspace) for change in plan}
    parts: list[str] = []
    for file in propose(plan, names):
        moved = f", moved from {shown_name(file.source_name)}" if file.source is not None else ""
        parts.append(f"{shown_name(file.name)} (+{file.diff.added} -{file.diff.removed}{moved})")
        if any(may_read(change.path, ctx) != "allow" for change in file.changes):
            parts.append("(reading it needs approval)")
        elif body := without_head(file.diff.text).rstrip("\n"):
            parts.append(body)
    return limited("\n".join(parts), max_lines=_PREVIEW_LINES, max_bytes=_PREVIEW_CHARACTERS)


def _changes(file: RenamedText, unsaved: str | None, ctx: ToolContext) -> list[FileChange]:
    source = file.moved_from or file.path
    for path in dict.fromkeys((source, file.path)):
        name = rule_target(path, ctx.workspace)
        if not path.is_relative_to(ctx.workspace):
            raise _refused(f"{name}, which is outside of the workspace")
        if may_read(path, ctx) == "deny":
            raise _refused(f"{name}, which must not be read")
    name = rule_target(source, ctx.workspace)
    try:
        data = atomic.read_or_none(source)
        mode = stat.S_IMODE(source.stat().st_mode) if file.moved_from is not None else None
    except OSError as error:
        raise ToolError(explain_os_error(error, f"Nothing was renamed. {name} cannot be changed")) from error
    if data is None:
        raise _refused(f"{name}, which does not exist")
    if unsaved is not None:
        data = buffers.as_saved(data, unsaved)
    decoded = decode(data)
    if decoded.text != file.before:
        where = "its unsaved text in the editor" if unsaved is not None else "its text on disk"
        raise _refused(f"{name}, but what the language server knows of it is not {where}")
    spans = [
        (start, end, file.after[first:last])
        for start, end, first, last in hunk_spans(file.before, file.after)
    ]
    after = splice_bytes(data, decoded, spans)
    if file.moved_from is None:
        return [FileChange(source, data, after)]
    return [FileChange(source, data, None), FileChange(file.path, None, after, mode, source)]


def _refused(what: str) -> ToolError:
    return ToolError(f"The rename would also change {what}. Nothing was changed.")
