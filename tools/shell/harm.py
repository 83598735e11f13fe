"""Warnings about commands whose effect cannot be undone: the rows of ``harm.txt``."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from tools.localization import t
from tools.shell.bash_words import Word, data, names

if TYPE_CHECKING:
    from collections.abc import Sequence


_VALUED = names("-c -C --git-dir --work-tree --namespace --config-env --attr-source --super-prefix")
"""Options of git that take the next word."""


@cache
def _rows() -> dict[str, list[tuple[Sequence[str], str, str, str]]]:
    found: dict[str, list[tuple[Sequence[str], str, str, str]]] = {}
    for line in data("harm.txt"):
        line = re.sub(r"\n *", " ", line)
        command, rest = line.split(" | ", 1)
        left, words = rest.rsplit("| ", 1)
        condition, unless = left.rsplit(" |", 1)
        names, *sub = command.split(" ")
        for name in names.split(","):
            found.setdefault(name, []).append((sub, condition, unless.strip(), words))
    return found


def warning(name: str, words: Sequence[Word]) -> str:
    """Return a warning about an effect that cannot be undone; empty when none is known."""
    texts = [word.text for word in words]
    if name == "git":
        while texts and texts[0].startswith("-"):
            texts = texts[2 if texts[0] in _VALUED else 1 :]
    for sub, condition, unless, said in _rows().get("mkfs" if name.startswith("mkfs") else name, ()):
        if (
            texts[: len(sub)] == sub
            and _fits(condition, texts[len(sub) :])
            and not (unless and _fits(unless, texts))
        ):
            return t(said).replace("{}", name)
    return ""


def _fits(condition: str, texts: Sequence[str]) -> bool:
    if condition == "*":
        return True
    if condition.startswith("~"):
        return re.fullmatch(condition[1:], " " + "".join(f"{text} " for text in texts), re.DOTALL) is not None
    letters, *longs = condition.split(" ")
    for text in texts:
        if text == "--":
            return False
        option = text.partition("=")[0]
        if option.startswith("--"):
            # Programs take any beginning of a name that fits no other one.
            if any(f"--{long}".startswith(option) for long in longs):
                return True
        elif text.startswith("-") and any(letter in text[1:] for letter in letters if letter != "-"):
            return True
    return False
