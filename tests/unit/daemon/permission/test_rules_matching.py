"""The matcher and the index over rules (daemon/permission/matching.py, layers.py)."""

from __future__ import annotations

import functools
import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from daemon.model.permissions import Action, Rule
from daemon.permission.layers import UNMATCHED, Layers, PatternRoots
from daemon.permission.matching import (
    covers,
    fold,
    intersects,
    is_general,
    is_outside,
    matches,
    names_place,
    normal,
    tidy,
)

HERE = PatternRoots("/home/user", "/workspace")
PATTERNS = st.text(alphabet="ab/*? ", max_size=7)
WORDS = st.text(alphabet="ab/ ", max_size=6)


def layers(*, base: tuple[Rule, ...] = (), session: tuple[Rule, ...] = ()) -> Layers:
    return Layers(base, (), (), (), session, (), (), trusted=False)


def rule(pattern: str, action: Action = "allow", permission: str = "read") -> Rule:
    return Rule(permission=permission, pattern=pattern, action=action, source="user")


@functools.cache
def slow(pattern: str, target: str) -> bool:
    if not pattern:
        return not target
    if pattern[0] == "*":
        return any(slow(pattern[1:], target[i:]) for i in range(len(target) + 1))
    return bool(target) and pattern[0] in ("?", target[0]) and slow(pattern[1:], target[1:])


def slow_rule(pattern: str, target: str) -> bool:
    return slow(pattern, target) or (pattern.endswith(" *") and slow(pattern[:-2], target))


@given(st.text(alphabet="ab*?", max_size=12), st.text(alphabet="ab", max_size=12))
@example("*ab*b", "abab")
@example("*aba*ba", "ababa")
@example("?*?b*", "abb")
def test_wildcard_matching_agrees_with_the_slow_reference(pattern: str, target: str) -> None:
    assert matches(pattern, target) == slow(pattern, target)


@pytest.mark.parametrize(
    ("pattern", "target"),
    [
        ("*a" * 2_000 + "*b", "a" * 20_000),
        ("*?" * 1_000 + "b", "a" * 20_000),
        ("a*" * 2_000 + "b *", "a" * 20_000),
        ("*" * 10_000 + "b", "a" * 20_000),
        ("*ab*" * 500 + "c", "ab" * 10_000),
    ],
)
def test_pattern_matching_time_is_bounded(pattern: str, target: str) -> None:
    assert not matches(pattern, target)
    assert not intersects(pattern[-4_000:], target[-4_000:])


@given(PATTERNS, PATTERNS)
@example("a*", "*b")
@example("a *", "a")
@example("*a*b", "b*a")
@example("??", "*")
def test_wildcards_meet_when_some_text_fits_both(one: str, other: str) -> None:
    tried = ("".join(t) for n in range(5) for t in itertools.product("ab/ ", repeat=n))
    if any(slow_rule(one, text) and slow(other, text) for text in tried):
        assert intersects(one, other)


SHORT = st.text(alphabet="a*?", max_size=4)


@given(SHORT, SHORT)
def test_wildcards_that_meet_have_a_common_text(one: str, other: str) -> None:
    found = any(
        slow(one, text) and slow(other, text)
        for n in range(9)
        for text in ("".join(t) for t in itertools.product("ab", repeat=n))
    )
    assert intersects(one, other) == found


@given(PATTERNS, PATTERNS, WORDS)
def test_pattern_covering_a_wildcard_covers_its_matches(one: str, other: str, text: str) -> None:
    if covers(one, other) and slow(other, text):
        assert matches(one, text)
    if covers(one, other):
        assert intersects(one, other)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("src/../.git/config", ".git/config"),
        ("./a", "a"),
        ("a//b/", "a/b"),
        ("a\\..\\b", "b"),
        ("../x", "/x"),
        ("../workspace/x", "x"),
        ("/workspace/a/b", "a/b"),
        ("/workspace", "."),
        ("/workspaces/a", "/workspaces/a"),
        ("/a/../etc/passwd", "/etc/passwd"),
        ("//etc/passwd", "/etc/passwd"),
        ("..x/y", "..x/y"),
        ("", ""),
        (".", "."),
    ],
)
def test_paths_are_normalized(written: str, name: str) -> None:
    assert normal(written, "/workspace") == name


@given(st.text(alphabet="ab./\\", max_size=14))
def test_tidy_is_idempotent(path: str) -> None:
    once = tidy(path)
    assert tidy(once) == once
    assert "\\" not in once
    assert ".." not in once.lstrip("./").split("/")


