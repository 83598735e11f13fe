"""Compare files on disk with texts of editors: read in small parts, and only files that may be equal.

Nothing here waits for a pipe or a device, or reads more of a file than a text of the buffer's length can have. All of
it may be called in a thread: between two parts the event loop has its turn.
"""

from __future__ import annotations

import codecs
import contextlib
import os
from typing import TYPE_CHECKING

from tools.files.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

_PART = 64 * 1024
"""Bytes read at once."""
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
        return _stamp(path.stat())
    except (OSError, ValueError):
        return None


def shows(path: Path, texts: Sequence[tuple[int, Sequence[str]]]) -> list[bool]:
    """Return for each text (its length, and its parts) whether an editor that shows it may have read it from ``path``.

    Editors show encodings, byte-order marks and line ends in their own way. A file that is not regular, or does not
    exist, has no text.
    """
    try:
        opened = open_regular(path, follow=True)
    except (OSError, ValueError):
        return [not length for length, _ in texts]
    with opened as file:
        try:
            return [_shows(file.fileno(), length, parts) for length, parts in texts]
        except OSError:
            return [False for _ in texts]


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_size, found.st_mtime_ns, found.st_ino


def _shows(file: int, length: int, parts: Sequence[str]) -> bool:
    size = os.fstat(file).st_size
    # A text has at least one byte per character, except line ends, which may be two characters in the editor.
    if size > _MOST_PER_CHARACTER * length + _MARK or 2 * size < length - 1:
        return False
    try:
        return _same(_decoded(file, "utf-8-sig", size), parts)
    except _OtherError:
        pass
    os.lseek(file, 0, os.SEEK_SET)
    codecs_of = ("utf-16",) if os.read(file, 2) in (b"\xff\xfe", b"\xfe\xff") else ("cp1252", "latin-1")
    for codec in codecs_of:
        with contextlib.suppress(_OtherError):
            if _same(_decoded(file, codec, size, "replace"), parts):
                return True
    return size <= _GUESSED and _guessed(file, parts)


class _OtherError(Exception):
    """The bytes are no such text, or look like one by chance: they may mean something else."""


def _guessed(file: int, parts: Sequence[str]) -> bool:
    """Compare with our own guess of the encoding: an editor guesses as well, or has a setting."""
    from tools.text.decoding import decode
    from tools.tool import ToolError

    try:
        return _same([decode(_whole(file, _GUESSED)).text], parts)
    except (ToolError, _OtherError):
        return False


def _whole(file: int, most: int) -> bytes:
    return b"".join(_parts(file, most))


def _parts(file: int, most: int) -> Iterator[bytes]:
    os.lseek(file, 0, os.SEEK_SET)
    while most > 0 and (data := os.read(file, min(_PART, most))):
        most -= len(data)
        yield data


def _decoded(file: int, codec: str, size: int, errors: str = "strict") -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(codec)(errors)
    try:
        for data in _parts(file, size):
            yield decoder.decode(data)
        yield decoder.decode(b"", True)
    except UnicodeDecodeError:
        raise _OtherError from None


def _same(shown: Iterable[str], parts: Iterable[str]) -> bool:
    """Return whether two texts are the same but for their line ends. Raises _OtherError when that depends on the
    encoding."""
    some, others = _to_lf(shown), _to_lf(parts)
    one = other = ""
    plain = True
    while True:
        if not one:
            one = next(some, "")
            plain = plain and one.isascii()
        other = other or next(others, "")
        length = min(len(one), len(other))
        if not length and not one and not other:
            return True
        if not length or one[:length] != other[:length]:
            if plain:
                return False
            raise _OtherError
        one, other = one[length:], other[length:]


def _to_lf(parts: Iterable[str]) -> Iterator[str]:
    held, begun = "", False
    for part in parts:
        text = held + (part if begun else part.removeprefix("\ufeff"))
        begun = begun or bool(part)
        held = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r")
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        if text:
            yield text
    if held:
        yield "\n"
