"""Permission rules, pure.

In a flat list the last rule that matches wins, and when none matches the answer is ``ask``. ``layers`` finds that rule,
``access_decision`` decides about one access with it; this module has the shipped rules and decides about a whole call.
"""

from __future__ import annotations

import os
import re
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from daemon.model.permissions import Action, Mode, Reason, Rule, Trust
from daemon.permission import matching
from daemon.permission.access_decision import (
    Decision,
    Judge,
    insistence,
    protection,
    strictest,
    unbounded,
)
from daemon.permission.layers import PATHS, STRICTNESS, UNMATCHED, Layers, PatternRoots, names_permission
from daemon.permission.matching import home
from daemon.permission.modes import LIFTABLE, Circumstances
from daemon.permission.protected import PROTECTED_PERMISSIONS, Kind, may_be_protected, protected
from tools.access import Access, Suggestion
from tools.localization import t
from tools.tool_names import MCP_ELICITATION, MCP_SAMPLING, OUTSIDE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tools.tool import PermissionAsk

_HARMLESS = "read ls glob grep goal question diagnostics symbols job task explore skill"

SHIPPED: tuple[Rule, ...] = (
    *(Rule(permission=one, pattern="*", action="allow") for one in (*_HARMLESS.split(), MCP_ELICITATION)),
    Rule(permission=MCP_SAMPLING, pattern="*", action="ask"),
    Rule(permission="edit", pattern="*", action="ask"),
    Rule(permission="bash", pattern="*", action="ask"),
    Rule(permission="read", pattern="*.env", action="ask"),
    Rule(permission="read", pattern="*.env.*", action="ask"),
    Rule(permission="read", pattern="*.envrc", action="ask"),
    Rule(permission="read", pattern="*.env.example", action="allow"),
    Rule(permission="private_address", pattern="*", action="deny"),
    Rule(permission="external_directory", pattern="*", action="ask"),
    Rule(permission="doom_loop", pattern="*", action="ask"),
    Rule(permission="hand_over", pattern="*", action="ask"),
    Rule(permission="hand_over", pattern="execute", action="allow"),
    Rule(permission="hand_over", pattern="init", action="allow"),
)
"""The rules without any configuration."""


class Verdict(Struct, frozen=True):
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


