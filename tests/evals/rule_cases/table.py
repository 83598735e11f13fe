"""The table of rule cases: one line a case, ``expected ¦ layers ¦ question ¦ options ¦ decided by``.

Layers are parted by ``//``, rules by ``;``; with names before them (``user: …``) they are the five of the adapter. A
question is ``permission target``, or ``$ command line``. Decided by: a rule, or where it comes from.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.drivers.rule_judge import judged

FOLDER = Path(__file__).resolve().parent
FILES = ("matching", "layers", "paths", "protected", "modes", "insisting", "commands")
_FIVE = ("shipped", "user", "workspace", "session", "agent")


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    number: int
    section: str
    expected: str
    layers: str
    question: str
    options: str
    by: str

    @property
    def fields(self) -> dict[str, Any]:
        """As the adapter takes it."""
        found: dict[str, Any] = {"layers": _layers(self.layers)}
        for option in self.options.split():
            name, given, value = option.partition("=")
            found[name] = value if given else True
        if self.question.startswith("$ "):
            return found | {"bash": _text(self.question[2:])}
        permission, _, target = self.question.partition(" ")
        return found | {"permission": permission, "target": _text(target)}

    def outcome(self) -> dict[str, Any]:
        """Return the adapter's answer."""
        return judged(self.fields)

    def holds(self, outcome: dict[str, Any]) -> bool:
        """Whether that is what is expected."""
        rule = " ".join(outcome["rule"] or ())
        return outcome["action"] == self.expected and (not self.by or self.by in (rule, outcome["source"]))


def _text(written: str) -> str:
    written = written.replace("{nl}", "\n")
    return re.sub(r"\{(20[0-9a-f]{2})\}", lambda hit: chr(int(hit[1], 16)), written)


def _layers(text: str) -> list[Any]:
    layers = [layer.strip() for layer in text.split(" // ")] if text else [""]
    named = [re.match(rf"({'|'.join(_FIVE)}): (.*)", layer) for layer in layers]
    if not any(named):
        return [_rules(layer) for layer in layers]
    by_name = {hit[1]: _rules(hit[2]) for hit in named if hit}
    return [by_name.get(name, []) for name in _FIVE]


def _rules(text: str) -> Any:
    if text == "SHIPPED":
        return "shipped"
    found: list[list[str]] = []
    for rule in filter(None, text.split("; ")):
        permission, _, rest = rule.partition(" ")
        pattern, _, action = rest.rpartition(" ")
        found.append([permission, pattern, action])
    return found


@functools.cache
def cases() -> tuple[Case, ...]:
    """All of them."""
    found: list[Case] = []
    for name in FILES:
        section = name
        for line in (FOLDER / f"{name}.txt").read_text("utf-8").splitlines():
            if line.startswith("# "):
                section = line[2:]
            elif line.strip():
                cells = [cell.strip() for cell in line.split("¦")]
                cells += [""] * (5 - len(cells))
                found.append(Case(len(found) + 1, section, *cells[:5]))
    return tuple(found)


def print_table() -> int:
    """As Markdown, with outcomes. 1 when one is not as expected."""
    failed = 0
    section = ""
    for case in cases():
        if case.section != section:
            section = case.section
            print(f"\n**{section}**\n\n| | rules | question | with | expected | outcome | decided by |")
            print("|--:|---|---|---|---|---|---|")
        outcome = case.outcome()
        by = " ".join(outcome["rule"]) if outcome["rule"] else f"{outcome['source']}: {outcome['why']}"
        good = case.holds(outcome)
        failed += not good
        cells = [case.layers, case.question, case.options]
        shown = [f"`{cell}`".replace("|", "\\|") if cell else "" for cell in cells]
        verdict = f"{outcome['action']} {'✓' if good else '**✗**'}"
        print(
            f"| {case.number} | {' | '.join(shown)} | {case.expected} | {verdict} | {by.replace('|', chr(92) + '|')} |"
        )
    print(f"\n{len(cases())} cases, {failed} not as expected")
    return 1 if failed else 0
