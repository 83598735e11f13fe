"""Positions on the wire (lines and units from 0) and in texts, in whichever encoding was agreed on. Pure.

Servers are not trusted: a position that no text can have is None, never an exception.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping
from typing import Any, Literal, cast

Encoding = Literal["utf-8", "utf-16", "utf-32"]

_LINE_END = re.compile(r"\r\n|\n|\r")
MAX_LINE = 2**31 - 1
"""LSP's uinteger."""


def encoding_of(capabilities: Mapping[str, Any]) -> Encoding:
    """The position encoding that a server chose in ``initialize``; UTF-16 when it says nothing (LSP 3.17)."""
    chosen = capabilities.get("positionEncoding")
    return chosen if chosen in ("utf-8", "utf-16", "utf-32") else "utf-16"


def units_in(text: str, encoding: Encoding) -> int:
    """How long ``text`` is in units of an encoding."""
    if encoding == "utf-32" or text.isascii():
        return len(text)
    if encoding == "utf-8":
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def characters_in(line: str, units: int, encoding: Encoding) -> int:
    """The characters before ``units`` of a line; all of them when it is shorter (LSP: it defaults to the length).

    Units in the middle of a character mean the place before it.
    """
    units = max(0, units)
    if encoding == "utf-32" or line.isascii():
        return min(units, len(line))
    codec, width = ("utf-8", 1) if encoding == "utf-8" else ("utf-16-le", 2)
    return len(line.encode(codec, "surrogatepass")[: units * width].decode(codec, "ignore"))


def wire_position(value: object) -> tuple[int, int] | None:
    """Line and units of an LSP ``Position``; None when it is none."""
    if not isinstance(value, dict):
        return None
    fields = cast("dict[str, object]", value)
    line, units = fields.get("line"), fields.get("character")
    if not (type(line) is int and type(units) is int) or not 0 <= line <= MAX_LINE or units < 0:
        return None
    return line, min(units, MAX_LINE)


def wire_range(value: object) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Start and end of an LSP ``Range``; None when it is none or ends before it begins."""
    if not isinstance(value, dict):
        return None
    fields = cast("dict[str, object]", value)
    start, end = wire_position(fields.get("start")), wire_position(fields.get("end"))
    return None if start is None or end is None or end < start else (start, end)


class TextIndex:
    """A text whose lines are looked up by number."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(found.end() for found in _LINE_END.finditer(text))]

    @property
    def count(self) -> int:
        """The number of lines; a text that ends with a line end has one more, empty line (as in LSP)."""
        return len(self._starts)

    def line(self, number: int) -> str:
        """The line of this number (from 0) without its end; empty where there is none."""
        if not 0 <= number < len(self._starts):
            return ""
        last = number + 1 == len(self._starts)
        end = len(self.text) if last else self._starts[number + 1]
        return self.text[self._starts[number] : end].rstrip("\r\n")

    def column(self, line: int, units: int, encoding: Encoding) -> int:
        """Characters (from 0) before a position."""
        return characters_in(self.line(line), units, encoding)

    def units(self, line: int, column: int, encoding: Encoding) -> int:
        """The wire's units of a column (characters from 0)."""
        return units_in(self.line(line)[:column], encoding)

    def offset(self, line: int, units: int, encoding: Encoding) -> int | None:
        """Where in the text a position is; None when it has no such line. The line after the last is its end."""
        if line == len(self._starts) and units == 0:
            return len(self.text)
        if not 0 <= line < len(self._starts):
            return None
        return self._starts[line] + self.column(line, units, encoding)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 0, of an offset."""
        line = bisect.bisect_right(self._starts, offset) - 1
        return line, offset - self._starts[line]