@given(st.text(max_size=12))
def test_folding_twice_changes_nothing_for_plain_names(text: str) -> None:
    if text.isascii():
        assert fold(fold(text)) == fold(text)
    assert fold(text.upper()) == fold(text.upper().lower()) or not text.isascii()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (".GIT/Config", ".git/config"),
        ("ﬁle", "file"),
        ("e\u0301", "é"),
        ("a\u200bb", "ab"),
        ("a\u202eb", "ab"),
        ("a\ufe0f", "a"),
        ("dir. /x ..", "dir/x"),
        ("K", "k"),
    ],
)
def test_case_and_unicode_variants_fold_to_one_name(one: str, other: str) -> None:
    assert fold(one) == fold(other)


def test_fold_keeps_leading_parent_segments() -> None:
    assert fold("../A/..") == "../a/.."


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("/etc/*", True),
        ("/etc", True),
        ("~/notes/*", True),
        ("~", True),
        ("../other/*", True),
        ("C:/x/*", True),
        ("*", False),
        ("/*", False),
        ("/e*", False),
        ("*/etc/*", False),
        ("etc/*", False),
        ("../*", False),
    ],
)
def test_pattern_names_a_path_by_a_whole_literal_segment(pattern: str, named: bool) -> None:
    assert names_place(pattern) == named


def test_only_wildcard_patterns_are_general() -> None:
    assert all(is_general(pattern) for pattern in ("*", "**", "**/*", "* *"))
    assert not any(is_general(pattern) for pattern in ("", "a*", "/*", "?*", "*.py", "~"))


def test_paths_outside_the_workspace_are_recognised() -> None:
    assert all(is_outside(name) for name in ("/a", "..", "../a", "C:/a", "c:"))
    assert not any(is_outside(name) for name in ("a", "..a", ".", "", "a:b", "cc:/a"))


ACTIONS: st.SearchStrategy[Action] = st.sampled_from(["allow", "ask", "deny"])
MANY = st.lists(st.builds(rule, st.text(alphabet="aB/*? .", max_size=5), ACTIONS), max_size=8)


@given(MANY, st.text(alphabet="abB/ .", max_size=5))
def test_the_index_finds_what_looking_at_each_rule_finds(rules: list[Rule], target: str) -> None:
    """For a permission that is no path: nothing is folded."""
    commands = tuple(one.model_copy(update={"permission": "bash"}) for one in rules)
    expected = next((one for one in reversed(commands) if slow_rule(one.pattern, target)), UNMATCHED)
    assert layers(base=commands).find("bash", target, target, HERE) is expected


@given(MANY, st.text(alphabet="abB/.é\u200b", max_size=5))
def test_index_also_finds_rules_for_the_folded_file_name(rules: list[Rule], target: str) -> None:
    name = normal(target)
    expected = UNMATCHED
    for one in reversed(rules):
        folded = one.action != "allow" and matches(fold(one.pattern), fold(name))
        if matches(one.pattern, name) or folded:
            expected = one
            break
    found = layers(base=tuple(rules)).find("read", name, fold(name), PatternRoots("/home/user"))
    # ``./`` and ``//`` in patterns are tidied, which the slow way does not do.
    if not any("./" in one.pattern or "//" in one.pattern for one in rules):
        assert found is expected


@given(MANY, st.text(alphabet="ab/*?", max_size=5), WORDS)
def test_wildcard_is_never_decided_more_loosely_than_its_matches(
    rules: list[Rule], wildcard: str, text: str
) -> None:
    if not slow(wildcard, text):
        return
    name = normal(text)
    if name != text:
        return
    stack = layers(base=tuple(rules))
    one = stack.find("read", name, fold(name), HERE)
    found = stack.find_several("read", wildcard, fold(wildcard), HERE)
    if one.action == "deny":
        assert found.rule.action == "deny" or found.part is not None
    if one.action == "ask":
        assert found.rule.action != "allow" or found.part is not None


def test_equal_rule_tuples_share_compiled_layers() -> None:
    first = tuple(rule(f"a{n}") for n in range(3))
    assert layers(base=first).find("read", "a1", "a1", HERE) is first[1]
    assert layers(base=tuple(list(first))).find("read", "a1", "a1", HERE) is first[1]
    other = tuple(one.model_copy() for one in first)
    assert layers(base=other).find("read", "a1", "a1", HERE) is other[1]
