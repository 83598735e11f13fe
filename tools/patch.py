"""The ``patch`` tool: many changes of many files at once, all or none."""

from __future__ import annotations

import asyncio
import re
import stat
from typing import TYPE_CHECKING

from pydantic import Field

from tools.change import apply_changes, base_of
from tools.patching.envelope import is_envelope, parse_envelope
from tools.patching.model import MAX_FILES, MAX_HUNKS, MAX_PATCH_CHARS, FilePatch, PatchError
from tools.patching.names import NamedSection, name_files
from tools.patching.plan import plan_changes
from tools.patching.unified import parse_unified
from tools.tool import Tool, ToolContext, ToolInput, ToolResult

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class PatchInput(ToolInput):
    """Arguments of ``patch``."""

    patch_text: str
    fuzz: int = Field(default=2, ge=0)


class PatchTool(Tool[PatchInput], name="patch", permission="edit"):
    """Reads the patch, finds the place of every hunk (``tools.patching``), writes through ``tools.change``."""

    async def run(self, args: PatchInput, ctx: ToolContext) -> ToolResult:
        files = await asyncio.to_thread(parse_patch, args.patch_text)
        steps = await asyncio.to_thread(name_files, files, ctx)
        bases = await _bases(steps, ctx)
        modes = await asyncio.to_thread(_modes, steps)
        changes, note = await asyncio.to_thread(plan_changes, steps, bases, modes, args.fuzz)
        outcome = await apply_changes(changes, ctx)
        return outcome.result(note)


async def _bases(steps: Sequence[NamedSection], ctx: ToolContext) -> dict[Path, bytes | None]:
    """Return the current contents of the files; None for those that do not exist. Raises ToolError like ``base_of``."""
    bases: dict[Path, bytes | None] = {}
    for target in (*(step.old for step in steps), *(step.new for step in steps)):
        if target is not None and target.path not in bases:
            bases[target.path] = await base_of(target, ctx)
    return bases


def _modes(steps: Sequence[NamedSection]) -> dict[Path, int]:
    """Permission bits of the files that are there and whose bits matter: they are moved, copied or set."""
    modes: dict[Path, int] = {}
    for step in steps:
        needed = step.file.moves or step.file.action == "copy" or step.file.executable is not None
        if step.old is not None and needed:
            try:
                modes[step.old.path] = stat.S_IMODE(step.old.path.stat().st_mode)
            except OSError:
                continue
    return modes


_NOTHING = (
    "patch_text has no patch in it. Send a unified diff (--- a/FILE, +++ b/FILE, @@ -1,3 +1,4 @@, lines with "
    "' ', '-' or '+') or an envelope (*** Begin Patch, *** Update File: FILE, @@, lines, *** End Patch). "
    "Nothing was changed."
)


def parse_patch(text: str) -> list[FilePatch]:
    """Return all sections, in the order in which they are to be applied. Raises PatchError."""
    if len(text) > MAX_PATCH_CHARS:
        raise PatchError(
            f"patch_text has {len(text):,} characters, and one call takes {MAX_PATCH_CHARS:,}. "
            "Nothing was changed: split the patch."
        )
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[-1] == "":
        lines.pop()
    lines = _without_margin(lines)
    files = parse_envelope(lines) if is_envelope(lines) else parse_unified(lines)
    if not files:
        raise PatchError(_NOTHING)
    hunks = sum(len(file.hunks) for file in files)
    if len(files) > MAX_FILES or hunks > MAX_HUNKS:
        raise PatchError(
            f"The patch has {len(files):,} files and {hunks:,} hunks; one call takes {MAX_FILES:,} and "
            f"{MAX_HUNKS:,}. Nothing was changed: split the patch."
        )
    for file in files:
        if file.action == "update" and not file.moves and file.executable is None and not file.hunks:
            raise PatchError(
                f"{file.source}: no hunk follows. Begin one with @@ and give every line its prefix ' ', '-' or '+'. "
                "Nothing was changed."
            )
    return files


_BEGIN = re.compile(r"([ \t]+)\*\*\* Begin Patch\s*$", re.IGNORECASE)


def _without_margin(lines: list[str]) -> list[str]:
    """Return an envelope that was indented as a whole, as text within other text is."""
    first = next((line for line in lines if line.strip()), "")
    found = _BEGIN.match(first)
    if found is None or any(line.strip() and not line.startswith(found.group(1)) for line in lines):
        return lines
    return [line[len(found.group(1)) :] for line in lines]
