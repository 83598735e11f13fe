"""Variables and builtins that change what the commands of a line mean."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from tools.localization import t
from tools.shell.bash_words import data, names

if TYPE_CHECKING:
    from tools.shell.bash_words import Word


@cache
def _kind(kind: str) -> re.Pattern[str]:
    known = dict(record.split(":", 1) for record in data("variables.txt"))
    return re.compile("|".join(known[kind].split()), re.ASCII if kind == "shell" else 0)


def _is(name: str, *kinds: str) -> bool:
    """Return whether a variable is of one of these kinds of ``variables.txt``."""
    return any(_kind(kind).fullmatch(name) for kind in kinds)


# Paths within the workspace: the command runs their modules anyway.
_LOCAL = re.compile(r"(?![/~])(?!(?:.*[/:])?\.\.(?:[/:]|$))[\w./:-]*")

Pairs = Sequence[tuple[str, "Word"]]


def opaque(pairs: Pairs, *, alone: bool = False) -> str:
    """Return why rules cannot see what a command with these variables runs; empty when they do not matter.

    ``alone``: there is no command, or it exports them; then they apply to the commands after it.
    """
    for name, value in pairs:
        if _is(name, "searched") and value.known and _LOCAL.fullmatch(value.text) and not alone:
            continue
        settings = alone and _is(name, "settings") and not _is(name, "harmless")
        if settings or _is(name, "searched", "dangerous"):
            after = t("the commands after it run") if alone else t("the command runs")
            return t("the variable {name} decides what {after}", name=name, after=after)
        if alone and re.search(
            r"[$`]", value.text if value.known else re.sub(r"[^']*'|[^']*$", "", value.source, count=1)
        ):
            return t("a variable may contain code")
    return ""


def changes_nothing(pairs: Pairs) -> bool:
    """Return whether a command with these variables is the command without them, as far as rules are concerned. Values
    with ``$`` or backticks are code where a makefile takes them."""
    return all(
        (_is(name, "harmless") or not (_is(name, "settings", "searched")))
        and not _is(name, "dangerous")
        and value.known
        and not re.search(r"[$`]", value.text)
        for name, value in pairs
    )


def harmless(pairs: Pairs) -> bool:
    """Return whether they are known to change nothing but how something looks."""
    return all(_is(name, "harmless") for name, _ in pairs)


def changes_shell(name: str) -> bool:
    """Return whether this variable changes how the rest of the line is read."""
    return _is(name, "shell")


def changes_later(name: str) -> bool:
    """Return whether this variable decides what commands run when the line sets it: if it is exported already, they
    get the new value."""
    return changes_shell(name) or _is(name, "dangerous", "searched")


def assigned_by_shell(name: str) -> bool:
    """Return whether this variable may have another value than the line assigns."""
    return _is(name, "own", "shell")


def may_hold_code(name: str) -> bool:
    """Return whether the shell gives this variable a text, such as the last word of a command, that arithmetic would
    evaluate: ``$((_))`` after ``echo 'a[$(rm x)]'`` runs rm."""
    return assigned_by_shell(name) and not _is(name, "number")


DECLARES = frozenset(["export", "declare", "typeset", "local", "readonly"])
SETS_NAMES = DECLARES | frozenset(["read", "unset", "getopts", "mapfile", "readarray"])
_CHANGES = names("shopt enable bind complete compgen compopt fc let coproc alias unalias trap hash")
_LETTERS = {"printf": "v", "jobs": "x", "wait": "p"}
"""Options that set a variable, or run a command: ``jobs -sx rm``."""
_SET = re.compile(r"[-+][eux]+o?|[-+]o|pipefail|errexit|nounset|xtrace")
_DECLARE_OPTIONS = re.compile(r"-[xrgp]+")


def decides(name: str, args: Sequence[Word]) -> str:
    """Return why this builtin changes what the rest of the line means, or evaluates its words; empty when it does
    not."""
    texts = [word.text for word in args]
    first = texts[0] if texts else ""
    changes = name in _CHANGES
    if name == "set":
        changes = not texts or not all(word.known and _SET.fullmatch(word.text) for word in args)
        changes = changes and not (first == "--" and args[0].known)
    if name in ("eval", "source", ".") and not all(word.known for word in args):
        changes = True
    if name in _LETTERS:
        given = texts[:1] if name == "printf" else texts
        changes = any(text.startswith("-") and _LETTERS[name] in text for text in given)
    if name == "printf" and args and not args[0].known and not re.match(r"\"[^$`\"-]|'", args[0].source):
        changes = True
    if changes:
        return t("{name} changes what commands mean", name=name)
    if name not in SETS_NAMES:
        return ""
    for word in args:
        given = re.match(r"(\w+)(?:\+?=|\Z)", word.text, re.ASCII)
        option = word.text.startswith("-")
        if name in DECLARES and option and not _DECLARE_OPTIONS.fullmatch(word.text):
            return t("{name} {text} evaluates values", name=name, text=word.text)
        if name in ("mapfile", "readarray") and word.text.startswith("-C"):
            return t("{name} -C runs a command", name=name)
        if (
            (given is None and not word.known)
            or word.glob
            or ("[" in word.text.partition("=")[0] and not option)
        ):
            return t("{name} sets a variable whose name is only known at run time", name=name)
        changes = changes_shell if name in DECLARES else changes_later
        if given is not None and changes(given[1]) and name != "unset":
            return t("it changes {given}", given=given[1])
        if name in DECLARES and word.text.partition("=")[2].startswith("("):
            return t("{name} evaluates values", name=name)
    return ""
