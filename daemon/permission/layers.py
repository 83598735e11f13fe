"""Compiled rules by layer: find the rule that decides, before modes and protection apply. Pure.

The patterns of a layer are indexed, so that 500 rules cost little more than one. For files, rules that ask or deny also
match the folded form of a name (see ``matching.fold``), since to many file systems it is the same file; rules that
allow match exactly.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from msgspec import Struct

from daemon.model.permissions import Action, Rule
from daemon.permission import matching

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PATHS = frozenset({"read", "edit", "ls", "external_directory"})
"""Permissions whose targets are paths."""
ALIASES = {"write": "edit", "patch": "edit", "multiedit": "edit"}
"""Tools that need ``edit``."""
STRICTNESS: dict[Action, int] = {"allow": 0, "ask": 1, "deny": 2}

UNMATCHED = Rule(permission="*", pattern="*", action="ask")
"""The answer where no rule matches."""


class PatternRoots(Struct, frozen=True):
    """The base of patterns: the user's home folder, and the workspace if it is known."""

    home: str
    root: str = ""
    stands_for: str = ""
    """The workspace itself, when ``root`` is a branch's copy of it."""

    def patterns(self, rule: Rule) -> tuple[str, ...]:
        """Return the paths that the pattern of a rule for files can mean."""
        if rule.source == "branch":
            # Branch rules distinguish the workspace from its copy, so the two are not equivalent.
            return matching.normal_pattern(rule.pattern, self.home)
        return matching.normal_pattern(rule.pattern, self.home, self.root, self.stands_for)


def names_permission(rule: Rule, permission: str) -> bool:
    """Return whether a rule is about a permission. One that forbids ``write`` forbids ``edit``, which covers it."""
    if rule.permission == permission or matching.matches(rule.permission, permission):
        return True
    return rule.action != "allow" and ALIASES.get(rule.permission) == permission


class _Table:
    """Rules of one layer for one permission."""

    def __init__(self, rules: Sequence[Rule], permission: str, around: PatternRoots) -> None:
        self.rules = [rule for rule in rules if names_permission(rule, permission)]
        paths = permission in PATHS
        around = around if permission != "external_directory" else PatternRoots(around.home)
        self._patterns = [
            around.patterns(rule) if paths else (matching.expanded(rule.pattern, around.home),)
            for rule in self.rules
        ]
        strict = [index for index, rule in enumerate(self.rules) if paths and rule.action != "allow"]
        self._strict = {
            index: tuple(matching.fold(pattern) for pattern in self._patterns[index]) for index in strict
        }
        exact = dict(enumerate(self._patterns))
        self._lax_index = _Index({index: exact[index] for index in exact if index not in self._strict})
        self._exact_index = _Index({index: exact[index] for index in strict})
        self._folded_index = _Index(self._strict)

    def last(self, name: str, folded: str) -> Rule | None:
        """Return the last rule that matches."""
        found = self._lax_index.last(name)
        if self._strict:
            found = max(found, self._folded_index.last(folded))
            # A pattern for a plain name matches its case-folded form, too.
            if not name.isascii() or len(name) != len(folded):
                found = max(found, self._exact_index.last(name))
        return None if found < 0 else self.rules[found]

    def matching(self, name: str, folded: str) -> Iterator[Rule]:
        """Yield all that match, the last first. Slow."""
        for index, pairs in self._backwards(name, folded):
            if any(matching.matches(pattern, text) for text, pattern in pairs):
                yield self.rules[index]

    def several(self, name: str, folded: str) -> tuple[Rule | None, list[Rule]]:
        """Return for a wildcard the last rule that covers all of it, and the later ones that ask about or deny a
        part."""
        parts: list[Rule] = []
        for index, pairs in self._backwards(name, folded):
            rule = self.rules[index]
            # First test whether they intersect at all, which is fast for most.
            meeting = [(text, pattern) for text, pattern in pairs if matching.intersects(pattern, text)]
            if any(matching.covers(pattern, text) for text, pattern in meeting):
                return rule, parts
            if meeting and rule.action != "allow":
                parts.append(rule)
        return None, parts

    def _backwards(self, name: str, folded: str) -> Iterator[tuple[int, list[tuple[str, str]]]]:
        for index in range(len(self.rules) - 1, -1, -1):
            pairs = [(name, pattern) for pattern in self._patterns[index]]
            pairs += [(folded, pattern) for pattern in self._strict.get(index, ())]
            yield index, pairs


