"""The ``goal`` tool: the plan."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from tools.base import Tool, ToolContext, ToolError, ToolInput, ToolResult


def _number_as_text(value: object) -> object:
    # Models send the display number 2.1 as a JSON number now and then.
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


class GoalInput(ToolInput):
    """Arguments of ``goal``."""

    add: str | list[str] | None = Field(
        default=None, description="Goals to add under the current one: one a line, or separated by commas."
    )
    reason: str | None = Field(default=None, description="Why they are added.")
    done: str | None = Field(
        default=None, description="Completes the current goal; the value is its summary."
    )
    abandon: str | None = Field(default=None, description="Gives up the current goal; the value says why.")
    focus: Annotated[str | None, BeforeValidator(_number_as_text)] = Field(
        default=None, description="Number of the goal to work on now, e.g. 2.1."
    )


class GoalTool(Tool[GoalInput]):
    """Changes the goal tree through the ``Plan`` port (source: seed 000, "goal 工具")."""

    name = "goal"
    permission = "goal"
    Input = GoalInput

    async def run(self, args: GoalInput, ctx: ToolContext) -> ToolResult:
        """See ``Tool.run``."""
        goals = split_goals(args.add)
        if not goals and args.done is None and args.abandon is None and args.focus is None:
            raise ToolError("Nothing to do: give at least one of add, done, abandon and focus.")
        if args.done is not None and args.abandon is not None:
            raise ToolError("A goal is either done or abandoned: give one of the two.")
        for name, value in (("done", args.done), ("abandon", args.abandon)):
            if value is not None and not value.strip():
                raise ToolError(
                    f"{name} must say something: it replaces the details of the goal in the context."
                )
        plan = await ctx.plan.update(
            add=goals,
            reason=args.reason,
            done=args.done,
            abandon=args.abandon,
            focus=None if args.focus is None else args.focus.strip().rstrip("."),
        )
        return ToolResult(plan, title=_title(args, goals))


def split_goals(add: str | list[str] | None) -> list[str]:
    """The goals of an ``add``: list items, else lines, else parts between commas (also Chinese ones)."""
    if add is None:
        return []
    if isinstance(add, list):
        parts = add
    elif "\n" in add.strip():
        # List marks are habit, not part of the goal; the numbers are the tree's own.
        parts = [re.sub(r"^\s*(?:[-*•]|\d+[.)])\s+", "", line) for line in add.splitlines()]
    else:
        parts = _at_commas(add)
    return [part.strip() for part in parts if part.strip()]


def _at_commas(text: str) -> list[str]:
    """Split at commas that stand outside of brackets: ``fix f(a, b), test it`` are two goals."""
    parts: list[str] = []
    depth, current = 0, ""
    for char in text:
        depth += (char in "([{（") - (char in ")]}）")
        if char in ",，" and depth <= 0:
            parts.append(current)
            current = ""
        else:
            current += char
    return [*parts, current]


def _title(args: GoalInput, goals: list[str]) -> str:
    said = [
        f"done: {args.done}" if args.done is not None else "",
        f"abandoned: {args.abandon}" if args.abandon is not None else "",
        f"focus {args.focus}" if args.focus is not None else "",
        f"+ {', '.join(goals)}" if goals else "",
    ]
    return "; ".join(filter(None, said)).splitlines()[0][:120]
