"""Simple commands: assignments, words and redirections, as they stand in the line. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from tools.shell.draft import Draft, HereDocument, Redirections
from tools.shell.effects import DECLARE, effect, names
from tools.shell.state import ENVIRONMENT, State
from tools.shell.syntax import Redirection, Word
from tools.shell.words import ASSIGNMENT, NAME, Read, UnclearError

if TYPE_CHECKING:
    from tools.shell.walk import Walk

_REDIRECTION = re.compile(
    r"([0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(<<<|<<-|<<|<>|<&|<(?!\()|>>|>\||>&|>(?!\())|(&>>|&>)"
)
_RESERVED = names(
    "! case coproc do done elif else esac fi for function if in select then until while { } time [[ ]]"
)
_ARRAY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=\(")
_INDEX = re.compile(r"\[(-?[0-9]+|\$?[A-Za-z_][A-Za-z0-9_]*|)\]\+?=")
_ANY_INDEX = re.compile(r"\[[^\n]*?\]\+?=")
_LIKE_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[.*\])?\+?=")
_NO_FILES = frozenset(("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"))
_PLAIN_TEXT = re.compile(r"[^\s'\"\\$`*?\[\]{}~#&|;<>()!^]+\Z")


def redirections(walk: Walk) -> Redirections:
    found = Redirections()
    while True:
        walk.blanks()
        if not _redirection(walk, found):
            return found


def _redirection(walk: Walk, found: Redirections) -> bool:
    """Read one redirection, if one stands here."""
    match = _REDIRECTION.match(walk.text, walk.at, walk.end)
    if match is None:
        return False
    number, operator = match[1] or "", match[2] or match[3]
    walk.at = match.end()
    if operator == "<>":
        walk.hidden[match.start(2)] = " >"
    if number.startswith("{"):
        walk.hidden[match.start()] = " " * len(number)
    if walk.text[walk.at - 1 : walk.at + 1] in ("<(", ">(") and walk.at < walk.end:
        raise UnclearError("a redirection that is not understood")
    if number.startswith("{"):
        walk.assigned(number[1:-1])
    stdin = number in ("", "0") and operator.startswith("<")
    found.stdin = found.stdin or stdin
    found.duplicated = found.duplicated or (stdin and operator == "<&")
    walk.blanks()
    if walk.char() in ("", "\n", "#", ";", "|", "&") or (
        walk.char() in "<>" and not walk.text.startswith(("<(", ">("), walk.at)
    ):
        raise UnclearError("a redirection without a target")
    if operator in ("<<", "<<-"):
        read = walk.word()
        if (
            read.start == read.end
            or not read.word.known
            or "\n" in read.word.text
            or "$" in read.raw
            or "`" in read.raw
        ):
            raise UnclearError("a here-document that is not understood")
        delimiter = read.word.text.encode().decode("latin-1")
        document = HereDocument(delimiter, operator == "<<-", read.quoted, walk.state)
        walk.pending.append(document)
        if stdin:
            found.document, found.text = document, None
        return True
    read = walk.word(value=operator == "<<<")
    target = read.word
    if read.start == read.end:
        raise UnclearError("a redirection without a target")
    if operator == "<<<":
        if stdin:
            found.text, found.document = target, None
        return True
    if operator in (">&", "<&") and target.known and re.match(r"(?:[0-9]+-?|-)\Z", target.text):
        return True
    if operator == "<&" or (operator == ">&" and number not in ("", "1")):
        # Only a descriptor may follow; which one a variable says cannot be told, a file it is not.
        if target.known:
            walk.doubt("a redirection that is not understood")
        return True
    if target.known and target.text in _NO_FILES and not target.glob:
        return True
    if walk.text[read.start] in "<>" and walk.closed == read.end:
        # ``< <(…)`` is a pipe.
        return True
    writes = operator != "<"
    found.files.append(Redirection(operator, target, reads=operator in ("<", "<>"), writes=writes))
    return True


def simple(walk: Walk) -> tuple[State | None, State | None]:
    """One simple command, or the definition of a function in the form ``name()``."""
    start = walk.at
    assignments: list[tuple[str, Word, str]] = []
    words: list[Read] = []
    found = Redirections()
    before, stale = walk.state, walk.stale
    walk.stale = set(stale)
    while True:
        walk.blanks()
        char = walk.char()
        if char in ("", "\n", ";", "|", ")"):
            break
        if char == "#":
            walk.comment()
            break
        if char in "<>&{0123456789" and _redirection(walk, found):
            continue
        if char == "&":
            break
        if char == "(":
            walk.stale = stale
            return _definition(walk, words, assignments, found)
        if not words and (assigned := _assignment(walk)):
            assignments.append(assigned)
            walk.stale.add(assigned[0])
            continue
        read = _array_argument(walk, words) or walk.word()
        if read.end == read.start:
            raise UnclearError(f"{char!r} stands where bash expects none")
        if (
            walk.char() in ("<", ">")
            and walk.at < walk.end
            and re.fullmatch(r"[0-9]+|\{\w+\}", read.word.text)
            and read.plain
        ):
            raise UnclearError("a redirection that is not understood")
        if not words:
            _first(walk, read, assignments)
        words.append(read)
    walk.stale = stale
    if not (words or assignments or found.files or found.document or found.text or walk.at > start):
        raise UnclearError("a command is missing")
    return _emit(walk, start, before, assignments, words, found)


def _array_argument(walk: Walk, words: list[Read]) -> Read | None:
    """``declare -a x=(…)``: a parenthesis that belongs to an argument."""
    if not words or words[0].word.text not in DECLARE or not _ARRAY.match(walk.text, walk.at, walk.end):
        return None
    start = walk.at
    _assignment(walk)
    source = walk.raw(start, walk.at)
    return Read(
        start, walk.at, Word(source, known=False, source=source), plain=False, raw=source, quoted=False
    )


def _first(walk: Walk, read: Read, assignments: list[tuple[str, Word, str]]) -> None:
    if read.plain and read.word.text in _RESERVED and not assignments:
        raise UnclearError(f"{read.word.text!r} stands where bash expects none")
    if "=" in read.raw and _LIKE_ASSIGNMENT.match(read.raw):
        raise UnclearError("an assignment that is not understood")
    if not read.word.known or read.word.glob or read.word.tilde or not read.word.text:
        walk.doubt("the name of a command is not known")
    walk.starts.add(read.start)


def _assignment(walk: Walk) -> tuple[str, Word, str] | None:
    """``NAME=value``, if one stands here: name, value and source."""
    text, start = walk.text, walk.at
    match = ASSIGNMENT.match(text, start, walk.end)
    if match is None:
        return None
    at = match.end(1)
    if match[2]:
        close = _INDEX.match(text, at, walk.end)
        if close is None:
            if _ANY_INDEX.match(text, at, walk.end):
                raise UnclearError("an array's index that is not understood")
            return None
        walk.numbers.update(NAME.findall(close[1]))
        at = close.end()
    elif text.startswith("+=", at):
        at += 2
    elif text.startswith("=", at):
        at += 1
    else:
        return None
    if at > walk.end:
        return None
    walk.at = at
    name = match[1]
    if match[2]:
        walk.arrays.add(name)
    if walk.char() == "(":
        _array(walk)
        walk.arrays.add(name)
        value = Word(walk.shown(at, walk.at), known=False, source=walk.shown(at, walk.at))
    else:
        value = walk.word(value=True).word
        if ":~" in value.source and not re.search(r"['\"\\]", value.source):
            value = replace(value, text=value.source, known=False)
        if value.known and value.tilde:
            home = walk.state.variables.get("HOME")
            value = replace(value, text=(home or "") + value.text[1:], known=home is not None)
    if match[2] or text[at - 2] == "+":
        value = replace(value, known=False, text=value.source)
    return name, value, walk.raw(start, walk.at)


def _array(walk: Walk) -> None:
    walk.at += 1
    while True:
        walk.lines()
        char = walk.char()
        if char == ")":
            walk.at += 1
            return
        read = walk.word()
        if read.start == read.end:
            raise UnclearError("an array that is not understood")
        if read.raw.startswith("[") and "]=" in read.raw and not re.match(r"\[[0-9]+\]=", read.raw):
            walk.doubt("an array's index that is not understood")


def _emit(
    walk: Walk,
    start: int,
    before: State,
    assignments: list[tuple[str, Word, str]],
    words: list[Read],
    found: Redirections,
) -> tuple[State | None, State | None]:
    pieces = [_shown(read, first=index == 0) for index, read in enumerate(words)]
    given: tuple[tuple[str, Word], ...] = ()
    if assignments or before.exported:
        own = {name for name, _, _ in assignments}
        inherited = [pair for pair in before.exported if pair[0] not in own] if words else []
        pieces = [*(text for _, text in inherited), *(source for _, _, source in assignments), *pieces]
        given = (
            *((name, Word(text.partition("=")[2], known=False, source=text)) for name, text in inherited),
            *((name, value) for name, value, _ in assignments),
        )
    draft = Draft(
        start,
        tuple([read.word for read in words]),
        given,
        tuple(found.files),
        " ".join(pieces),
        before.folders,
        walk.piped or walk.redirected or found.duplicated,
        found.text,
    )
    walk.add(draft)
    if found.document:
        walk.documents.append((draft, found.document))
    if not words:
        for name, value, source in assignments:
            walk.assigned(name, value)
            if ENVIRONMENT.match(name) or any(name == other for other, _ in walk.state.exported):
                walk.export(name, source)
        return walk.state, walk.state if any("$(" in s or "`" in s for _, _, s in assignments) else None
    return effect(walk, words, assignments, found.stdin)


def _definition(
    walk: Walk, words: list[Read], assignments: list[tuple[str, Word, str]], found: Redirections
) -> tuple[State | None, State | None]:
    from tools.shell.compound import body

    if len(words) != 1 or assignments or found.files or found.document or found.text or not words[0].plain:
        raise UnclearError("'(' stands where bash expects none")
    walk.starts.discard(words[0].start)
    walk.at += 1
    walk.blanks()
    walk.expect(")")
    walk.lines()
    return body(walk, words[0].word.text)


def _shown(read: Read, *, first: bool) -> str:
    """A word in the text that rules match. Quotes that change nothing go, so that a rule cannot be evaded by them."""
    word = read.word
    if word.tilde or word.glob or not word.known:
        return word.source
    if word.text and _PLAIN_TEXT.match(word.text) and not (first and "=" in word.text):
        return word.text
    if "$" in word.source and "'" not in word.source:
        # A variable whose value is known: the value says what happens.
        return word.source if "'" in word.text else f"'{word.text}'"
    return word.source
