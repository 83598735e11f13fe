"""The ``glob`` tool: files by the pattern of their names."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from tools.localization import n, t
from tools.paths import ask_outside, resolve, rule_target
from tools.search import ripgrep, unsaved
from tools.search.glob_pattern import compile_glob, split_base
from tools.tool import Tool, ToolContext, ToolError, ToolInput, ToolResult

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_RESULTS = 100


class GlobInput(ToolInput):
    """Arguments of ``glob``."""

    pattern: str = Field(min_length=1, description="E.g. **/*.py, src/*.{ts,tsx} or test_*.py.")
    path: str = Field(default=".", description="Folder to search.")


class GlobTool(Tool[GlobInput], name="glob"):
    """File names by pattern, newest first."""

    async def run(self, args: GlobInput, ctx: ToolContext) -> ToolResult:
        base, pattern = args.path, args.pattern
        if Path(pattern).is_absolute():
            base, rest = split_base(pattern)
            pattern = f"/{rest}"  # a pattern without a slash would match at any depth
        target = resolve(base, ctx)
        await ask_outside(target, ctx)
        await self.ask(ctx, args.pattern, t("Find files {pattern}", pattern=args.pattern))
        if not target.path.is_dir():
            raise ToolError(f"{target.rule} is not a folder.")
        wanted = compile_glob(pattern)
        found = await ripgrep.list_files(target.path, ripgrep.ripgrep(ctx.workspace))
        await ctx.files.editors.settle()
        typed = unsaved.below(target.path, ctx)
        names = dict.fromkeys(found.files)

        def choose() -> tuple[list[str], bool]:
            deadline = ripgrep.Deadline(ripgrep.FINISH_S)
            never_saved = dict.fromkeys(name for name, path in typed.items() if not path.exists())
            allowed = [
                name
                for name in deadline.until(names | never_saved)
                if wanted.match(name)
                and ctx.permission.decide("read", rule_target(target.path / name, ctx.workspace)) != "deny"
            ]
            return newest_first(target.path, allowed), deadline.hit

        # In a thread, because the rules for 100 000 files would block the event loop for seconds.
        newest, cut = await asyncio.to_thread(choose)
        shown = [rule_target(target.path / name, ctx.workspace) for name in newest[:MAX_RESULTS]]
        return _result(args.pattern, shown, len(newest), found.cut or cut)


def newest_first(root: Path, names: Sequence[str]) -> list[str]:
    """Return the names of files below ``root``, the last modified first, those of the same time by name; blocking.

    Files whose time is not known within ``FINISH_S`` come last.
    """
    deadline = ripgrep.Deadline(ripgrep.FINISH_S)

    def key(name: str) -> tuple[int, str]:
        try:
            return 0 if deadline.over() else -(root / name).stat().st_mtime_ns, name
        except OSError:
            return 0, name

    return sorted(names, key=key)


def _result(pattern: str, shown: Sequence[str], total: int, cut: bool) -> ToolResult:
    lines = list(shown) or ["No files match."]
    if total > len(shown):
        lines.append(f"({total} files match; the {len(shown)} newest are shown. Use a narrower pattern.)")
    if cut:
        lines.append("(The search was stopped early: too many files, or it took too long.)")
    title = n("{pattern} ({count} file)", "{pattern} ({count} files)", total, pattern=pattern)
    return ToolResult("\n".join(lines), title=title, metadata={"count": total})
