"""A command line taken apart by the real grammar (tree-sitter-bash): the simple commands it would run. Pure.

What cannot be told for certain makes the whole line ``unclear``, never a guess. The grammar's tree says that the line
is well formed, and where its commands and substitutions begin; ``walk`` reads the same line by bash's own rules for
words, and finds values, folders and redirections. Where the two do not agree (the grammar takes ``\\`` and a blank for
nothing, for example), the line is unclear.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Parser, QueryCursor

MAX_LENGTH = 64 * 1024
"""Bytes. Nobody reads a longer line before saying yes."""

# To bash these are letters of a word; to much else they are blanks or nothing, or they turn round what is shown.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)
_STARTS = """
(command_name) @command
(declaration_command) @command
(unset_command) @command
(test_command) @command
(command_substitution) @substitution
(process_substitution) @substitution
(arithmetic_expansion) @substitution
"""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command. ``text`` is its value when ``known``, else its source."""

    text: str
    known: bool = True
    """False: an expansion decides at run time ($x, $(…), arithmetic)."""
    glob: bool = False
    """``*``, ``?``, ``[…]`` or braces outside of quotes: the shell makes any number of file names of it."""
    source: str = ""
    """As it stands in the line, without line continuations."""
    tilde: bool = False
    """It begins with an unquoted ``~`` or ``~/``: the home folder. Without this, ``~`` is a letter of a file name."""


@dataclass(frozen=True, slots=True)
class Redirection:
    """``> out.txt`` writes, ``< in.txt`` reads, ``<>`` both; here-documents and ``2>&1`` are none."""

    operator: str
    """Without the number of the file descriptor: ``>``, ``>>``, ``>|``, ``&>``, ``&>>``, ``>&``, ``<``, ``<>``."""
    target: Word
    reads: bool
    writes: bool


@dataclass(frozen=True, slots=True)
class Simple:
    """One simple command, wherever it stands: in a list, a pipe, a loop, a function, a ``$(…)``.

    One that may run in several folders (``cd x; make``: also where the line starts, when ``cd`` fails) comes several
    times, once for each.
    """

    words: tuple[Word, ...]
    """Name and arguments; empty when it only assigns or redirects (also the redirections of a loop or group)."""
    assignments: tuple[tuple[str, Word], ...] = ()
    """``NAME=value`` before the command, and what the line exported before it."""
    redirections: tuple[Redirection, ...] = ()
    text: str = ""
    """As rules match it: words joined by one blank, without redirections. Assignments stand before the name. A word
    whose value is known and plain stands without quotes (``'rm' "-rf" x``: ``rm -rf x``), any other as in the line."""
    folder: str | None = "."
    """Where it runs: relative to the folder the line starts in, or absolute (``~``, ``~/x``: home, when HOME is not
    given); None when a ``cd`` before it is not known."""
    stdin: Word | None = None
    """Text of its here-document or here-string."""
    piped: bool = False
    """Its stdin comes from another command of the line, or from a redirection around it."""


@dataclass(frozen=True, slots=True)
class Line:
    """``commands`` in the order of the text; ``unclear``: why they cannot be told, in words. An unclear line lists the
    commands that were found, so that a rule that denies one still binds."""

    commands: tuple[Simple, ...]
    unclear: str = ""


def parse(line: str, variables: Mapping[str, str] | None = None) -> Line:
    """Take a command line apart, as ``bash -c`` reads it. ``variables``: values that are known, e.g. HOME and PWD.

    Never raises.
    """
    from tools.shell.walk import Walk

    if _CONTROL.search(line):
        return Line((), "it contains control characters")
    try:
        raw = line.encode()
    except UnicodeEncodeError:
        return Line((), "it is not valid text")
    if len(raw) > MAX_LENGTH:
        return Line((), "it is too long")
    walk = Walk.of(raw, variables or {})
    commands = walk.commands()
    if walk.doubts:
        return Line(commands, walk.doubts[0])
    reason = _disagreement(_for_grammar(raw, walk.hidden), walk.starts, walk.spans)
    return Line(commands, reason)


def _for_grammar(raw: bytes, hidden: Mapping[int, str]) -> bytes:
    """The line without what the grammar does not know; everything stands where it stood."""
    if not hidden:
        return raw
    line = bytearray(raw)
    for start, instead in hidden.items():
        line[start : start + len(instead)] = instead.encode()
    return bytes(line)


def _disagreement(raw: bytes, starts: set[int], spans: set[int]) -> str:
    """Why the grammar's tree is not what was read; empty when it is."""
    parser, cursor = _grammar()
    tree = parser.parse(raw)
    if tree.root_node.has_error:
        return "the grammar does not understand it"
    found = cursor.captures(tree.root_node)
    commands = {node.start_byte for node in found.get("command", ())}
    substitutions = {_begin(raw, node.start_byte) for node in found.get("substitution", ())}
    if commands != starts or substitutions != spans:
        return "the grammar and bash may read it differently"
    return ""


def _begin(raw: bytes, at: int) -> int:
    """In double quotes the grammar's ``$(`` takes the blanks before it with it."""
    while raw[at : at + 1] in (b" ", b"\t", b"\n"):
        at += 1
    return at


@cache
def _grammar() -> tuple[Parser, QueryCursor]:
    # Imported here: it takes 20 ms, and many sessions run no command.
    import tree_sitter_bash
    from tree_sitter import Language, Parser, Query, QueryCursor

    language = Language(tree_sitter_bash.language())
    return Parser(language), QueryCursor(Query(language, _STARTS))
