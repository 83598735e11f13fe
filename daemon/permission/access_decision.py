"""Decide about one access of a call: rules, then mode and sandbox, then protection. Pure.

The order matters. A denial stays. A general question may be lifted, and accesses that a command's arguments only imply
ask only where a rule names them. An access that would then be allowed must not be protected, opaque or outside.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from daemon.model.permissions import Action, Rule
from daemon.permission import matching
from daemon.permission.layers import ALIASES, PATHS, STRICTNESS, UNMATCHED, Layers, PatternRoots
from daemon.permission.modes import DEVICE, SANDBOX, Circumstances, is_device
from daemon.permission.protected import Kind, is_specific, may_protect, protected
from tools.localization import noted, t

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tools.access import Access

_GRANTED = frozenset({"granted", "session"})
_WILD = re.compile(r"[*?]")
OUTSIDE = noted("files outside the workspace")
HOOK = noted("a file that a hook runs")
UNBOUNDED = noted("this command could do anything")
_WITH_SANDBOX = noted("in the sandbox it would not need approval")
_NOT_BY_STAR = {
    "external_directory": OUTSIDE,
    "network": noted("the network"),
    "private_address": noted("addresses of private networks"),
}
"""Permissions that a rule for all permissions does not mean."""
REVIEWED = noted("what is merged from a branch always needs your review before it is written")
INSISTS = noted("this agent asks before each change, regardless of modes, rules and earlier answers")


class Decision(Struct, frozen=True):
    """About one access. ``silent``: it is implied, and nothing speaks against it."""

    permission: str
    target: str
    action: Action
    rule: Rule
    about: str
    """Target of the access."""
    why: str = ""
    implied: bool = False
    silent: bool = False
    broad: bool = False
    """Only asked about because nothing names it: the command itself, allowed word by word, settles that."""


class _Name(Struct, frozen=True):
    """A target as rules see it."""

    permission: str
    exact: str
    folded: str
    around: PatternRoots

    @property
    def outside(self) -> bool:
        return self.permission in PATHS and matching.is_outside(self.exact)


def protection(permission: str, what: str) -> Rule:
    """Stands for a rule where something protected is asked about."""
    return Rule(permission=permission, pattern=what, action="ask", source="protected")


def unbounded(what: str = "", *, contained: bool = False) -> Rule:
    """Return the protection from a command that could do anything, or ``what``."""
    what = what or t(UNBOUNDED)
    return protection("bash", what if contained else f"{what}; {t(_WITH_SANDBOX)}")


def insistence(permission: str) -> Rule:
    """Stands for a rule where an agent always asks, see ``RuleSet``."""
    return Rule(permission=permission, pattern="*", action="ask", source="agent", words=t(INSISTS))


def reviewed(permission: str) -> Rule:
    """Return a pseudo-rule for a review of the user's own choice, see ``CallInfo.review``."""
    return Rule(permission=permission, pattern="*", action="ask", source="branch", words=t(REVIEWED))


