"""Source files as language servers see them: decoded text, lines, and positions in UTF-16 units.

For reading only. The text may hold replacement characters, so it must never be written back.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

TextOf = Callable[[Path], str | None]
"""The unsaved text of a file in an editor, or None when it has none."""

MAX_SOURCE_BYTES = 1_500_000
"""Larger files are not shown to language servers; they would answer late and hold much memory."""

_THREAD_BYTES = 256_000
"""Larger files are read in a thread: the event loop must not wait for a slow disk."""

# LSP knows exactly these three line ends; str.splitlines() would split at form feeds and U+2028 too.
_LINE_END = re.compile(r"\r\n|\n|\r")


def no_buffers(path: Path) -> str | None:
    """A TextOf where nobody edits."""
    return None


async def read_source(path: Path, unsaved: TextOf = no_buffers) -> str | None:
    """The text of ``path`` without its byte-order mark, or None: no such file, unreadable or too large.

    What an editor has unsaved hides the disk: servers see what the
    person sees. Bytes that are not UTF-8 become replacement characters, as in an editor that shows the file anyway.
    """
    if (text := unsaved(path)) is not None:
        return text.removeprefix("\ufeff") if len(text) <= MAX_SOURCE_BYTES else None
    try:
        size = path.stat().st_size
        if size > MAX_SOURCE_BYTES or not path.is_file():
            return None
        data = path.read_bytes() if size <= _THREAD_BYTES else await asyncio.to_thread(path.read_bytes)
    except (OSError, ValueError):
        return None
    return data.decode("utf-8", errors="replace").removeprefix("\ufeff")


def lines_of(text: str) -> list[str]:
    """The lines of ``text`` without their ends, counted as LSP counts them."""
    return _LINE_END.split(text)


def character_column(line: str, utf16_units: int) -> int:
    """The column (characters from 0) in ``line`` of a position that a server gave in UTF-16 units."""
    if line.isascii():
        return utf16_units
    return len(line.encode("utf-16-le")[: max(0, utf16_units) * 2].decode("utf-16-le", errors="ignore"))
