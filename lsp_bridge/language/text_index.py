"""Positions as they come over the wire (lines and units from 0), and where they are in a text. Pure.

Servers are not trusted: a position that no text can have is None, never an exception.
"""

from __future__ import annotations

import re
from typing import cast

from lsp_bridge.language.positions import PositionEncoding, characters, units

_LINE_END = re.compile(r"\r\n|\n|\r")
MAX_LINE = 2**31 - 1
"""LSP's uinteger."""


def wire_position(value: object) -> tuple[int, int] | None:
    """Line and units of an LSP ``Position``; None when it is none."""
    if not isinstance(value, dict):
        return None
    fields = cast("dict[str, object]", value)
    line, column = fields.get("line"), fields.get("character")
    if not (type(line) is int and type(column) is int) or not 0 <= line <= MAX_LINE or column < 0:
        return None
    return line, min(column, MAX_LINE)


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

    def column(self, line: int, column: int, encoding: PositionEncoding) -> int:
        """Characters (from 0) before a column in units; those of the whole line when it has fewer (LSP)."""
        return characters(self.line(line), column, encoding)

    def units(self, line: int, column: int, encoding: PositionEncoding) -> int:
        """The wire's units of a column (characters from 0)."""
        return units(self.line(line)[:column], encoding)

    def offset(self, line: int, column: int, encoding: PositionEncoding) -> int | None:
        """Where in the text a position is; None when it has no such line. The line after the last is its end."""
        if line == len(self._starts) and column == 0:
            return len(self.text)
        if not 0 <= line < len(self._starts):
            return None
        return self._starts[line] + self.column(line, column, encoding)
