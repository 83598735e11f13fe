"""Names of files about which no rule and no protection says anything of its own: one is decided like all. Pure.

A search, a listing or the sandbox asks about every file of a workspace; nearly all of them are such.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from daemon.model.permissions import Rule
from daemon.permission import matching
from daemon.permission.layers import Surroundings, names_permission
from daemon.permission.protected import may_be_protected

PERMISSIONS = frozenset({"read", "edit"})
# Relative, nothing to tidy up, the same in every file system but for case, and no device.
_SIMPLE = re.compile(r"(?:[\w@+=,-][\w@+=, .-]*/)*[\w@+=,-](?:[\w@+=, .-]*[\w@+=,-])?", re.ASCII)


class Plain:
    """Of one permission and set of rules, for the home folder at the time."""

    def __init__(self, rules: Iterable[Rule], permission: str, root: str, stands_for: str = "") -> None:
        self.home = matching.home()
        around = Surroundings(self.home, root, stands_for)
        self.rule: Rule | None = None
        """What decides about all of them, once somebody asked about one."""
        forms: dict[str, None] = {}
        for rule in rules:
            if not names_permission(rule, permission):
                continue
            for pattern in around.patterns(rule):
                for form in matching.forms(pattern):
                    text = re.sub(r"\*+", "*", form)
                    if text != "*":
                        forms |= dict.fromkeys((text, matching.fold(text)))
        self._named = re.compile("|".join(map(matching.regex, forms)) or r"(?!)", re.DOTALL)
        state = os.environ.get("GOALWRIGHT_HOME", "")
        inside = matching.normal(matching.expanded(state, self.home), root) if state else "/"
        self._none = not root or not matching.is_outside(inside)

    def covers(self, name: str) -> bool:
        """Whether ``name`` is decided like any other. No for some that are, never yes wrongly."""
        if self._none or _SIMPLE.fullmatch(name) is None:
            return False
        folded = name.lower()
        if may_be_protected(folded) or self._named.match(folded) is not None:
            return False
        return folded == name or self._named.match(name) is None