class Judge:
    """The decision about an access. ``root``: the workspace's folder, absolute, or empty when it is unknown;
    ``stands_for``: the workspace itself, when ``root`` is a branch's copy of it; ``runs``: see ``RuleSet``."""

    def __init__(
        self,
        layers: Layers,
        root: str,
        stands_for: str = "",
        insists: frozenset[str] = frozenset(),
        runs: frozenset[str] = frozenset(),
    ) -> None:
        self._layers = layers
        self._root = root
        self._stands_for = stands_for
        self._insists = insists
        self._runs = runs

    def decide(self, access: Access, now: Circumstances) -> list[Decision]:
        """Return the decision about an access and, for a path outside of the workspace, about being there.

        In a branch the workspace itself is outside; there rules that name its files as they do at home count, too.
        """
        decisions = self._decide(access, now)
        if self._insists:
            decisions = [insisted for one in decisions for insisted in self._insisted(one, now)]
        if self._stands_for and access.permission != "external_directory":
            name = self._name(access)
            home = matching.normal(name.exact, self._stands_for) if name.outside else name.exact
            if home != name.exact:
                at_home = self._decide(replace(access, target=home), now)
                decisions += [replace(one, target=access.target, about=access.target) for one in at_home]
        return decisions

    def _insisted(self, decision: Decision, now: Circumstances) -> Iterator[Decision]:
        """Yield the decision, as a question if the agent insists on asking, whatever else allows it, implied or not."""
        permission = ALIASES.get(decision.permission, decision.permission)
        changes = not (permission == "bash" and now.read_only) and not (
            permission in PATHS and is_device(decision.target)
        )
        if permission not in self._insists or not changes or decision.action == "deny":
            yield decision
            return
        if decision.action == "ask" and not matching.is_general(decision.rule.pattern):
            yield decision  # it is more specific and equally strict
        yield replace(decision, action="ask", rule=insistence(permission), silent=False, broad=False)

    def _decide(self, access: Access, now: Circumstances) -> list[Decision]:
        name = self._name(access)
        if name.permission in PATHS and is_device(name.exact):
            now = Circumstances()  # in every mode: ``2>/dev/null`` changes nothing
        rule, part = self._rule(access, name, now)
        rule = self._meant(access, name, rule)
        silent = False
        forbidden = now.forbids(name.permission)
        if rule.action == "deny":
            return [_decision(access, "deny", rule)]
        if forbidden is not None:
            return [_decision(access, "deny", forbidden)]
        if part is not None and not (now.boxed and access.implied):
            decision = _decision(access, "ask", part)
        elif rule.action == "ask":
            silent = access.implied and matching.is_general(rule.pattern)
            opaque = not now.boxed and (bool(access.opaque) or now.unbounded(name.permission, access.target))
            lifted = now.lifts(rule, name.permission, outside=name.outside, opaque=opaque)
            if is_device(name.exact) and matching.is_general(rule.pattern):
                lifted = DEVICE
            if not silent and lifted is None:
                decision = _decision(access, "ask", rule)
            else:
                decision = self._passing(access, name, lifted or rule, now, silent)
        else:
            decision = self._passing(access, name, rule, now, silent)
        return [decision, *self._being_outside(access, name, rule, decision, now)]

    def _name(self, access: Access) -> _Name:
        permission = ALIASES.get(access.permission, access.permission)
        if permission in PATHS:
            exact = matching.normal(access.target, "" if permission == "external_directory" else self._root)
            folded = matching.fold(exact)
        else:
            exact = folded = access.target.replace("\\", "/")
        return _Name(permission, exact, folded, PatternRoots(matching.home(), self._root, self._stands_for))

    def _rule(self, access: Access, name: _Name, now: Circumstances) -> tuple[Rule, Rule | None]:
        if not access.several:
            return self._layers.find(name.permission, name.exact, name.folded, name.around), None
        found = self._layers.find_several(name.permission, name.exact, name.folded, name.around)
        # Its files are known only at run time; the mounts ensure that they are not the workspace's.
        return found.rule, found.besides if now.fenced else found.part

    def _meant(self, access: Access, name: _Name, rule: Rule) -> Rule:
        """Return the rule for a command: variables without effect may be left out, and a general grant covers only
        words that do no more than it names."""
        if access.plain and rule.action == "ask" and matching.is_general(rule.pattern):
            plain = self._layers.find(name.permission, access.plain, access.plain, name.around)
            rule = plain if plain.action == "allow" else rule
        if access.beyond and rule.action == "allow" and not _is_word_for_it(rule, access):
            texts = (name.exact, access.plain) if access.plain else (name.exact,)
            allowing = (
                one
                for text in texts
                for one in self._layers.allowing(name.permission, text, text, name.around)
            )
            return next((one for one in allowing if _is_word_for_it(one, access)), UNMATCHED)
        return rule

    def _passing(self, access: Access, name: _Name, rule: Rule, now: Circumstances, silent: bool) -> Decision:
        """Return the decision about an access that ``rule`` allows: opaque and protected ones ask unless a rule names
        them."""
        asked: Rule | None = None
        free = now.unbounded(name.permission, access.target)
        if (access.opaque or free) and rule != SANDBOX:
            named = self._naming(name, rule, lambda one: _is_exactly(one, access))
            if named is None and not now.boxed:
                asked = unbounded(access.opaque, contained=now.contained)
            rule = named or (SANDBOX if now.boxed and access.opaque else rule)
        kinds = self._kinds(access, name)
        if asked is None and kinds:
            named = self._naming(name, rule, lambda one: is_specific(one.pattern, kinds))
            asked = (
                None
                if named
                else protection(name.permission, ", ".join(dict.fromkeys(t(kind.what) for kind in kinds)))
            )
            rule = named or rule
        if asked is None and name.permission in _NOT_BY_STAR and rule.action == "allow":
            named = self._naming(name, rule, _says_outside)
            asked = None if named else protection(name.permission, t(_NOT_BY_STAR[name.permission]))
            rule = named or rule
        if asked is not None:
            return _decision(access, "ask", asked, broad=True)
        return _decision(access, "allow", rule, silent=silent)

    def _naming(self, name: _Name, rule: Rule, names: Callable[[Rule], bool]) -> Rule | None:
        """Return a rule that allows it and names it: the one that decides, else one before it with no other between."""
        if rule.action == "allow" and rule.source != "mode" and names(rule):
            return rule
        allowing = self._layers.allowing(name.permission, name.exact, name.folded, name.around)
        return next((one for one in allowing if names(one)), None)

    def _kinds(self, access: Access, name: _Name) -> tuple[Kind, ...]:
        run = (one for one in self._runs if name.permission == "edit" and matching.matches(name.folded, one))
        kinds = tuple(Kind(HOOK, one.rpartition("/")[2]) for one in run)
        if access.several and _WILD.search(name.folded):
            return (*may_protect(name.permission, name.exact, name.folded), *kinds)
        # Copies are in our own state folder; names protect files in them as they do in the workspace.
        root = "" if self._stands_for else self._root
        return (*protected(name.permission, name.exact, name.folded, root), *kinds)

    def _being_outside(
        self, access: Access, name: _Name, rule: Rule, decision: Decision, now: Circumstances
    ) -> Iterator[Decision]:
        """Return the decision on using the folder of a path outside the workspace."""
        if not name.outside or name.permission == "external_directory" or is_device(name.exact):
            return
        folder = _folder(access, name)
        allowed, rule_there = self._folder_rule(folder, name, access)
        named = rule.source != "mode" and matching.names_place(rule.pattern) and not decision.silent
        here = replace(access, permission="external_directory", target=folder, opaque="")
        if rule_there.action == "deny" and not (named and matching.is_general(rule_there.pattern)):
            yield replace(_decision(here, "deny", rule_there), about=access.target)
        elif not allowed and not named and not self._left_to_sandbox(access, rule_there, now):
            broad = rule_there.action == "allow" or matching.is_general(rule_there.pattern)
            asks = rule_there if rule_there.action == "ask" else protection(here.permission, t(OUTSIDE))
            yield replace(_decision(here, "ask", asks, broad=broad), about=access.target)

    def _folder_rule(self, folder: str, name: _Name, access: Access) -> tuple[bool, Rule]:
        """Return whether a rule allows to be there, and the one that decides. The target may be a folder itself."""
        own = folder if access.several else f"{name.exact.rstrip('/')}/*"
        found: list[tuple[bool, Rule]] = []
        for target in dict.fromkeys((folder, own)):
            there = _Name("external_directory", target, matching.fold(target), name.around)
            rule = self._layers.find(there.permission, there.exact, there.folded, there.around)
            named = self._naming(there, rule, _says_outside) if rule.action == "allow" else None
            found.append((named is not None, named or rule))
        denied = [one for one in found if one[1].action == "deny"]
        return (denied or [one for one in found if one[0]] or found)[0]

    def _left_to_sandbox(self, access: Access, rule: Rule, now: Circumstances) -> bool:
        """Return whether the sandbox decides: a command in it has a read-only disk; writes by redirections ask."""
        general = rule.action == "ask" and matching.is_general(rule.pattern)
        return now.boxed and now.lifted and general and (access.implied or access.permission != "edit")


