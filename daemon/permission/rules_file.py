"""Reads rules from ``config.json``."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from daemon.model.permissions import Action, Rule, RuleSource
from daemon.permission.layers import ALIASES, STRICTNESS
from daemon.permission.matching import matches
from tools.localization import t
from tools.text.truncate import head
from tools.tool_names import OUTSIDE

if TYPE_CHECKING:
    from collections.abc import Iterable

_SAME = {"step": "goal"}
"""Both tools of the plan share one permission."""
PERMISSIONS = frozenset(
    {
        "goal", "read", "ls", "glob", "grep", "symbols", "diagnostics", "edit", "bash", "job", "task", "explore",
        "hand_over", "question", "skill", "webfetch", "network", "private_address", "external_directory", "doom_loop",
        "budget", "mcp_elicitation", "mcp_sampling",
    }
)  # fmt: skip
"""Those of tools of MCP servers and of the user's own tools have their names."""
MAX_RULES = 5_000
MAX_PATTERN = 4_000
"""Characters. Rules may come from an untrusted workspace: they must not take minutes."""


def rules_from_config(value: object, source: RuleSource, file: str = "") -> tuple[list[Rule], list[str]]:
    """Return the rules of ``config.json`` and their errors. ``file``: the path of the file, for the user.

    Accepts ``{"bash": "ask", "edit": {"*.lock": "deny"}}`` (OpenCode's form) and a list of ``{"permission", "pattern",
    "action"}``. Wrong entries are reported and left out, the others apply.
    """
    rules: list[Rule] = []
    wrong: list[str] = []
    for entry in _entries(value, wrong):
        permission, pattern, action = entry
        known: Action | None = next((a for a in STRICTNESS if a == action), None)
        if not isinstance(permission, str) or not isinstance(pattern, str) or known is None:
            wrong.append(
                t(
                    "{permission!r}: {pattern!r}: {action!r} (the action must be allow, ask or deny)",
                    permission=permission,
                    pattern=pattern,
                    action=action,
                )
            )
        elif max(len(permission), len(pattern)) > MAX_PATTERN:
            wrong.append(
                t(
                    "{pattern!r}… is longer than {max_pattern:,} characters",
                    pattern=head(pattern, 60),
                    max_pattern=MAX_PATTERN,
                )
            )
        elif len(rules) == MAX_RULES:
            wrong.append(t("there are more than {max_rules:,} rules", max_rules=MAX_RULES))
            break
        else:
            permission = _SAME.get(permission, permission)
            rules.append(Rule(permission=permission, pattern=pattern, action=known, source=source, file=file))
    return rules, wrong


def unknown_permissions(rules: Iterable[Rule]) -> list[str]:
    """Return the permissions of rules that exist nowhere: misspelled, or those of another program."""
    named = dict.fromkeys(rule.permission for rule in rules)
    return [
        name
        for name in named
        if not (name in PERMISSIONS or name in ALIASES or name.startswith(OUTSIDE))
        and not any(matches(name, known) for known in PERMISSIONS)
    ]


def _entries(value: object, wrong: list[str]) -> list[tuple[object, object, object]]:
    """Return permission, pattern and action of each entry, as written in the file."""
    found: list[tuple[object, object, object]] = []
    if isinstance(value, dict):
        for permission, entry in cast("dict[object, object]", value).items():
            if isinstance(entry, dict):
                inner = cast("dict[object, object]", entry)
                found += [(permission, pattern, action) for pattern, action in inner.items()]
            else:
                found.append((permission, "*", entry))
    elif isinstance(value, list):
        for entry in cast("list[object]", value):
            if isinstance(entry, dict):
                fields = cast("dict[object, object]", entry)
                found.append((fields.get("permission"), fields.get("pattern", "*"), fields.get("action")))
            else:
                wrong.append(t("{entry!r} is not a rule", entry=entry))
    elif value is not None:
        wrong.append(t("it must be an object or a list of rules"))
    return found
