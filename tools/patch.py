"""The ``patch`` tool: many changes of many files at once, all or none."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from tools.base import Tool, ToolContext, ToolError, ToolInput, ToolResult
from tools.change import apply_changes, base_of
from tools.patching.names import Step, name_files
from tools.patching.plan import plan_changes
from tools.patching.reading import parse_patch
from tools.paths import Target, explain_os_error
from tools.writing import atomic


class PatchInput(ToolInput):
    """Arguments of ``patch``."""

    patch_text: str
    fuzz: int = Field(default=2, ge=0)


class PatchTool(Tool[PatchInput]):
    """Reads the patch, finds the place of every hunk (``tools.patching``), writes through ``tools.change``."""

    name = "patch"
    permission = "edit"
    Input = PatchInput

    async def run(self, args: PatchInput, ctx: ToolContext) -> ToolResult:
        """See ``Tool.run``."""
        files = await asyncio.to_thread(parse_patch, args.patch_text)
        steps = await asyncio.to_thread(name_files, files, ctx)
        bases = await _bases(steps, ctx)
        modes = await asyncio.to_thread(_modes, steps)
        planned = await asyncio.to_thread(plan_changes, steps, bases, modes, args.fuzz)
        outcome = await apply_changes(planned.changes, ctx)
        return outcome.result(planned.note)


async def _bases(steps: Sequence[Step], ctx: ToolContext) -> dict[Path, bytes | None]:
    """What the files hold now; None for those that do not exist. Raises ToolError like ``base_of``."""
    bases: dict[Path, bytes | None] = {}
    for step in steps:
        if step.old is not None and step.old.path not in bases:
            bases[step.old.path] = await base_of(step.old, ctx)
    for step in steps:
        if step.new is not None and step.new.path not in bases:
            bases[step.new.path] = await _new_base(step.new, ctx)
    return bases


async def _new_base(target: Target, ctx: ToolContext) -> bytes | None:
    """The content of a file that should not exist yet: only to say whether it is what the patch would make."""
    if ctx.files.unsaved(target.path) is not None:
        return await base_of(target, ctx)
    try:
        return await asyncio.to_thread(atomic.read_or_none, target.path)
    except OSError as error:
        raise ToolError(explain_os_error(error, f"{target.rule} cannot be created")) from error


def _modes(steps: Sequence[Step]) -> dict[Path, int]:
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
