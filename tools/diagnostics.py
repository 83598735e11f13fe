"""The ``diagnostics`` tool: all problems that the language servers see now, not only those of a change."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field

from tools.diagnostics_text import blocks, problems_metadata
from tools.glob import newest_first
from tools.language_ports import NO_SERVER, CurrentProblems, Problem, Severity
from tools.paths import Target, ask_outside, ask_read, may_read, resolve
from tools.search import ripgrep
from tools.text.truncate import head
from tools.tool import Tool, ToolContext, ToolError, ToolInput, ToolResult

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MAX_CANDIDATES = 500
"""Files of a folder that are given to the servers' eyes, the newest ones; these look at fewer when they have to."""
MAX_FILES = 30
MAX_PER_FILE = 20
MAX_CHARACTERS = 16_000
_MAX_MESSAGE = 600
_PATIENCE_S = 8.0
_MORE_TIMES = 6
_MAX_IN_METADATA = 200
_MAX_KINDS = 8


class DiagnosticsInput(ToolInput):
    """Arguments of ``diagnostics``."""

    path: str = Field(default=".", description="File or folder.")
    severity: Severity = "warning"


class _Candidates(Struct, frozen=True):
    """The files to ask about."""

    paths: tuple[Path, ...]
    denied: int = 0
    """Files that may not be read without asking."""
    left_out: int = 0
    cut: bool = False


class DiagnosticsTool(Tool[DiagnosticsInput], name="diagnostics"):
    """The problems of a file, of a folder's files or of the workspace's, errors first."""

    async def run(self, args: DiagnosticsInput, ctx: ToolContext) -> ToolResult:
        target = resolve(args.path, ctx)
        is_file = target.path.is_file()
        if not is_file and not target.path.is_dir():
            raise ToolError(f"{target.rule} does not exist.")
        if not is_file:
            await ask_outside(target, ctx)
        await self.ask(ctx, target.rule, f"Diagnostics of {target.rule}")
        if is_file:
            await ask_read(target, ctx)
            asked = _Candidates((target.path,))
        else:
            asked = await _candidates(target, ctx)
        now = await _current(asked.paths, args.severity, ctx)
        return await asyncio.to_thread(_result, target, asked, now, args.severity, ctx)


async def _current(paths: Sequence[Path], least: Severity, ctx: ToolContext) -> CurrentProblems:
    """Return the current problems. The port waits only as long as for a change, but here there is time for a server's
    start."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _PATIENCE_S
    now = await ctx.diagnostics.current(paths, least)
    for _ in range(_MORE_TIMES):
        if not now.silent or loop.time() >= until:
            break
        now = await ctx.diagnostics.current(paths, least)
    return now


async def _candidates(target: Target, ctx: ToolContext) -> _Candidates:
    found = await ripgrep.list_files(target.path, ripgrep.ripgrep(ctx.workspace))

    def choose() -> _Candidates:
        newest = newest_first(target.path, found.files)
        readable: list[Path] = []
        denied = 0
        for number, name in enumerate(newest):
            if len(readable) == MAX_CANDIDATES:
                return _Candidates(tuple(readable), denied, len(newest) - number, found.cut)
            path = target.path / name
            if may_read(path, ctx) == "allow":
                readable.append(path)
            else:
                denied += 1
        return _Candidates(tuple(readable), denied, 0, found.cut)

    return await asyncio.to_thread(choose)


def _result(
    target: Target, asked: _Candidates, now: CurrentProblems, least: Severity, ctx: ToolContext
) -> ToolResult:
    """Blocking, when a file has other names that rules may mean."""
    files = set(asked.paths)
    # Reports on other files are filtered like search results.
    seen = dict.fromkeys(problem.path for problem in now.problems)
    shown_files = {path for path in seen if path in files or may_read(path, ctx) == "allow"}
    problems = [problem for problem in now.problems if problem.path in shown_files]
    watched = len(files) - len(files & set(now.unwatched))
    if not problems and not now.servers and not now.silent and watched == 0:
        raise ToolError(NO_SERVER.format(name=target.rule if target.rule != "." else "this workspace"))
    errors = sum(problem.severity == "error" for problem in problems)
    lines = [_headline(problems, errors, watched, now, least)]
    if problems:
        lines.append(_bounded(problems, ctx.workspace))
    lines += _notes(target, asked, now, len(seen) - len(shown_files))
    count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
    unsure = ", no fresh answer" if now.silent or not now.servers else ""
    shown = CurrentProblems(tuple(_ordered(problems)[:_MAX_IN_METADATA]), now.servers, now.silent)
    metadata = {
        "path": target.rule,
        "count": len(problems),
        "errors": errors,
        "verdict": "problems" if problems else "no_fresh_answer" if unsure else "clean",
        "diagnostics": problems_metadata(shown, ctx.workspace),
    }
    return ToolResult("\n".join(lines), title=f"{target.rule} ({count}{unsure})", metadata=metadata)


def _headline(
    problems: Sequence[Problem], errors: int, watched: int, now: CurrentProblems, least: Severity
) -> str:
    looked = max(0, watched - now.left_out)
    where = f"{looked} file{'' if looked == 1 else 's'}"
    who = f" ({', '.join(now.servers)})" if now.servers else ""
    if problems:
        files = len({problem.path for problem in problems})
        plural = "" if len(problems) == 1 else "s"
        return f"{len(problems)} problem{plural}, {errors} of them errors, in {files} of {where}{who}:"
    if now.silent or not now.servers:
        return f"Nothing is known about {where}{who}."
    return f"No problems in {where}{who}, from severity {least} up."


def _notes(target: Target, asked: _Candidates, now: CurrentProblems, hidden: int) -> list[str]:
    notes: list[str] = []
    if now.silent or not now.servers:
        who = f" from {', '.join(now.silent)}" if now.silent else ""
        notes.append(f"NO FRESH ANSWER{who} in time. This does not mean the code is clean: ask again later.")
    if now.unwatched and asked.paths != now.unwatched:
        kinds = Counter(path.suffix or path.name for path in now.unwatched).most_common(_MAX_KINDS + 1)
        told = ", ".join(f"{kind} ({count})" for kind, count in kinds[:_MAX_KINDS])
        more = " and others" if len(kinds) > _MAX_KINDS else ""
        notes.append(f"(No language server for: {told}{more}.)")
    if left_out := asked.left_out + now.left_out:
        plural = "file was" if left_out == 1 else "files were"
        notes.append(f"({left_out} older {plural} not checked: too many. Name a folder or a file.)")
    if hidden or asked.denied:
        notes.append(f"({hidden or asked.denied} files are left out: reading them needs approval.)")
    if asked.cut:
        notes.append("(Not all files were found: too many.)")
    return notes


def _ordered(problems: Sequence[Problem]) -> list[Problem]:
    """Return files with errors first, otherwise in their order."""
    broken = {problem.path for problem in problems if problem.severity == "error"}
    return sorted(problems, key=lambda problem: problem.path not in broken)


def _bounded(problems: Sequence[Problem], workspace: Path) -> str:
    short = [
        replace(problem, message=head(problem.message, _MAX_MESSAGE) + "…")
        if len(problem.message) > _MAX_MESSAGE
        else problem
        for problem in _ordered(problems)
    ]
    for files, per_file in ((MAX_FILES, MAX_PER_FILE), (MAX_FILES, 5), (MAX_FILES, 1), (10, 1)):
        text = blocks(short, workspace, files=files, per_file=per_file)
        if len(text) <= MAX_CHARACTERS:
            break
    return head(text, MAX_CHARACTERS)
