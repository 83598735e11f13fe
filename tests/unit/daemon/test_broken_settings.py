"""Broken settings, definitions of tools and files of servers: the texts say what is wrong in the user's words."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path
from typing import Any

import pytest

from daemon.agents.own_files import ParsedFiles
from daemon.config import load_config
from daemon.mcp.configuration import find_servers
from daemon.own_tools.files import find, parse
from daemon.settings import McpSettings
from tools.process.runnable import why_not_run

JARGON = re.compile(
    r"input should|inputs are|value_error|is not of type|valid (string|dictionary|integer|number|list)|type="
    r"|field required|instance of|pydantic|jsonschema|under any of|expecting|errno|codec|\bdict\b|\bstr\b|goalwright/",
    re.IGNORECASE,
)
"""Words of pydantic, jsonschema, Python's parsers, and of our own protocol."""
ANYWHERE = "/opt/x"
SETTINGS: tuple[tuple[str, Any, str], ...] = (
    ("store_url", 5, "it must be text in double quotes"),
    ("model", ["openai/gpt-5"], "it must be text in double quotes"),
    ("max_tokens", "many", "it must be a whole number"),
    ("max_tokens", 1, "it must be 256 or more"),
    ("max_tokens", 1.5, "it must be a whole number"),
    ("idle_timeout_s", "soon", "it must be a number"),
    ("test_timeout_s", 0, "it must be greater than 0"),
    ("test_timeout_s", 9_999, "it must be 7200 or less"),
    ("debug_trace", "maybe", "it must be true or false"),
    ("debug_trace", [], "it must be true or false"),
    ("sandbox_writable", "~/x", "it must be a list, in square brackets"),
    ("environment", ["A", 5], "environment: entry 2 is not used: it must be text in double quotes"),
    ("planner", "none", "it must be one of: in_loop, layered, signposts, on_demand"),
    ("hooks", 5, "it must be an object, in curly brackets"),
    ("hooks", {"session.start": {}}, "hooks: session.start is not used: it must be a list"),
    ("hooks", {"session.start": [{}]}, "hooks: session.start, entry 1 is not used: command must be given"),
    (
        "hooks",
        {"session.start": [{"command": []}]},
        "session.start, entry 1 is not used: command must not be empty",
    ),
    ("mcp_servers", 5, "it must be an object, in curly brackets"),
    ("mcp_servers", {"docs": 5}, "it must be an object, in curly brackets"),
    ("mcp_servers", {"docs": {"command": "x", "args": ["a", 5]}}, "args, entry 2 must be text"),
    ("mcp_servers", {"docs": {"url": 5}}, "url must be text in double quotes"),
    ("mcp_servers", {"docs": {"env": {"A": 5}}}, "env, A must be text in double quotes"),
    ("language_servers", {"ruff": {"enable": True}}, "enable is not a known key: check its spelling"),
    ("models", ["x"], "it must be an object, in curly brackets"),
    ("fallback_model", 5, "it must be text in double quotes, or a list of such texts"),
    ("fallback_model", {"a": 1}, "it must be text in double quotes, or a list of such texts"),
    ("telemetry", "yes", "it must be true or false"),
    ("telemetry", 1, "it must be true or false"),
    ("sandbox_network", "on", "it must be true or false"),
    ("budget_usd", "3", "it must be a number"),
    ("budget_tokens", "3", "it must be a whole number"),
    ("max_parallel", True, "it must be a whole number"),
    ("mcp_timeout_s", float("nan"), "it must be a number"),
    ("idle_timeout_s", float("inf"), "it must be a number"),
    ("max_iterations", float("nan"), "it must be a whole number"),
    ("mcp_servers", {"docs": {"command": "x", "disabled": "no"}}, "disabled must be true or false"),
    ("language_servers", {"ruff": {"enabled": "no"}}, "enabled must be true or false"),
    ("hooks", {"session.end": [{"command": ["x"], "timeout_s": "1"}]}, "timeout_s must be a number"),
    ("fallback_model", ["openai/gpt-5", 5, "gpt"], "2: 5 is not a model. Write provider/model"),
    ("permission", 5, "must be an object or a list of rules"),
    ("permission", {"bash": 5}, "the action must be allow, ask or deny"),
    ("stores_url", "x", "is not a setting; did you mean store_url?"),
    ("zzz", "x", "is not a setting: remove it"),
)


@pytest.mark.parametrize(("key", "value", "words"), SETTINGS)
def test_a_broken_setting_is_told_in_plain_words(tmp_path: Path, key: str, value: Any, words: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({key: value, "max_depth": 3}))
    config = load_config(tmp_path / "workspace", file)
    said = "\n".join((*config.problems, *config.blocking))
    assert said.startswith(f"{file}: ") and key in said and words in said, said
    assert not JARGON.search(said.replace(str(tmp_path), "")), said
    assert config.settings.agents.max_depth == 3, "the other settings count"


