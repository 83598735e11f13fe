"""Agents as files: what may stand in them, what is wrong with them in words, and whose count."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from daemon.agents.front_matter import OwnFileError, read_document
from daemon.agents.front_matter_keys import permission_of, tool_of
from daemon.agents.loader import HELPERS, Agents, UnknownAgentError, load_agent
from daemon.agents.own_files import MAX_FILE
from daemon.agents.profile_file import parse_agent
from daemon.model.permissions import Rule


def rules(*found: tuple[str, str, str]) -> list[tuple[str, str, str]]:
    return list(found)


def said(found: tuple[Rule, ...]) -> list[tuple[str, str, str]]:
    return [(rule.permission, rule.pattern, rule.action) for rule in found]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("description: Reviews.", {"description": "Reviews.", "mode": "all", "model": "", "tools": ()}),
        ('description: "Use it: always"', {"description": "Use it: always"}),
        ("description: >\n  Over\n  two lines.", {"description": "Over two lines."}),
        ("mode: subagent\nmodel: ollama/qwen3:8b", {"mode": "subagent", "model": "ollama/qwen3:8b"}),
        ("model: inherit", {"model": ""}),
        ("tools: read, Grep", {"tools": ("!*", "read", "grep")}),
        ("tools: [read, 'g*']", {"tools": ("!*", "read", "g*")}),
        ("tools:\n  - read\n  - MultiEdit", {"tools": ("!*", "read", "edit")}),
        ("tools:\n  write: false\n  bash: no", {"tools": ("!write", "!bash")}),
        ('tools: {"*": false, read: true}', {"tools": ("!*", "read")}),
        ("tools: []", {"tools": ("!*",)}),
        ("context: execute", {"context": "execute", "keep_steps": None}),
        (
            "context: {keep_steps: 4, compact_at: 90_000}",
            {"context": "x", "keep_steps": 4, "compact_at": 90_000},
        ),
        ("context: {profile: init}", {"context": "init"}),
        ("insist: edit", {"insists": ("edit",)}),
        ("name: x", {"problems": ()}),
        ("name: y", {"problems": ("line 2: name is not used: an agent is named after its file, x",)}),
        ("temperature: 0.2", {"problems": ("line 2: temperature is not used here",)}),
        (
            "model: sonnet",
            {
                "model": "",
                "problems": (
                    "line 2: 'sonnet' is not of the form provider/model: the session's model is used",
                ),
            },
        ),
        ("", {"description": "You are x."}),
    ],
)
def test_valid_file_is_parsed(head: str, expected: dict[str, Any]) -> None:
    agent = parse_agent("x", f"---\n{head}\n---\n\nYou are x.\nMore.\n")
    assert {name: getattr(agent, name) for name in expected} == expected
    assert agent.prompt == "You are x.\nMore."


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("deny: edit, bash", [("edit", "*", "deny"), ("bash", "*", "deny")]),
        ("permission: {bash: ask}", [("bash", "*", "ask")]),
        ("permission: deny", [("*", "*", "deny")]),
        (
            'permissions:\n  edit:\n    "*": deny\n    "*.md": allow\n  bash: ask',
            [("edit", "*", "deny"), ("edit", "*.md", "allow"), ("bash", "*", "ask")],
        ),
        ("permission:\n- {permission: edit, pattern: a, action: deny}", [("edit", "a", "deny")]),
        # What is denied stays so, wherever it stands.
        ("deny: edit\npermission: {edit: allow}", [("edit", "*", "allow"), ("edit", "*", "deny")]),
        ("permission:", []),
    ],
)
def test_its_rules(head: str, expected: list[tuple[str, str, str]]) -> None:
    found = parse_agent("x", f"---\n{head}\n---\nHi.", "user", "/h/x.md").rules
    assert said(found) == expected
    assert all((rule.source, rule.file) == ("agent", "/h/x.md") for rule in found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("---\ndescription: a\nHi.", "line 1: the front matter that starts here has no end;"),
        (
            "---\ndescription: Use it: now\n---\nHi.",
            "line 2: mapping values .*; quote text that contains a colon",
        ),
        ("---\ntools: *\n---\nHi.", "line 2: .*quote values"),
        ("---\na: x\n\tb: y\n---\nHi.", "line 3: .*use spaces"),
        ("---\n- a\n---\nHi.", "line 2: the front matter must be lines like"),
        ("---\nmode: everything\n---\nHi.", "line 2: mode must be one of primary, subagent, all"),
        ("---\nx: y\npermission: {bash: perhaps}\n---\nHi.", "line 3: permission: .*allow, ask or deny"),
        ("---\npermission: 3\n---\nHi.", "line 2: permission"),
        ("---\ndeny: {edit: true}\n---\nHi.", "line 2: deny must be a list"),
        ("---\ntools: {bash: perhaps}\n---\nHi.", "line 2: tools: bash must be true or false"),
        ("---\ncontext: {keep_steps: 0}\n---\nHi.", "line 2: context: keep_steps must be a number from 1"),
        ("---\ncontext: {window: 3}\n---\nHi.", "line 2: context must be"),
        (
            "---\npermission: {edit: deny}\npermission: {bash: deny}\n---\nHi.",
            "line 3: 'permission' appears twice;",
        ),
        ("---\npermission:\n  edit: deny\n  edit: allow\n---\nHi.", "line 4: 'edit' appears twice;"),
        ("---\ndescription: a\n---\n", "it has no text"),
        ("", "it has no text"),
    ],
)
def test_invalid_agent_file_error_has_line_and_advice(text: str, message: str) -> None:
    with pytest.raises(OwnFileError, match=message):
        parse_agent("x", text)


@pytest.mark.parametrize(
    "head",
    [
        "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]",
        "a: &a {b: *a}",
        "a: " + "[" * 20_000,
        "a: " + "[" * 20 + "]" * 20,
        "a: " + "x" * 60_000,
        "? [a]\n: b",
        "a: \x00",
        "%YAML 9.9",
        "a: !!python/object/apply:os.system []\n b",
        "a: 1\n...\nb: 2\n- c",
    ],
)
def test_hostile_front_matter_is_refused_at_once(head: str) -> None:
    with pytest.raises(OwnFileError):
        read_document(f"---\n{head}\n---\nHi.")


def test_yaml_tag_executes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "made"
    found = read_document(f"---\ndescription: !!python/object/apply:os.mkdir ['{target}']\n---\nHi.")
    assert found.head["description"].value == [str(target)]
    assert not target.exists()


@pytest.mark.parametrize(
    ("tools", "has", "has_not"),
    [
        ((), ["bash", "read"], []),
        (("!*", "read", "g*"), ["read", "grep", "glob", "goal"], ["bash", "readx"]),
        (("!bash",), ["read"], ["bash"]),
        (("!*",), [], ["read", "bash"]),
    ],
)
def test_tools_are_wildcards_of_which_the_last_decides(
    tools: tuple[str, ...], has: list[str], has_not: list[str]
) -> None:
    from msgspec.structs import replace

    agent = replace(load_agent("general"), tools=tools)
    assert all(map(agent.has_tool, has))
    assert not any(map(agent.has_tool, has_not))


# -- whose count --


def put(folder: Path, name: str, text: str = "Hi.", head: str = "description: mine") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(f"---\n{head}\n---\n{text}\n")
    return path


@pytest.fixture
def agents(tmp_path: Path) -> Agents:
    return Agents(tmp_path / "workspace", tmp_path / "home")


@pytest.fixture
def local(tmp_path: Path) -> Path:
    return tmp_path / "workspace" / ".goalwright" / "agents"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / "home" / "agents"


def test_the_nearest_file_wins_where_the_folder_is_trusted(agents: Agents, local: Path, own: Path) -> None:
    put(own, "review", "Mine.")
    put(own, "explore", "My explorer.")
    put(local, "review", "The folder's.")
    assert agents.find("review", "trusted").prompt == "The folder's."
    assert agents.find("review", "trusted").source == "workspace"
    assert agents.find("explore", "trusted").prompt == "My explorer."
    assert agents.find("general", "trusted") == load_agent("general")
    names = [agent.name for agent in agents.all("trusted").agents]
    assert names == ["build", "plan", "init", "execute", *HELPERS, "review"]


@pytest.mark.parametrize("trust", ["unknown", "restricted"])
def test_agents_of_a_folder_that_is_not_trusted_are_never_read(
    agents: Agents, local: Path, own: Path, trust: Any
) -> None:
    put(own, "review", "Mine.")
    put(local, "review", "The folder's.")
    put(local, "evil")
    put(local, "broken", head="mode: x")
    found = agents.all(trust)
    assert agents.find("review", trust).prompt == "Mine."
    assert "evil" not in [agent.name for agent in found.agents]
    assert found.problems == ()
    assert (
        "The agents of this folder (broken, evil, review) are not used, because the folder is not trusted."
    ) in found.unread
    with pytest.raises(UnknownAgentError, match="There is no agent 'evil'"):
        agents.find("evil", trust)
    assert agents.all("trusted").unread == ""


def test_broken_agent_file_is_reported_and_others_are_loaded(agents: Agents, local: Path, own: Path) -> None:
    broken = put(own, "review", head="mode: x")
    put(local, "fine")
    put(own, "My Agent")
    (own / "folder.md").mkdir()
    (own / "latin.md").write_bytes(b"\xff\xfe\x00x")
    (own / "large.md").write_bytes(b"x" * (MAX_FILE + 1))
    found = agents.all("trusted")
    assert "fine" in [agent.name for agent in found.agents]
    assert [problem.removeprefix(f"{own}/") for problem in found.problems] == [
        "My Agent.md: an agent is named after its file: rename it so that it has only lowercase letters, "
        "digits and hyphens",
        "folder.md: it cannot be read: it is not a regular file",
        f"large.md: it cannot be read: it is larger than {MAX_FILE} bytes",
        "latin.md: it is not UTF-8 text: save it as UTF-8",
        "review.md: line 2: mode must be one of primary, subagent, all",
    ]
    with pytest.raises(UnknownAgentError, match=r"The agent review cannot be used: .*review.md: line 2"):
        agents.find("review", "trusted")
    broken.unlink()
    with pytest.raises(UnknownAgentError, match="There is no agent 'review'; available agents: build"):
        agents.find("review", "trusted")


def test_broken_agent_file_has_no_fallback_of_the_same_name(agents: Agents, own: Path) -> None:
    put(own, "plan", head="mode: x")
    with pytest.raises(UnknownAgentError, match="cannot be used"):
        agents.find("plan", "trusted")
    assert "plan" not in [agent.name for agent in agents.all("trusted").agents]


def test_a_pipe_is_not_waited_for(agents: Agents, own: Path) -> None:
    own.mkdir(parents=True)
    os.mkfifo(own / "pipe.md")
    assert agents.all("unknown").problems == (
        f"{own / 'pipe.md'}: it cannot be read: it is not a regular file",
    )


def test_new_or_changed_agent_file_is_picked_up(agents: Agents, own: Path) -> None:
    assert len(agents.all("unknown").agents) == 7
    path = put(own, "review", "One.")
    assert agents.find("review", "unknown").prompt == "One."
    put(own, "review", "Another text.")
    assert agents.find("review", "unknown").prompt == "Another text."
    path.unlink()
    assert len(agents.all("unknown").agents) == 7


@pytest.mark.parametrize("name", ["../general", "a/b", "", "A", "-x", "x-", "a" * 65, "x\n"])
def test_agent_name_is_not_a_path(agents: Agents, own: Path, name: str) -> None:
    put(own, "general", head="mode: x")
    with pytest.raises(UnknownAgentError, match="There is no agent"):
        agents.find(name, "trusted")


def test_shipped_agents_are_read_without_the_yaml_library() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from daemon.agents.loader import *\n"
        "for name in SHIPPED_AGENTS: assert not load_agent(name).problems\n"
        "assert load_agent('compaction').rules and 'yaml' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("value", ['"!*"', '""', '"a: b # c" ', '"it\'s, [x] {y} & *"', "plain, text", "a-b"])
def test_plain_and_quoted_lines_are_read_as_yaml_reads_them(value: str) -> None:
    # A list is left to YAML, and so are the lines beside it.
    plain = read_document(f"---\nkey: {value}\n---\n").head["key"]
    assert plain == read_document(f"---\nkey: {value}\nlist: [a]\n---\n").head["key"]


def test_names_of_mcp_tools_keep_their_case() -> None:
    assert tool_of("!MCP__Linear__*") == ("!mcp__Linear__*", True)
    assert permission_of(" mcp__Linear__getIssue") == ("mcp__Linear__getIssue", True)
    assert permission_of("Bash") == ("bash", True)
