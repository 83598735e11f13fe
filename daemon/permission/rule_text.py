"""Rules and reasons in words for the person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.permission.layers import UNMATCHED
from daemon.permission.matching import home
from tools.localization import t

if TYPE_CHECKING:
    from daemon.model.permissions import Reason, Rule

_WHOSE = {
    "shipped": "the shipped rule",
    "user": "your rule",
    "editor": "the editor's rule",
    "workspace": "the workspace's rule",
    "granted": "what you allowed for good:",
    "session": "what you allowed in this session:",
    "agent": "the agent's rule",
    "branch": "the rule of the branch",
}


def told(rule: Rule) -> Rule:
    """Return ``rule`` with what it says of itself in the user's language, for a question or an explanation."""
    if rule.source == "mode":
        return rule.model_copy(update={"pattern": t(rule.pattern)})
    return rule.model_copy(update={"words": t(rule.words)}) if rule.words else rule


def rule_words(rule: Rule) -> str:
    """Which rule of which file: "your rule `bash: git push* → deny` (~/.goalwright/config.json)"."""
    if rule == UNMATCHED:
        return t("no rule matches, so you are asked")
    if rule.source == "protected":
        return f"protected, whatever is allowed in general: {rule.pattern}"
    if rule.source == "mode":
        return rule.pattern
    if rule.words:
        return rule.words
    file = rule.file
    folder = home()
    if folder and (file == folder or file.startswith(folder + "/")):
        file = "~" + file[len(folder) :]
    where = f" ({file})" if file else ""
    return f"{_WHOSE[rule.source]} `{rule.permission}: {rule.pattern} → {rule.action}`{where}"


def reason_words(reason: Reason) -> str:
    """One thing that a call would do: "deny read .env (argument of cat): your rule `read: *.env → deny`"."""
    why = f" ({reason.why})" if reason.why else ""
    return f"{reason.action} {reason.permission} {reason.target}{why}: {rule_words(reason.rule)}"
