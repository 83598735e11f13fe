"""The ``ls`` tool: what is in a folder."""

from __future__ import annotations

import asyncio

from pydantic import Field

from tools.base import Tool, ToolContext, ToolError, ToolInput, ToolResult
from tools.listing import tree
from tools.paths import ask_read, explain_os_error, resolve


class LsInput(ToolInput):
    """Arguments of ``ls``."""

    path: str = Field(default=".", description="Folder.")
    depth: int = Field(default=2, ge=1, le=6, description="Levels to show.")


class LsTool(Tool[LsInput]):
    """An indented tree; .git, node_modules and the like are named but not opened."""

    name = "ls"
    permission = "ls"
    Input = LsInput

    async def run(self, args: LsInput, ctx: ToolContext) -> ToolResult:
        """See ``Tool.run``."""
        target = resolve(args.path, ctx)
        await ask_read(target, ctx, self.permission)
        try:
            listing = await asyncio.to_thread(tree, target.path, args.depth)
        except OSError as error:
            raise ToolError(explain_os_error(error, f"{target.rule} cannot be listed")) from error
        text = f"{target.path.as_posix()}/\n{listing.text}"
        if listing.cut:
            text += f"\n(Only the first {listing.shown} entries are shown: list a sub-folder.)"
        return ToolResult(text, title=target.rule, metadata={"path": target.rule, "count": listing.shown})
