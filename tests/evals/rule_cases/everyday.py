"""Everyday command lines and the decision that users expect, under five typical configurations.

``everyday.txt`` holds one line each: ``letters ¦ command line``, one letter for each configuration of ``SETS`` in its
order. ``{nl}`` stands for a new line. The letters:

    a  allowed, with a sandbox and without one: it can only read, and a rule allows it
    s  a rule (or mode auto) allows it, in the sandbox; without one it asks, since the program could do more
    l  no rule allows it: the sandbox answers the general question (``"bash": "ask"``); without one it asks
    q  asks, with a sandbox, too: it cannot be taken back, leaves the workspace, or touches what is protected
    d  denied by a rule

``!`` after the letters marks lines where a wrong "allow" without a sandbox would break a rule or a protection.

``python -m tests.evals.rule_cases.everyday`` prints, for each configuration with and without a sandbox, how many lines
are allowed, asked about and denied, and how many decisions differ from the expectation in either direction;
``--list`` prints these lines, too; ``--record`` writes the numbers to ``everyday.json``. With a sandbox the number of
questions may not grow by more than 3 %; without one no more lines may pass that should ask.
"""

from __future__ import annotations

import functools
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from daemon.permission.rules_file import rules_from_config
from tests.support.drivers.rule_judge import judged

FOLDER = Path(__file__).resolve().parent
GROWTH = 1.03
"""So many times the recorded number of questions are the most that there may be."""

Action = Literal["allow", "ask", "deny"]
STRICTNESS: dict[Action, int] = {"allow": 0, "ask": 1, "deny": 2}

_READERS = "git status,git diff,git log,ls,cat,grep,rg,head,tail,wc,find"
_DEVELOPER = "git,npm,pytest,python,make,cargo,go"
SETS: dict[str, dict[str, Any]] = {
    "default": {},
    "readers": {"permission": {"bash": {f"{name} *": "allow" for name in _READERS.split(",")}}},
    "developer": {
        "permission": {
            "bash": {
                **{f"{name} *": "allow" for name in _DEVELOPER.split(",")},
                "rm -rf *": "deny",
                "git push *": "deny",
            },
            "read": {".env*": "deny"},
        }
    },
    "auto": {"mode": "auto"},
    "broad": {
        "permission": {
            "*": "allow",
            "read": {".env": "deny", "secrets/*": "deny"},
            "bash": {"sudo *": "deny"},
        }
    },
}
"""Configurations as users write them into ``config.json``. Mode auto counts in a trusted folder only."""

_EXPECTED: dict[str, tuple[Action, Action]] = {
    "a": ("allow", "allow"),
    "s": ("allow", "ask"),
    "l": ("allow", "ask"),
    "q": ("ask", "ask"),
    "d": ("deny", "deny"),
}
"""By letter: with a sandbox, without one."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table."""

    number: int
    command: str
    letters: dict[str, str]
    """By name of the configuration."""
    security: bool

    def expected(self, name: str, *, sandboxed: bool) -> Action:
        """Return the decision that users expect."""
        return _EXPECTED[self.letters[name]][0 if sandboxed else 1]

    def decided(self, name: str, *, sandboxed: bool) -> Action:
        """Return the decision of the product."""
        fields = {"layers": _layers(name), "bash": self.command, "sandboxed": sandboxed}
        if mode := SETS[name].get("mode"):
            fields |= {"mode": mode, "trusted": True}
        return cast("Action", judged(fields)["action"])


@dataclass(frozen=True, slots=True)
class Tally:
    """All decisions under one configuration, with a sandbox or without one."""

    decided: tuple[tuple[Line, Action, Action], ...]
    """The line, the decision, and the one that is expected."""

    @property
    def counts(self) -> Counter[Action]:
        """How often each decision was made."""
        return Counter(action for _, action, _ in self.decided)

    @property
    def stricter(self) -> list[Line]:
        """Lines where the product asks or denies more than users expect."""
        return [line for line, action, wanted in self.decided if STRICTNESS[action] > STRICTNESS[wanted]]

    @property
    def laxer(self) -> list[Line]:
        """Lines where the product asks or denies less than users expect."""
        return [line for line, action, wanted in self.decided if STRICTNESS[action] < STRICTNESS[wanted]]


@functools.cache
def lines() -> tuple[Line, ...]:
    """Return all lines of the table."""
    return tuple(_read())


@functools.cache
def tally(name: str, *, sandboxed: bool) -> Tally:
    """Ask the product about all lines under one configuration."""
    return Tally(
        tuple(
            (line, line.decided(name, sandboxed=sandboxed), line.expected(name, sandboxed=sandboxed))
            for line in lines()
        )
    )


def baseline() -> dict[str, dict[str, int]]:
    """Return the recorded numbers by configuration: of questions with (``sandboxed``) and without a sandbox
    (``unsandboxed``), and of lines that pass without one though they should ask (``laxer``)."""
    return json.loads((FOLDER / "everyday.json").read_text("utf-8"))


def _read() -> Iterator[Line]:
    for number, raw in enumerate((FOLDER / "everyday.txt").read_text("utf-8").splitlines(), 1):
        if not raw or raw.startswith("# "):
            continue
        letters, _, command = raw.partition(" ¦ ")
        plain = letters.removesuffix("!")
        if len(plain) != len(SETS) or not set(plain) <= _EXPECTED.keys() or not command:
            raise ValueError(f"everyday.txt:{number}: expected {len(SETS)} letters, ¦ and a command line")
        by_name = dict(zip(SETS, plain, strict=True))
        yield Line(number, command.replace("{nl}", "\n"), by_name, plain != letters)


@functools.cache
def _layers(name: str) -> list[Any]:
    rules, wrong = rules_from_config(SETS[name].get("permission"), "user")
    assert not wrong, wrong
    return ["shipped", [[rule.permission, rule.pattern, rule.action] for rule in rules], [], [], []]


def main(arguments: list[str]) -> int:
    """Print the table; 1 when there are too many questions, or a marked line passes without a sandbox."""
    recorded = {} if "--record" in arguments else baseline()
    now: dict[str, dict[str, int]] = {}
    bad = 0
    print("| rules | sandbox | allow | ask | deny | asked before | stricter than expected | laxer | marked |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for name in SETS:
        for sandboxed in (True, False):
            found = tally(name, sandboxed=sandboxed)
            counts, key = found.counts, "sandboxed" if sandboxed else "unsandboxed"
            now.setdefault(name, {})[key] = counts["ask"]
            if not sandboxed:
                now[name]["laxer"] = len(found.laxer)
            before = recorded.get(name, {}).get(key, counts["ask"])
            marked = [line for line in found.laxer if line.security]
            bad += (sandboxed and counts["ask"] > before * GROWTH) or bool(marked and not sandboxed)
            print(
                f"| {name} | {'yes' if sandboxed else 'no'} | {counts['allow']} | {counts['ask']} | "
                f"{counts['deny']} | {before} | {len(found.stricter)} | {len(found.laxer)} | {len(marked)} |"
            )
            if "--list" in arguments:
                for line, action, wanted in found.decided:
                    if action != wanted:
                        print(f"    {action} instead of {wanted}: {line.command!r}")
    print(f"\n{len(lines())} lines")
    if "--record" in arguments:
        (FOLDER / "everyday.json").write_text(json.dumps(now, indent=2) + "\n", "utf-8")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
