"""The shipped agents."""

from __future__ import annotations

import pytest

from daemon.agents.loader import BUILTIN, UnknownAgentError, load_agent
from daemon.permission.rules import RuleSet


@pytest.mark.parametrize("name", BUILTIN)
def test_shipped_agent_has_a_description_and_the_common_rules(name: str) -> None:
    agent = load_agent(name)
    assert agent.name == name
    assert agent.description
    assert "absolute paths" in agent.prompt
    assert "---" not in agent.prompt.splitlines()


def test_plan_agent_has_no_edit_permission() -> None:
    rules = RuleSet(agent=load_agent("plan").rules)
    assert rules.decide("edit", "a.py").action == "deny"
    assert not rules.offered("edit")
    assert rules.offered("read")
    assert RuleSet(agent=load_agent("build").rules).offered("edit")


def test_unknown_shipped_agent_is_refused_with_the_choices() -> None:
    with pytest.raises(UnknownAgentError, match="build, plan, init, execute"):
        load_agent("../etc/passwd")


def test_agent_context_profile_defaults_to_its_name() -> None:
    assert [load_agent(name).context for name in ("build", "plan", "init", "execute")] == [
        "build",
        "plan",
        "init",
        "execute",
    ]


@pytest.mark.parametrize(
    ("name", "duty"),
    [("init", "needs the user's approval"), ("execute", "The design is not yours to change")],
)
def test_prompts_say_that_design_changes_need_approval(name: str, duty: str) -> None:
    assert duty in load_agent(name).prompt
