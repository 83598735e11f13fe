"""Tool calls that a model writes as text: what is one, what is not, and what a turn does about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from daemon.loop.text_tool_calls import asks_for_one, gave_up, nudge, text_tool_call
from daemon.model import notice_codes
from daemon.model.events import Notice
from daemon.provider.model_calls import ToolSpec
from tests.support.drivers.core import daemon
from tests.support.fakes.models import Call


def tool(name: str, *required: str, optional: tuple[str, ...] = ()) -> ToolSpec:
    properties = {key: {"type": "string"} for key in (*required, *optional)}
    return ToolSpec(name, "", {"type": "object", "properties": properties, "required": list(required)})


TOOLS = (
    tool("edit", "file_path", "old_string", "new_string", optional=("replace_all",)),
    tool("read", "file_path", optional=("offset", "limit")),
    tool("bash", "command", optional=("description",)),
    tool("ls", optional=("path",)),
    tool("goal", optional=("add", "focus", "done")),
)
EDIT = {"file_path": "a.py", "old_string": "limit = 1", "new_string": "limit = 2"}
PATH = '{"file_path": "a.py"}'
READ = json.dumps({"name": "read", "arguments": json.loads(PATH)})
CALL = json.dumps({"name": "edit", "arguments": EDIT})
SPREAD = json.dumps({"name": "edit", "arguments": EDIT}, indent=2)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"```json\n{CALL}\n```", "edit"),
        (f"```\n{SPREAD}\n```", "edit"),
        (f"```json\n{SPREAD}", "edit"),
        (f"~~~json\n{CALL}\n~~~", "edit"),
        (f"I change the limit now.\n\n```json\n{SPREAD}\n```\n\nThis sets the limit to 2.", "edit"),
        (f"It looks like the limit is wrong, so I fix the format:\n{CALL}", "edit"),
        (CALL, "edit"),
        (f"[{CALL}]", "edit"),
        (f"{CALL}\n{CALL}", "edit"),
        (f"```json\n[{CALL}, {CALL}]\n```", "edit"),
        (f"<tool_call>\n{CALL}\n</tool_call>", "edit"),
        (f"<tool_call>\n{CALL}", "edit"),
        (f"{'I think about it. ' * 100}\n<tool_call>{CALL}</tool_call>", "edit"),
        (f"<tool_call>\n```json\n{CALL}\n```\n</tool_call>", "edit"),
        (f"[TOOL_CALLS][{CALL}]", "edit"),
        (f"<|tool_call|>{CALL}<|/tool_call|>", "edit"),
        (f"<|python_tag|>{CALL}", "edit"),
        (f"<function_call>{CALL}</function_call>", "edit"),
        (f"<tools>\n{CALL}\n</tools>", "edit"),
        (f"<function=edit>{json.dumps(EDIT)}</function>", "edit"),
        ("<function=read>\n<parameter=file_path>\na.py\n</parameter>\n</function>", "read"),
        (
            "<tool_call>\n<function=read>\n<parameter=file_path>a.py</parameter>\n</function>\n</tool_call>",
            "read",
        ),
        ('<invoke name="bash"><parameter name="command">ls</parameter></invoke>', "bash"),
        (json.dumps({"tool": "read", "parameters": {"file_path": "a.py"}}), "read"),
        (json.dumps({"tool_name": "bash", "args": {"command": "ls -l"}}), "bash"),
        (json.dumps({"action": "bash", "action_input": {"command": "ls"}}), "bash"),
        (json.dumps({"name": "functions.read", "parameters": {"file_path": "a.py"}}), "read"),
        (json.dumps({"name": "read", "arguments": json.dumps({"file_path": "a.py"})}), "read"),
        (
            json.dumps({"type": "function", "function": {"name": "read", "arguments": '{"file_path": "a"}'}}),
            "read",
        ),
        (
            json.dumps({"tool_calls": [{"function": {"name": "bash", "arguments": {"command": "ls"}}}]}),
            "bash",
        ),
        (json.dumps({"function_call": {"name": "bash", "arguments": {"command": "ls"}}}), "bash"),
        (json.dumps({"edit": EDIT}), "edit"),
        (json.dumps({"tool": "read", "file_path": "a.py"}), "read"),
        (json.dumps({"name": "ls", "arguments": {}}), "ls"),
        ('{"name": "bash", "arguments": {"command": "echo a\nb"}}', "bash"),
        ('```json\n{"name": "edit", "arguments": {"file_path": "a.py", "old_string": "x\n```', "edit"),
        ('{"name": "edit", "arguments": {\'file_path\': \'a.py\'}}', "edit"),
        ('read(file_path="a.py")', "read"),
        ('```tool_code\nprint(bash(command="ls"))\n```', "bash"),
        ('```python\nedit(file_path="a.py", old_string="x", new_string="y")\n```', "edit"),
        ('Thought: I look.\nAction: read\nAction Input: {"file_path": "a.py"}', "read"),
        ('<tool_call>{"name": "edit_file", "arguments": {"path": "a.py"}}</tool_call>', "edit_file"),
        (f"<think>I call it.</think>\n\n{CALL}", "edit"),
        ('<tool_code>read(file_path="a.py")</tool_code>', "read"),
        ('<tool_code>\nprint(read(file_path="a.py"))\n</tool_code>', "read"),
        ('read(file_path="a.py")\nread(file_path="b.py")', "read"),
        ('await read(file_path="a.py")', "read"),
        (READ[:-1], "read"),
        (f"I look:\n{READ[:-1]}", "read"),
        (f"```json\n{READ[:-1]}\n```", "read"),
        (f"<tool_call>{READ[:-1]}</tool_call>", "read"),
        (f'{{"tool_calls": [{READ}', "read"),
        (f"<|channel|>commentary to=functions.read <|message|>{PATH}", "read"),
        (
            f"<|start|>assistant<|channel|>commentary to=functions.read <|constrain|>json<|message|>{PATH}<|call|>",
            "read",
        ),
        (f"commentary to=functions.read json{PATH}", "read"),
        (f"<|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{PATH}", "read"),
        (
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>"
            f"{PATH}<|tool_call_end|><|tool_calls_section_end|>",
            "read",
        ),
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read\n"
            f"```json\n{PATH}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            "read",
        ),
        ("<read><file_path>a.py</file_path></read>", "read"),
        ("I look.\n\n<read>\n<file_path>a.py</file_path>\n<limit>3</limit>\n</read>", "read"),
        ('<read file_path="a.py"/>', "read"),
        (f'<tool name="read">{PATH}</tool>', "read"),
        ('<tool name="read"><file_path>a.py</file_path></tool>', "read"),
        (f"✿FUNCTION✿: read\n✿ARGS✿: {PATH}", "read"),
        ("{'name': 'read', 'arguments': {'file_path': 'a.py'}}", "read"),
        ("{'name': 'read', 'arguments': {'file_path': \"it's.py\", 'limit': None}}", "read"),
    ],
)
def test_a_call_written_as_text_is_noticed(text: str, name: str) -> None:
    call = text_tool_call(text, TOOLS)
    assert call is not None
    assert (call.name, call.known) == (name, name != "edit_file")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Done: the limit is 2 now.",
        "I called edit with file_path a.py.",
        'The file has {"name": "edit", "version": "1.0.0"} in it.',
        '```json\n{"name": "edit", "version": "1.0.0", "scripts": {"test": "x"}}\n```',
        '```json\n{"name": "read", "description": "Reads.", "parameters": {"type": "object", "properties": {}}}\n```',
        f"For example, a call looks like this:\n```json\n{CALL}\n```",
        f"A tool call is JSON, e.g.\n```json\n{CALL}\n```\nThe server turns it into a call.",
        f"You can write `<tool_call>{CALL}</tool_call>` in the template.",
        f"The template wants this:\n```\n<tool_call>\n{CALL}\n</tool_call>\n```\n"
        + "It is parsed by the server. " * 30,
        f"```json\n{CALL}\n```\n"
        + "The first key names the tool, and the second one holds its arguments. " * 12,
        f'```json\n{CALL}\n```\nThe answer of the server:\n```json\n{{"ok": true}}\n```',
        '```json\n{"name": "edit", "arguments": {...}}\n```',
        '```json\n{"name": "read", "arguments": {"file_path": "path/to/file"}}\n```',
        '```json\n{"name": "read", "arguments": {"file_path": "<the file>"}}\n```',
        '```json\n{"name": "read", "arguments": {"file_path": "..."}}\n```',
        '{"name": "deploy", "arguments": {"target": "production"}}',
        '{"name": "read", "arguments": {"colour": "red"}}',
        '{"name": "read", "arguments": {}}',
        '{"name": "edit", "arguments": {"file_path": "a.py"}}',
        '{"name": "bash", "age": 3}',
        '{"edit": true}',
        '{"read": {"total": 3, "failed": 1}}',
        '{"goal": {}}',
        "[1, 2, 3]",
        "The `<tool_call>` tag is what Qwen's template makes of a call.",
        "Use `read(file_path=...)` to read a file.",
        "```python\nread('a.py')\n```",
        "```python\ndata = read(file_path='a.py')\nprint(data)\n```",
        "<tools>\nhammer, saw\n</tools>",
        "{" * 5_000,
        '{"a":' * 5_000,
        "Action: read the file, then go on.",
        "<read>",
        "<read>yes</read>",
        "<read><total>3</total></read>",
        "<read><file_path>path/to/file</file_path></read>",
        "Put `<read><file_path>a.py</file_path></read>` into the answer.",
        f'```xml\n<tool name="read">{PATH}</tool>\n```\nThat is how the template writes it, for example.',
        '<tool name="hammer"><weight>3</weight></tool>',
        '<function name="main"><parameter name="argc">1</parameter></function>',
        f"Harmony writes `<|channel|>commentary to=functions.read <|message|>{PATH}`.",
        f"Kimi's template makes `<|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{PATH}` of it.",
        f"An example of Qwen's older format:\n\n✿FUNCTION✿: read\n✿ARGS✿: {PATH}",
        "He left a commentary to=mail in the log.",
        "{'name': 'Ann', 'arguments': {'for': 1}}",
        "{'name': 'edit', 'version': '1.0.0'",
        "```python\nconfig = {'name': 'read', 'arguments': {'file_path': 'a.py'}}\n```",
        "read(file_path='a.py')\nprint('done')",
        "{'name': " * 5_000,
        "<read>" * 8_000,
        "<read><a>" * 5_000,
    ],
)
def test_ordinary_text_is_not_a_written_call(text: str) -> None:
    assert text_tool_call(text, TOOLS) is None


WRITE = {"name": "write", "arguments": {"file_path": "a.txt", "content": "hello\n"}}
WRITTEN = f"```json\n{json.dumps(WRITE)}\n```"
ALLOW = {"permission": {"*": "allow"}}


@pytest.mark.parametrize("fence", ["```", "~~~"])
def test_text_with_too_many_fences_is_not_looked_at(fence: str) -> None:
    call = f"<tool_call>\n{CALL}\n</tool_call>"
    few, many = (f"{fence}\n\n{fence}\n" * pairs + call for pairs in (10, 60))
    assert text_tool_call(few, TOOLS) is not None
    assert text_tool_call(many, TOOLS) is None  # to find where each one ends takes quadratic time


async def test_model_is_reminded_once_how_to_call_tools(tmp_path: Path) -> None:
    async with daemon(tmp_path, WRITTEN, Call("write", WRITE["arguments"]), "Written.") as bench:  # type: ignore[arg-type]
        session = bench.session(settings=ALLOW)
        assert (await session.prompt("write it")).stop == "end_turn"
        assert (bench.workspace / "a.txt").read_text() == "hello\n"
        told = bench.models.requests[1].messages[-1]
        assert told.role == "user"
        assert "Call the tool write again as a real tool call, with its arguments (file_path, content" in str(
            told
        )
        assert [n.level for n in bench.events(Notice) if n.code == notice_codes.WRITTEN_CALL] == ["info"]


async def test_second_call_written_as_text_ends_the_turn_with_an_error(tmp_path: Path) -> None:
    async with daemon(tmp_path, WRITTEN, "<tool_call>" + json.dumps(WRITE)) as bench:
        session = bench.session(settings=ALLOW)
        result = await session.prompt("write it")
        assert result.stop == "error"
        assert result.detail.startswith("Nothing was done: the model ")
        assert "--jinja" in result.detail
        assert [n.level for n in bench.events(Notice) if n.code == notice_codes.WRITTEN_CALL] == [
            "info",
            "error",
        ]
        assert not [message for message in session.state.messages if message.role == "tool"]


async def test_repeated_text_calls_get_limited_reminders_then_an_error(tmp_path: Path) -> None:
    real = Call("ls", {})
    steps = [WRITTEN, real, WRITTEN, real, WRITTEN, real, WRITTEN]
    async with daemon(tmp_path, *steps) as bench:
        result = await bench.session(settings=ALLOW).prompt("write it")
        assert result.stop == "error"
        assert result.detail.startswith("The work is not finished: the model ")
        assert [n.level for n in bench.events(Notice) if n.code == notice_codes.WRITTEN_CALL] == [
            "info",
            "info",
            "info",
            "warning",
        ]


def test_unknown_tool_error_lists_the_available_tools() -> None:
    call = text_tool_call('<tool_call>{"name": "edit_file", "arguments": {"path": "a"}}</tool_call>', TOOLS)
    assert call is not None
    assert (
        "There is no tool edit_file. Available tools: edit, read, bash, ls, goal. Call one of them as "
        "a real tool call."
    ) in nudge(call, TOOLS)
    assert "edit_file" in gave_up(call, "ollama/x")


async def test_tool_call_json_requested_by_the_user_is_left_alone(tmp_path: Path) -> None:
    async with daemon(tmp_path, WRITTEN) as bench:
        asked = "Show me the JSON of a tool call that writes a.txt."
        assert (await bench.session(settings=ALLOW).prompt(asked)).stop == "end_turn"
    assert not asks_for_one("Write a function that calls the API with these arguments.")


@pytest.mark.parametrize("empty", ["  \n ", "[]", "```json\n[]\n```", "{}"])
async def test_empty_answer_is_retried_once_and_then_an_error(tmp_path: Path, empty: str) -> None:
    async with daemon(tmp_path, empty, empty) as bench:
        result = await bench.session(settings=ALLOW).prompt("write it")
        assert result.stop == "error"
        assert result.detail.startswith("Nothing was done: the model ")
        assert "empty" in str(bench.models.requests[1].messages[-1])
        assert [n.level for n in bench.events(Notice) if n.code == notice_codes.WRITTEN_CALL] == [
            "info",
            "error",
        ]


async def test_empty_answer_after_work_and_empty_json_list_are_answers(tmp_path: Path) -> None:
    async with daemon(tmp_path, Call("ls", {}), "", "[]") as bench:
        session = bench.session(settings=ALLOW)
        assert (await session.prompt("look around")).stop == "end_turn"
        assert (await session.prompt("Give me the names of all tests as JSON.")).stop == "end_turn"
        assert not [n for n in bench.events(Notice) if n.code == notice_codes.WRITTEN_CALL]
