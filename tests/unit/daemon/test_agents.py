"""The shipped agents."""

from __future__ import annotations

import pytest

from daemon.agents.loader import BUILTIN, UnknownAgent, load_agent
from daemon.permission.rules import RuleSet


@pytest.mark.parametrize("name", BUILTIN)
def test_a_shipped_agent_has_a_description_and_a_prompt_with_the_house_rules(name: str) -> None:
    agent = load_agent(name)
    assert agent.name == name
    assert agent.description
    assert "absolute paths" in agent.prompt
    assert "---" not in agent.prompt.splitlines()


def test_the_plan_agent_edits_nothing_whatever_was_granted() -> None:
    rules = RuleSet(agent=load_agent("plan").rules)
    assert rules.decide("edit", "a.py").action == "deny"
    assert not rules.offered("edit")
    assert rules.offered("read")
    assert RuleSet(agent=load_agent("build").rules).offered("edit")


def test_an_unknown_agent_is_refused_with_the_names_of_the_others() -> None:
    with pytest.raises(UnknownAgent, match="build, plan"):
        load_agent("../etc/passwd")
