"""Permission rules, pure (source: conventions.md "Permission rules", OpenCode's matcher).

A flat list, the last rule that matches wins, and when none matches the answer is ``ask``. Layers from weak
to strong: shipped, user, editor, then the workspace's own (it can only make the outcome stricter, because a
workspace is untrusted input), then what the person granted in this session, then the agent's limits.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from daemon.model.permissions import Action, Mode, Reason, Rule, RuleSource, Trust
from tools.base import PermissionAsk

_STRICTNESS: dict[Action, int] = {"allow": 0, "ask": 1, "deny": 2}

SHIPPED: tuple[Rule, ...] = (
    Rule(permission="read", pattern="*", action="allow"),
    Rule(permission="ls", pattern="*", action="allow"),
    Rule(permission="glob", pattern="*", action="allow"),
    Rule(permission="grep", pattern="*", action="allow"),
    Rule(permission="goal", pattern="*", action="allow"),
    Rule(permission="diagnostics", pattern="*", action="allow"),
    Rule(permission="edit", pattern="*", action="ask"),
    Rule(permission="bash", pattern="*", action="ask"),
    Rule(permission="read", pattern="*.env", action="ask"),
    Rule(permission="read", pattern="*.env.*", action="ask"),
    Rule(permission="read", pattern="*.envrc", action="ask"),
    Rule(permission="read", pattern="*.env.example", action="allow"),
    Rule(permission="external_directory", pattern="*", action="ask"),
    Rule(permission="doom_loop", pattern="*", action="ask"),
)
"""What holds before anybody configured anything."""

UNMATCHED = Rule(permission="*", pattern="*", action="ask")
"""The answer where no rule matches."""


@functools.lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    text = pattern.replace("\\", "/")
    if text == "~" or text.startswith("~/"):
        text = Path.home().as_posix() + text[1:]
    tail = ""
    if text.endswith(" *"):
        # "git *" also means plain "git".
        text, tail = text[:-2], r"(?: .*)?"
    body = "".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in text)
    return re.compile(body + tail, re.DOTALL)


def matches(pattern: str, target: str) -> bool:
    """Whether a wildcard pattern covers a target: ``*`` any text (also ``/``), ``?`` one character."""
    return _compiled(pattern).fullmatch(target.replace("\\", "/")) is not None


def last_match(rules: Sequence[Rule], permission: str, target: str) -> Rule | None:
    """The rule that decides within one layer."""
    for rule in reversed(rules):
        if matches(rule.permission, permission) and matches(rule.pattern, target):
            return rule
    return None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about a whole call. ``reasons``: each thing it would do, the strictest first."""

    reasons: tuple[Reason, ...]

    @property
    def action(self) -> Action:
        """The strictest of all."""
        return self.reasons[0].action

    @property
    def rule(self) -> Rule:
        """The rule that decides."""
        return self.reasons[0].rule


class RuleSet:
    """All layers of one session, ready to be asked."""

    def __init__(
        self,
        base: Iterable[Rule] = SHIPPED,
        workspace: Iterable[Rule] = (),
        session: Iterable[Rule] = (),
        agent: Iterable[Rule] = (),
        *,
        trusted: bool = False,
        granted: Iterable[Rule] = (),
        granted_here: Iterable[Rule] = (),
        mode: Mode = "ask",
        trust: Trust = "unknown",
    ) -> None:
        """From weak to strong: ``base`` (shipped, the user's, the editor's), ``granted`` by the person everywhere,
        ``workspace`` (its own file: it can only tighten unless it is ``trusted``), ``granted_here`` and in this
        ``session``, and the ``agent``'s limits. Grants answer questions and lift no prohibition.
        """
        self._base = tuple(base)
        self._workspace = tuple(workspace)
        self._session = tuple(session)
        self._agent = tuple(agent)

    def with_session(self, rules: Iterable[Rule]) -> RuleSet:
        """The same layers with other grants of the session."""
        return RuleSet(self._base, self._workspace, rules, self._agent)

    def decide(self, permission: str, target: str) -> Rule:
        """The rule that decides about ``permission`` on ``target``."""
        found = last_match(self._base, permission, target) or UNMATCHED
        local = last_match(self._workspace, permission, target)
        if local is not None and _STRICTNESS[local.action] > _STRICTNESS[found.action]:
            found = local
        # A grant answers a question; it does not lift a prohibition.
        granted = last_match(self._session, permission, target)
        if granted is not None and found.action != "deny":
            found = granted
        return last_match(self._agent, permission, target) or found

    def judge(self, ask: PermissionAsk) -> Verdict:
        """The decision about everything that a call would do."""
        reasons: list[Reason] = []
        for access in ask.all_accesses:
            rule = self.decide(access.permission, access.target)
            reasons.append(
                Reason(
                    permission=access.permission,
                    target=access.target,
                    action=rule.action,
                    rule=rule,
                    why=access.why,
                )
            )
        reasons.sort(key=lambda reason: -_STRICTNESS[reason.action])
        return Verdict(tuple(reasons))

    def decide_all(self, permission: str, targets: Sequence[str]) -> Rule:
        """The strictest decision over all targets."""
        decisions = [self.decide(permission, target) for target in targets] or [self.decide(permission, "")]
        return max(decisions, key=lambda rule: _STRICTNESS[rule.action])

    def offered(self, permission: str) -> bool:
        """Whether a tool that needs ``permission`` makes sense at all: not when everything is denied."""
        agent = _outcome(self._agent, permission)
        if agent != "open":
            return agent == "some"
        return "denied" not in (_outcome(self._workspace, permission), _outcome(self._base, permission))


def _outcome(layer: Sequence[Rule], permission: str) -> Literal["denied", "some", "open"]:
    """What a layer alone leaves of a permission: nothing, something for sure, or what the others say."""
    for rule in reversed(layer):
        if matches(rule.permission, permission):
            if rule.action != "deny":
                return "some"
            if rule.pattern == "*":
                return "denied"
    return "open"


def rules_from_config(value: object, source: RuleSource) -> tuple[list[Rule], list[str]]:
    """Rules from ``config.json`` and what is wrong with them.

    Accepts ``{"bash": "ask", "edit": {"*.lock": "deny"}}`` (OpenCode's form) and a list of
    ``{"permission", "pattern", "action"}``. Wrong entries are reported and left out, the others hold.
    """
    rules: list[Rule] = []
    wrong: list[str] = []

    def add(permission: object, pattern: object, action: object) -> None:
        known: Action | None = next((a for a in _STRICTNESS if a == action), None)
        if isinstance(permission, str) and isinstance(pattern, str) and known is not None:
            rules.append(Rule(permission=permission, pattern=pattern, action=known, source=source))
        else:
            wrong.append(f"{permission!r}: {pattern!r}: {action!r} (the action must be allow, ask or deny)")

    if isinstance(value, dict):
        for permission, entry in value.items():  # pyright: ignore[reportUnknownVariableType]
            if isinstance(entry, dict):
                for pattern, action in entry.items():  # pyright: ignore[reportUnknownVariableType]
                    add(permission, pattern, action)  # pyright: ignore[reportUnknownArgumentType]
            else:
                add(permission, "*", entry)  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, list):
        for entry in value:  # pyright: ignore[reportUnknownVariableType]
            if isinstance(entry, dict):
                add(entry.get("permission"), entry.get("pattern", "*"), entry.get("action"))  # pyright: ignore
            else:
                wrong.append(f"{entry!r} is not a rule")
    elif value is not None:
        wrong.append("`permission` must be an object or a list of rules")
    return rules, wrong
