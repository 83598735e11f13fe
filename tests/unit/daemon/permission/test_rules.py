"""Permission rules (conventions.md, "Permission rules")."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from daemon.model.permissions import Action, Rule, RuleSource
from daemon.permission.matching import matches
from daemon.permission.rules import SHIPPED, RuleSet
from daemon.permission.rules_file import rules_from_config

STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


def rule(permission: str, pattern: str, action: Action, source: RuleSource = "user") -> Rule:
    return Rule(permission=permission, pattern=pattern, action=action, source=source)


@pytest.mark.parametrize(
    ("pattern", "target"),
    [
        ("*", ""),
        ("*", "anything/at all"),
        ("src/*", "src/a/b.py"),
        ("*.env", "deep/down/.env"),
        ("a?c", "abc"),
        ("a?c", "a/c"),
        ("git *", "git"),
        ("git *", "git log -1"),
        ("git * *", "git log -1"),
        ("a.b", "a.b"),
        ("[x]", "[x]"),
        ("src\\*", "src/a.py"),
        ("src/*", "src\\a.py"),
        ("two*", "two\nlines"),
        ("日本*", "日本語"),
        ("", ""),
    ],
)
def test_a_pattern_covers(pattern: str, target: str) -> None:
    assert matches(pattern, target)


@pytest.mark.parametrize(
    ("pattern", "target"),
    [
        ("src/*", "lib/src/a.py"),
        ("src", "src/a.py"),
        ("a?c", "ac"),
        ("a?c", "abbc"),
        ("git *", "gitk"),
        ("git *", "git\tlog"),
        ("git log", "git log -1"),
        ("a.b", "axb"),
        ("[x]", "x"),
        ("*.env", "a.env.local"),
        ("read", "READ"),
        ("", "x"),
    ],
)
def test_a_pattern_does_not_cover(pattern: str, target: str) -> None:
    assert not matches(pattern, target)


def test_a_tilde_is_the_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert matches("~/private-for-this-test/*", f"{tmp_path.as_posix()}/private-for-this-test/key")
    assert not matches("~/private-for-this-test/*", "/elsewhere/private-for-this-test/key")
    assert not matches("a~/x", f"a{tmp_path.as_posix()}/x")


@given(st.text(max_size=20))
def test_a_pattern_without_wildcards_covers_exactly_itself(text: str) -> None:
    plain = text.replace("*", "-").replace("?", "-").replace("~", "-").rstrip(" ")
    assert matches(plain, plain)
    assert not matches(plain, plain + "x")


@given(st.text(alphabet="ab/*? ", max_size=10), st.text(alphabet="ab/ ", max_size=10))
def test_matching_agrees_with_a_slow_reading_of_the_rule(pattern: str, target: str) -> None:
    def slow(p: str, t: str) -> bool:
        if not p:
            return not t
        if p[0] == "*":
            return any(slow(p[1:], t[i:]) for i in range(len(t) + 1))
        return bool(t) and (p[0] == "?" or p[0] == t[0]) and slow(p[1:], t[1:])

    optional_tail = pattern.endswith(" *")
    assert matches(pattern, target) == (
        slow(pattern, target) or (optional_tail and slow(pattern[:-2], target))
    )


def test_the_last_rule_that_matches_decides() -> None:
    rules = [rule("edit", "*", "ask"), rule("edit", "src/*", "allow"), rule("edit", "*.lock", "deny")]
    made = RuleSet(rules)
    assert made.decide("edit", "a.py") == rules[0]
    assert made.decide("edit", "src/a.py") == rules[1]
    assert made.decide("edit", "src/a.lock") == rules[2]


def test_without_a_matching_rule_the_action_is_ask() -> None:
    assert RuleSet(base=()).decide("anything", "x").action == "ask"


@pytest.mark.parametrize(
    ("permission", "target", "action"),
    [
        ("read", "src/a.py", "allow"),
        ("read", ".env", "ask"),
        ("read", "conf/prod.env", "ask"),
        ("read", ".env.local", "ask"),
        ("read", ".env.example", "allow"),
        ("ls", "src", "allow"),
        ("glob", "*.py", "allow"),
        ("grep", "x", "allow"),
        ("goal", "", "allow"),
        ("diagnostics", "a.py", "allow"),
        ("edit", "src/a.py", "ask"),
        ("bash", "ls", "ask"),
        ("external_directory", "/etc/*", "ask"),
        ("doom_loop", "read", "ask"),
    ],
)
def test_the_shipped_rules(permission: str, target: str, action: Action) -> None:
    assert RuleSet().decide(permission, target).action == action


def test_user_rules_may_loosen_and_tighten_the_shipped_ones() -> None:
    rules = RuleSet(base=(*SHIPPED, rule("edit", "*", "allow"), rule("read", "*.pem", "deny")))
    assert rules.decide("edit", "a.py").action == "allow"
    assert rules.decide("read", "key.pem").action == "deny"


def test_a_workspace_can_only_tighten() -> None:
    rules = RuleSet(
        base=(rule("edit", "*", "ask"), rule("bash", "*", "deny"), rule("read", "*", "allow")),
        workspace=(
            rule("edit", "*", "allow", "workspace"),
            rule("bash", "*", "allow", "workspace"),
            rule("read", "secret/*", "ask", "workspace"),
            rule("read", "more/*", "deny", "workspace"),
        ),
    )
    assert rules.decide("edit", "a").source == "user"
    assert rules.decide("bash", "ls").action == "deny"
    assert rules.decide("read", "a").action == "allow"
    assert rules.decide("read", "secret/a").action == "ask"
    assert rules.decide("read", "more/a").action == "deny"


def test_session_grant_answers_ask_rules_but_not_deny_rules() -> None:
    granted = (rule("*", "*", "allow", "session"),)
    rules = RuleSet(
        base=(*SHIPPED, rule("bash", "rm *", "deny")),
        workspace=(rule("edit", "vendor/*", "deny", "workspace"), rule("read", "x", "ask", "workspace")),
        session=granted,
    )
    assert rules.decide("bash", "ls").action == "allow"
    assert rules.decide("read", "x").action == "allow"
    assert rules.decide("bash", "rm -rf x").action == "deny"
    assert rules.decide("edit", "vendor/a").action == "deny"


def test_the_agents_limits_win_over_everything() -> None:
    rules = RuleSet(
        base=(rule("edit", "*", "allow"),),
        session=(rule("edit", "*", "allow", "session"),),
        agent=(rule("edit", "*", "deny", "agent"),),
    )
    assert rules.decide("edit", "a").source == "agent"
    assert rules.decide("edit", "a").action == "deny"


ACTIONS: st.SearchStrategy[Action] = st.sampled_from(["allow", "ask", "deny"])
RULES = st.lists(
    st.builds(
        rule,
        st.sampled_from(["edit", "bash", "*"]),
        st.sampled_from(["*", "a*", "b", "src/*", "?"]),
        ACTIONS,
    ),
    max_size=4,
)
TARGETS = ["", "a", "ab", "b", "src/x", "c", "something else"]


@given(RULES, RULES, RULES, RULES)
@example([rule("edit", "*", "deny")], [], [], [rule("edit", "*", "ask")])
@example([rule("edit", "*", "deny"), rule("edit", "b", "allow")], [], [], [])
def test_tool_is_offered_if_any_target_is_not_denied(
    base: list[Rule], workspace: list[Rule], session: list[Rule], agent: list[Rule]
) -> None:
    rules = RuleSet(base, workspace, session, agent)
    for permission in ("edit", "bash", "read"):
        if any(rules.decide(permission, target).action != "deny" for target in TARGETS):
            assert rules.offered(permission)


@pytest.mark.parametrize("layer", ["base", "workspace", "agent"])
def test_a_tool_that_is_denied_outright_is_not_offered(layer: str) -> None:
    rules = RuleSet(**{layer: (*SHIPPED, rule("edit", "*", "deny"))})  # type: ignore[arg-type]
    assert not rules.offered("edit")
    assert rules.offered("read")


def test_tool_denied_generally_is_offered_if_a_later_rule_allows() -> None:
    assert RuleSet(base=(rule("edit", "*", "deny"), rule("edit", "docs/*", "ask"))).offered("edit")
    assert not RuleSet(base=(rule("edit", "docs/*", "ask"), rule("edit", "*", "deny"))).offered("edit")


@given(RULES, RULES, st.sampled_from(TARGETS))
def test_no_workspace_rule_ever_loosens_anything(base: list[Rule], local: list[Rule], target: str) -> None:
    without = RuleSet(base).decide("edit", target).action
    with_it = RuleSet(base, workspace=local).decide("edit", target).action
    assert STRICTNESS[with_it] >= STRICTNESS[without]


@given(RULES, RULES, RULES, st.sampled_from(TARGETS))
def test_no_grant_ever_lifts_a_prohibition(
    base: list[Rule], local: list[Rule], granted: list[Rule], target: str
) -> None:
    if RuleSet(base, local).decide("edit", target).action == "deny":
        assert RuleSet(base, local, granted).decide("edit", target).action == "deny"


def test_both_forms_of_the_configuration_are_read() -> None:
    rules, wrong = rules_from_config({"bash": "ask", "edit": {"*.lock": "deny", "*": "ask"}}, "user")
    assert wrong == []
    assert [(r.permission, r.pattern, r.action) for r in rules] == [
        ("bash", "*", "ask"),
        ("edit", "*.lock", "deny"),
        ("edit", "*", "ask"),
    ]
    listed, wrong = rules_from_config(
        [{"permission": "bash", "action": "ask"}, {"permission": "edit", "pattern": "a", "action": "deny"}],
        "workspace",
    )
    assert wrong == []
    assert listed == [rule("bash", "*", "ask", "workspace"), rule("edit", "a", "deny", "workspace")]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(["allow", "deny"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
@example({"bash": ["ask"]})
@example({"edit": {"*": {}}})
@example([{"permission": [], "pattern": {}, "action": []}])
def test_invalid_permission_config_is_reported_not_raised(value: object) -> None:
    rules, wrong = rules_from_config(value, "workspace")
    assert all(isinstance(text, str) and text for text in wrong)
    assert all(r.action in STRICTNESS for r in rules)


def test_invalid_entries_are_reported_and_others_kept() -> None:
    rules, wrong = rules_from_config({"bash": "perhaps", "edit": "deny", "read": ["ask"]}, "user")
    assert rules == [rule("edit", "*", "deny")]
    assert len(wrong) == 2
    assert "bash" in wrong[0]
    assert "read" in wrong[1]


def test_rule_sets_of_the_same_rules_are_equal() -> None:
    granted = Rule(permission="read", pattern="x", action="allow", source="session")
    made = {RuleSet(root="/w"), RuleSet(root="/w"), RuleSet(root="/w", session=[granted])}
    assert len(made) == 2
    assert replace(RuleSet(root="/w"), session=[granted]) in made
    assert RuleSet(root="/w", mode="plan") not in made
    assert RuleSet(root="/w", insists=["edit"]) not in made
