"""The text of one open document as lines, so that a keystroke costs next to nothing in a long file, too. Pure.

Lines end with ``\\n``, ``\\r\\n`` or ``\\r`` and with nothing else (source: LSP 3.17, Text Documents): a form feed or
U+2028 ends no line. A position outside the text is moved to the nearest one inside, as the protocol requires for
characters, and as all editors do for lines; a reversed range is swapped.

In UTF-16 an editor may change one half of an emoji: the halves are characters of their own until they meet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tools.text.lines import lines_with_ends

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lsp_bridge.language_client.text.positions import PositionEncoding


class PartChange(NamedTuple):
    """A part of a text, between two positions ``(line, column)`` from 0, and what takes its place."""

    start: tuple[int, int]
    end: tuple[int, int]
    text: str


class OpenText:
    """A text that stays as it is: a thread may read it while the editor sends the next one."""

    __slots__ = ("_lines", "_text", "length")

    def __init__(self, text: str) -> None:
        """``text`` from parsed JSON: two adjacent surrogate halves are one character already."""
        self._text: str | None = text
        self._lines: list[str] | None = None
        self.length = len(text)
        """Characters."""

    @property
    def is_whole(self) -> bool:
        """``text`` is there at once; else it is put together, which takes a long one milliseconds."""
        return self._text is not None

    @property
    def text(self) -> str:
        """The whole text; put together when first asked for."""
        if self._text is None:
            self._text = self.read()
        return self._text

    def read(self) -> str:
        """Return the whole text without keeping it for the next time."""
        return "".join(self.lines()) if self._text is None else self._text

    def lines(self) -> list[str]:
        """Return the lines with their ends; the last one has none, and may be empty. Cut when first asked for."""
        if self._lines is None:
            self._lines = _split(self._text or "")
        return self._lines

    def changed(self, changes: Iterable[PartChange], units: PositionEncoding = "utf-16") -> OpenText:
        """Return the text after these changes, each of which refers to the result of the one before."""
        result, lines = OpenText(""), self.lines().copy()
        result._text, result._lines, result.length = None, lines, self.length
        for start, end, text in changes:
            result.length += _replace(lines, min(start, end), max(start, end), text, units)
        return result


def _split(text: str) -> list[str]:
    lines = lines_with_ends(text)
    if not lines or lines[-1].endswith(("\r", "\n")):
        lines.append("")
    return lines


def _replace(
    lines: list[str], start: tuple[int, int], end: tuple[int, int], new: str, units: PositionEncoding
) -> int:
    """Replace a part. Returns by how many characters the text is longer now."""
    first, at, half = _find(lines, *start, units)
    last, to, rest = _find(lines, *end, units)
    before, after = lines[first][:at], lines[last][to:]
    if half:
        before += _half(lines[first][at], high=True)
    if rest:
        after = _half(after[0], high=False) + after[1:]
    made = _joined(_joined(before, new), after)
    if first and made.startswith("\n") and lines[first - 1].endswith("\r"):
        first -= 1
        made = lines[first] + made
    put = _split(made)
    if last + 1 < len(lines):
        put.pop()  # the line after its end is the next one
    longer = sum(map(len, put)) - sum(map(len, lines[first : last + 1]))
    lines[first : last + 1] = put
    return longer


def _find(lines: list[str], line: int, column: int, units: PositionEncoding) -> tuple[int, int, bool]:
    """Return a position as line and character, and whether it is in the middle of that character."""
    if line >= len(lines):
        return len(lines) - 1, len(lines[-1]), False
    return (line, *_characters(lines[line].rstrip("\r\n"), column, units))


def _joined(one: str, following: str) -> str:
    """Return two texts as one; halves of a character that meet are joined."""
    pair = one[-1:] + following[:1]
    if len(pair) == 2 and "\ud800" <= pair[0] <= "\udbff" and "\udc00" <= pair[1] <= "\udfff":
        return one[:-1] + pair.encode("utf-16-le", "surrogatepass").decode("utf-16-le") + following[1:]
    return one + following


def _half(char: str, *, high: bool) -> str:
    data = char.encode("utf-16-le")
    return (data[:2] if high else data[2:]).decode("utf-16-le", "surrogatepass")


def _characters(line: str, column: int, units: PositionEncoding) -> tuple[int, bool]:
    """Return a column in characters. Within a character of several bytes, its beginning; between its two halves,
    that."""
    if line.isascii() or units == "utf-32":
        return min(column, len(line)), False
    if units == "utf-16":
        data = line.encode("utf-16-le", "surrogatepass")
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
