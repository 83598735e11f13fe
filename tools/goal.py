"""The ``goal`` tool: the plan; and ``read_progress``: the whole plan on demand."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, cast

from msgspec import to_builtins
from pydantic import BeforeValidator, Field
from pydantic.json_schema import SkipJsonSchema

from tools.access import suggestions
from tools.goal_lines import split_goals
from tools.text.truncate import head, short
from tools.tool import PermissionAsk, PlanEdit, Tool, ToolContext, ToolError, ToolInput, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NUMBER = re.compile(r"(?:goal\s*|step\s*|no\.?\s*|#)?\d+(?:\.\d+)*\.?|g\d+", re.IGNORECASE)
"""A goal's number or id, and no summary."""
_ENDS = {
    "done": ("the summary of the goal", "the result", "done"),
    "abandon": ("the reason", "why", "abandoned"),
}
"""The argument of each end of a goal, what it must say, and the resulting status, as text for the model."""


def number_as_text(value: object) -> object:
    """Return a display number as text.

    Models send 2.1 as a JSON number now and then, and 2 as 2.0.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def list_in_text(value: object) -> object:
    """Return the list of texts, when a text is the JSON of one, as some models send it; else the value itself."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            found: object = json.loads(value)
        except (ValueError, RecursionError):
            return value
        items = cast("list[object]", found) if isinstance(found, list) else []
        return items if all(isinstance(item, str) for item in items) else value
    return value


def no_as_false(value: object) -> object:
    """No value and an empty one mean no."""
    return False if value is None or value == "" else value


def _done_as_text(value: object) -> object:
    """Convert ``done``: ``true`` has no summary; a number is distinguished from a summary later."""
    if isinstance(value, bool):
        return "" if value else None
    return number_as_text(value)


class GoalInput(ToolInput):
    """Arguments of ``goal``."""

    add: Annotated[str | list[str] | None, BeforeValidator(list_in_text)] = Field(
        default=None, description="One per line, or separated by commas."
    )
    reason: str | None = Field(default=None, description="Why they are added.")
    done: Annotated[str | None, BeforeValidator(_done_as_text)] = Field(
        default=None, description="Completes the current goal; the value is its summary."
    )
    summary: SkipJsonSchema[str | None] = None
    """Belongs to ``done``; not in the schema, but accepted when a model gives it."""
    abandon: Annotated[str | None, BeforeValidator(_done_as_text)] = Field(
        default=None, description="Abandons the current goal; the value says why."
    )
    focus: Annotated[str | None, BeforeValidator(number_as_text)] = Field(
        default=None, description="Number of the goal to work on, e.g. 2.1."
    )
    rename: str | None = Field(default=None, description="Its new description.")
    goal: Annotated[str | None, BeforeValidator(number_as_text)] = Field(
        default=None, description="Id of another goal for done, abandon, rename or add."
    )
    before: Annotated[str | None, BeforeValidator(number_as_text)] = Field(
        default=None, description="Id: add, or move goal, before it."
    )
    after: Annotated[str | None, BeforeValidator(number_as_text)] = None
    revert_files: Annotated[bool, BeforeValidator(no_as_false)] = Field(
        default=False, description="With abandon."
    )


class GoalTool(Tool[GoalInput], name="goal"):
    """Changes the goal tree through the ``Plan`` port."""

    async def run(self, args: GoalInput, ctx: ToolContext) -> ToolResult:
        goals = split_goals(args.add)
        focus, rename = meant(args.focus), meant(args.rename)
        before, after = meant(args.before), meant(args.after)
        done, abandon, goal = _ending(args)
        if not goals and (done, abandon, focus, rename, goal, before, after) == (None,) * 7:
            raise ToolError(
                "Nothing to do: give at least one of add, done, abandon, focus, rename, and goal with before or after."
            )
        edit = PlanEdit(
            add=goals,
            reason=args.reason,
            done=done,
            abandon=abandon,
            focus=focus,
            rename=rename,
            goal=goal,
            before=before,
            after=after,
            revert_files=args.revert_files,
        )
        moves = goal if (before or after) and not goals else None
        added = "\n".join(goals) or None
        wanted = {
            "done": done,
            "abandon": abandon,
            "focus": focus,
            "add": added,
            "rename": rename,
            "move": moves,
        }
        await ask_for_plan(ctx, wanted)
        told = await ctx.plan.update(edit)
        said = [
            f"done: {done}" if done is not None else "",
            f"abandoned: {abandon}" if abandon is not None else "",
            f"focus {focus}" if focus is not None else "",
            f"renamed: {rename}" if rename is not None else "",
            f"+ {', '.join(goals)}" if goals else "",
            f"moved {moves}" if moves is not None else "",
        ]
        return plan_result(told, said, ctx)


