"""The ``step`` tool: the plan as a list of steps. It changes the same plan as ``goal``."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from tools.goal import ask_for_plan, list_in_text, meant, no_as_false, number_as_text, plan_result
from tools.goal_lines import goal_lines, without_marks
from tools.tool import Tool, ToolContext, ToolError, ToolInput, ToolResult


def _as_list(value: object) -> object:
    # Models sometimes send one goal, or several lines, as a text.
    value = list_in_text(value)
    return goal_lines(value) if isinstance(value, str) else value


class StepInput(ToolInput):
    """Arguments of ``step``."""

    plan: Annotated[list[str] | None, BeforeValidator(_as_list)] = Field(
        default=None, description="Goals to add, in the order of work."
    )
    focus: Annotated[str | None, BeforeValidator(number_as_text)] = Field(
        default=None, description="Goal to work on: its description or number."
    )
    complete: Annotated[bool, BeforeValidator(no_as_false)] = Field(
        default=False, description="Completes the goal in focus."
    )
    summary: str | None = Field(default=None, description="With complete: the result.")


class StepTool(Tool[StepInput], name="step", permission="goal"):
    """Changes the goal tree through the ``Plan`` port.

    The setting ``plan_front`` decides which of ``goal`` and ``step`` is offered.
    """

    async def run(self, args: StepInput, ctx: ToolContext) -> ToolResult:
        # Keep the marks, because they show that the plan was copied from its display.
        plan = [line for line in goal_lines(args.plan) if without_marks(line)]
        goals = [without_marks(line) for line in plan]
        focus, summary = meant(args.focus), meant(args.summary)
        if not plan and focus is None and not args.complete:
            if summary is not None:
                raise ToolError("summary goes with complete=true: it gives the result of the goal in focus.")
            raise ToolError("Nothing to do: give at least one of plan, focus and complete.")
        if args.complete and summary is None:
            raise ToolError(
                "complete needs a summary: it replaces the details of the goal in the context. Give the "
                "result, with the facts that later work needs."
            )
        if summary is not None and not args.complete:
            raise ToolError("summary goes with complete=true: it gives the result of the goal in focus.")
        await ask_for_plan(ctx, {"done": summary, "focus": focus, "add": "\n".join(goals) or None})
        told = await ctx.plan.step(plan=plan, focus=focus, complete=args.complete, summary=summary)
        said = [
            f"completed: {summary}" if args.complete else "",
            f"focus {focus}" if focus is not None else "",
            f"+ {', '.join(goals)}" if plan else "",
        ]
        return plan_result(told, said, ctx)
