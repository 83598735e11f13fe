"""An agent that only looks: what mode plan denies is denied to it in every mode, whatever rules allow."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from daemon.model.permissions import Action, Mode, Rule
from daemon.permission.rules import SHIPPED, RuleSet
from tests.support.drivers.rule_judge import reason_words
from tools.shell.path_lookup import real_place
from tools.shell.question import question
from tools.tool import PermissionAsk

ALL = (Rule(permission="*", pattern="*", action="allow", source="user"),)
NAMED = (Rule(permission="bash", pattern="make*", action="allow", source="user"),)
MODES: tuple[Mode, ...] = ("ask", "accept-edits", "auto", "plan")


def ask(line: str, root: Path) -> PermissionAsk:
    return question(line, real_place(root))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("contained", [False, True])
@pytest.mark.parametrize("rules", [(), ALL, NAMED, (*ALL, *NAMED)])
@pytest.mark.parametrize(
    ("line", "action"),
    [
        ("make", "deny"),
        ("python3 s.py", "deny"),
        ("git stash", "deny"),
        ("git commit -qam y", "deny"),
        ("npm install", "deny"),
        ("./run", "deny"),
        ("ls; make", "deny"),
        ("cat f.txt", "allow"),
        ("git log -3", "allow"),
    ],
)
def test_read_only_agent_runs_only_reading_commands_in_a_sandbox(
    line: str, action: Action, rules: tuple[Rule, ...], mode: Mode, contained: bool, tmp_path: Path
) -> None:
    (tmp_path / "f.txt").write_text("x")
    found = RuleSet(
        (*SHIPPED, *rules, Rule(permission="bash", pattern="cat *", action="allow", source="user")),
        session=(Rule(permission="bash", pattern="git log*", action="allow", source="session"),),
        agent=ALL,
        mode=mode,
        trust="trusted",
        root=tmp_path.as_posix(),
        looks=True,
    )
    decided = found.judge(replace(ask(line, tmp_path), contained=contained)).action
    assert decided == (action if contained else "deny")


@pytest.mark.parametrize("mode", MODES)
def test_read_only_agent_is_denied_edits_and_edit_tools(mode: Mode) -> None:
    found = RuleSet((*SHIPPED, *ALL), agent=ALL, mode=mode, trust="trusted", root="/w", looks=True)
    assert found.decide("edit", "a.py").action == "deny"
    assert found.decide("read", "a.py").action == "allow"
    assert found.decide("edit", "/dev/null").action == "allow"
    assert (found.offered("edit"), found.offered("bash"), found.offered("read")) == (False, True, True)


def test_rules_about_reading_hold_for_read_only_agents(tmp_path: Path) -> None:
    secret = Rule(permission="bash", pattern="cat *", action="deny", source="user")
    asks = RuleSet((*SHIPPED, secret), root=tmp_path.as_posix(), looks=True)
    assert asks.judge(replace(ask("cat a", tmp_path), contained=True)).action == "deny"
    assert asks.judge(replace(ask("ls", tmp_path), contained=True)).action == "ask"
    assert asks.judge(ask("ls", tmp_path)).action == "deny"


def test_denial_reason_names_the_read_only_agent(tmp_path: Path) -> None:
    found = RuleSet((*SHIPPED, *ALL), mode="auto", trust="trusted", root=tmp_path.as_posix(), looks=True)
    (reason,) = found.judge(ask("make", tmp_path)).reasons[:1]
    assert "this agent is read-only" in reason_words(reason)
