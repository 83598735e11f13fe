"""The simple commands of a command line, and the folders in which they may run. Pure."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.shell.bash_words import Word

MAX_FOLDERS = 4
_PLAIN_TEXT = re.compile(r"[^\s'\"\\$`*?\[\]{}~#&|;<>()!^]+\Z")

Folders = tuple[str, ...] | None
"""Where the shell may be; None: anywhere. Empty: it is never reached."""
Ways = tuple[Folders, Folders]
"""Where a command leads when it works, and when it fails."""


class Redirection(Struct, frozen=True):
    """``> out.txt`` writes, ``< in.txt`` reads, ``<>`` both; here-documents and ``2>&1`` are none."""

    operator: str
    """Without the number of the file descriptor: ``>``, ``>>``, ``>|``, ``&>``, ``&>>``, ``>&``, ``<``, ``<>``."""
    target: Word
    reads: bool
    writes: bool


class Simple(Struct, frozen=True):
    """One simple command, anywhere: in a list, a pipe, a loop, a ``$(…)``.

    One that may run in several folders (``cd x; make``: also in the first folder, when ``cd`` fails) appears several
    times, once for each.
    """

    words: tuple[Word, ...]
    """Name and arguments; empty when it only assigns or redirects (also the redirections of a loop or group)."""
    assignments: tuple[tuple[str, Word], ...] = ()
    redirections: tuple[Redirection, ...] = ()
    text: str = ""
    """Text for rules: words joined by one blank, without redirections. Assignments come before the name. A word whose
    value is known and plain appears without quotes (``'rm' "-rf" x``: ``rm -rf x``), any other as in the line."""
    folder: str | None = "."
    """Where it runs: relative to the folder the line starts in, or absolute (``~``: home); None when a ``cd`` before
    it is not known."""
    stdin: Word | None = None
    """Text of its here-document or here-string."""


class ParsedLine(Struct, frozen=True):
    """``commands`` in the order of the text; ``unclear``: why they are uncertain, as text for the user."""

    commands: tuple[Simple, ...]
    unclear: str = ""


def join(first: Folders, second: Folders) -> Folders:
    """Return where the shell may be when it is in one or the other; anywhere when these are too many."""
    if first is None or second is None:
        return None
    both = tuple(dict.fromkeys((*first, *second)))
    return both if len(both) <= MAX_FOLDERS else None


def moved(here: Folders, args: Sequence[Word]) -> Folders:
    """Return where ``cd`` leads with these arguments."""
    if len(args) > 1 or (args and (not args[0].known or args[0].glob or args[0].text[:1] in ("-", "+"))):
        return None
    target = args[0].text if args else "~"
    if not target:
        return None
    if target.startswith("/") or not args or args[0].tilde:
        return (posixpath.normpath(target),)
    return None if here is None else tuple(dict.fromkeys(_below(folder, target) for folder in here))


def _below(folder: str, target: str) -> str:
    joined = posixpath.normpath(posixpath.join(folder, target))
    if folder.startswith("~") and not joined.startswith("~"):
        # As plain text, "~/.." would become ".".
        return posixpath.join(folder, target)
    # A folder named like this is not the home folder.
    return f"./{joined}" if joined.startswith("~") and not folder.startswith("~") else joined


def shown_word(word: Word, *, first: bool) -> str:
    """Return a word in the text that rules match. Quotes that change nothing go, so that a rule cannot be evaded by
    them."""
    if word.tilde or word.glob or not word.known:
        return word.source
    if word.text and _PLAIN_TEXT.match(word.text) and not (first and "=" in word.text):
        return word.text
    if "$" in word.source and "'" not in word.source:
        # A variable with a known value: use the value.
        return word.source if "'" in word.text else f"'{word.text}'"
    return word.source
