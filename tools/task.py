"""The ``task`` tool: a sub-agent does a part of the work."""

from __future__ import annotations

from tools.access import suggestions
from tools.localization import t
from tools.text.truncate import cut_text
from tools.tool import PermissionAsk, Tool, ToolContext, ToolError, ToolInput, ToolResult


class TaskInput(ToolInput):
    """Arguments of ``task``."""

    agent: str
    prompt: str


class TaskTool(Tool[TaskInput], name="task"):
    """Has the session run a sub-agent. Rules match the agent's name: ``"task": {"general": "ask"}``."""

    async def run(self, args: TaskInput, ctx: ToolContext) -> ToolResult:
        agent, prompt = args.agent.strip().casefold(), args.prompt.strip()
        if not prompt:
            raise ToolError("The prompt is empty: say what the sub-agent should do, and what it must know.")
        # A name that contains wildcards must not become a pattern.
        named = (agent,) if agent.replace("-", "").isalnum() else ()
        await ctx.permission.ask(
            PermissionAsk(
                "task",
                (agent,),
                t(
                    "Give the agent {agent} a task: {split}",
                    agent=agent,
                    split=cut_text(" ".join(prompt.split()), 100),
                ),
                suggestions=suggestions("task", named),
                detail=cut_text(prompt, 20_000),
            )
        )
        return await ctx.session.run_task(agent, prompt)
