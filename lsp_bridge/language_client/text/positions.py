"""Source files as language servers see them: their URIs, their texts, and positions in them as they come over the wire.

Servers are not trusted: a position that no text can have is None, never an exception.
"""

from __future__ import annotations

import asyncio
import bisect
import os
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import unquote, urlsplit

from tools.files.regular_files import read_regular
from tools.json_access import mapping
from tools.text.lines import lsp_line_starts, lsp_lines

_MAX_URI = 10_000
_DRIVE = re.compile(r"/([A-Za-z])(?::|\|)(?=/|$)")
MAX_LINE = 2**31 - 1
"""LSP's uinteger."""
WireRange = tuple[tuple[int, int], tuple[int, int]]
"""Start and end, each as line and units."""


def file_of(uri: object) -> str | None:
    """Return the path of a ``file:`` URI; None for everything else (``untitled:``, ``jdt:``, another machine …).

    Absolute, with ``..`` resolved as text and without double slashes; links are not followed. The letter of a drive
    (Windows) is a capital one, as Python's own paths have it.
    """
    if not isinstance(uri, str) or len(uri) > _MAX_URI or uri[:5].lower() != "file:":
        return None
    try:
        parts = urlsplit(uri)
        path = unquote(parts.path, errors="strict")
    except (ValueError, UnicodeError):
        return None
    if parts.netloc.lower() not in ("", "localhost") or not path.startswith("/") or "\0" in path:
        return None
    path = "/" + posixpath.normpath(path).lstrip("/")
    if drive := _DRIVE.match(path):
        return f"{drive[1].upper()}:{path[drive.end() :] or '/'}"
    return path


def path_of(uri: object, known: Mapping[str, Path]) -> Path | None:
    """Return the file of a server's URI, under the name by which it was opened.

    ``known``: the names of the open documents by their real paths. Other files get their real path, so that a link in
    the workspace to a target outside does not count as inside.
    """
    real = real_path(file_of(uri))
    return None if real is None else known.get(os.path.normcase(real), real)


def real_path(file: str | None) -> Path | None:
    """Return where a file really is, which is what rules judge; None when it cannot be looked up."""
    try:
        return None if file is None else Path(os.path.realpath(file))
    except (OSError, ValueError):
        return None


def wire_position(value: object) -> tuple[int, int] | None:
    """Line and units of an LSP ``Position``; None when it is none."""
    fields = mapping(value)
    line, column = fields.get("line"), fields.get("character")
    if not (type(line) is int and type(column) is int) or not 0 <= line <= MAX_LINE or column < 0:
        return None
    return line, min(column, MAX_LINE)


def wire_range(value: object) -> WireRange | None:
    """Start and end of an LSP ``Range``; None when it is none or ends before it begins."""
    fields = mapping(value)
    start, end = wire_position(fields.get("start")), wire_position(fields.get("end"))
    return None if start is None or end is None or end < start else (start, end)


class TextIndex:
    """A text whose lines are looked up by number."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = lsp_line_starts(text)

    @property
    def count(self) -> int:
        """The number of lines; a text that ends with a line end has one more, empty line (as in LSP)."""
        return len(self._starts)

    def line(self, number: int) -> str:
        """Return the line of this number (from 0) without its end; empty where there is none."""
        if not 0 <= number < len(self._starts):
            return ""
        last = number + 1 == len(self._starts)
        end = len(self.text) if last else self._starts[number + 1]
        return self.text[self._starts[number] : end].rstrip("\r\n")

    def column(self, line: int, column: int, encoding: PositionEncoding) -> int:
        """Characters (from 0) before a column in units; those of the whole line when it has fewer (LSP)."""
        return characters(self.line(line), column, encoding)

    def units(self, line: int, column: int, encoding: PositionEncoding) -> int:
        """Return the wire's units of a column (characters from 0)."""
        return units(self.line(line)[:column], encoding)

    def offset(self, line: int, column: int, encoding: PositionEncoding) -> int | None:
        """Return where in the text a position is; None when it has no such line. The line after the last is its end."""
        if line == len(self._starts) and column == 0:
            return len(self.text)
        if not 0 <= line < len(self._starts):
            return None
        return self._starts[line] + self.column(line, column, encoding)

    def position(self, offset: int, encoding: PositionEncoding) -> tuple[int, int]:
        """Return the position of an offset: line, and column in units."""
        line = bisect.bisect_right(self._starts, offset) - 1
        return line, units(self.text[self._starts[line] : offset], encoding)