def test_keys_that_are_there_twice_are_told(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"model": "a/b", "model": "c/d", "models": {"x": "a/b", "x": "c/d"}}')
    config = load_config(tmp_path / "workspace", file)
    assert config.settings.model.model == "c/d" and not config.blocking
    assert [problem.partition(": is there")[0] for problem in config.problems] == [
        f"{file}: x",
        f"{file}: model",
    ]
    for rules in (
        '"permission": {"bash": "deny"}, "permission": {}',
        '"permission": {"bash": "deny", "bash": "ask"}',
        '"permission": {"bash": {"rm *": "deny", "rm *": "ask"}}',
        '"permission": [{"permission": "bash", "action": "deny", "action": "allow"}]',
    ):
        file.write_text(f"{{{rules}}}")
        assert len(load_config(tmp_path / "workspace", file).blocking) == 1, "a prohibition may be lost"


def test_only_the_bad_entries_of_a_list_are_dropped(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"fallback_model": ["openai/a", 5, "gpt", ["x"], None, "ollama/b"]}))
    config = load_config(tmp_path / "workspace", file)
    assert config.settings.model.fallback_model == ("openai/a", "ollama/b")
    assert len(config.problems) == 3, config.problems
    guard = {"command": ["guard"]}
    hooks = {"session.end": 5, "prompt.submit": [guard, {"command": [5]}, guard], "session.start": [guard]}
    file.write_text(json.dumps({"hooks": hooks, "mcp_disabled": ["evil", 5]}))
    config = load_config(tmp_path / "workspace", file)
    kept = config.settings.commands.hooks
    assert {event: len(programs) for event, programs in kept.items()} == {
        "prompt.submit": 2,
        "session.start": 1,
    }
    assert config.settings.mcp.mcp_disabled == ("evil",)
    assert [problem.partition(": ")[2] for problem in config.problems] == [
        "hooks: session.end is not used: it must be a list, in square brackets.",
        "hooks: prompt.submit, entry 2 is not used: command, entry 1 must be text in double quotes.",
        "mcp_disabled: entry 2 is not used: it must be text in double quotes.",
    ]


def test_a_file_full_of_problems_is_told_in_brief(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    unknown = dict.fromkeys(("x" * 300_000, *map(str, range(20_000))), 1)
    file.write_text(json.dumps({"environment": [1] * 50_000, **unknown}))
    problems = load_config(tmp_path / "workspace", file).problems
    assert len(problems) == 21 and problems[-1].endswith(": there are 69,981 more problems.")
    assert sum(map(len, problems)) < 10_000


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b'{\n  "a" 1\n}', "quote or bracket at line 2, column 7"),
        (b'{"a": "\xff"}', "it is not UTF-8 text: save it as UTF-8"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b"[]", "it must hold a JSON object"),
    ],
)
def test_a_broken_file_is_told_in_plain_words(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    (said,) = load_config(tmp_path / "workspace", file).blocking
    assert said.startswith(f"{file} is not used: ") and words in said
    assert not JARGON.search(said.replace(str(tmp_path), "")), said


SCHEMAS: tuple[tuple[dict[str, Any], str], ...] = (
    (
        {"type": "object", "properties": {"a": {"type": "text"}}},
        "properties, a, type must be one of: array, ",
    ),
    ({"type": "object", "properties": {"a": 5}}, "properties, a "),
    ({"type": "object", "required": "a"}, "required must be a list, in square brackets"),
    ({"type": "object", "properties": {"a": {"minimum": "1"}}}, "properties, a, minimum must be a number"),
    ({"type": "object", "additionalProperties": 5}, "additionalProperties "),
    ({"type": "object", "properties": {"a": {"enum": 5}}}, "properties, a, enum must be a list"),
)


def skipped(tmp_path: Path, definition: Any, name: str = "mine") -> str:
    """Return what is said about one definition of the user's."""
    folder = tmp_path / "home" / "tools"
    folder.mkdir(parents=True, exist_ok=True)
    text = definition if isinstance(definition, bytes) else json.dumps(definition).encode()
    (folder / f"{name}.json").write_bytes(text)
    found, problems = find(ParsedFiles(parse), tmp_path / "workspace", tmp_path / "home", "trusted")
    assert found == []
    (said,) = problems
    assert said.startswith("Tool skipped: ") and f"{name}.json: " in said
    said = said.replace(str(tmp_path), "")
    assert not JARGON.search(said), said
    return said


@pytest.mark.parametrize(("schema", "words"), SCHEMAS)
def test_a_broken_schema_is_told_in_plain_words(tmp_path: Path, schema: dict[str, Any], words: str) -> None:
    said = skipped(tmp_path, {"description": "x", "command": ["true"], "parameters": schema})
    assert "its schema is wrong: " in said and words in said


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        (b"", "it is empty"),
        (b"{", "it is not valid JSON: look for a missing"),
        (b'{"description": "\xff"}', "it is not UTF-8 text"),
        ([], "it must be an object, in curly brackets"),
        ({}, "description must be given"),
        ({"description": "x", "command": "true"}, "command must be a list, in square brackets"),
        ({"description": "x", "command": []}, "command must not be empty"),
        ({"description": "x", "command": ["true", 5]}, "command, entry 2 must be text"),
        ({"description": "x", "command": ["true"], "timeout_s": 0}, "timeout_s must be greater than 0"),
        ({"description": "x", "command": ["true"], "sandbox": "no"}, "must be one of: on, network, off"),
        ({"description": "x", "command": ["true"], "commands": []}, "commands is not a known key"),
    ],
)
def test_a_broken_definition_is_told_in_plain_words(tmp_path: Path, definition: Any, words: str) -> None:
    assert words in skipped(tmp_path, definition)


