"""Typographic characters (curly quotes, dashes, no-break spaces) that the file and a call spell differently. Pure.

Only text that ``old_string`` and ``new_string`` share gets the file's spelling. A typographic character that only
``new_string`` has is content and is written unchanged; where it could be either, nothing is written.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from tools.diff.unified_diff import common_ends

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SINGLE = "\u2018\u2019\u201a\u201b\u2032\u02bc\uff07"
_DOUBLE = "\u201c\u201d\u201e\u201f\u2033\uff02"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63\uff0d"
_SPACES = "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"

LOOK_ALIKES: dict[int, str] = {
    ord(character): plain
    for group, plain in ((_SINGLE, "'"), (_DOUBLE, '"'), (_DASHES, "-"), (_SPACES, " "))
    for character in group
}
"""For ``str.translate``; one character for one, so that offsets stay."""

_QUOTES = frozenset(_SINGLE + _DOUBLE)
_BLANKS = " \t" + _SPACES
_MAX_COMPARED = 4_000_000
"""Most pairs of characters to compare: longer lines stay unchanged."""


class Spelling:
    """How ``old_string`` spells what the file has, learned from ``pairs`` of a file's line and old_string's."""

    def __init__(self, pairs: Iterable[tuple[str, str]], made: Sequence[str], text: str) -> None:
        self._seen: dict[str, set[str]] = {}
        for ours, theirs in pairs:
            for file_char, model_char in zip(ours.strip(_BLANKS), theirs.strip(_BLANKS), strict=False):
                self._seen.setdefault(model_char, set()).add(file_char)
        self._made = {character for body in made for character in body.strip(_BLANKS)}
        self._text = text

    def of_lines(
        self, there: Sequence[str], wanted: Sequence[str], bodies: Sequence[str]
    ) -> list[str] | None:
        """Return ``bodies``, which replace the lines ``wanted`` that are ``there`` in the file, in the file's spelling.

        None when the characters are ambiguous.
        """
        paired = len(there) == len(bodies)
        if not paired and self._loses_some(there, wanted, bodies):
            return None
        made: list[str] = []
        for index, body in enumerate(bodies):
            line = self._line(there[index], wanted[index], body) if paired else self._line("", "", body)
            if line is None:
                return None
            made.append(line)
        return made

    def _loses_some(self, there: Sequence[str], wanted: Sequence[str], bodies: Sequence[str]) -> bool:
        """Return whether the file's typography would be lost in lines of which the origin is open."""
        spelled = {
            model_char
            for ours, theirs in zip(there, wanted, strict=True)
            for file_char, model_char in zip(ours.strip(_BLANKS), theirs.strip(_BLANKS), strict=False)
            if ord(file_char) in LOOK_ALIKES
        }
        return any(character in spelled for body in bodies for character in body.strip(_BLANKS))

    def _line(self, ours: str, theirs: str, body: str) -> str | None:
        """Return one line: the part shared with ``theirs`` spelled as in ``ours``, and its additions."""
        indent, solid, blanks = _parts(body)
        our_indent, our_solid, _ = _parts(ours)
        their_indent, their_solid, _ = _parts(theirs)
        chars: list[str | None] = [None] * len(solid)
        if len(our_solid) == len(their_solid) and len(solid) * len(their_solid) <= _MAX_COMPARED:
            for i, j, size in shared(their_solid, solid):
                chars[j : j + size] = our_solid[i : i + size]
        made = [self._added(c) if known is None else known for c, known in zip(solid, chars, strict=True)]
        said = [character for character in made if character is not None]
        if len(said) < len(made):
            return None
        return (our_indent if indent == their_indent else indent) + "".join(said) + blanks

    def _added(self, character: str) -> str | None:
        """Return how a character that is not shared is written; None when that is open."""
        plain = LOOK_ALIKES.get(ord(character))
        if plain is None or self._seen.get(character) == {character}:
            return character
        distinguishes = plain in self._seen or plain in self._made
        if character not in self._seen:
            # A text with curly double quotes for plain ones probably does the same to single quotes.
            habit = character in _QUOTES and any(
                c in _QUOTES and self._seen[c] == {LOOK_ALIKES[ord(c)]} for c in self._seen
            )
            return None if habit and not distinguishes else character
        habit = self._seen[character] == {plain}
        return plain if habit and not distinguishes and character not in self._text else None


def _parts(body: str) -> tuple[str, str, str]:
    """Indentation, words, and blanks at the end."""
    solid = body.strip(_BLANKS)
    at = len(body) - len(body.lstrip(_BLANKS))
    return body[:at], solid, body[at + len(solid) :]


def shared(a: str, b: str) -> list[tuple[int, int, int]]:
    """Return the parts that two texts share, as offsets and sizes; common beginnings and ends come first."""
    top, tail = common_ends(a, b)
    middle = difflib.SequenceMatcher(None, a[top : len(a) - tail], b[top : len(b) - tail], autojunk=False)
    inner = [(i + top, j + top, size) for i, j, size in middle.get_matching_blocks()]
    return [(0, 0, top), *inner, (len(a) - tail, len(b) - tail, tail)]


_EDGES = re.compile(f"^[{_BLANKS}]+|(?<![{_BLANKS}])[{_BLANKS}]+$", re.MULTILINE)


def plain_edges(found: str, old: str, new: str) -> tuple[str, str]:
    """Both strings with plain blanks for the typographic ones that only ``old`` has at the ends of its lines."""
    table = {ord(c): " " for c in _at_edges(old) - _at_edges(found)}

    def plain(text: str) -> str:
        return _EDGES.sub(lambda edge: edge.group().translate(table), text)

    return (plain(old), plain(new)) if table else (old, new)


def _at_edges(text: str) -> set[str]:
    return {c for edge in _EDGES.findall(text) for c in edge if ord(c) in LOOK_ALIKES}
