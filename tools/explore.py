"""The ``explore`` tool: alternative approaches in branches, and merging one."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from tools.goal import list_in_text
from tools.tool import Tool, ToolContext, ToolError, ToolInput, ToolResult


def _as_list(value: object) -> object:
    """Some models send a list as text, or a single item without a list around it."""
    value = list_in_text(value) or None
    return [value] if isinstance(value, str) and value.strip() else value


class ExploreInput(ToolInput):
    """Arguments of ``explore``."""

    branches: Annotated[list[str] | None, BeforeValidator(_as_list)] = Field(
        default=None, description="2 to 8 directions."
    )
    background: str | None = Field(
        default=None, description="What all branches know; default: this conversation."
    )
    select: Annotated[list[str] | None, BeforeValidator(_as_list)] = Field(
        default=None, description='Branch to merge: ["A"]; or parts: ["A:src/a.py", "B:docs"].'
    )


class ExploreTool(Tool[ExploreInput], name="explore"):
    """Explores in branches of the session, and merges them."""

    async def run(self, args: ExploreInput, ctx: ToolContext) -> ToolResult:
        if args.branches and args.select:
            raise ToolError("branches explores, select merges a branch: give one of the two.")
        if args.select:
            return await ctx.session.select(args.select)
        if args.branches:
            return await ctx.session.explore(args.branches, args.background)
        raise ToolError(
            "Give branches (a direction for each approach), or select (what to merge of explored ones)."
        )
