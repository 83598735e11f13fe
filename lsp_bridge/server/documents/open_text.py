"""The text of one open document, in pieces, so that a keystroke costs the same in a file of 10 kB and of 10 MB.

Pure. Lines end with ``\\n``, ``\\r\\n`` or ``\\r`` and with nothing else (source: LSP 3.17, Text Documents): a form
feed or U+2028 ends no line. A position outside the text is moved to the nearest one inside, as the protocol requires
for characters, and as all editors do for lines; a reversed range is swapped.

In UTF-16 an editor may change one half of an emoji: the halves are characters of their own until they meet.
"""

from __future__ import annotations

import operator
import re
import threading
import time
from itertools import islice
from typing import Literal

Units = Literal["utf-8", "utf-16", "utf-32"]
"""The unit of columns (LSP's position encoding)."""

_PIECE = 16 * 1024
"""Characters of a piece, about. A change rewrites one."""
_LINE_END = re.compile(r"\r\n|\n|\r")


class _TextPiece:
    """A part of a text. Its counts are computed on demand."""

    __slots__ = ("_ends", "_width", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._ends = -1
        self._width: tuple[Units, int] | None = None

    def ends(self) -> int:
        """Return how many lines end here."""
        if self._ends < 0:
            text = self.text
            ends = text.count("\n")
            if "\r" in text:
                ends += text.count("\r") - text.count("\r\n")
            self._ends = ends
        return self._ends

    def width(self, units: Units) -> int:
        """Return its length in ``units``."""
        if self._width is None or self._width[0] != units:
            self._width = units, _width(self.text, units)
        return self._width[1]


class OpenText:
    """A text in pieces. No line end and no character spans two pieces, and no piece is empty unless it is the only
    one."""

    __slots__ = ("_edits", "_joined", "_lock", "_pieces", "length")

    def __init__(self, text: str) -> None:
        """``text`` from parsed JSON: two adjacent surrogate halves are one character already."""
        self._edits = 0
        self._joined = (0, text)
        """The whole text, and at which number of edits it was put together. A thread may read while another edits."""
        self._pieces: list[_TextPiece] | None = None
        self._lock = threading.Lock()
        self.length = len(text)
        """Characters."""

    @property
    def text(self) -> str:
        """The whole text; put together when first asked after a change."""
        edits, text = self._joined
        if edits != self._edits:
            edits = self._edits
            text = "".join([piece.text for piece in self.pieces().copy()])
            self._joined = (edits, text)
        return text

    @property
    def is_whole(self) -> bool:
        """``text`` is there at once."""
        return self._joined[0] == self._edits

    def pieces(self) -> list[_TextPiece]:
        """Return the text in pieces; cut when first asked for. May be called in a thread."""
        if self._pieces is None:
            return self._install(_cut(self._joined[1]))
        return self._pieces

    def prepare(self) -> None:
        """Do ahead what a change would have to do first; to be called in a thread, long texts take a moment."""
        if self._pieces is not None:
            return
        made = _cut(self._joined[1], pause=True)
        for piece in made:
            piece.ends()
            if not piece.text.isascii():
                piece.width("utf-16")
            time.sleep(0)  # the event loop need not wait for the whole
        self._install(made)

    def _install(self, pieces: list[_TextPiece]) -> list[_TextPiece]:
        with self._lock:
            # Set only the first time, because a second result knows nothing of changes since.
            if self._pieces is None:
                self._pieces = pieces
            return self._pieces

    def parts(self) -> list[str]:
        """Return the text in parts of a few kB. May be called in a thread."""
        return [piece.text for piece in self.pieces().copy()]

    def same(self, other: OpenText) -> bool:
        """Return whether the two texts are equal; at once when one is a copy of the other with few changes."""
        if self.length != other.length:
            return False
        if self._edits == 0 and other._edits == 0:
            return self._joined[1] == other._joined[1]
        return _equal(self.pieces(), other.pieces())

    def copy(self) -> OpenText:
        """Return a read-only copy of the current text; the pieces are shared. May be called in a thread."""
        made = OpenText("")
        made._pieces = pieces = self.pieces().copy()
        made.length = sum(len(piece.text) for piece in pieces)
        made._edits = 1
        return made

    def replace(
        self, start: tuple[int, int], end: tuple[int, int], new: str, units: Units = "utf-16"
    ) -> None:
        """Replace the text between two positions ``(line, column)``, both from 0, by ``new``."""
        start, end = min(start, end), max(start, end)
        pieces = self.pieces()
        first, at, half = self._find(*start, units)
        last, to, rest = self._find(*end, units)
        if (last, to) < (first, at):  # a column beyond the end of its line, followed by the start of that end
            last, to, rest = first, at, half
        before = pieces[first].text[:at]
        after = pieces[last].text[to:]
        if half:
            before += _half(pieces[first].text[at], high=True)
        if rest:
            after = _half(after[0], high=False) + after[1:]
        made = _seam(_seam(before, new), after)
        if first > 0 and (not made or _belongs(pieces[first - 1].text[-1], made[0])):
            first -= 1
            made = _seam(pieces[first].text, made)
        if last + 1 < len(pieces) and (not made or _belongs(made[-1], pieces[last + 1].text[0])):
            last += 1
            made = _seam(made, pieces[last].text)
        removed = sum(len(piece.text) for piece in pieces[first : last + 1])
        put = [_TextPiece(made)] if len(made) <= 2 * _PIECE else _cut(made)
        if not made and len(pieces) > last + 1 - first:
            put = []
        pieces[first : last + 1] = put
        self.length += len(made) - removed
        self._edits += 1  # last, so that a text joined in the meantime is not mistaken for the new one

    def _find(self, line: int, column: int, units: Units) -> tuple[int, int, bool]:
        """Return a position as number of a piece and place in it, and whether it is in the middle of the character
        there."""
        pieces = self.pieces()
        number = 0
        while number < len(pieces) and line > (ends := pieces[number].ends()):
            line -= ends
            number += 1
        if number == len(pieces):
            return number - 1, len(pieces[-1].text), False
        start = _line_start(pieces[number].text, line)
        while True:
            piece = pieces[number]
            end = _line_end(piece, start)
            if end < len(piece.text) or number + 1 == len(pieces):
                break
            width = piece.width(units) if start == 0 else _width(piece.text[start:], units)
            if column <= width:
                break
            column -= width
            start = 0
            number += 1
        found, half = _characters(piece.text[start:end], column, units)
        return number, start + found, half


def _cut(text: str, *, pause: bool = False) -> list[_TextPiece]:
    pieces: list[_TextPiece] = []
    at = 0
    while len(text) - at > 2 * _PIECE:
        end = at + _PIECE
        while end < len(text) and _belongs(text[end - 1], text[end]):
            end += 1
        pieces.append(_TextPiece(text[at:end]))
        at = end
        if pause:
            time.sleep(0)
    if at < len(text) or not pieces:
        pieces.append(_TextPiece(text[at:]))
    return pieces


def _belongs(one: str, following: str) -> bool:
    """Return whether two characters must not be parted: the halves of one, or of one line end."""
    if one == "\r":
        return following == "\n"
    return "\ud800" <= one <= "\udbff" and "\udc00" <= following <= "\udfff"


def _seam(one: str, following: str) -> str:
    """Two texts as one; halves of a character that meet are joined."""
    if one and following and one[-1] != "\r" and _belongs(one[-1], following[0]):
        halves = one[-1] + following[0]
        return f"{one[:-1]}{halves.encode('utf-16-le', 'surrogatepass').decode('utf-16-le')}{following[1:]}"
    return one + following


def _half(char: str, *, high: bool) -> str:
    data = char.encode("utf-16-le")
    return (data[:2] if high else data[2:]).decode("utf-16-le", "surrogatepass")


def _equal(some: list[_TextPiece], others: list[_TextPiece]) -> bool:
    """Return whether two texts of the same length are equal, however they are split."""
    if len(some) == len(others) and all(map(operator.is_, some, others)):
        return True
    number = at = 0
    for piece in some:
        done = 0
        while done < len(piece.text):
            other = others[number].text
            length = min(len(piece.text) - done, len(other) - at)
            if length == len(piece.text) == len(other):
                if piece.text != other:
                    return False
            elif not length or not piece.text.startswith(other[at : at + length], done):
                return False
            done += length
            at += length
            if at == len(other):
                number, at = number + 1, 0
    return True


def _line_start(text: str, line: int) -> int:
    """Return where a line begins: after that many line ends."""
    if not line:
        return 0
    if "\r" not in text:
        at = 0
        for _ in range(line):
            at = text.find("\n", at) + 1
        return at
    found = next(islice(_LINE_END.finditer(text), line - 1, None), None)
    return len(text) if found is None else found.end()


def _line_end(piece: _TextPiece, start: int) -> int:
    """Return where the text of the line that begins at ``start`` ends, in this piece."""
    text = piece.text
    if not piece.ends():
        return len(text)
    if "\r" not in text:
        end = text.find("\n", start)
        return end if end >= 0 else len(text)
    found = _LINE_END.search(text, start)
    return found.start() if found is not None else len(text)


def _width(text: str, units: Units) -> int:
    if text.isascii() or units == "utf-32":
        return len(text)
    if units == "utf-16":
        return len(text.encode("utf-16-le", "surrogatepass")) // 2
    return len(text.encode("utf-8", "surrogatepass"))


def _characters(line: str, column: int, units: Units) -> tuple[int, bool]:
    """Return a column in characters. Within a character of several bytes, its beginning; between its two halves,
    that."""
    if line.isascii() or units == "utf-32":
        return min(column, len(line)), False
    if units == "utf-16":
        data = line.encode("utf-16-le", "surrogatepass")
        if len(data) == 2 * len(line):
            return min(column, len(line)), False
        if 2 * column >= len(data):
            return len(line), False
        at = len(data[: 2 * column].decode("utf-16-le", "surrogatepass"))
        # The first half of a split character counts as one.
        if column and data[2 * column - 1] & 0xFC == 0xD8 and line[at - 1] > "\uffff":
            return at - 1, True
        return at, False
    data = line.encode("utf-8", "surrogatepass")
    while 0 < column < len(data) and data[column] & 0xC0 == 0x80:
        column -= 1
    return len(data[:column].decode("utf-8", "surrogatepass")), False
