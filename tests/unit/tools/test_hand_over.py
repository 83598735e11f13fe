"""The tool ``hand_over`` without a session."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.support.fakes.tool_context import fake_context
from tools.ports import HandOver, WorkOutcome
from tools.registry import builtin_tools, run_tool
from tools.tool import ToolResult


@dataclass
class Other:
    """Who takes over."""

    heard: list[tuple[str, float | None]] = field(default_factory=list[tuple[str, float | None]])

    async def hand_over(self, report: str, success_rate: float | None) -> WorkOutcome:
        self.heard.append((report, success_rate))
        return WorkOutcome("Thanks.", "handed over", {"iteration": 1})


async def run(folder: Path, other: HandOver | None = None, **arguments: object) -> ToolResult:
    ctx = fake_context(folder)
    ctx = ctx if other is None else replace(ctx, hand_over=other)
    return await run_tool(builtin_tools()["hand_over"], json.dumps(arguments), ctx)


async def test_what_is_said_goes_to_the_other_and_its_answer_comes_back(tmp_path: Path) -> None:
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
async def test_what_means_nothing_is_refused_in_words(
    tmp_path: Path, arguments: dict[str, object], words: str
) -> None:
    other = Other()
    result = await run(tmp_path, other, **arguments)
    assert result.is_error
    assert words in result.content
    assert other.heard == []


async def test_where_nobody_takes_over_it_is_said(tmp_path: Path) -> None:
    result = await run(tmp_path, report="x")
    assert result.is_error
    assert "nobody to hand over to" in result.content


def test_it_says_in_few_words_what_it_is_for() -> None:
    tool = builtin_tools()["hand_over"]
    assert len(json.dumps([tool.name, tool.description, tool.schema()])) <= 350
