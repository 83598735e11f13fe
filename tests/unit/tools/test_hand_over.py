"""The tool ``hand_over`` without a session."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.fakes.tool_context import fake_context
from tools.ports import SessionPorts
from tools.registry import builtin_tools, run_tool
from tools.tool import ToolResult


@dataclass
class Other:
    """The agent that takes over."""

    heard: list[tuple[str, float | None]] = field(default_factory=list[tuple[str, float | None]])

    async def hand_over(self, report: str, success_rate: float | None) -> ToolResult:
        self.heard.append((report, success_rate))
        return ToolResult("Thanks.", "handed over", {"iteration": 1})


async def run(folder: Path, other: Other | None = None, **arguments: object) -> ToolResult:
    ctx = fake_context(folder)
    ctx = ctx if other is None else replace(ctx, session=SessionPorts(hand_over=other.hand_over))
    return await run_tool(builtin_tools()["hand_over"], json.dumps(arguments), ctx)


async def test_hand_over_passes_the_report_and_returns_the_answer(tmp_path: Path) -> None:
    other = Other()
    result = await run(tmp_path, other, report=" All done. ", success_rate="17/20")
    assert (result.content, result.title, dict(result.metadata)) == (
        "Thanks.",
        "handed over",
        {"iteration": 1},
    )
    assert other.heard == [("All done.", 0.85)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "report: is required"),
        ({"report": " "}, "report is empty"),
        ({"report": "x", "success_rate": 85}, "0.85 for"),
        ({"report": "x", "success_rate": 10**400}, "0.85 for"),
        ({"report": "x", "success_rate": "9" * 400}, "0.85 for"),
        ({"report": "x", "success_rate": f"{'9' * 400}/1"}, "0.85 for"),
        ({"report": "x", "success_rate": f"1/{'9' * 5_000}"}, "0.85 for"),
        ({"report": "x", "success_rate": f"{'9' * 400} %"}, "0.85 for"),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_invalid_arguments_are_refused_with_a_reason(
    tmp_path: Path, arguments: dict[str, object], words: str
) -> None:
    other = Other()
    result = await run(tmp_path, other, **arguments)
    assert result.is_error
    assert words in result.content
    assert other.heard == []


async def test_hand_over_without_a_recipient_is_refused(tmp_path: Path) -> None:
    result = await run(tmp_path, report="x")
    assert result.is_error
    assert "not available here" in result.content


def test_tool_description_is_short() -> None:
    tool = builtin_tools()["hand_over"]
    assert len(json.dumps([tool.name, tool.description, tool.schema()])) <= 350
