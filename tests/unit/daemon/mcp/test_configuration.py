"""Which servers are configured, where, and how their variables are filled in."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.config import load_config
from daemon.mcp.configuration import FoundServers, McpServerSpec, find_servers
from daemon.mcp.service import set_enabled
from daemon.settings import McpSettings
from tests.support.examples import examples
from tools.errors import ToolError
from tools.json_access import without_comments

PYTHON = {"command": sys.executable, "args": ["-V"]}


def write(path: Path, value: object) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(json.dumps(value))


def found(
    folder: Path, *, trusted: bool = True, env: dict[str, str] | None = None, **settings: Any
) -> FoundServers:
    return find_servers(folder, McpSettings.model_validate(settings), env or {}, trusted=trusted)


def one(servers: FoundServers) -> McpServerSpec:
    (server,) = servers.servers
    return server


def test_files_of_other_programs(tmp_path: Path) -> None:
    write(tmp_path / ".mcp.json", {"mcpServers": {"a": PYTHON, "both": PYTHON, "mine": PYTHON}})
    others = {"b": {"type": "http", "url": "https://x/"}, "both": {**PYTHON, "args": []}}
    write(tmp_path / ".vscode" / "mcp.json", {"inputs": [{"id": "key"}], "servers": others})
    servers = found(tmp_path, mcp_servers={"mine": {"command": sys.executable}})
    assert [(server.name, server.source) for server in servers.servers] == [
        ("mine", "config.json"),
        ("a", ".mcp.json"),
        ("both", ".mcp.json"),
        ("b", ".vscode/mcp.json"),
    ]
    assert servers.servers[0].command == (sys.executable,), "a folder does not replace the user's server"
    assert servers.servers[3].url == "https://x/"
    mine, inputs, both = servers.problems
    assert "mine is not used" in mine and "both is not used" in both
    assert "inputs are not supported" in inputs and "${env:NAME}" in inputs


def test_files_of_a_folder_that_is_not_trusted(tmp_path: Path) -> None:
    write(tmp_path / ".mcp.json", {"mcpServers": {"evil": PYTHON}})
    (tmp_path / "node").write_text("")
    servers = found(tmp_path, trusted=False, mcp_servers={"mine": PYTHON})
    assert one(servers).name == "mine"
    assert servers.problems[0].startswith(
        "1 MCP server of this folder is not used, because the folder is not"
    )
    assert one(servers).cwd == Path.home(), "a program must not find what the folder holds"
    assert found(tmp_path, mcp_servers={"mine": PYTHON}).servers[0].cwd == tmp_path


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"mcpServers": {"a": 3}}', '{"mcpServers": {"a": {"args": 3}}}']
)
def test_damaged_files_are_reported(tmp_path: Path, text: str) -> None:
    (tmp_path / ".mcp.json").write_text(text)
    servers = found(tmp_path)
    assert not servers.servers
    assert len(servers.problems) == 1 and ".mcp.json" in servers.problems[0]


def test_comments_in_the_file_of_vscode(tmp_path: Path) -> None:
    url = "https://x/*no*/,]"
    text = f'// one, "two"\n{{"servers": {{ /* a\nb */ "a": {{"url": "{url}", }}, // end\n }},}}'
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".vscode" / "mcp.json").write_text(text)
    assert one(found(tmp_path)).url == url
    (tmp_path / ".vscode" / "mcp.json").write_text("/* a\n*/ [1,,]")
    assert "at line 2, column" in found(tmp_path).problems[0]
    (tmp_path / ".mcp.json").write_text("// one\n{}")
    assert ".mcp.json is not used: it is not valid JSON" in found(tmp_path).problems[0]


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text('",/*]}\\\n x'),
    lambda below: st.lists(below) | st.dictionaries(st.text('",/*]}\\ x'), below),
)


@settings(max_examples=examples(200), deadline=None)
@given(value=JSON, comment=st.text('",/]}\\ x'))
def test_comments_change_no_value(value: object, comment: str) -> None:
    plain = json.dumps(value, indent=1)
    assert without_comments(plain) == plain
    commented = "".join(f"{line} // {comment}\n/*{comment}*/" for line in plain.splitlines())
    assert json.loads(without_comments(commented)) == value
    assert json.loads(without_comments(f"[{commented} , /**/ ]")) == [value]


@pytest.mark.parametrize("part", ['"', '"\\', "/*", ", ", "\\", "//"])
def test_unfinished_texts_are_quickly_read(part: str) -> None:
    assert len(without_comments(part * 300_000)) == len(part) * 300_000


def test_keys_without_a_meaning_are_told_apart(tmp_path: Path) -> None:
    servers = found(tmp_path, mcp_servers={"s": {**PYTHON, "typo": 1, "autoApprove": []}})
    assert not servers.problems and not one(servers).problem
    assert servers.unknown == ("config.json: s: keys that change nothing here: typo, autoApprove.",)
    write(tmp_path / ".mcp.json", {"mcpServers": {"a": {**PYTHON, "disabled": "yes"}}})
    assert "a is not used: disabled must be true or false" in found(tmp_path).problems[0]


def test_variables_are_filled_in(tmp_path: Path) -> None:
    (tmp_path / "server").symlink_to(sys.executable)
    server = {
        "command": "${workspaceFolder}/server",
        "args": ["${A}", "${env:A}-${B:-two}", "$A"],
        "env": {"KEY": "${A}"},
        "cwd": "${userHome}",
        "unknown": "is ignored",
    }
    spec = one(found(tmp_path, env={"A": "one"}, mcp_servers={"s": server}))
    assert spec.command == (f"{tmp_path}/server", "one", "one-two", "$A")
    assert (spec.env, spec.cwd) == ((("KEY", "one"),), Path.home())
    web = {"url": "https://x/${A}", "headers": {"Authorization": "Bearer ${A}"}}
    spec = one(found(tmp_path, env={"A": "one"}, mcp_servers={"s": web}))
    assert (spec.url, spec.headers) == ("https://x/one", (("Authorization", "Bearer one"),))


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        ({"command": "x", "args": ["${NOT_SET}"]}, "NOT_SET is not set"),
        ({"command": sys.executable, "env": {"K": "${input:key}"}}, "${input:key} is not supported"),
        ({"command": "no-such-program-anywhere"}, "is not found"),
        ({"url": "file:///etc/passwd"}, "begins with http"),
        ({"type": "sse", "url": "https://x/"}, "sse is not supported"),
        ({}, "needs a command"),
        ({"command": "sh", "url": "https://x/"}, "it has a command and a url: remove one of them"),
        ({"type": "stdio"}, "needs a command"),
    ],
)
def test_servers_that_cannot_be_used(tmp_path: Path, server: dict[str, Any], problem: str) -> None:
    spec = one(found(tmp_path, mcp_servers={"s": server}))
    if "args" in server:
        spec = one(found(tmp_path, mcp_servers={"s": {**server, "command": sys.executable}}))
    assert problem in spec.problem


def test_settings_file_and_its_other_spelling(tmp_path: Path) -> None:
    file = tmp_path / "home" / "config.json"
    write(file, {"mcpServers": {"a": PYTHON, "bad": {"args": 1}}, "mcp_disabled": ["a"]})
    write(tmp_path / ".goalwright" / "config.json", {"mcp_servers": {"b": PYTHON}})
    config = load_config(tmp_path, file)
    assert list(config.settings.mcp.mcp_servers) == ["a"], "not from a folder that is not trusted"
    assert any("mcp_servers: bad is not used: args" in problem for problem in config.problems)
    assert one(find_servers(tmp_path, config.settings.mcp, {}, trusted=False)).disabled
    trusted = load_config(tmp_path, file, trusted=True)
    assert list(trusted.settings.mcp.mcp_servers) == ["a", "b"]


def test_enabling_writes_the_users_file(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    set_enabled(file, "a", False)
    set_enabled(file, "b/tool", False)
    assert json.loads(file.read_text()) == {"mcp_disabled": ["a", "b/tool"]}
    write(file, {"model": "x/y", "mcp_disabled": ["a"]})
    set_enabled(file, "a", True)
    assert json.loads(file.read_text()) == {"model": "x/y"}
    file.write_text("{")
    with pytest.raises(ToolError, match="cannot be changed"):
        set_enabled(file, "a", True)
    assert file.read_text() == "{"
