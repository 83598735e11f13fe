"""The effect of mode, trust in the folder and sandbox on general rules, pure.

Only *general* questions are dropped: those of a rule that names nothing (``*``), or where there is no rule at all. A
rule that names something keeps asking, and so do rules of the workspace and the agent.
"""

from __future__ import annotations

import re

from msgspec import Struct

from daemon.model.permissions import Action, Mode, Rule, Trust
from daemon.permission.matching import is_general
from tools.localization import noted
from tools.tool_names import MCP_SAMPLING, OUTSIDE

LIFTABLE = frozenset({"shipped", "user", "editor"})
"""Sources of general questions that may be dropped."""
_NEVER_AUTO = frozenset(
    {"external_directory", "doom_loop", "budget", "network", "webfetch", "private_address", MCP_SAMPLING}
)
_DEVICE = re.compile(r"/dev/(?:null|zero|full|tty|u?random|std(?:in|out|err)|fd/\d+)")


def _rule(permission: str, what: str, action: Action) -> Rule:
    return Rule(permission=permission, pattern=what, action=action, source="mode")


RESTRICTED = {p: _rule(p, noted("a folder that is not trusted"), "deny") for p in ("edit", "bash")}
PLAN = {p: _rule(p, noted("mode plan"), "deny") for p in ("edit", "bash")}
LOOKS = {
    permission: Rule(permission=permission, pattern="*", action="deny", source="agent", words=words)
    for permission, words in {
        "edit": noted("this agent and its sub-agents are read-only"),
        "bash": noted("this agent is read-only: it only runs commands that read, in a sandbox"),
    }.items()
}
"""Rules that forbid a read-only agent to change anything, in every mode: as in mode plan."""
ACCEPT_EDITS = _rule("edit", noted("mode accept-edits"), "allow")
AUTO = _rule("*", noted("mode auto"), "allow")
SANDBOX = _rule("*", noted("the sandbox"), "allow")
COPY = _rule("edit", noted("the branch's own copy, reviewed when it is merged"), "allow")
DEVICE = _rule("*", noted("a device that stores nothing"), "allow")


class Circumstances(Struct, frozen=True):
    """The circumstances of one call. ``contained``, ``lifted``, ``read_only``, ``warned``, ``fenced`` and ``unread``:
    see ``tools.tool.PermissionAsk``; ``looks``: the agent is read-only; ``copied``: the work is done in a branch's
    copy."""

    mode: Mode = "ask"
    trust: Trust = "unknown"
    looks: bool = False
    copied: bool = False
    contained: bool = False
    lifted: bool = False
    read_only: bool = False
    warned: bool = False
    fenced: bool | None = None
    unread: frozenset[str] = frozenset()

    def unbounded(self, permission: str, target: str) -> bool:
        """Return whether nothing bounds what a command does: neither its words nor a sandbox."""
        return permission == "bash" and not self.contained and target in self.unread

    def forbids(self, permission: str) -> Rule | None:
        """Return the rule by which the mode or the agent denies a call, whatever other rules say."""
        if self.trust == "restricted":
            return RESTRICTED.get(permission)
        if permission == "bash" and self.read_only and self.contained:
            return None
        if self.mode == "plan":
            return PLAN.get(permission)
        return LOOKS.get(permission) if self.looks else None

    def offers(self, permission: str) -> bool:
        """Return whether some use of it is possible. In mode plan, commands that only read are."""
        if self.trust == "restricted":
            return permission not in RESTRICTED and not permission.startswith(OUTSIDE)
        return not (self.mode == "plan" or self.looks) or permission != "edit"

    @property
    def confined(self) -> bool:
        """Whether nothing may change outside of a branch's copy, which no sandbox ensures of outside tools."""
        return self.mode == "plan" or self.looks or self.copied

    @property
    def boxed(self) -> bool:
        """Whether the sandbox bounds the call's effects. Files that it may write it may also destroy."""
        return self.contained and not self.warned

    def lifts(self, rule: Rule, permission: str, *, outside: bool, opaque: bool) -> Rule | None:
        """Return the rule that lets a call run although ``rule`` asks; None: it asks. ``outside``: of the workspace."""
        if not is_general(rule.pattern) or rule.source not in LIFTABLE or self.warned:
            return None
        if self.lifted and (permission == "bash" or (permission == "edit" and not outside)):
            return SANDBOX
        if self.mode == "accept-edits" and permission == "edit" and not outside:
            return ACCEPT_EDITS
        if self.copied and permission == "edit" and not outside:
            return COPY
        auto = self.mode == "auto" and self.trust == "trusted"
        # MCP servers run outside of the sandbox, as own tools may, so they ask as commands do that leave it.
        never = permission in _NEVER_AUTO or permission.startswith(OUTSIDE)
        return AUTO if auto and not opaque and not never else None


def is_device(name: str) -> bool:
    """Return whether a path is a device: data written to it disappears, and data read from it is not private."""
    return _DEVICE.fullmatch(name) is not None