def _decision(
    access: Access, action: Action, rule: Rule, *, silent: bool = False, broad: bool = False
) -> Decision:
    why = ": ".join(text for text in (access.why, access.opaque) if text)
    return Decision(
        access.permission, access.target, action, rule, access.target, why, access.implied, silent, broad
    )


def _is_exactly(rule: Rule, access: Access) -> bool:
    return rule.pattern in (access.target, access.plain) and matching.is_plain(rule.pattern)


def _is_word_for_it(rule: Rule, access: Access) -> bool:
    """Return whether a rule covers all words of a command: the user wrote it, or it is general, or exact."""
    wrote = rule.source not in _GRANTED
    return wrote or rule.pattern in (access.target, access.plain) or matching.is_general(rule.pattern)


def _says_outside(rule: Rule) -> bool:
    """Return whether a rule covers other folders, by permission or path; ``"*": "allow"`` does not."""
    return not _WILD.search(rule.permission) or matching.names_place(rule.pattern)


def _folder(access: Access, name: _Name) -> str:
    """Return the target of ``external_directory`` for a path: everything in its folder."""
    path = name.exact
    if access.several:
        path = _WILD.split(path, maxsplit=1)[0].rpartition("/")[0]
    elif name.permission != "ls":
        path = path.rpartition("/")[0]
    return f"{path}/*"


def strictest(decisions: list[Decision]) -> Decision:
    """Return the first of the strictest."""
    return max(decisions, key=lambda decision: STRICTNESS[decision.action])
