"""Columns in the units that a server counts in (LSP's ``positionEncoding``). Pure.

Everything else here counts in UTF-16 units, LSP's default; diagnostics are brought to that when they arrive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from lsp_bridge.language.source_text import lines_of

PositionEncoding = Literal["utf-8", "utf-16", "utf-32"]

OFFERED: tuple[PositionEncoding, ...] = ("utf-16", "utf-8")
"""What ``initialize`` announces, the preferred first."""


def chosen(capabilities: Mapping[str, Any]) -> PositionEncoding:
    """What a server picked in the result of ``initialize``."""
    value = capabilities.get("positionEncoding")
    return value if value in ("utf-8", "utf-16", "utf-32") else "utf-16"


def units(text: str, encoding: PositionEncoding) -> int:
    """How long ``text`` (part of one line) is."""
    if encoding == "utf-32" or text.isascii():
        return len(text)
    # As it is sent: half of a surrogate pair cannot be, and becomes a question mark.
    if encoding == "utf-8":
        return len(text.encode("utf-8", "replace"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def characters(line: str, column: int, encoding: PositionEncoding) -> int:
    """The column in characters of one in units; a unit inside of a character counts as before it."""
    column = max(0, column)
    if encoding == "utf-32" or line.isascii():
        return min(column, len(line))
    if encoding == "utf-8":
        return len(line.encode("utf-8", "replace")[:column].decode("utf-8", "ignore"))
    return len(line.encode("utf-16-le", "surrogatepass")[: column * 2].decode("utf-16-le", "ignore"))


def in_utf16(
    items: Sequence[Mapping[str, Any]], text: str, encoding: PositionEncoding
) -> tuple[Mapping[str, Any], ...]:
    """Diagnostics of ``text`` with their ranges in UTF-16 units; what is no range stays as it is."""
    if encoding == "utf-16" or text.isascii():
        return tuple(items)
    lines = lines_of(text)
    return tuple(_diagnostic_in_utf16(item, lines, encoding) for item in items)


def _diagnostic_in_utf16(
    item: Mapping[str, Any], lines: Sequence[str], encoding: PositionEncoding
) -> Mapping[str, Any]:
    place = item.get("range")
    if not isinstance(place, dict):
        return item
    ends = {name: _in_utf16(end, lines, encoding) for name, end in cast("dict[str, object]", place).items()}
    return {**item, "range": ends}


def _in_utf16(position: object, lines: Sequence[str], encoding: PositionEncoding) -> object:
    if not isinstance(position, dict):
        return position
    given = cast("dict[str, object]", position)
    line, column = given.get("line"), given.get("character")
    if not isinstance(line, int) or not isinstance(column, int) or not 0 <= line < len(lines):
        return given
    text = lines[line]
    if text.isascii():
        return given
    return {**given, "character": units(text[: characters(text, column, encoding)], "utf-16")}