class _Index:
    """Patterns with the number of their rule. Most rules name one text, its beginning, its end or a part, and those are
    looked up; the others are found by their first character, the strongest rule first."""

    def __init__(self, patterns: Mapping[int, Sequence[str]]) -> None:
        self._texts: dict[str, int] = {}
        self._starts: dict[int, dict[str, int]] = {}
        self._ends: dict[int, dict[str, int]] = {}
        self._parts: list[tuple[int, str]] = []
        others: dict[str, list[tuple[int, str]]] = {}
        for index in sorted(patterns, reverse=True):
            for form in (form for pattern in patterns[index] for form in matching.forms(pattern)):
                text = re.sub(r"\*+", "*", form)
                first, last, stars = text.startswith("*"), text.endswith("*"), text.count("*")
                if "?" in text or stars - first - last > 0:
                    others.setdefault(text[0], []).append((index, text))
                elif stars == 0:
                    self._texts.setdefault(text, index)
                elif stars == 2:
                    self._parts.append((index, text[1:-1]))
                elif last:
                    self._starts.setdefault(len(text) - 1, {}).setdefault(text[:-1], index)
                else:
                    self._ends.setdefault(len(text) - 1, {}).setdefault(text[1:], index)
        self._others = {first: _Expressions(found) for first, found in others.items()}

    def last(self, text: str) -> int:
        """Number of the last rule that matches, or -1."""
        found = self._texts.get(text, -1)
        for length, starts in self._starts.items():
            index = starts.get(text[:length], -1)
            if index > found:
                found = index
        size = len(text)
        for length, ends in self._ends.items():
            # Not text[-length:], which is the whole text for zero, and of a shorter text would be a different end.
            index = ends.get(text[size - length :], -1) if length <= size else -1
            if index > found:
                found = index
        for index, part in self._parts:
            if index < found:
                break
            if part in text:
                found = index
                break
        for first in dict.fromkeys(("*", "?", text[:1])):
            if (expression := self._others.get(first)) is not None:
                found = max(found, expression.last(text))
        return found


class _Expressions:
    """Patterns that begin alike, the strongest first. As one expression those with ``*`` in front would each search the
    whole text; here that is done only where the text contains the longest piece of the pattern."""

    def __init__(self, patterns: Sequence[tuple[int, str]]) -> None:
        self._patterns = [(max(re.split(r"[*?]+", text), key=len), index, text) for index, text in patterns]
        self._compiled: dict[str, re.Pattern[str]] = {}

    def last(self, text: str) -> int:
        """Number of the last rule that matches, or -1."""
        for piece, index, pattern in self._patterns:
            if piece in text and self._regex(pattern).match(text):
                return index
        return -1

    def _regex(self, pattern: str) -> re.Pattern[str]:
        if pattern not in self._compiled:
            self._compiled[pattern] = re.compile(matching.regex(pattern), re.DOTALL)
        return self._compiled[pattern]


class _Same:
    """Rules as a key of the cache: the same objects in the same order. Hashing the rules themselves would take as long
    as to use them."""

    __slots__ = ("_hash", "_ids", "rules")

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.rules = rules
        self._ids = tuple(map(id, rules))
        self._hash = hash(self._ids)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and (self.rules is other.rules or self._ids == other._ids)


@functools.lru_cache(maxsize=64)
def _table(rules: _Same, permission: str, around: PatternRoots) -> _Table:
    # The key references the rules, so their ids cannot be reused while it exists.
    return _Table(rules.rules, permission, around)