@dataclass
class RuleSet:
    """All layers of one session, ready to be asked.

    From weak to strong: ``base`` (shipped, the user's, the editor's), ``granted`` by the user everywhere, ``workspace``
    (its own file: it can only tighten unless it is ``trusted``), ``granted_here`` and in this ``session``, the
    ``agent``'s, ``bounds`` (layers that only tighten: of the agents that started this one, and of one that came with
    the workspace), and those of a ``branch`` (``daemon.explore.branch_environment``), which only tighten, too. Grants
    answer questions and lift no prohibition.
    """

    base: Sequence[Rule] = SHIPPED
    workspace: Sequence[Rule] = ()
    session: Sequence[Rule] = ()
    agent: Sequence[Rule] = ()
    _: KW_ONLY
    bounds: Sequence[Sequence[Rule]] = ()
    branch: Sequence[Rule] = ()
    trusted: bool = False
    granted: Sequence[Rule] = ()
    granted_here: Sequence[Rule] = ()
    mode: Mode = "ask"
    trust: Trust = "unknown"
    root: str = ""
    """The workspace's folder, absolute with ``/``, so that rules may name files in it by their full path."""
    stands_for: str = ""
    """In a branch ``root`` is a copy of this folder, the workspace itself. Rules for a file by its path there apply to
    the copy's, and the other way round; a prohibition by either name counts."""
    runs: frozenset[str] = frozenset()
    """Files of the workspace that run outside of the sandbox, folded: they are protected from change."""
    insists: Iterable[str] = ()
    """Permissions (``edit``, ``bash``) that always ask, whatever mode, sandbox, rules or grants allow; for commands,
    only those that may change something. A denial stays."""
    looks: bool = False
    """The agent, or one that started it, is read-only: what mode plan denies is denied in every mode."""

    def __post_init__(self) -> None:
        self.root = matching.tidy(self.root)
        self.stands_for = matching.tidy(self.stands_for)
        self.insists = frozenset(self.insists)
        self._now = Circumstances(self.mode, self.trust, self.looks, copied=bool(self.stands_for))
        self._plain: dict[str, FastPath] = {}
        self._offers: dict[str, bool] = {}

    @cached_property
    def _layers(self) -> tuple[Sequence[Rule], ...]:
        return (
            self.base, self.granted, self.workspace, self.granted_here, self.session, self.agent,
            *self.bounds, self.branch,
        )  # fmt: skip

    @cached_property
    def _judge(self) -> Judge:
        layers = Layers(*self._layers, trusted=self.trusted)
        return Judge(layers, self.root, self.stands_for, frozenset(self.insists), self.runs)

    @cached_property
    def _copy(self) -> re.Pattern[str] | None:
        return re.compile(rf"{re.escape(self.root)}(?![\w.-])") if self.root and self.stands_for else None

    def __hash__(self) -> int:
        # Equal ones decide the same. Hashing the rules would take as long as comparing them.
        return hash((self.root, self.stands_for, self.mode, self.trust, self.trusted))

    def decide(self, permission: str, target: str) -> Rule:
        """Return the rule that decides about ``permission`` on ``target``; decisions of mode and protection count as
        rules, too."""
        if permission not in PROTECTED_PERMISSIONS:
            return self._decide(permission, target)
        plain = self._plain.get(permission)
        if plain is None or plain.home != matching.home():
            rules = chain.from_iterable(self._layers)
            plain = self._plain[permission] = FastPath(
                rules, permission, self.root, self.stands_for, self.runs
            )
        kinds = plain.kinds(target)
        if kinds is None:
            return self._decide(permission, target)
        rule = plain.decided.get(kinds)
        if rule is None:
            rule = plain.decided[kinds] = self._decide(permission, target)
        return rule

    def _decide(self, permission: str, target: str) -> Rule:
        return strictest(self._judge.decide(self._at_home(Access(permission, target)), self._now)).rule

    def judge(self, ask: PermissionAsk) -> Verdict:
        """Return the decision about everything that a call would do: the strictest of all."""
        # Accesses outside the sandbox are asked about below, so a missing sandbox is no additional reason.
        now = replace(
            self._now,
            contained=ask.contained or bool(ask.leaves),
            lifted=ask.contained and ask.lifted,
            read_only=ask.read_only,
            warned=bool(ask.warnings),
            fenced=ask.fenced,
            unread=ask.unread,
        )
        said = ask.all_accesses
        accesses = tuple(map(self._at_home, said))
        decisions = [decision for access in accesses for decision in self._judge.decide(access, now)]
        if _allowed_word_by_word(accesses, decisions):
            decisions = [one for one in decisions if not (one.implied and one.broad)]
        glue = {access.target for access in accesses if access.glue}
        if glue and any(map(_allowed_by_rule, decisions)):
            decisions = [one for one in decisions if not (one.target in glue and _asked_in_general(one))]
        if ask.leaves:
            left = protection(ask.permission, ask.leaves)
            decisions += [Decision(ask.permission, one, "ask", left, one) for one in ask.targets[:1]]
        decisions = _without_repeats([one for one in decisions if not one.silent])
        if not decisions:
            decisions = self._judge.decide(Access(ask.permission, ""), now)
        decisions.sort(key=lambda decision: -STRICTNESS[decision.action])
        words = {home.target: access.target for home, access in zip(accesses, said, strict=True)}
        return Verdict(tuple(dict.fromkeys(_reason(one, words) for one in decisions)))

    def lasting(self, wanted: Iterable[Suggestion], verdict: Verdict | None = None) -> tuple[Suggestion, ...]:
        """Return what "always" would store, in patterns that hold outside a branch, too: no pattern names its copy.

        Empty when a rule of the branch asks, or the agent insists: no grant answers that.
        """
        if verdict is not None and any(map(self._each_time, verdict.reasons)):
            return ()
        if self._copy is None:
            return tuple(wanted)
        found: dict[Suggestion, None] = {}
        for one in wanted:
            pattern = matching.normal(one.pattern, self.root) if one.permission in PATHS else one.pattern
            found.setdefault(Suggestion(one.permission, self._copy.sub(self._named, pattern)))
        return tuple(found)

    def _each_time(self, reason: Reason) -> bool:
        insisted = reason.permission in self.insists and reason.rule == insistence(reason.permission)
        return reason.action == "ask" and (insisted or reason.rule.source == "branch")

    def _at_home(self, access: Access) -> Access:
        """Return a command that names files of a branch's copy, as it would be written in the workspace."""
        if self._copy is None or access.permission != "bash" or self.root not in access.target:
            return access
        target, plain = (self._copy.sub(self._named, text) for text in (access.target, access.plain))
        return replace(access, target=target, plain=plain)

    def _named(self, _: re.Match[str]) -> str:
        return self.stands_for

    def places_outside(self) -> list[str]:
        """Return the patterns, absolute, of rules that ask about or deny paths outside the workspace by name."""
        around = PatternRoots(matching.home(), self.root, self.stands_for)
        found: list[str] = []
        for rule in chain.from_iterable(self._layers[:-1]):  # those of a branch name the workspace and copies
            if rule.action == "allow" or rule.permission not in ("read", "external_directory", "*"):
                continue
            patterns = around.patterns(rule)
            if len(patterns) == 1 and matching.is_outside(patterns[0]) and matching.names_place(rule.pattern):
                found.append(patterns[0])
        return found

    @cached_property
    def denies_files(self) -> bool:
        """Whether a rule denies reading or changing any file."""
        layers = (self.base, self.workspace, self.session, self.agent, *self.bounds)
        return any(
            rule.action == "deny" and any(names_permission(rule, one) for one in PATHS)
            for rule in chain.from_iterable(layers)
        )

    def offered(self, permission: str) -> bool:
        """Return whether a tool that needs ``permission`` makes sense at all: not when everything is denied."""
        known = self._offers.get(permission)
        if known is None:
            known = self._offers[permission] = self._offered(permission)
        return known

    def _offered(self, permission: str) -> bool:
        if not self._now.offers(permission):
            return False
        if permission.startswith(OUTSIDE) and self._now.confined:
            return self.decide(permission, "").action == "allow"
        if any(_outcome(bound, permission) == "denied" for bound in self.bounds):
            return False
        agent = _outcome(self.agent, permission)
        if agent != "open":
            return agent == "some"
        local, base = _outcome(self.workspace, permission), _outcome(self.base, permission)
        if self.trusted and local != "open":
            return local == "some"
        return "denied" not in (local, base)


