from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from tests.support.fakes.tool_context import FakeToolContext, fake_context
from tools.goal_lines import split_goals
from tools.registry import builtin_tools, run_tool, unknown_tool
from tools.tool import PermissionDeniedError, Tool, ToolContext, ToolError, ToolInput, ToolResult

_NOT_OF_A_FRONT = tuple(name for name in builtin_tools() if name not in ("goal", "step"))


@pytest.fixture
def ctx(tmp_path: Path) -> FakeToolContext:
    return fake_context(tmp_path)


async def run(ctx: FakeToolContext, name: str, **arguments: object) -> ToolResult:
    return await run_tool(builtin_tools()[name], json.dumps(arguments), ctx)


@pytest.mark.parametrize("front", ["goal", "step"])
def test_tool_descriptions_and_schemas_stay_below_the_size_limit(front: str) -> None:
    tools = {name: tool for name, tool in builtin_tools().items() if name in (front, *_NOT_OF_A_FRONT)}
    looking = [front, "read_progress", "read", "ls", "glob", "grep", "symbols", "diagnostics"]
    names = [
        *looking,
        "edit",
        "patch",
        "write",
        "bash",
        "job",
        "task",
        "explore",
        "hand_over",
        "question",
        "webfetch",
    ]
    assert list(tools) == [*names, "skill"]
    # The skill tool is offered only where there are skills.
    size = sum(len(json.dumps([tools[n].name, tools[n].description, tools[n].schema()])) for n in names)
    assert size < 11_500
    assert all(tool.description and tool.name == name for name, tool in tools.items())


@pytest.mark.parametrize(
    ("add", "goals"),
    [
        ("analyse, build, test", ["analyse", "build", "test"]),
        ("分析代码, 实现功能, 测试", ["分析代码", "实现功能", "测试"]),
        ("阅读登录模块，找出依赖问题", ["阅读登录模块，找出依赖问题"]),
        ("阅读登录模块，找出依赖问题, 测试", ["阅读登录模块，找出依赖问题", "测试"]),
        ("read a, b and c\nwrite d", ["read a, b and c", "write d"]),
        ("- one\n* two\n3. three\n\n", ["one", "two", "three"]),
        ("fix f(a, b), test it", ["fix f(a, b)", "test it"]),
        (["a, b", " ", "c"], ["a, b", "c"]),
        (["1. one", "- two"], ["one", "two"]),
        ("1. one, 2. two", ["one", "two"]),
        ("- [ ] one\n- [x] two\n[✓] 3. three", ["one", "two", "three"]),
        (["(1) one", "a) two", "☐ three", "1、四", "✔️ five", "[ ] "], ["one", "two", "three", "四", "five"]),
        (
            ["[a] one", "3.11 support", "-1 as offset", "[x](link)"],
            ["[a] one", "3.11 support", "-1 as offset", "[x](link)"],
        ),
        ("load 1,000 rows, test 3,5", ["load 1,000 rows", "test 3,5"]),
        ("one", ["one"]),
        (None, []),
    ],
)
def test_added_goals_are_split(add: str | list[str] | None, goals: list[str]) -> None:
    assert split_goals(add) == goals


async def test_goal_passes_everything_to_the_plan(ctx: FakeToolContext) -> None:
    result = await run(ctx, "goal", add="a, b", reason="why", done="found it", focus=2.1, rename="r")
    assert ctx.plan.calls == [
        {"add": ["a", "b"], "reason": "why", "done": "found it", "focus": "2.1", "rename": "r"}
    ]
    assert (result.content, result.is_error) == ("Focus: 1 Look.", False)
    assert result.title == "done: found it; focus 2.1; renamed: r; + a, b"


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        ({"focus": 2}, {"focus": "2"}),
        ({"focus": 2.0}, {"focus": "2"}),
        ({"focus": " 2.1 "}, {"focus": "2.1"}),
        ({"add": '["a, b", "c"]'}, {"add": ["a, b", "c"]}),
        ({"add": "[draft] a, b"}, {"add": ["[draft] a", "b"]}),
        ({"abandon": "no way", "revert_files": "true"}, {"abandon": "no way", "revert_files": True}),
        # Every argument given, with nothing in those that are not meant.
        ({"add": "", "done": "", "abandon": "", "focus": "1", "rename": ""}, {"focus": "1"}),
        ({"done": True, "summary": "found it"}, {"done": "found it"}),
        ({"done": 2, "summary": "found it"}, {"done": "found it", "goal": "2"}),
        ({"done": "done", "summary": "found it"}, {"done": "done\nfound it"}),
        ({"abandon": "no way", "summary": "it fails"}, {"abandon": "no way\nit fails"}),
        ({"abandon": "3", "summary": "it fails"}, {"abandon": "it fails", "goal": "3"}),
        ({"add": "a", "before": "g2", "after": ""}, {"add": ["a"], "before": "g2"}),
        ({"goal": "g3", "after": 2}, {"goal": "g3", "after": "2"}),
        ({"add": [], "done": "x", "abandon": "", "focus": "", "revert_files": ""}, {"done": "x"}),
        (
            {"add": "a", "reason": None, "done": None, "abandon": None, "focus": None, "revert_files": None},
            {"add": ["a"]},
        ),
    ],
    ids=str,
)
async def test_arguments_as_models_spell_them_are_understood(
    ctx: FakeToolContext, arguments: dict[str, object], call: dict[str, object]
) -> None:
    result = await run(ctx, "goal", **arguments)
    assert not result.is_error, result.content
    assert ctx.plan.calls == [call]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "at least one of"),
        ({"reason": "x"}, "at least one of"),
        ({"add": " , "}, "at least one of"),
        ({"done": "", "abandon": ""}, "at least one of"),
        ({"done": "x", "abandon": "y"}, "one of the two"),
        ({"done": " "}, "must not be empty:"),
        ({"done": "", "focus": "2"}, "must not be empty:"),
        ({"abandon": "", "focus": "2"}, "must not be empty:"),
        ({"focus": "2", "revert_files": True}, "goes with abandon"),
        ({"done": True}, "must not be empty:"),
        ({"done": 2.1}, "is a number: say the result"),
        ({"done": "Goal 2"}, "is a number: say the result"),
        ({"done": "g4", "focus": "2"}, "is a number: say the result"),
        ({"abandon": "3"}, "abandon takes the reason, and 3 is a number: say why"),
        ({"abandon": 2}, "is a number: say why"),
        ({"abandon": "#2", "add": "another way", "reason": "it is shorter"}, "is a number: say why"),
        ({"summary": "found it"}, "summary goes with done"),
        ({"done": ["x"]}, "done: input should be a valid string"),
    ],
    ids=str,
)
async def test_goal_refuses_invalid_arguments(
    ctx: FakeToolContext, arguments: dict[str, object], message: str
) -> None:
    result = await run(ctx, "goal", **arguments)
    assert result.is_error
    assert message in result.content
    assert not ctx.plan.calls


