"""The ``grep`` tool: lines by regular expression."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pydantic import Field

from tools.glob import newest_first
from tools.localization import n, t
from tools.paths import ask_outside, ask_read, may_read, resolve, rule_target
from tools.search import ripgrep, unsaved
from tools.search.glob_pattern import compile_glob
from tools.text.truncate import head
from tools.tool import Tool, ToolContext, ToolError, ToolInput, ToolResult

if TYPE_CHECKING:
    from pathlib import Path

MAX_RESULTS = 100
MAX_COLUMNS = 500


class GrepInput(ToolInput):
    """Arguments of ``grep``."""

    pattern: str = Field(min_length=1)
    path: str = Field(default=".", description="Folder or file.")
    include: str = Field(default="", description="A glob of files, e.g. *.py.")


class GrepTool(Tool[GrepInput], name="grep"):
    """Matching lines, those of the newest files first."""

    async def run(self, args: GrepInput, ctx: ToolContext) -> ToolResult:
        target = resolve(args.path, ctx)
        await ctx.files.editors.settle()
        is_file = target.path.is_file() or ctx.files.editors.unsaved(target.path) is not None
        if not is_file and not target.path.is_dir():
            raise ToolError(f"{target.rule} does not exist.")
        if not is_file:
            await ask_outside(target, ctx)
        await self.ask(ctx, args.pattern, t("Search {pattern}", pattern=args.pattern))
        if is_file:
            await ask_read(target, ctx)
        root = target.path.parent if is_file else target.path
        include = compile_glob(args.include) if args.include and not is_file else None
        only = target.path.name if is_file else None
        found = await ripgrep.find_lines(
            root, args.pattern, include, ripgrep.ripgrep(ctx.workspace), only=only
        )
        found = await unsaved.overlaid(found, root, args.pattern, include, ctx, only)
        return await _result(args.pattern, root, found, ctx, is_file)


async def _result(
    pattern: str, root: Path, found: ripgrep.SearchResult, ctx: ToolContext, is_file: bool
) -> ToolResult:
    by_file: dict[str, list[tuple[int, str]]] = {}
    for path, number, text in found.lines:
        by_file.setdefault(path, []).append((number, text))
    # The user has just allowed this one file; for all others the rules alone decide. The rules apply to the real path
    # too, because ripgrep follows no links below the folder but does read hard links.
    deadline = ripgrep.Deadline(ripgrep.FINISH_S)
    verdicts = await asyncio.to_thread(
        lambda: {path: is_file or may_read(root / path, ctx) == "allow" for path in deadline.until(by_file)}
    )
    readable = [path for path, readable in verdicts.items() if readable]
    left_out = len(verdicts) - len(readable)
    total = sum(len(by_file[path]) for path in readable)
    changed = unsaved.below(root, ctx)
    lines: list[str] = []
    shown = 0
    for path in await asyncio.to_thread(newest_first, root, readable):
        if shown >= MAX_RESULTS:
            break
        typed = ""
        if ctx.files.editors.unsaved(changed.get(path, root / path)) is not None:
            typed = " (as in the editor, with UNSAVED changes)"
        elif unsaved.unknown(root / path, ctx):
            typed = " (as on disk: its content in an open editor is unknown)"
        lines.append(rule_target(root / path, ctx.workspace) + typed)
        for number, text in by_file[path][: MAX_RESULTS - shown]:
            shown += 1
            lines.append(f"{number}→{head(text, MAX_COLUMNS)}{'…' if len(text) > MAX_COLUMNS else ''}")
    if not lines:
        lines.append("No lines match.")
    if total > shown:
        lines.append(
            f"({total} lines match; the first {shown} of the newest files are shown. Narrow the search.)"
        )
    if left_out:
        lines.append(f"({left_out} files with matches are left out: reading them needs approval.)")
    if found.cut or deadline.hit:
        lines.append("(The search was stopped early: too many matches, or it took too long.)")
    title = n("{pattern} ({count} line)", "{pattern} ({count} lines)", total, pattern=pattern)
    return ToolResult("\n".join(lines), title=title, metadata={"count": total, "left_out": left_out})
