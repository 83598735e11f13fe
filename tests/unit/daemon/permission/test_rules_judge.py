"""Decisions about whole calls (daemon/permission/rules.py, access_decision.py, modes.py, protected.py, words.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from daemon.model.permissions import Action, Mode, Rule, RuleSource
from daemon.permission import protected
from daemon.permission.layers import UNMATCHED
from daemon.permission.matching import fold, normal
from daemon.permission.rules import SHIPPED, RuleSet, rule_words
from daemon.permission.rules_file import MAX_PATTERN, MAX_RULES, rules_from_config
from tests.support.drivers.rule_judge import reason_words
from tools.access import Access
from tools.tool import PermissionAsk

STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


def rule(permission: str, pattern: str, action: Action, source: RuleSource = "user") -> Rule:
    return Rule(permission=permission, pattern=pattern, action=action, source=source)


def command(text: str = "run it", *accesses: Access, **more: Any) -> PermissionAsk:
    return PermissionAsk("bash", (text,), text, accesses=accesses, **more)


def test_reasons_are_sorted_by_strictness_and_stable() -> None:
    rules = RuleSet((rule("edit", "*", "allow"), rule("edit", "b*", "ask"), rule("edit", "c", "deny")))
    verdict = rules.judge(PermissionAsk("edit", ("a", "b2", "b1", "c", "a2"), ""))
    assert [reason.target for reason in verdict.reasons] == ["c", "b2", "b1", "a", "a2"]
    assert verdict.action == "deny"
    assert verdict.rule.pattern == "c"


def test_call_without_targets_is_decided_by_its_permission() -> None:
    assert RuleSet((rule("goal", "*", "allow"),)).judge(PermissionAsk("goal", (), "")).action == "allow"
    assert RuleSet(()).judge(PermissionAsk("goal", (), "")).rule is UNMATCHED


def test_duplicate_accesses_give_one_reason() -> None:
    access = Access("read", "x", implied=True)
    verdict = RuleSet((rule("read", "x", "ask"), rule("bash", "*", "allow"))).judge(
        command("a", access, access)
    )
    assert [reason.target for reason in verdict.reasons] == ["x", "a"]


def test_implied_accesses_matter_only_if_a_rule_names_them() -> None:
    rules = RuleSet((rule("bash", "*", "allow"), rule("read", "*", "ask")))
    verdict = rules.judge(command("cat a", Access("read", "a", implied=True)))
    assert verdict.action == "allow"
    assert [reason.permission for reason in verdict.reasons] == ["bash"]
    # A redirection is no implication.
    assert rules.judge(command("cat a", Access("read", "a"))).action == "ask"


def test_exact_command_rule_covers_implied_reads_but_no_rule() -> None:
    secret = Access("read", ".env", implied=True)
    exact = rule("bash", "cat .env", "allow")
    assert RuleSet((exact,)).judge(command("cat .env", secret)).action == "allow"
    assert RuleSet((rule("bash", "*", "allow"), exact)).judge(command("cat .env", secret)).action == "allow"
    assert RuleSet((rule("bash", "cat *", "allow"),)).judge(command("cat .env", secret)).action == "ask"
    for binding in ("ask", "deny"):
        named = (rule("read", "*.env", binding), exact)
        assert RuleSet(named).judge(command("cat .env", secret)).action == binding
    two = PermissionAsk("bash", ("cat .env", "ls"), "", accesses=(secret,))
    assert RuleSet((rule("bash", "*", "allow"), exact)).judge(two).action == "ask"


@pytest.mark.parametrize(
    ("pattern", "action"),
    [
        ("*", "ask"),
        ("python *", "ask"),
        ("python -c 'x'", "allow"),
        ("python -c ?x'", "ask"),
        ("python -c 'y'", "ask"),
    ],
)
def test_opaque_command_is_allowed_only_by_its_exact_text(pattern: str, action: Action) -> None:
    opaque = Access("bash", "python -c 'x'", opaque="python -c runs code")
    verdict = RuleSet((rule("bash", pattern, "allow"),)).judge(
        PermissionAsk("bash", (), "", accesses=(opaque,))
    )
    assert verdict.action == action


def test_opaque_text_of_wildcards_matches_no_rule() -> None:
    opaque = Access("bash", "*", opaque="it is not text, so its changes cannot be merged")
    ask = PermissionAsk("bash", (), "", accesses=(opaque,))
    assert RuleSet((rule("bash", "*", "allow"),)).judge(ask).action == "ask"
    slash = Access("bash", "python -c 'a\\b'", opaque="code")
    other = RuleSet((rule("bash", "python -c 'a/b'", "allow"),))
    assert other.judge(PermissionAsk("bash", (), "", accesses=(slash,))).action == "ask"


def test_reason_says_why_an_access_is_opaque() -> None:
    opaque = Access("bash", "x", why="argument of y", opaque="z runs code")
    verdict = RuleSet((rule("bash", "*", "allow"),)).judge(PermissionAsk("bash", (), "", accesses=(opaque,)))
    assert verdict.reasons[0].why == "argument of y: z runs code"
    assert verdict.rule.source == "protected"


OUTSIDE_WRITE = Access("edit", "/tmp/x")


@pytest.mark.parametrize(
    ("access", "action"),
    [
        (Access("bash", "x", opaque="code"), "allow"),
        (Access("edit", "out.txt"), "allow"),
        (Access("read", "/usr/share/x", implied=True), "allow"),
        (OUTSIDE_WRITE, "ask"),
        (Access("edit", ".git/config"), "ask"),
        (Access("read", "id_rsa", implied=True), "ask"),
        (Access("read", ".env", implied=True), "ask"),
        (Access("webfetch", "https://example.org"), "ask"),
    ],
)
def test_the_sandbox_answers_general_questions_about_commands(access: Access, action: Action) -> None:
    ask = command("make", access, contained=True, lifted=True)
    assert RuleSet().judge(ask).action == action
    if access.permission == "bash":
        assert RuleSet().judge(replace(ask, lifted=False)).action == "ask"
        allowed = RuleSet((*SHIPPED, rule("bash", "make *", "allow"), rule("bash", "x *", "allow")))
        assert allowed.judge(replace(ask, lifted=False)).action == "allow"


def test_unsandboxed_opaque_command_needs_an_exact_rule() -> None:
    free = command("npm test", unread=frozenset({"npm test"}))
    star, named, exact = (
        RuleSet((rule("bash", pattern, "allow"),)) for pattern in ("*", "npm *", "npm test")
    )
    assert [rules.judge(free).action for rules in (star, named, exact)] == ["ask", "ask", "allow"]
    boxed = replace(free, contained=True)
    assert [rules.judge(boxed).action for rules in (star, named, exact)] == ["allow", "allow", "allow"]
    auto = RuleSet(mode="auto", trust="trusted")
    assert [auto.judge(ask).action for ask in (free, boxed, command("ls"))] == ["ask", "allow", "allow"]
    assert "in the sandbox it would not need approval" in reason_words(star.judge(free).reasons[0])
    exported = Access("bash", "export X=1", glue=True)
    both = PermissionAsk(
        "bash",
        ("export X=1", "ls"),
        "",
        accesses=(exported, Access("bash", "ls")),
        unread=frozenset({"export X=1"}),
    )
    assert [rules.judge(both).action for rules in (auto, star)] == ["allow", "allow"]
    pairs = (("ls *",), ("ls *", "export *"), ("export *",))
    named = [RuleSet((*SHIPPED, *(rule("bash", one, "allow") for one in patterns))) for patterns in pairs]
    assert [rules.judge(both).action for rules in named] == ["allow", "allow", "ask"]
    plain = Access("bash", "CI=1 npm test", plain="npm test")
    said = PermissionAsk(
        "bash", ("CI=1 npm test",), "", accesses=(plain,), unread=frozenset({"CI=1 npm test"})
    )
    assert exact.judge(said).action == "allow"


def test_leaving_the_sandbox_asks_despite_allow_rules() -> None:
    ask = command("npm test", leaves="it failed in the sandbox: EROFS")
    for rules in (
        RuleSet((rule("bash", "npm test", "allow"),)),
        RuleSet((rule("*", "*", "allow"),), mode="auto"),
    ):
        verdict = rules.judge(ask)
        assert verdict.action == "ask"
        assert "it failed in the sandbox: EROFS" in reason_words(verdict.reasons[0])
    assert RuleSet((rule("bash", "npm *", "deny"),)).judge(ask).action == "deny"


def test_only_a_rule_for_the_network_gives_the_network() -> None:
    for broad in (rule("*", "*", "allow"), rule("bash", "*", "allow")):
        assert RuleSet((broad,)).decide("network", "npm ci").action == "ask"
    assert RuleSet(mode="auto", trust="trusted").decide("network", "npm ci").action == "ask"
    given = RuleSet((rule("network", "npm ci*", "allow"),))
    assert given.decide("network", "npm ci --omit=dev").action == "allow"
    assert given.decide("network", "npm test").action == "ask"


def test_irreversible_commands_ask_even_in_sandbox_and_auto_mode() -> None:
    warned = ("it is gone",)
    auto = RuleSet(mode="auto", trust="trusted")
    assert auto.judge(command()).action == "allow"
    assert auto.judge(command(warnings=warned)).action == "ask"
    assert RuleSet().judge(command(contained=True, lifted=True)).action == "allow"
    assert RuleSet().judge(command(contained=True, lifted=True, warnings=warned)).action == "ask"
    assert RuleSet((rule("bash", "*", "allow"),)).judge(command(warnings=warned)).action == "allow"
    opaque = Access("bash", "x", opaque="code")
    asked = PermissionAsk("bash", (), "", accesses=(opaque,), contained=True, warnings=warned)
    assert RuleSet((rule("bash", "*", "allow"),)).judge(asked).action == "ask"


def test_a_rule_that_names_a_command_binds_in_the_sandbox() -> None:
    for action in ("ask", "deny"):
        rules = RuleSet((*SHIPPED, rule("bash", "run *", action)))
        assert rules.judge(command(contained=True)).action == action


@pytest.mark.parametrize("source", ["workspace", "agent", "session", "granted", "protected"])
def test_modes_lift_only_general_ask_rules_of_the_user(source: RuleSource) -> None:
    asking = rule("edit", "*", "ask", source)
    assert RuleSet((asking,), mode="accept-edits").decide("edit", "a").action == "ask"
    assert RuleSet((asking,), mode="auto", trust="trusted").decide("edit", "a").action == "ask"


@pytest.mark.parametrize(
    ("mode", "edit", "bash"),
    [("ask", True, True), ("accept-edits", True, True), ("plan", False, True), ("auto", True, True)],
)
def test_tools_offered_by_each_mode(mode: Mode, edit: bool, bash: bool) -> None:
    rules = RuleSet(mode=mode)
    assert (rules.offered("edit"), rules.offered("bash"), rules.offered("read")) == (edit, bash, True)
    restricted = RuleSet(mode=mode, trust="restricted")
    assert [restricted.offered(permission) for permission in ("edit", "bash", "read")] == [False, False, True]


def test_plan_mode_applies_rules_to_read_only_commands() -> None:
    rules = RuleSet((*SHIPPED, rule("bash", "ls *", "allow"), rule("bash", "git *", "deny")), mode="plan")
    reads = {"read_only": True, "contained": True}
    assert rules.judge(command("ls", **reads)).action == "allow"
    assert rules.judge(command("pwd", **reads)).action == "ask"
    assert rules.judge(command("git log", **reads)).action == "deny"
    assert rules.judge(command("ls", read_only=True)).action == "deny"
    assert rules.judge(command("ls", contained=True)).action == "deny"
    assert rules.judge(command("ls", Access("edit", "x"), **reads)).action == "deny"
    assert rules.judge(command("ls", Access("edit", "/dev/null"), **reads)).action == "allow"
    restricted = RuleSet((rule("bash", "*", "allow"),), trust="restricted")
    assert restricted.judge(command("ls", read_only=True)).action == "deny"


def test_auto_mode_applies_only_in_trusted_folders() -> None:
    for trust in ("unknown", "restricted"):
        assert RuleSet(mode="auto", trust=trust).judge(command()).action != "allow"


def test_a_trusted_workspace_that_allows_offers_again() -> None:
    base, local = (rule("edit", "*", "deny"),), (rule("edit", "docs/*", "allow", "workspace"),)
    assert not RuleSet(base, local).offered("edit")
    assert RuleSet(base, local, trusted=True).offered("edit")
    assert RuleSet(base, local, trusted=True).decide("edit", "docs/a").action == "allow"


def test_user_grants_yield_to_workspace_rules_and_local_ones_win() -> None:
    local = (rule("edit", "vendor/*", "ask", "workspace"),)
    grant = (rule("edit", "*", "allow", "granted"),)
    assert RuleSet(workspace=local, granted=grant).decide("edit", "vendor/a").action == "ask"
    assert RuleSet(workspace=local, granted=grant).decide("edit", "a").action == "allow"
    assert RuleSet(workspace=local, granted_here=grant).decide("edit", "vendor/a").action == "allow"
    denied = (*SHIPPED, rule("edit", "a", "deny"))
    for rules in (RuleSet(denied, granted=grant), RuleSet(denied, granted_here=grant)):
        assert rules.decide("edit", "a").action == "deny"
        assert rules.judge(_several("edit", "*")).action == "ask"


def _several(permission: str, target: str) -> PermissionAsk:
    return PermissionAsk(permission, (), "", accesses=(Access(permission, target, several=True),))


def test_partly_denied_wildcard_asks_and_names_the_deny_rule() -> None:
    rules = RuleSet((rule("read", "*", "allow"), rule("read", "src/keys/*", "deny")))
    verdict = rules.judge(_several("read", "src/*"))
    assert (verdict.action, verdict.rule.action, verdict.rule.pattern) == ("ask", "deny", "src/keys/*")
    agent = RuleSet((rule("read", "*", "allow"),), agent=(rule("read", "src/a", "deny", "agent"),))
    assert agent.judge(_several("read", "src/*")).action == "ask"
    local = RuleSet((rule("read", "*", "allow"),), workspace=(rule("read", "s*", "deny", "workspace"),))
    assert local.judge(_several("read", "src/*")).action == "deny"


def test_external_file_and_its_folder_are_asked_together() -> None:
    verdict = RuleSet().judge(PermissionAsk("edit", ("/etc/hosts",), ""))
    assert [(r.permission, r.target) for r in verdict.reasons] == [
        ("edit", "/etc/hosts"),
        ("external_directory", "/etc/*"),
    ]
    granted = (
        rule("edit", "/etc/hosts", "allow", "session"),
        rule("external_directory", "/etc/*", "allow", "session"),
    )
    assert RuleSet(session=granted[:1]).judge(PermissionAsk("edit", ("/etc/hosts",), "")).action == "allow"
    assert RuleSet(session=granted[1:]).judge(PermissionAsk("read", ("/etc/hosts",), "")).action == "allow"
    assert RuleSet(session=granted[1:]).judge(PermissionAsk("ls", ("/etc",), "")).action == "allow"
    assert RuleSet(session=granted[1:]).judge(PermissionAsk("read", ("/etc",), "")).action == "allow"
    assert RuleSet(session=granted[1:]).judge(PermissionAsk("read", ("/etcetera",), "")).action == "ask"


def test_a_folder_that_is_listed_and_read_is_asked_about_itself() -> None:
    accesses = (Access("ls", "/tmp", implied=True), Access("read", "/tmp", implied=True))
    verdict = RuleSet((rule("bash", "*", "allow"),)).judge(command("ls /tmp", *accesses))
    assert [r.target for r in verdict.reasons if r.action == "ask"] == ["/tmp/*"]


def test_the_home_folder_is_the_environments_when_a_rule_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = RuleSet((rule("read", "~/a/*", "allow"),))
    for home in ("/home/one", "/home/two"):
        monkeypatch.setenv("HOME", home)
        assert rules.decide("read", f"{home}/a/x").action == "allow"
        assert rules.decide("read", "/home/three/a/x").action == "ask"


def test_state_folder_is_protected_in_any_location(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = (
        rule("read", "*", "allow"),
        rule("edit", "*", "allow"),
        rule("external_directory", "*", "allow"),
    )
    for permission in ("read", "edit"):
        assert RuleSet(everything).decide(permission, "/home/u/.goalwright/x").source == "protected"
        assert RuleSet(everything).decide(permission, "/srv/state/x").action == "allow"
        monkeypatch.setenv("GOALWRIGHT_HOME", "/srv/state")
        assert RuleSet(everything).decide(permission, "/srv/State/x").source == "protected"
        assert RuleSet(everything, root="/srv").decide(permission, "state/run/token").source == "protected"
        monkeypatch.delenv("GOALWRIGHT_HOME")
        monkeypatch.setenv("HOME", "/home/u")
        for root, name in (("/home/u", ".goalwright/mcp-tokens.json"), ("/home", "u/.goalwright/run/token")):
            assert RuleSet(everything, root=root).decide(permission, name).source == "protected"
        assert (
            RuleSet(everything, root="/home/u/p").decide("read", ".goalwright/config.json").action == "allow"
        )


def test_every_protected_name_is_found_by_the_quick_look() -> None:
    tables = (protected.SECRET_FILES, protected.EDIT_FILES)
    names = [pattern.replace("*", "") for table in tables for pattern, _ in table]
    names += [f"{folder}/x" for folder in (*protected.SECRET_FOLDERS, *protected.EDIT_FOLDERS)]
    for name in (*names, "prod.env", ".env.local", ".git", "git~1/config"):
        for shown in (name, f"deep/{name}", name.upper()):
            assert protected.protected("edit", shown, fold(shown)), shown
    secrets = [pattern.replace("*", "") for pattern, _ in protected.SECRET_FILES]
    for name in (*secrets, *(f"{folder}/x" for folder in protected.SECRET_FOLDERS)):
        assert protected.protected("read", name, fold(name)), name


@given(
    st.lists(st.sampled_from([".git", "src", "..", ".", "", ".env", "a", ".vscode"]), max_size=6),
    st.sampled_from(["read", "edit"]),
)
def test_broad_rules_never_allow_protected_paths(parts: list[str], permission: str) -> None:
    target = "/".join(parts)
    rules = RuleSet((rule("*", "*", "allow"),), root="/workspace")
    name = normal(target, "/workspace")
    kinds = {".env"} if permission == "read" else {".env", ".git", ".vscode"}
    if name.startswith(("/", "..")) or set(name.split("/")[-1:]) & kinds:
        assert rules.decide(permission, target).action == "ask"


ACTIONS: st.SearchStrategy[Action] = st.sampled_from(["allow", "ask", "deny"])
RULES = st.lists(
    st.builds(
        rule,
        st.sampled_from(["edit", "read", "bash", "*"]),
        st.sampled_from(["*", "a*", "b", "src/*", "*.env", ".git/*", "/etc/*"]),
        ACTIONS,
    ),
    max_size=4,
)
TARGETS = st.sampled_from(["a", "b", "src/x", ".env", ".git/x", "/etc/x", "../y"])


@given(RULES, RULES, RULES, RULES, TARGETS, st.sampled_from(["ask", "accept-edits", "plan", "auto"]))
def test_decide_agrees_with_judge(
    base: list[Rule], local: list[Rule], granted: list[Rule], agent: list[Rule], target: str, mode: Mode
) -> None:
    rules = RuleSet(base, local, granted, agent, mode=mode, trust="trusted")
    for permission in ("edit", "read", "bash"):
        verdict = rules.judge(PermissionAsk(permission, (target,), ""))
        assert rules.decide(permission, target).action == verdict.action


@given(RULES, RULES, RULES, TARGETS)
def test_no_untrusted_workspace_ever_loosens_anything(
    base: list[Rule], local: list[Rule], granted: list[Rule], target: str
) -> None:
    for permission in ("edit", "read"):
        without = RuleSet(base, (), granted).decide(permission, target).action
        with_it = RuleSet(base, local, granted).decide(permission, target).action
        if not granted:
            assert STRICTNESS[with_it] >= STRICTNESS[without]
        if RuleSet(base).decide(permission, target).action == "deny":
            assert with_it == "deny"


@given(RULES, RULES, TARGETS, st.sampled_from(["ask", "accept-edits", "auto"]))
def test_no_mode_and_no_sandbox_lifts_a_prohibition(
    base: list[Rule], agent: list[Rule], target: str, mode: Mode
) -> None:
    plain = RuleSet(base, agent=agent).judge(command(target, Access("edit", target)))
    other = RuleSet(base, agent=agent, mode=mode, trust="trusted")
    for contained in (False, True):
        verdict = other.judge(command(target, Access("edit", target), contained=contained))
        assert (verdict.action == "deny") == (plain.action == "deny")


def test_reasons_are_formatted_with_their_rule(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = f"{tmp_path.as_posix()}/.goalwright/config.json"
    (found,), _ = rules_from_config({"bash": {"git push*": "deny"}}, "user", file)
    assert rule_words(found) == "your rule `bash: git push* → deny` (~/.goalwright/config.json)"
    assert rule_words(SHIPPED[0]) == "the built-in rule `read: * → allow`"
    assert rule_words(UNMATCHED) == "no rule matches, so you are asked"
    assert rule_words(rule("edit", "src/*", "allow", "session")) == (
        "what you allowed in this session: `edit: src/* → allow`"
    )
    broad = RuleSet((rule("edit", "*", "allow"),))
    assert reason_words(broad.judge(PermissionAsk("edit", (".git/config",), "")).reasons[0]) == (
        "ask edit .git/config: protected, regardless of general rules: git's own files"
    )
    assert rule_words(RuleSet(mode="plan").decide("edit", "a")) == "mode plan"
    reason = RuleSet((rule("read", "*.env", "deny"),)).judge(
        command("cat .env", Access("read", ".env", why="argument of cat", implied=True))
    )
    assert reason_words(reason.reasons[0]) == (
        "deny read .env (argument of cat): your rule `read: *.env → deny`"
    )


def test_number_and_length_of_rules_are_limited() -> None:
    many = {f"p{n}": "ask" for n in range(MAX_RULES + 5)}
    rules, wrong = rules_from_config({"edit": many}, "workspace")
    assert (len(rules), len(wrong)) == (MAX_RULES, 1)
    rules, wrong = rules_from_config({"edit": {"*a" * MAX_PATTERN: "deny", "b": "deny"}}, "workspace")
    assert (len(rules), len(wrong)) == (1, 1)


MCP_ALLOWED = rule("mcp__docs__*", "*", "allow")


@pytest.mark.parametrize(
    ("options", "asked", "allowed"),
    [
        ({}, True, True),
        ({"mode": "plan"}, False, True),
        ({"looks": True}, False, True),
        ({"root": "/copy", "stands_for": "/work"}, False, True),  # a branch: servers see the workspace itself
        ({"mode": "auto", "trust": "trusted"}, True, True),
        ({"trust": "restricted"}, False, False),
    ],
)
def test_where_mcp_tools_are_offered(options: dict[str, Any], asked: bool, allowed: bool) -> None:
    assert RuleSet(SHIPPED, **options).offered("mcp__docs__read") == asked
    assert RuleSet((*SHIPPED, MCP_ALLOWED), **options).offered("mcp__docs__read") == allowed
    assert not RuleSet((*SHIPPED, MCP_ALLOWED, rule("mcp__*", "*", "deny")), **options).offered(
        "mcp__docs__read"
    )


def test_mcp_grants_are_for_one_definition() -> None:
    granted = [rule("mcp__docs__read", "definition 12ab", "allow", "granted")]
    rules = RuleSet(SHIPPED, granted=granted, mode="auto", trust="trusted")
    assert rules.decide("mcp__docs__read", "definition 12ab").action == "allow"
    assert rules.decide("mcp__docs__read", "definition 34cd").action == "ask"
    assert not RuleSet(SHIPPED, granted=granted, mode="plan").offered("mcp__docs__read")