def _allowed_by_rule(decision: Decision) -> bool:
    return decision.permission == "bash" and decision.action == "allow" and not decision.implied


def _asked_in_general(decision: Decision) -> bool:
    """Return whether only a general rule asks, or, though a rule allows it, the lack of a sandbox."""
    rule = decision.rule
    general = decision.action == "ask" and matching.is_general(rule.pattern) and rule.source in LIFTABLE
    return decision.permission == "bash" and (general or rule == unbounded())


def _without_repeats(decisions: Sequence[Decision]) -> list[Decision]:
    """Return the decisions without repeats: a folder that is listed and read asks about itself, not about its
    parent."""
    asked = [one for one in decisions if one.permission == "external_directory" and one.action == "ask"]
    longest: dict[str, int] = {}
    for one in asked:
        longest[one.about] = max(longest.get(one.about, 0), len(one.target))
    return [one for one in decisions if one not in asked or len(one.target) == longest[one.about]]


def _reason(decision: Decision, words: Mapping[str, str]) -> Reason:
    return Reason(
        permission=decision.permission,
        target=words.get(decision.target, decision.target)
        if decision.permission == "bash"
        else decision.target,
        action=decision.action,
        rule=localized(decision.rule),
        why=decision.why,
    )


def _allowed_word_by_word(accesses: Iterable[Access], decisions: Iterable[Decision]) -> bool:
    """Return whether rules name each command of a line exactly: then they cover accesses that its arguments imply, too.
    Accesses that a rule denies or asks about by name stay so."""
    commands = [access.target for access in accesses if access.permission == "bash" and not access.implied]
    exact = {
        one.target
        for one in decisions
        if one.permission == "bash"
        and one.action == "allow"
        and one.rule.pattern == one.target
        and matching.is_plain(one.target)
    }
    return bool(commands) and exact.issuperset(commands)


