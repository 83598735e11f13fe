"""A text that may mean a limit in an agent's file is understood, or the file is no agent."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.agents.front_matter import OwnFileError
from daemon.agents.front_matter_keys import TOOLS
from daemon.agents.profile import AgentProfile
from daemon.agents.profile_file import parse_agent
from daemon.permission.rules import SHIPPED
from daemon.permission.rules_file import PERMISSIONS
from tools.registry import builtin_tools


def said(agent: AgentProfile) -> list[tuple[str, str, str]]:
    return [(rule.permission, rule.pattern, rule.action) for rule in agent.rules]


def test_known_names_match_the_existing_tools_and_permissions() -> None:
    tools = builtin_tools()
    assert set(tools) == TOOLS
    own = {tool.permission for tool in tools.values()} | {rule.permission for rule in SHIPPED}
    assert own | {"budget", "network"} == PERMISSIONS


@pytest.mark.parametrize(
    "before",
    ["", "\n", "\n \n\t\n", "\ufeff", "\ufeff\n\ufeff", " ", "\t ", "\u200b", "\u00a0", "\r\n"],
)
@pytest.mark.parametrize("after", ["", "  ", "\t", "\r"])
@pytest.mark.parametrize("head", ["deny: edit", "deny: [edit]", "# all\ndeny: edit", "  deny: edit"])
def test_invisible_text_before_front_matter_hides_no_limits(before: str, after: str, head: str) -> None:
    agent = parse_agent("x", f"{before}---{after}\n{head}\n---{after}\n\nHi.\n")
    assert said(agent) == [("edit", "*", "deny")]
    assert agent.prompt == "Hi."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("----\ndeny: edit\n----\nHi.", "line 2: 'deny: edit' looks like front matter"),
        ("--\ndeny: edit\n--\nHi.", "line 2"),
        ("—\ndeny: edit\n—\nHi.", "line 2"),
        ("- - -\nHi.\n", ""),
        ("+++\ndeny: edit\n+++\nHi.", "line 2"),
        ("```yaml\ndeny: edit\n```\nHi.", "line 2"),
        ("deny: edit\n---\nHi.", "line 1"),
        ("description: a\ndeny: edit\n---\nHi.", "line 2"),
        ("# Title\n---\ndeny: edit\n---\nHi.", "line 3"),
        ("\n\n----\ndescription: a\ndisallowedTools: Bash\n----\nHi.", "line 5"),
        ("---\ndescription: a\n---\ndeny: edit\n---\nHi.", "line 4"),
        ("---\ndescription: a\n---\n\n---\ndeny: edit\n---\nHi.", "line 6"),
        ("---\ndescription: a\n----\nHi.", "line 1: .*no end"),
        ("\n\n---\nmode: x\n---\nHi.", "line 4: mode must be"),
        ("\n---\ntools: [a\n---\nHi.", "line [34]: "),
        ("---\ndescription: a\n...\ndeny: edit\n---\nHi.", "line 4: expected"),
        # Texts, and no head at all.
        ("You review.\n\nTools: all.\n", ""),
        ("Rules: never lie.\n\ndeny: edit\n", ""),
        ("# Reviewer\n\nNote: be short.\n---\nMore.", ""),
        ("----\n\nYou review.\n----\n", ""),
    ],
)
def test_front_matter_look_alikes_are_parsed_or_refused(text: str, message: str) -> None:
    if not message:
        assert parse_agent("x", text).rules == ()
        return
    with pytest.raises(OwnFileError, match=message):
        parse_agent("x", text)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("deny: bsah", r"deny: there is no permission 'bsah' \(did you mean bash\?\)"),
        ("deny: edit bash", "there is no permission 'edit bash'"),
        ("deny: Edit(src/**)", "there is no permission 'Edit"),
        ("deny: bsh*", "there is no permission 'bsh"),
        ("permission: {bsh: deny}", r"permission: there is no permission 'bsh' \(did you mean bash\?\)"),
        ("permission: {bsh: {'git push*': deny}}", "there is no permission 'bsh'"),
        ("permissions:\n- {permission: edits, pattern: '*', action: deny}", "there is no permission 'edits'"),
        ("insist: edits", r"insist: there is no permission 'edits' \(did you mean edit\?\)"),
        ("tools: {bsah: false}", r"tools: there is no tool 'bsah' \(did you mean bash\?\)"),
        ("tools: ['!wirte']", "there is no tool 'wirte'"),
        ("disallowedTools: bsah", "there is no tool 'bsah'"),
        ("disallowedTools: Bash(git push *)", "to restrict what a tool may do, use permission"),
        ("read_only: perhaps", "read_only must be true or false"),
        ("read_only:", "read_only must be true or false"),
        ("permision: {bash: deny}", "permision is unknown and looks like a restriction;"),
        ("dney: edit", "dney is unknown"),
        ("tolls: [read]", "tolls is unknown"),
        ("isnist: edit", "isnist is unknown"),
        ("allowed-tools: Read", "allowed-tools is unknown"),
        ("allowedTools: [Read]", "allowedTools is unknown"),
        ("permissionMode: plan", "permissionMode is unknown"),
        ("sandbox: read-only", "sandbox is unknown"),
        ("approval_policy: on-request", "approval_policy is unknown"),
        ("forbid: bash", "forbid is unknown"),
        ("<<: {deny: edit}", "merge keys"),
        ("permission:\n  <<: {bash: deny}\n  edit: ask", "line 3: merge keys"),
        ("deny: edit\nDeny: bash", "line 3: deny appears twice;"),
    ],
)
def test_unknown_restrictions_make_an_agent_file_invalid(head: str, message: str) -> None:
    with pytest.raises(OwnFileError, match=message):
        parse_agent("x", f"---\n{head}\n---\nHi.")


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("Deny: edit", {"rules": [("edit", "*", "deny")]}),
        ("DENY: Edit, BASH", {"rules": [("edit", "*", "deny"), ("bash", "*", "deny")]}),
        ("Permissions: {Bash: deny}", {"rules": [("bash", "*", "deny")]}),
        ("deny: '*'", {"rules": [("*", "*", "deny")]}),
        ("permission: {'ba*': deny, list: ask}", {"rules": [("ba*", "*", "deny"), ("ls", "*", "ask")]}),
        ("deny: write", {"rules": [("write", "*", "deny")]}),
        # No tools of ours: who may not use them loses nothing.
        ("permission: {webfetch: deny}", {"rules": [("webfetch", "*", "deny")], "problems": ()}),
        ("insist: write", {"insists": ("edit",)}),
        ("insist: 'e[x]*'", None),
        ("insist: ba*", {"insists": ("bash",)}),
        ("read-only: true", {"read_only": True}),
        ("readonly: Yes", {"read_only": True}),
        ("disallowedTools: Write, Bash", {"tools": ("!write", "!bash")}),
        ("disallowed-tools: [Bash]\ntools: [read, bash]", {"tools": ("!*", "read", "bash", "!bash")}),
        (
            "tools: {webfetch: false, mcp__x__y: false}",
            {"problems": (), "tools": ("!webfetch", "!mcp__x__y")},
        ),
        ("tools: [raed]", {"problems": ("line 2: there is no tool 'raed' (did you mean read?)",)}),
        ("color: red\nmaxTurns: 3", {"problems": None}),
    ],
)
def test_common_spellings_of_limits_are_understood(head: str, expected: dict[str, Any] | None) -> None:
    text = f"---\n{head}\n---\nHi."
    if expected is None:
        with pytest.raises(OwnFileError):
            parse_agent("x", text)
        return
    agent = parse_agent("x", text)
    for name, value in expected.items():
        found = said(agent) if name == "rules" else getattr(agent, name)
        assert found if value is None else found == value