PositionEncoding = Literal["utf-8", "utf-16", "utf-32"]

OFFERED: tuple[PositionEncoding, ...] = ("utf-16", "utf-8")
"""Encodings that ``initialize`` announces, the preferred one first."""


def chosen(value: object) -> PositionEncoding:
    """Return the encoding that was picked when the connection began (``positionEncoding``)."""
    return value if value in ("utf-8", "utf-16", "utf-32") else "utf-16"


def units(text: str, encoding: PositionEncoding) -> int:
    """Return how long ``text`` (part of one line) is."""
    if encoding == "utf-32" or text.isascii():
        return len(text)
    # Count as sent: half of a surrogate pair cannot be sent, and becomes a question mark.
    if encoding == "utf-8":
        return len(text.encode("utf-8", "replace"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def characters(line: str, column: int, encoding: PositionEncoding) -> int:
    """Return the column in characters of one in units; a unit inside of a character counts as before it."""
    column = max(0, column)
    if encoding == "utf-32" or line.isascii():
        return min(column, len(line))
    if encoding == "utf-8":
        return len(line.encode("utf-8", "replace")[:column].decode("utf-8", "ignore"))
    return len(line.encode("utf-16-le", "surrogatepass")[: column * 2].decode("utf-16-le", "ignore"))


def in_utf16(
    items: Sequence[Mapping[str, Any]], text: str, encoding: PositionEncoding
) -> tuple[Mapping[str, Any], ...]:
    """Return diagnostics of ``text`` with their ranges in UTF-16 units; invalid ranges stay unchanged."""
    if encoding == "utf-16" or text.isascii():
        return tuple(items)
    lines = lsp_lines(text)
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
    given = mapping(position)
    line, column = given.get("line"), given.get("character")
    if not isinstance(line, int) or not isinstance(column, int) or not 0 <= line < len(lines):
        return position
    if (text := lines[line]).isascii():
        return position
    return {**given, "character": units(text[: characters(text, column, encoding)], "utf-16")}


TextOf = Callable[[Path], str | None]
"""The unsaved text of a file in an editor, or None when it has none."""

MAX_SOURCE_BYTES = 1_500_000
"""Larger files are not shown to language servers; they would answer late and hold much memory."""

_THREAD_BYTES = 256_000
"""Larger files are read in a thread: the event loop must not wait for a slow disk."""


def no_buffers(path: Path) -> str | None:
    """Return a TextOf without open editors."""
    return None


async def read_source(path: Path, unsaved: TextOf = no_buffers) -> str | None:
    """Return the text of ``path`` without its byte-order mark, or None: no such file, unreadable or too large.

    Unsaved text in an editor hides the disk: servers see what the user sees. Bytes that are not UTF-8 become
    replacement characters, as in an editor that shows the file anyway.
    """
    if (text := unsaved(path)) is not None:
        return text.removeprefix("\ufeff") if len(text) <= MAX_SOURCE_BYTES else None
    try:
        large = path.stat().st_size > _THREAD_BYTES
    except (OSError, ValueError):
        return None
    return await asyncio.to_thread(load, path) if large else load(path)


def load(path: Path) -> str | None:
    """Return the text of a file on disk as servers read it; None: no file, unreadable or too large."""
    try:
        return read_regular(path, MAX_SOURCE_BYTES, follow=True).decode("utf-8-sig", errors="replace")
    except (OSError, ValueError):
        return None


def character_column(line: str, utf16_units: int) -> int:
    """Return the column (characters from 0) in ``line`` of a position that a server gave in UTF-16 units."""
    return utf16_units if line.isascii() else characters(line, utf16_units, "utf-16")
