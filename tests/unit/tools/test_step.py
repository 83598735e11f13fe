from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.fakes.tool_context import FakeToolContext, fake_context
from tools.registry import builtin_tools, run_tool
from tools.tool import ToolError, ToolResult


@pytest.fixture
def ctx(tmp_path: Path) -> FakeToolContext:
    return fake_context(tmp_path)


async def step(ctx: FakeToolContext, **arguments: object) -> ToolResult:
    return await run_tool(builtin_tools()["step"], json.dumps(arguments), ctx)


def test_its_arguments_are_those_of_the_seed() -> None:
    schema = builtin_tools()["step"].schema()
    kinds = {name: spec["type"] for name, spec in schema["properties"].items()}
    assert kinds == {"plan": "array", "focus": "string", "complete": "boolean", "summary": "string"}
    assert schema["properties"]["plan"]["items"] == {"type": "string"}
    assert "required" not in schema


async def test_everything_is_passed_to_the_plan(ctx: FakeToolContext) -> None:
    result = await step(ctx, plan=["a, b", "c"], focus="c", complete=True, summary="found it")
    assert ctx.plan.calls == [{"plan": ["a, b", "c"], "focus": "c", "complete": True, "summary": "found it"}]
    assert (result.content, result.is_error) == ("Focus: 1 Look.", False)
    assert result.title == "completed: found it; focus c; + a, b, c"


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        ({"focus": 2}, {"focus": "2"}),
        ({"focus": 2.1}, {"focus": "2.1"}),
        ({"focus": " Fix it "}, {"focus": "Fix it"}),
        ({"plan": '["a, b", "c"]'}, {"plan": ["a, b", "c"]}),
        ({"plan": "- a\n- b"}, {"plan": ["- a", "- b"]}),
        ({"plan": ["1. a", " ", "[ ] ", "[✓] b"]}, {"plan": ["1. a", "[✓] b"]}),
        ({"complete": "true", "summary": "s"}, {"complete": True, "summary": "s"}),
        # Every argument given, with nothing in those that are not meant.
        ({"plan": [], "focus": "a", "complete": "", "summary": ""}, {"focus": "a"}),
        ({"plan": ["a"], "focus": None, "complete": None, "summary": None}, {"plan": ["a"]}),
    ],
    ids=str,
)
async def test_arguments_as_models_spell_them_are_understood(
    ctx: FakeToolContext, arguments: dict[str, object], call: dict[str, object]
) -> None:
    result = await step(ctx, **arguments)
    assert not result.is_error, result.content
    assert ctx.plan.calls == [call]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "at least one of plan, focus and complete"),
        ({"plan": [], "focus": "", "complete": False}, "at least one of"),
        ({"plan": [" "]}, "at least one of"),
        ({"complete": True}, "needs a summary"),
        ({"complete": True, "summary": " ", "focus": "b"}, "needs a summary"),
        ({"summary": "s"}, "goes with complete=true"),
        ({"summary": "s", "focus": "b"}, "goes with complete=true"),
        ({"plan": [3]}, "plan.0: input should be a valid string"),
        ({"add": "a"}, "add: is not known"),
    ],
    ids=str,
)
async def test_what_means_nothing_is_refused(
    ctx: FakeToolContext, arguments: dict[str, object], message: str
) -> None:
    result = await step(ctx, **arguments)
    assert result.is_error
    assert message in result.content
    assert not ctx.plan.calls


async def test_an_impossible_operation_is_an_error_result(ctx: FakeToolContext) -> None:
    ctx.plan.fail = ToolError("There is no goal 'x'.")
    result = await step(ctx, focus="x")
    assert (result.content, result.is_error) == ("There is no goal 'x'.", True)