def test_a_tool_that_is_a_link_to_nothing_is_listed(tmp_path: Path) -> None:
    (tmp_path / "home" / "tools").mkdir(parents=True)
    (tmp_path / "home" / "tools" / "x.json").symlink_to("/nosuch/x.json")
    found, problems = find(ParsedFiles(parse), tmp_path / "workspace", tmp_path / "home", "trusted")
    assert found == [] and problems[0].endswith("x.json is a link to /nosuch/x.json, which does not exist")


def program(path: Path, content: bytes, mode: int = 0o755) -> None:
    path.write_bytes(content)
    path.chmod(mode)


def test_programs_that_cannot_be_run_are_told_apart(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "tools"
    folder.mkdir(parents=True)
    script = b"#!/bin/sh\necho hi\n"
    program(folder / "closed", script, 0o644)
    program(folder / "a b", script, 0o644)
    program(folder / "blank", b"")
    program(folder / "lost", b"#!/usr/bin/nosuch -x\n")
    program(folder / "env", b"#!/usr/bin/env -S nosuch-python -u\n")
    program(folder / "windows", b"#!/bin/sh\r\necho hi\r\n")
    program(folder / "beside", script)
    (folder / "dir").mkdir()
    (folder / "link").symlink_to("/nosuch/program")
    for word, words in {
        "./closed": "is not executable: run `chmod +x /home/tools/closed`",
        "./a b": "run `chmod +x '/home/tools/a b'`",
        "./blank": "/home/tools/blank is empty",
        "./lost": "the first line of /home/tools/lost names /usr/bin/nosuch, which is not found",
        "./env": "names nosuch-python, which is not found",
        "./windows": "end as on Windows",
        "./dir": "is a folder: name the program in it",
        "./link": "is a link to /nosuch/program, which does not exist",
        "./gone": "there is no file /home/tools/gone",
        "beside": "a program beside this file is named ./beside",
        "sub/beside": "the program sub/beside is not found",
        "nosuch-program": "the program nosuch-program is not found: install it",
        "": "the program  is not found",
    }.items():
        said = skipped(tmp_path, {"description": "x", "command": [word]})
        assert words in said, f"{word}: {said}"
    script = folder / "plain"
    program(script, b"echo hi\n")
    assert why_not_run(script) == "", "a sandbox gives it to a shell"
    assert "is text without a first line such as #!" in why_not_run(script, OSError(errno.ENOEXEC, "x"))


def test_files_of_servers_are_told_in_plain_words(tmp_path: Path) -> None:
    program(tmp_path / "closed", b"#!/bin/sh\n", 0o644)
    servers = {
        "number": 5,
        "args": {"command": "sh", "args": "x"},
        "closed": {"command": "./closed"},
        "both": {"command": "sh", "url": "https://example.org"},
    }
    for content, words in (
        ({"mcpServers": servers}, ("number is", "args must be a list")),
        ({"mcpServers": 5}, ("it must be an object",)),
    ):
        (tmp_path / ".mcp.json").write_text(json.dumps(content))
        found = find_servers(tmp_path, McpSettings(), {}, trusted=True)
        said = "\n".join(found.problems)
        assert all(word in said for word in words), said
        assert not JARGON.search(said), said
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    problems = {
        one.name: one.problem for one in find_servers(tmp_path, McpSettings(), {}, trusted=True).servers
    }
    assert "is not executable: run `chmod +x" in problems["closed"]
    assert "remove one of them" in problems["both"]
