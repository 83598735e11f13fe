"""The ``explore`` tool: alternative approaches in branches, and merging one."""

from __future__ import annotations

import json
from typing import Annotated, cast

from pydantic import BeforeValidator, Field

from tools.tool import Tool, ToolContext, ToolError, ToolInput, ToolResult


def _list_in_text(value: object) -> object:
    # Some models send a list as the JSON text of one, or a single item without a list around it.
    if not isinstance(value, str) or not value.strip():
        return value or None
    if value.lstrip().startswith("["):
        try:
            found: object = json.loads(value)
        except (ValueError, RecursionError):
            return [value]
        items = cast("list[object]", found) if isinstance(found, list) else []
        return items if all(isinstance(item, str) for item in items) else value
    return [value]


class ExploreInput(ToolInput):
    """Arguments of ``explore``."""

    branches: Annotated[list[str] | None, BeforeValidator(_list_in_text)] = Field(
        default=None, description="2 to 8 directions."
    )
    background: str | None = Field(
        default=None, description="What all branches know; default: this conversation."
    )
    select: Annotated[list[str] | None, BeforeValidator(_list_in_text)] = Field(
        default=None, description='Branch to merge: ["A"]; or parts: ["A:src/a.py", "B:docs"].'
    )


class ExploreTool(Tool[ExploreInput]):
    """Explores through the ``Explorer`` port."""

    name = "explore"
    permission = "explore"
    Input = ExploreInput

    async def run(self, args: ExploreInput, ctx: ToolContext) -> ToolResult:
        if args.branches and args.select:
            raise ToolError("branches explores, select merges a branch: give one of the two.")
        if args.select:
            told = await ctx.explorer.select(args.select)
        elif args.branches:
            told = await ctx.explorer.explore(args.branches, args.background)
        else:
            raise ToolError(
                "Give branches (a direction for each approach), or select (what to merge of explored ones)."
            )
        return ToolResult(
            told.content, title=told.title, metadata=dict(told.metadata), is_error=told.is_error
        )
