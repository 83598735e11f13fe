"""Layers that only tighten: of the agents that sent this one, and of agents that came with the workspace."""

from __future__ import annotations

import pytest

from daemon.model.permissions import Action, Rule
from daemon.permission.rules import SHIPPED, RuleSet
from tools.access import Access
from tools.tool import PermissionAsk


def rule(permission: str, pattern: str, action: Action) -> Rule:
    return Rule(permission=permission, pattern=pattern, action=action, source="agent")


DENIES = (rule("edit", "*", "deny"),)
ONLY_DOCS = (rule("edit", "*", "deny"), rule("edit", "docs/*", "allow"))
ALLOWS = (rule("*", "*", "allow"), rule("edit", ".git/config", "allow"))


@pytest.mark.parametrize(
    ("bounds", "agent", "target", "action"),
    [
        ((), (), "a.py", "ask"),
        ((DENIES,), (), "a.py", "deny"),
        ((DENIES,), ALLOWS, "a.py", "deny"),
        ((DENIES, ALLOWS), ALLOWS, "a.py", "deny"),
        ((ALLOWS,), (), "a.py", "ask"),
        ((ALLOWS,), (), ".git/config", "ask"),
        ((ONLY_DOCS,), (), "docs/a.md", "ask"),
        ((ONLY_DOCS,), ALLOWS, "docs/a.md", "allow"),
        ((ONLY_DOCS,), ALLOWS, "src/a.py", "deny"),
        ((ONLY_DOCS, DENIES), (), "docs/a.md", "deny"),
        (((rule("edit", "*", "ask"),),), ALLOWS, "a.py", "ask"),
    ],
)
def test_bound_restricts_and_never_allows(
    bounds: tuple[tuple[Rule, ...], ...], agent: tuple[Rule, ...], target: str, action: Action
) -> None:
    rules = RuleSet(agent=agent, bounds=bounds, root="/w")
    assert rules.decide("edit", target).action == action
    access = Access("edit", target, several=True)
    assert rules.judge(PermissionAsk("edit", (), "?", accesses=(access,))).action == action


def test_bound_cannot_lift_a_user_deny_rule() -> None:
    user = Rule(permission="bash", pattern="git push*", action="deny", source="user")
    rules = RuleSet((*SHIPPED, user), bounds=((rule("bash", "*", "allow"),),))
    assert rules.decide("bash", "git push").action == "deny"


def test_a_tool_that_a_bound_forbids_is_not_offered() -> None:
    assert not RuleSet(agent=ALLOWS, bounds=(DENIES,)).offered("edit")
    assert RuleSet(bounds=(ONLY_DOCS,)).offered("edit")
    assert RuleSet(bounds=(DENIES,)).offered("bash")


def test_plain_name_is_denied_where_a_bound_denies_it() -> None:
    rules = RuleSet(
        agent=(rule("read", "*", "allow"),), bounds=((rule("read", "*.key", "deny"),),), root="/w"
    )
    assert rules.decide("read", "a.py").action == "allow"
    assert rules.decide("read", "a.key").action == "deny"
