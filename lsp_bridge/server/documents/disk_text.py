"""Compare files on disk with texts of editors: only files that may be equal are read.

Nothing here waits for a pipe or a device, or reads more of a file than a text of the buffer's length can have. All of
it may be called in a thread.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from tools.errors import ToolError
from tools.files.regular_files import open_regular
from tools.text.decoding import decode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_GUESSED = 1024 * 1024
"""Most bytes of a file for guessing its code page."""
_MOST_PER_CHARACTER = 8
"""Bytes: a line end of two characters, each of four."""
_MARK = 4
"""Bytes of a byte-order mark, at most."""

Stamp = tuple[int, int, int]
"""Size, time of change and inode: when they are the same, so is the file."""


def stamp_of(path: Path) -> Stamp | None:
    """Return a stamp that changes with the file; None when it does not exist."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def shows(path: Path, texts: Sequence[str]) -> list[bool]:
    """Return for each text whether an editor that shows it may have read it from ``path``.

    Editors show encodings, byte-order marks and line ends in their own way. A file that is not regular, or does not
    exist, has no text.
    """
    try:
        opened = open_regular(path, follow=True)
    except (OSError, ValueError):
        return [not text for text in texts]
    with opened as file:
        try:
            size = os.fstat(file.fileno()).st_size
            wanted = {number: _to_lf(text) for number, text in enumerate(texts) if _fits(size, len(text))}
            data = _read(file.fileno(), size) if wanted else b""
        except OSError:
            return [False for _ in texts]
    found: set[int] = set()
    for text in _readings(data) if wanted else ():
        shown = _to_lf(text)
        found.update(number for number, other in wanted.items() if other == shown)
        if len(found) == len(wanted):
            break
    return [number in found for number in range(len(texts))]


def _fits(size: int, length: int) -> bool:
    """Return whether a file of ``size`` bytes may have a text of ``length`` characters."""
    # A text has at least one byte per character, except line ends, which may be two characters in the editor.
    return size <= _MOST_PER_CHARACTER * length + _MARK and 2 * size >= length - 1


def _read(file: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size and (part := os.read(file, size - len(data))):
        data += part
    return bytes(data)


def _readings(data: bytes) -> Iterator[str]:
    """Yield the texts that editors may read from these bytes, the likeliest first."""
    with contextlib.suppress(UnicodeDecodeError):
        yield (text := data.decode("utf-8-sig"))
        if text.isascii():
            return  # in every encoding
    marked = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    for codec in ("utf-16",) if marked else ("cp1252", "latin-1"):
        yield data.decode(codec, "replace")
    if len(data) <= _GUESSED:
        # An editor guesses the encoding as well, or has a setting.
        with contextlib.suppress(ToolError):
            yield decode(data).text


def _to_lf(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
