"""A command line taken apart by the real grammar (tree-sitter-bash): the simple commands it would run. Pure.

What cannot be told for certain makes the whole line ``unclear``, never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command. ``text`` is its value when ``known``, else its source."""

    text: str
    known: bool = True
    """False: an expansion decides at run time ($x, $(…), arithmetic)."""
    glob: bool = False
    """``*``, ``?``, ``[…]`` or braces outside of quotes: the shell makes any number of file names of it."""
    source: str = ""
    """As it stands in the line."""


@dataclass(frozen=True, slots=True)
class Redirection:
    """``> out.txt`` writes, ``< in.txt`` reads, ``<>`` both; here-documents and ``2>&1`` are none."""

    operator: str
    target: Word
    reads: bool
    writes: bool


@dataclass(frozen=True, slots=True)
class Simple:
    """One simple command, wherever it stands: in a list, a pipe, a loop, a function, a ``$(…)``."""

    words: tuple[Word, ...]
    """Name and arguments; empty when it only assigns or redirects."""
    assignments: tuple[tuple[str, Word], ...] = ()
    """``NAME=value`` before the command."""
    redirections: tuple[Redirection, ...] = ()
    text: str = ""
    """As rules match it: words joined by one blank as they stand in the line, without redirections."""
    folder: str | None = "."
    """Where it runs: relative to the folder the line starts in, or absolute; None when a ``cd`` before it is not
    known."""
    stdin: Word | None = None
    """Text of its here-document or here-string."""
    piped: bool = False
    """Its stdin comes from another command of the line."""


@dataclass(frozen=True, slots=True)
class Line:
    """``commands`` in the order of the text; ``unclear``: why they cannot be told, in words."""

    commands: tuple[Simple, ...]
    unclear: str = ""


def parse(line: str) -> Line:
    """Take a command line apart. Never raises."""
    raise NotImplementedError
