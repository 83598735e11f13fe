"""Imperfect edits of real source files (Python's own library): every one lands where it was meant, or nowhere."""

from __future__ import annotations

import random
import re
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.match import MatchError, find_edit

SEED = 20
FILES = 24
EDITS_A_FILE = 5


@dataclass(frozen=True)
class Case:
    kind: str
    text: str
    old: str
    new: str
    expected: str | None
    """None: there is no such place, it must be refused."""
    trailing: bool = True
    """Whether trailing blanks count in the comparison."""


def sources(rng: random.Random) -> Iterator[str]:
    found = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    rng.shuffle(found)
    texts = (path.read_bytes().decode("utf-8") for path in found)
    usable = [text for text in texts if "\t" not in text and "\r" not in text and text.count("\n") > 50]
    yield from usable[:FILES]


def perfect(rng: random.Random, text: str) -> tuple[int, str, str, str] | None:
    """A made-up but exact edit: first line, old, new, and the text after it. None when it is not unique."""
    lines = text.split("\n")
    first = rng.randrange(len(lines) - 8)
    last = first + rng.randint(1, 7)
    old, new = lines[first:last], lines[first:last]
    at = rng.randrange(len(old))
    indent = re.match(" *", new[at]).group()  # type: ignore[union-attr]  # matches always
    match rng.choice(["change", "before", "after", "delete"]):
        case "change":
            new[at] = indent + "changed(line)"
        case "before":
            new.insert(at, indent + 'inserted("v")')
        case "after":
            new[at + 1 : at + 1] = [indent + "if added:", indent + "    more()"]
        case _:
            del new[at]
    if old == new or not new or not "".join(old).strip() or text.count("\n".join(old)) != 1:
        return None
    return first, "\n".join(old), "\n".join(new), "\n".join(lines[:first] + new + lines[last:])


def by_line(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(change(line) if line.strip() else line for line in text.split("\n"))


def tabbed(line: str) -> str:
    width = len(line) - len(line.lstrip(" "))
    return "\t" * (width // 4) + " " * (width % 4) + line.lstrip(" ")


def cases(rng: random.Random) -> Iterator[Case]:
    for text in sources(rng):
        for _ in range(EDITS_A_FILE):
            made = perfect(rng, text)
            if made is None:
                continue
            first, old, new, after = made
            yield Case("clean", text, old, new, after)
            crlf = after.replace("\n", "\r\n")
            yield Case("crlf", text.replace("\n", "\r\n"), old, new, crlf)
            yield Case("trailing", by_line(lambda line: line + "  ")(text), old, new, after, trailing=False)
            depths = [len(line) - len(line.lstrip()) for line in f"{old}\n{new}".split("\n") if line.strip()]
            cut = min(depths)

            def number(part: str, start: int = first) -> str:
                return "\n".join(f"{n:>6}\t{line}" for n, line in enumerate(part.split("\n"), start + 1))

            changes: dict[str, Callable[[str], str]] = {
                "dedent": by_line(lambda line, cut=cut: line[cut:]),
                "indent": by_line(lambda line: "  " + line),
                "tabs": by_line(tabbed),
                "curly": lambda part: re.sub(r'"([^"\n]*)"', "“\\1”", part),
                "escaped": lambda part: part.replace("\n", "\\n"),
                "numbers": number,
            }
            for kind, change in changes.items():
                if change(old) != old:
                    yield Case(kind, text, change(old), change(new), after)
            words = [word for word in re.findall(r"[A-Za-z_]{4,}", old)]
            if words:
                word = rng.choice(words)
                yield Case("stale", text, old.replace(word, word + "q"), new, None)
            yield Case("stale", text, old.replace("\n", "\n    gone()\n", 1) + "\ngone()", new, None)


def bare(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n")]


def outcome(case: Case) -> str:
    try:
        after = find_edit(case.text, case.old, case.new).apply(case.text)
    except MatchError:
        return "refused"
    if not case.trailing and case.expected is not None:
        return "right" if bare(after) == bare(case.expected) else "wrong"
    return "right" if after == case.expected else "wrong"


@pytest.fixture(scope="module")
def table() -> dict[str, Counter[str]]:
    rates: dict[str, Counter[str]] = {}
    for case in cases(random.Random(SEED)):
        rates.setdefault(case.kind, Counter())[outcome(case)] += 1
    return rates


def test_no_imperfect_edit_writes_the_wrong_thing(table: dict[str, Counter[str]]) -> None:
    assert {kind: rates["wrong"] for kind, rates in table.items() if rates["wrong"]} == {}


def test_every_clean_edit_lands(table: dict[str, Counter[str]]) -> None:
    for kind in ("clean", "crlf", "trailing", "numbers"):
        assert set(table[kind]) == {"right"}


def test_stale_edits_are_refused(table: dict[str, Counter[str]]) -> None:
    assert set(table["stale"]) == {"refused"}


@pytest.mark.parametrize("kind", ["dedent", "indent", "tabs", "curly", "escaped"])
def test_most_recoverable_edits_land(table: dict[str, Counter[str]], kind: str) -> None:
    assert table[kind]["right"] >= 0.8 * table[kind].total()