def _ending(args: GoalInput) -> tuple[str | None, str | None, str | None]:
    """Return summary, reason and goal of a call that ends a goal; the goal also of other calls. Raises ToolError.

    Some models give every argument a value, an empty one for none; an empty end alone is a mistake. Others give the
    goal's number or ``true`` as ``done`` or ``abandon``, and the result as ``summary`` or ``reason``.
    """
    done, abandon, goal, summary = args.done, args.abandon, meant(args.goal), meant(args.summary)
    if done is not None and abandon is not None:
        done, abandon = meant(done), meant(abandon)
    if done is not None and abandon is not None:
        raise ToolError("A goal is either done or abandoned: give one of the two.")
    ends, value = ("done", done) if done is not None else ("abandon", abandon)
    if value is None:
        if summary is not None:
            raise ToolError("summary goes with done: it gives the result of the goal.")
        return None, None, goal
    if ends == "abandon" and summary is None and not args.add:
        summary = meant(args.reason)  # with add, it is the reason of the added goals
    if not _NUMBER.fullmatch(value.strip()):
        value = value if summary is None else _both(value, summary)
    elif summary is not None:
        value, goal = summary, goal or value.strip()
    else:
        takes, says, ended = _ENDS[ends]
        raise ToolError(
            f"{ends} takes {takes}, and {value.strip()} is a number: say {says}. "
            f"goal says which goal is {ended}, when it is not the current one."
        )
    if not value.strip():
        raise ToolError(f"{ends} must not be empty: it replaces the details of the goal in the context.")
    return (value, None, goal) if ends == "done" else (None, value, goal)


def _both(first: str, second: str) -> str:
    return second if first.strip() in ("", second) else f"{first.strip()}\n{second}"


def plan_result(told: str, said: Iterable[str], ctx: ToolContext) -> ToolResult:
    """Return the result of a change of the plan; ``said``: its parts for the title.

    The display gets the changed goals, because their numbers change, and their ids do not.
    """
    title = head(" ".join("; ".join(filter(None, said)).split()), 120)
    return ToolResult(told, title, {"plan": to_builtins(ctx.plan.changed)})


async def ask_for_plan(ctx: ToolContext, wanted: Mapping[str, str | None]) -> None:
    """Ask for the permission ``goal``; raises PermissionDeniedError.

    ``wanted``: the operations with their texts, None for those that are not wanted. Rules match their names, which are
    the same for both tools: add, done, abandon, focus, rename, move, and read.
    """
    what = {name: value for name, value in wanted.items() if value is not None}
    words = " ".join("; ".join(f"{name} {value}" for name, value in what.items()).split())
    detail = "\n".join(f"{name}: {value}" for name, value in what.items() if value)
    everything = suggestions("goal", ("*",))
    ask = PermissionAsk(
        "goal", tuple(what), f"Plan: {short(words, 120)}", everything, detail=short(detail, 4_000)
    )
    await ctx.permission.ask(ask)


def meant(value: str | None) -> str | None:
    """Return the text without surrounding blanks; None for an empty one, which some models send for none."""
    return value.strip() or None if value is not None else None


class ReadProgressInput(ToolInput):
    """``read_progress`` takes no arguments."""


class ReadProgressTool(Tool[ReadProgressInput], name="read_progress", permission="goal"):
    """Tells the goals with their marks. The plan in each request is bounded; this shows more of a large one."""

    async def run(self, args: ReadProgressInput, ctx: ToolContext) -> ToolResult:
        await ask_for_plan(ctx, {"read": ""})
        text = ctx.plan.progress()
        marks = [line.lstrip()[:3] for line in text.splitlines()]
        goals = sum(mark in ("[✓]", "[→]", "[ ]") for mark in marks)
        return ToolResult(text, title=f"{marks.count('[✓]')} of {goals} goals done" if goals else "no goals")
