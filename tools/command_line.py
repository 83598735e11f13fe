"""What a shell command line would run, as far as can be told without a grammar. Pure.

A rule such as ``git log *`` must not let ``git log; rm -rf ~`` pass. So a line is split into its simple
commands, each of which is judged; what is beyond this splitter becomes one target ``sh -c <line>``, which no rule
for another command matches. (A parser with the real grammar replaces this.)
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from tools.command_safety import general_prefix, may_do_more

# Tried outside of quotes only. The blanks are those of the shell: to it, a no-break space is a letter.
_HARMLESS_REDIRECTION = re.compile(
    r"(?<![^ \t\n;|&])(?:(?:[012]?>>?|&>)[ \t]*/dev/null|2>&1)(?=[ \t\n;|&]|\Z)", re.ASCII
)
# To the shell these are letters of a word, to much else they are blanks or nothing at all.
_ODD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SHELL = "sh -c "
_BLANKS = " \t"
_BEFORE_COMMENT = " \t\n;&|"
_FIXED_START = re.compile(r"[\w./@:%^+,]")
# Patterns know no escape: a wildcard in the command would be one in the pattern. A variable (``$_`` above all)
# makes another command of the same text.
_NOT_EXACT = re.compile(r"[*?\\$]")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Grammar, what runs its arguments, and what changes the meaning of the commands after it.
_KEYWORDS = _words(
    "if then else elif fi for while until do done case esac select function time coproc { } ! [[ (( "
    "eval exec source . command builtin trap alias unalias let declare typeset local export readonly unset read "
    "mapfile readarray enable hash shopt set bind complete compgen"
)


@dataclass(frozen=True, slots=True)
class _Part:
    """A simple command, and whether expansions could make words (so: options) that the text does not show."""

    text: str
    expands: bool


def targets(command: str) -> tuple[str, ...]:
    """The simple commands of a line, in order; ``("sh -c …",)`` when they cannot be told for certain.

    A command whose options may write a file or run a program is followed by ``sh -c <command>``: rules for the
    command still bind it, and a rule that allows the command in general does not allow it alone.
    """
    line = command.strip()
    parts = _split(line)
    if parts is None:
        return (_SHELL + line,)
    found: list[str] = []
    for part in parts:
        try:
            words = shlex.split(part.text)
        except ValueError:
            return (_SHELL + line,)
        found.append(part.text)
        if may_do_more(words, expands=part.expands):
            found.append(_SHELL + part.text)
    return tuple(dict.fromkeys(found))


def suggestions(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Patterns for "always" that cover all parts, e.g. ``git log *``. Empty when one should not be remembered.

    General only for the commands of ``command_safety``; others are remembered as they are.
    """
    patterns = [_pattern(part, parts) for part in parts]
    return tuple(dict.fromkeys(patterns)) if all(patterns) else ()


def _pattern(part: str, parts: tuple[str, ...]) -> str:
    exact = "" if _NOT_EXACT.search(part) else part
    if part.startswith(_SHELL):
        return exact if part.removeprefix(_SHELL) in parts else ""
    if _SHELL + part in parts:
        return exact
    words = shlex.split(part)
    # A path elsewhere means another program tomorrow.
    if words[0] == "sh" or words[0].startswith("/") or ".." in words[0].split("/"):
        return ""
    prefix = general_prefix(words)
    return f"{prefix} *" if prefix and f"{part} ".startswith(f"{prefix} ") else exact


def _joined(line: str) -> str:
    """The line without line continuations and comments, as the shell reads it.

    Backslash-newline is nothing at all, except in single quotes and in comments. What is read wrongly here
    (here-documents, ``$'…'``) keeps the character by which ``_split`` gives up.
    """
    out: list[str] = []
    quote = ""
    at = 0
    word_begins = True
    while at < len(line):
        char = line[at]
        if char == "\\" and quote != "'":
            if line[at + 1 : at + 2] != "\n":
                out.append(line[at : at + 2])
                word_begins = False
            at += 2
            continue
        if not quote and char == "#" and word_begins:
            end = line.find("\n", at)
            at = len(line) if end < 0 else end
            continue
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        word_begins = not quote and char in _BEFORE_COMMENT
        out.append(char)
        at += 1
    return "".join(out)


def _split(line: str) -> list[_Part] | None:
    if _ODD.search(line):
        return None
    line = _joined(line)
    parts: list[_Part] = []
    current = quote = ""
    expands = False
    at = 0
    while at < len(line):
        char = line[at]
        following = line[at + 1 : at + 2]
        if quote == "'":
            quote = "" if char == "'" else quote
        elif char == "\\":
            if not following:
                return None
            current += char
            at += 1
            char = following
        elif char == "`" or (char == "$" and _is_more_than_a_variable(line[at:], quote)):
            return None
        elif char == "$":
            expands = True
        elif quote:
            quote = "" if char == '"' else quote
        elif char in "'\"":
            quote = char
        elif found := _HARMLESS_REDIRECTION.match(line, at):
            current += " "
            at = found.end()
            continue
        elif char in "<>()":
            return None
        elif char in ";|&\n":
            parts.append(_Part(_tidy(current), expands))
            current, expands = "", False
            at += 1
            continue
        elif char in "*?[{" and not _FIXED_START.match(_last_word(current)):
            expands = True
        current += char
        at += 1
    parts.append(_Part(_tidy(current), expands))
    parts = [part for part in parts if part.text]
    if quote or not parts or any(_unclear(part.text) for part in parts):
        return None
    return parts


def _is_more_than_a_variable(text: str, quote: str) -> bool:
    """Whether ``$…`` can do more than give a variable's value: ``$[…]`` evaluates, ``${x:-$(y)}`` runs."""
    following = text[1:2]
    if following == "{":
        return re.match(r"\$\{\w+\}", text, re.ASCII) is None
    return following in ("(", "[") or (not quote and following in ("'", '"'))


def _last_word(text: str) -> str:
    """The word being read. Too long a one for a quoted or escaped blank: such a word never begins it."""
    return text[max(text.rfind(blank) for blank in _BLANKS) + 1 :]


def _tidy(text: str) -> str:
    text = text.strip(_BLANKS)
    return text if re.search(r"['\"\\]", text) else re.sub(r"[ \t]+", " ", text)


def _unclear(part: str) -> bool:
    first = re.split(r"[ \t\n]", part, maxsplit=1)[0]
    # A quoted, escaped or expanded first word may be any command; an assignment may change what one does.
    return first in _KEYWORDS or re.search(r"[\\'\"$*?\[{~=]", first) is not None
