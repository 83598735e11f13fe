"""The text of one open document, in pieces, so that a keystroke costs the same in a file of 10 kB and of 10 MB.

Pure. Lines end with ``\\n``, ``\\r\\n`` or ``\\r`` and with nothing else (source: LSP 3.17, Text Documents): a form
feed or U+2028 ends no line. What lies outside of the text is moved to its nearest place, as the protocol says for
characters, and as all editors do for lines.
"""

from __future__ import annotations

import re
from typing import Literal

Units = Literal["utf-8", "utf-16", "utf-32"]
"""What columns count (LSP's position encoding)."""

_PIECE = 32 * 1024
"""Characters of a piece, about. A change rewrites one."""
_LINE_END = re.compile(r"\r\n|\n|\r")


class OpenText:
    """Every piece but the last ends with ``\\n``, so that no line end lies across two."""

    __slots__ = ("_edits", "_joined", "_lines", "_pieces", "length")

    def __init__(self, text: str) -> None:
        self._edits = 0
        self._joined = (0, text)
        """The whole text, and at which number of edits it was put together. A thread may read while another edits."""
        self._pieces = _cut(text)
        self._lines = [_ends(piece) for piece in self._pieces]
        self.length = len(text)
        """Characters."""

    @property
    def text(self) -> str:
        """The whole text; put together when first asked after a change."""
        edits, text = self._joined
        if edits != self._edits:
            edits = self._edits
            text = "".join(self._pieces)
            self._joined = (edits, text)
        return text

    def same(self, other: OpenText) -> bool:
        """Whether the two texts are equal; at once when one is a copy of the other with few changes."""
        if self.length != other.length:
            return False
        return self._pieces == other._pieces or self.text == other.text

    def copy(self) -> OpenText:
        """The text as it is now, to look at and not to change; the pieces are shared. May be called in a thread."""
        made = OpenText("")
        made._pieces = self._pieces.copy()
        made.length = sum(map(len, made._pieces))
        made._edits = 1
        return made

    def replace(
        self, start: tuple[int, int], end: tuple[int, int], new: str, units: Units = "utf-16"
    ) -> None:
        """Put ``new`` in the place of what lies between two positions ``(line, column)``, both from 0."""
        first, at = self._find(*start, units)
        last, to = self._find(*max(start, end), units)
        if (last, to) < (first, at):  # garbage that was moved into the text
            last, to = first, at
        made = self._pieces[first][:at] + new + self._pieces[last][to:]
        removed = sum(map(len, self._pieces[first : last + 1]))
        last += 1
        if not made.endswith("\n") and last < len(self._pieces):
            removed += len(self._pieces[last])
            made += self._pieces[last]
            last += 1
        pieces = [made] if len(made) <= 2 * _PIECE else _cut(made)
        self._pieces[first:last] = pieces
        self._lines[first:last] = [_ends(piece) for piece in pieces]
        self.length += len(made) - removed
        self._edits += 1  # last: what is put together meanwhile is not taken for the new text

    def _find(self, line: int, column: int, units: Units) -> tuple[int, int]:
        """A position as number of a piece and place in it."""
        for number, ends in enumerate(self._lines):
            # A line begins in the piece that holds its text: behind the last end of a piece comes the next piece.
            if line < ends or number == len(self._lines) - 1:
                piece = self._pieces[number]
                start, end = _line(piece, line)
                return number, start + _characters(piece[start:end], column, units)
            line -= ends
        raise AssertionError("a text has at least one piece")


def _cut(text: str) -> list[str]:
    if len(text) <= 2 * _PIECE:
        return [text]
    pieces: list[str] = []
    at = 0
    while at < len(text):
        end = text.find("\n", at + _PIECE) + 1 or len(text)
        pieces.append(text[at:end])
        at = end
    return pieces


def _ends(piece: str) -> int:
    if "\r" not in piece:
        return piece.count("\n")
    return sum(1 for _ in _LINE_END.finditer(piece))


def _line(piece: str, line: int) -> tuple[int, int]:
    """Where a line begins and where its text ends; of a line beyond the last one, the end."""
    start = 0
    if "\r" not in piece:
        for _ in range(line):
            start = piece.find("\n", start) + 1
            if not start:
                return len(piece), len(piece)
        end = piece.find("\n", start)
        return start, end if end >= 0 else len(piece)
    for _ in range(line):
        found = _LINE_END.search(piece, start)
        if found is None:
            return len(piece), len(piece)
        start = found.end()
    found = _LINE_END.search(piece, start)
    return start, found.start() if found is not None else len(piece)


def _characters(line: str, column: int, units: Units) -> int:
    """A column in characters. Within a character that is several units, its beginning."""
    if line.isascii() or units == "utf-32":
        return min(column, len(line))
    if units == "utf-16":
        if max(line) <= "\uffff":
            return min(column, len(line))
        data = line.encode("utf-16-le", "surrogatepass")[: 2 * column]
        return len(data.decode("utf-16-le", "ignore"))
    data = line.encode("utf-8", "surrogatepass")[:column]
    return len(data.decode("utf-8", "ignore"))