async def test_the_progress_is_read_without_arguments(ctx: FakeToolContext) -> None:
    ctx.plan.text = "[✓] 1. a\n[→] 2. b\n    [✓] 2.1 c"
    result = await run(ctx, "read_progress")
    assert (result.content, result.title) == (ctx.plan.text, "2 of 3 goals done")
    ctx.plan.text = "The plan is empty."
    assert (await run(ctx, "read_progress")).title == "no goals"
    assert (await run(ctx, "read_progress", goal="1")).is_error


async def test_an_impossible_operation_is_an_error_result(ctx: FakeToolContext) -> None:
    ctx.plan.fail = ToolError("There is no goal 9.")
    result = await run(ctx, "goal", focus="9")
    assert (result.content, result.is_error) == ("There is no goal 9.", True)


async def test_invalid_arguments_are_listed_with_the_expected_ones(ctx: FakeToolContext) -> None:
    result = await run(ctx, "edit", file="a.py", old_string=3, replace_all="maybe")
    assert result.is_error
    lines = result.content.split("\n")
    assert lines[0] == "The arguments of edit are wrong:"
    assert "- file_path: is required" in lines
    assert "- new_string: is required" in lines
    assert any(line.startswith("- old_string: input should be a valid string") for line in lines)
    assert "- file: is not known; did you mean file_path?" in lines
    assert lines[-1] == (
        "Expected: {file_path: string, old_string: string, new_string: string, replace_all?: boolean}"
    )


@pytest.mark.parametrize("value", ["[" * 30_000 + "]" * 30_000, '{"a":' * 30_000 + "1" + "}" * 30_000])
async def test_too_deeply_nested_arguments_are_refused(ctx: FakeToolContext, value: str) -> None:
    result = await run_tool(builtin_tools()["read"], f'{{"file_path": {value}}}', ctx)
    assert result.is_error
    assert result.content.startswith(
        "The arguments of read are nested too deeply. Expected: {file_path: string"
    )


@pytest.mark.parametrize("raw", ['{"path": "a', "[1]", '"x"', "null"])
async def test_arguments_that_are_no_json_object_are_refused(ctx: FakeToolContext, raw: str) -> None:
    result = await run_tool(builtin_tools()["read"], raw, ctx)
    assert result.is_error
    assert "Expected: {file_path: string, offset?: integer, limit?: integer}" in result.content


async def test_no_arguments_at_all_are_an_empty_object(ctx: FakeToolContext) -> None:
    assert not (await run_tool(builtin_tools()["ls"], "", ctx)).is_error


async def test_a_refusal_passes_through(ctx: FakeToolContext) -> None:
    ctx.permission.refuse = {"ls"}
    with pytest.raises(PermissionDeniedError):
        await run_tool(builtin_tools()["ls"], "{}", ctx)


class Broken(Tool[ToolInput]):
    name = "broken"
    permission = "broken"
    Input = ToolInput

    async def run(self, args: ToolInput, ctx: ToolContext) -> ToolResult:
        raise KeyError("boom")


async def test_internal_error_becomes_an_error_result_and_is_logged(
    ctx: FakeToolContext, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        result = await run_tool(Broken(), "{}", ctx)
    assert result.is_error
    assert result.content == "Internal error in the broken tool: KeyError: 'boom'"
    assert caplog.records[0].exc_info is not None


def test_an_unknown_tool_is_answered_with_the_nearest_name() -> None:
    assert (
        unknown_tool("reed", ["read", "edit"])
        == "There is no tool named 'reed'. Did you mean read? Available: edit, read."
    )
    assert "Did you mean" not in unknown_tool("zzz", ["read"])
