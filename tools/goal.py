"""The ``goal`` tool: the plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, cast

from pydantic import BeforeValidator, Field

from tools.access import suggestions
from tools.base import PermissionAsk, Tool, ToolContext, ToolError, ToolInput, ToolResult
from tools.cutting import head, short
from tools.goal_lines import split_goals


def number_as_text(value: object) -> object:
    """A display number as text.

    Models send 2.1 as a JSON number now and then, and 2 as 2.0.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def list_in_text(value: object) -> object:
    """The list of texts, when a text is the JSON of one, as some models send it; else the value itself."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            found: object = json.loads(value)
        except (ValueError, RecursionError):
            return value
        items = cast("list[object]", found) if isinstance(found, list) else []
        return items if items and all(isinstance(item, str) for item in items) else value
    return value


def no_as_false(value: object) -> object:
    """No value and an empty one mean no."""
    return False if value is None or value == "" else value


class GoalInput(ToolInput):
    """Arguments of ``goal``."""

    add: Annotated[str | list[str] | None, BeforeValidator(list_in_text)] = Field(
        default=None, description="One a line, or separated by commas."
    )
    reason: str | None = Field(default=None, description="Why they are added.")
    done: str | None = Field(
        default=None, description="Completes the current goal; the value is its summary."
    )
    abandon: str | None = Field(default=None, description="Gives up the current goal; the value says why.")
    focus: Annotated[str | None, BeforeValidator(number_as_text)] = Field(
        default=None, description="Number of the goal to work on, e.g. 2.1."
    )
    rename: str | None = Field(default=None, description="Its new description.")
    revert_files: Annotated[bool, BeforeValidator(no_as_false)] = Field(
        default=False, description="With abandon."
    )


class GoalTool(Tool[GoalInput]):
    """Changes the goal tree through the ``Plan`` port (source: seed 000, "goal 工具")."""

    name = "goal"
    permission = "goal"
    Input = GoalInput

    async def run(self, args: GoalInput, ctx: ToolContext) -> ToolResult:
        """See ``Tool.run``."""
        goals = split_goals(args.add)
        done, abandon = args.done, args.abandon
        # Some models give each argument a value, an empty one where they mean none. An empty end alone is a mistake.
        if done is not None and abandon is not None:
            done, abandon = meant(done), meant(abandon)
        focus, rename = meant(args.focus), meant(args.rename)
        if not goals and done is None and abandon is None and focus is None and rename is None:
            raise ToolError("Nothing to do: give at least one of add, done, abandon, focus and rename.")
        if done is not None and abandon is not None:
            raise ToolError("A goal is either done or abandoned: give one of the two.")
        for name, value in (("done", done), ("abandon", abandon)):
            if value is not None and not value.strip():
                raise ToolError(
                    f"{name} must say something: it replaces the details of the goal in the context."
                )
        if args.revert_files and abandon is None:
            raise ToolError("revert_files goes with abandon: it takes back what was changed for that goal.")
        said = {"done": done, "abandon": abandon, "focus": focus, "add": "\n".join(goals), "rename": rename}
        await ask_for_plan(ctx, {name: value for name, value in said.items() if value})
        told = await ctx.plan.update(
            add=goals,
            reason=args.reason,
            done=done,
            abandon=abandon,
            focus=focus,
            rename=rename,
            revert_files=args.revert_files,
        )
        said = [
            f"done: {done}" if done is not None else "",
            f"abandoned: {abandon}" if abandon is not None else "",
            f"focus {focus}" if focus is not None else "",
            f"renamed: {rename}" if rename is not None else "",
            f"+ {', '.join(goals)}" if goals else "",
        ]
        return ToolResult(told, title=head(" ".join("; ".join(filter(None, said)).split()), 120))


async def ask_for_plan(ctx: ToolContext, what: Mapping[str, str]) -> None:
    """Ask for the permission ``goal``; raises PermissionDenied.

    ``what``: the operations with what is said of each. Their names are what rules match, and the same whichever tool
    does it: add, done, abandon, focus, rename, and read.
    """
    words = " ".join("; ".join(f"{name} {value}" for name, value in what.items()).split())
    detail = "\n".join(f"{name}: {value}" for name, value in what.items() if value)
    everything = suggestions("goal", ("*",))
    ask = PermissionAsk(
        "goal", tuple(what), f"Plan: {short(words, 120)}", everything, detail=short(detail, 4_000)
    )
    await ctx.permission.ask(ask)


def meant(value: str | None) -> str | None:
    """The text without blanks around it; None for an empty one, which some models give where they mean none."""
    return value.strip() or None if value is not None else None
