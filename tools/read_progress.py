"""The ``read_progress`` tool: the whole plan on demand (source: seed 003, "按需读取")."""

from __future__ import annotations

from tools.base import Tool, ToolContext, ToolInput, ToolResult
from tools.goal import ask_for_plan


class ReadProgressInput(ToolInput):
    """``read_progress`` takes no arguments."""


class ReadProgressTool(Tool[ReadProgressInput]):
    """Tells the goals with their marks. The plan in each request is bounded; this shows more of a large one."""

    name = "read_progress"
    permission = "goal"
    Input = ReadProgressInput

    async def run(self, args: ReadProgressInput, ctx: ToolContext) -> ToolResult:
        """See ``Tool.run``."""
        await ask_for_plan(ctx, {"read": ""})
        text = ctx.plan.progress()
        marks = [line.lstrip()[:3] for line in text.splitlines()]
        goals = sum(mark in ("[✓]", "[→]", "[ ]") for mark in marks)
        return ToolResult(text, title=f"{marks.count('[✓]')} of {goals} goals done" if goals else "no goals")