class RuleMatch(Struct, frozen=True):
    """``rule`` decides; for a wildcard ``part`` is a rule that asks about or denies a part of it, ``besides`` the one
    where a branch's rules forbid no part of it."""

    rule: Rule
    part: Rule | None = None
    besides: Rule | None = None


_WORKSPACE = 2
_GRANTS = (1, 3, 4)
_AGENT = 5
"""Places in the order of the layers. Then come those that only tighten, and the branch's as the last."""


class Layers:
    """The layers of one session in their order, see ``rules.RuleSet``."""

    def __init__(self, *layers: Sequence[Rule], trusted: bool) -> None:
        """``layers``: base, granted, workspace, granted_here, session, agent, any number of bounds, branch."""
        self._layers = tuple(_Same(tuple(layer)) for layer in layers)
        self._trusted = trusted

    def _tables(self, permission: str, around: PatternRoots) -> list[_Table | None]:
        return [_table(layer, permission, around) if layer.rules else None for layer in self._layers]

    def find(self, permission: str, name: str, folded: str, around: PatternRoots) -> Rule:
        """Return the rule that decides; UNMATCHED when none matches."""
        base, everywhere, local, here, session, agent, *bounds, branch = (
            None if table is None else table.last(name, folded) for table in self._tables(permission, around)
        )
        found = _granted(base or UNMATCHED, everywhere)
        if local is not None and (self._trusted or _stricter(local, found)):
            found = local
        found = agent or _granted(_granted(found, here), session)
        for bound in bounds:
            found = found if bound is None or not _stricter(bound, found) else bound
        return _in_branch(found, branch)

    def find_several(self, permission: str, name: str, folded: str, around: PatternRoots) -> RuleMatch:
        """Return the match for a wildcard."""
        found, parts = UNMATCHED, list[Rule]()
        for index, table in enumerate(self._tables(permission, around)):
            if table is None:
                continue
            rule, some = table.several(name, folded)
            if rule is None:
                pass
            elif index in _GRANTS:
                found = _granted(found, rule)
                parts = [part for part in parts if part.action == "deny"]
            elif index == len(self._layers) - 1:
                found = _in_branch(found, rule)
            elif index <= _AGENT and (index != _WORKSPACE or self._trusted):
                found, parts = rule, []
            elif _stricter(rule, found):
                found = rule
            parts = [*some, *parts]
        besides = [part for part in parts if part.source != "branch" or part.action != "deny"]
        return RuleMatch(found, _strictest(parts), _strictest(besides))

    def allowing(self, permission: str, name: str, folded: str, around: PatternRoots) -> Iterator[Rule]:
        """Rules that allow it, the strongest first, down to the first that does not. Those of a workspace that is not
        trusted allow nothing."""
        for index, table in reversed(list(enumerate(self._tables(permission, around)))):
            if table is None or (index == _WORKSPACE and not self._trusted):
                continue
            for rule in table.matching(name, folded):
                if rule.action != "allow":
                    return
                if _AGENT < index < len(self._layers) - 1:
                    break  # a rule that does not restrict it is not an approval
                yield rule


def _strictest(parts: Sequence[Rule]) -> Rule | None:
    return max(parts, key=lambda part: STRICTNESS[part.action], default=None)


def _granted(found: Rule, grant: Rule | None) -> Rule:
    """Return the rule with a grant applied: it answers a question but does not lift a prohibition."""
    return found if grant is None or found.action == "deny" else grant


def _in_branch(found: Rule, rule: Rule | None) -> Rule:
    """Return the rule with a branch's restrictions. A branch's allowance covers only what the workspace would not ask
    about."""
    if rule is None or (rule.action != "allow" and not _stricter(rule, found)):
        return found
    return rule


def _stricter(one: Rule, other: Rule) -> bool:
    return STRICTNESS[one.action] > STRICTNESS[other.action]
