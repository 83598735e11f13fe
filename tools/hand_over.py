"""The ``hand_over`` tool: passing the work on to another agent."""

from __future__ import annotations

import math
import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from tools.tool import Tool, ToolContext, ToolError, ToolInput, ToolResult

_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")
_OF = re.compile(r"\s*(\d+)\s*/\s*(\d+)\s*(?:\(.*\))?\s*", re.DOTALL)
_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*")


def read_rate(value: object) -> object:
    """Return a success rate as models write it: 0.85, "0.85", "85 %", "17/20", "12/15 (80%)". Raises ValueError.

    A bare 85 is refused: it might as well be a count, and one that is read wrongly ends the work too early.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        rate = _rate(value)
    except (ValueError, OverflowError):  # a number of hundreds of digits
        rate = math.nan
    if not 0 <= rate <= 1:
        raise ValueError("give a number from 0 to 1 (0.85 for 85 %)")
    return rate


def _rate(value: object) -> float:
    """Return the rate; NaN unless it is a number. Raises ValueError and OverflowError for an unrepresentable one."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        if hit := _PERCENT.fullmatch(value):
            return float(hit[1]) / 100
        if (hit := _OF.fullmatch(value)) and int(hit[2]) > 0:
            return int(hit[1]) / int(hit[2])
        if hit := _NUMBER.fullmatch(value):
            return float(hit[1])
    return math.nan


class HandOverInput(ToolInput):
    """Arguments of ``hand_over``."""

    report: str
    success_rate: Annotated[float | None, BeforeValidator(read_rate)] = Field(
        default=None, description="Of execute: 0 to 1."
    )


class HandOverTool(Tool[HandOverInput], name="hand_over"):
    """Passes the work on to another agent of the session."""

    async def run(self, args: HandOverInput, ctx: ToolContext) -> ToolResult:
        if not args.report.strip():
            raise ToolError("The report is empty: say what the other agent (and the user) must know.")
        return await ctx.session.hand_over(args.report.strip(), args.success_rate)