def _outcome(layer: Sequence[Rule], permission: str) -> Literal["denied", "some", "open"]:
    """Return what a layer alone leaves of a permission: nothing, at least something, or whatever the others say."""
    for rule in reversed(layer):
        if names_permission(rule, permission):
            if rule.action != "deny":
                return "some"
            if set(rule.pattern) == {"*"}:
                return "denied"
    return "open"


# A relative path that needs no normalisation, means the same in every file system except for case, and is no device.
_PART = r"\.?[\w@+=,-](?:[\w@+=, .-]*[\w@+=,-])?"
_SIMPLE = re.compile(f"(?:{_PART}/)*{_PART}", re.ASCII)


class FastPath:
    """The decisions of one permission and set of rules about files that no rule names, with the home folder of the
    moment. They differ only in the kinds of protected things that a file is."""

    def __init__(
        self,
        rules: Iterable[Rule],
        permission: str,
        root: str,
        stands_for: str = "",
        runs: Iterable[str] = (),
    ) -> None:
        self.home = matching.home()
        self.decided: dict[tuple[Kind, ...], Rule] = {}
        self._permission = permission
        self._root = "" if stands_for else root
        around = PatternRoots(self.home, root, stands_for)
        forms = {
            re.sub(r"\*+", "*", form)
            for rule in rules
            if names_permission(rule, permission)
            for pattern in around.patterns(rule)
            for text in (pattern, matching.fold(pattern))  # folded, it may end in another way
            for form in matching.forms(text)
        } - {"*"}
        forms.update(runs)
        expressions = map(matching.regex, sorted(forms | set(map(matching.fold, forms))))
        self._named = re.compile("|".join(expressions) or r"(?!)", re.DOTALL)
        state = os.environ.get("GOALWRIGHT_HOME", "")
        state = matching.fold(matching.expanded(state, self.home)) if state else "/"
        inside = matching.normal(state, matching.fold(root))
        self._none = not root or not matching.is_outside(inside)

    def kinds(self, name: str) -> tuple[Kind, ...] | None:
        """Return what ``decided`` is asked for; None for a name that must be decided by itself."""
        if self._none or _SIMPLE.fullmatch(name) is None:
            return None
        folded = name.lower()
        if self._named.match(folded) is not None or (folded != name and self._named.match(name) is not None):
            return None
        return (
            protected(self._permission, name, folded, self._root)
            if may_be_protected(self._permission, folded)
            else ()
        )


_WHOSE = {
    "shipped": "the built-in rule",
    "user": "your rule",
    "editor": "the editor's rule",
    "workspace": "the workspace's rule",
    "granted": "what you always allow:",
    "session": "what you allowed in this session:",
    "agent": "the agent's rule",
    "branch": "the rule of the branch",
}


def localized(rule: Rule) -> Rule:
    """Return ``rule`` with its description in the user's language, for a question or an explanation."""
    if rule.source == "mode":
        return rule.model_copy(update={"pattern": t(rule.pattern)})
    return rule.model_copy(update={"words": t(rule.words)}) if rule.words else rule


def rule_words(rule: Rule) -> str:
    """Describe a rule and its file: "your rule `bash: git push* → deny` (~/.goalwright/config.json)"."""
    if rule == UNMATCHED:
        return t("no rule matches, so you are asked")
    if rule.source == "protected":
        return f"protected, regardless of general rules: {rule.pattern}"
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
