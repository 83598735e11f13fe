"""Bytes to text and back, without changing a byte that was not meant.

A file is decoded with its own encoding, byte-order mark and line ends. Whatever codec is chosen must give the
identical bytes back, or the file is refused. Changes are spliced into the *bytes*, so that everything outside
the replaced span stays as it is by construction (source: conventions.md, "Edit matching": byte-exact splice).
"""

from __future__ import annotations

import codecs
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tools.base import ToolError

SNIFF_BYTES = 8192
"""How much of a file is looked at to tell text from binary (the habit of git and most editors)."""

_LINE_END = re.compile(r"\r\n|\n|\r")
_DECLARED = re.compile(rb"(?:coding[:=][ \t]*|<\?xml[^>\n]*encoding=[\"'])([-\w.]{2,40})")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_BOMS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Code pages worth guessing. EBCDIC and DOS pages are left out: on short texts they win by accident.
_LEGACY = (
    "cp1252", "latin_1", "cp1250", "cp1251", "koi8_r", "cp1253", "cp1254", "cp1255", "cp1256",
    "cp932", "euc_jp", "gb18030", "big5", "euc_kr", "iso8859_2", "iso8859_15",
)  # fmt: skip


class BinaryFile(ToolError):
    """The bytes are not text."""


@dataclass(frozen=True, slots=True)
class Text:
    """A decoded file. ``text`` has no byte-order mark and the line ends of the file."""

    text: str
    codec: str
    bom: bytes = b""

    def encode(self, text: str) -> bytes:
        """``text`` in this file's encoding, byte-order mark included.

        Raises ToolError when a character does not exist in the encoding.
        """
        return self.bom + self.encode_part(text)

    def encode_part(self, text: str) -> bytes:
        """A piece of the file's text, without byte-order mark. Raises ToolError like ``encode``."""
        try:
            return text.encode(self.codec)
        except UnicodeEncodeError as error:
            bad = error.object[error.start]
            message = (
                f"The file is encoded as {self.codec}, which has no character {bad!r} (U+{ord(bad):04X}). "
                "Nothing was changed: use other characters, or ask the person to convert the file to UTF-8."
            )
            raise ToolError(message) from error


def decode(data: bytes, prefer: str | None = None) -> Text:
    """Decode a file. ``prefer`` is a codec to try first (that of the file's version before a change).

    Order: byte-order mark, ``prefer``, UTF-8, UTF-16 when certain, an encoding declared in the first two
    lines (PEP 263, XML), a guessed code page. Raises BinaryFile for binary data and ToolError when no
    encoding gives the same bytes back.
    """
    for bom, codec in _BOMS:
        if data.startswith(bom):
            found = _round_trip(data, codec, bom)
            if found is None:
                raise ToolError(f"The file begins with a {codec} byte-order mark but is not valid {codec}.")
            return found
    if prefer is not None and (found := _round_trip(data, prefer)):
        return found
    head = data[:SNIFF_BYTES]
    if b"\0" in head:
        found = _utf16_without_bom(data)
        if found is None:
            raise BinaryFile("The file is binary.")
        return found
    if found := _round_trip(data, "utf-8"):
        return found
    if len(_CONTROL.findall(head)) * 20 > len(head):
        raise BinaryFile("The file is binary.")
    for codec in _legacy_candidates(data):
        if found := _round_trip(data, codec):
            return found
    raise ToolError("The file's encoding could not be told: no known one gives the same bytes back.")


def is_binary(data: bytes) -> bool:
    """Whether the beginning of a file looks like binary data (NUL bytes that are not UTF-16)."""
    head = data[:SNIFF_BYTES]
    if any(data.startswith(bom) for bom, _ in _BOMS):
        return False
    return b"\0" in head and _utf16_without_bom(head[: len(head) & ~1]) is None


def _round_trip(data: bytes, codec: str, bom: bytes = b"") -> Text | None:
    try:
        text = data[len(bom) :].decode(codec)
        return Text(text, codec, bom) if text.encode(codec) == data[len(bom) :] else None
    except (UnicodeError, LookupError):
        return None


def _utf16_without_bom(data: bytes) -> Text | None:
    """Only if certain: nearly all Latin text, NULs on one side only, valid, with blanks and no control characters.

    Otherwise a NUL is a NUL: ``a\\0b\\n`` is also valid UTF-16, and nobody's text.
    """
    if len(data) < 8 or len(data) % 2:
        return None
    even, odd = data[0::2].count(0), data[1::2].count(0)
    units = len(data) // 2
    for codec, zeros, others in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if others == 0 and zeros * 10 >= units * 9:
            found = _round_trip(data, codec)
            if found is None or not re.search(r"[ \t\n\r]", found.text):
                continue
            plain = re.sub(r"[\t\n\r\f]", "", found.text)
            if all(c >= " " and c != "\x7f" for c in plain[:SNIFF_BYTES]):
                return found
    return None


def _legacy_candidates(data: bytes) -> Iterator[str]:
    declared = _DECLARED.search(b"\n".join(data[:400].split(b"\n", 2)[:2]))
    if declared is not None and _keeps_ascii(name := declared.group(1).decode("ascii")):
        yield name
    import charset_normalizer

    sample = data if len(data) <= 65536 else data[: data.rfind(b"\n", 0, 65536) + 1 or 65536]
    best = charset_normalizer.from_bytes(sample, cp_isolation=list(_LEGACY)).best()
    if best is not None and _keeps_ascii(best.encoding):
        yield best.encoding
    yield "cp1252"
    yield "latin-1"


@functools.lru_cache(maxsize=64)
def _keeps_ascii(codec: str) -> bool:
    """Guards against codecs such as UTF-7 or punycode, in which ASCII bytes are not ASCII characters."""
    plain = bytes(range(32, 127)) + b"\t\n\r"
    try:
        return plain.decode(codec) == plain.decode("ascii") and codecs.lookup(codec).name != "unicode_escape"
    except (UnicodeError, LookupError):
        return False


class Line(NamedTuple):
    """One line of a text: where it begins, its body and its line end (empty only on the last line)."""

    start: int
    body: str
    end: str


def split_lines(text: str) -> list[Line]:
    """All lines; ``\\r\\n``, ``\\n`` and ``\\r`` end a line (as in the language server protocol).

    A text that ends with a line end has no further, empty line; the empty text has no line at all.
    """
    lines: list[Line] = []
    at = 0
    if "\r" not in text:
        for piece in text.split("\n"):
            lines.append(Line(at, piece, "\n"))
            at += len(piece) + 1
        last = lines.pop()
        if last.body:
            lines.append(Line(last.start, last.body, ""))
        return lines
    for found in _LINE_END.finditer(text):
        lines.append(Line(at, text[at : found.start()], found.group()))
        at = found.end()
    if at < len(text):
        lines.append(Line(at, text[at:], ""))
    return lines


def to_lf(text: str) -> str:
    """``text`` with every line end as ``\\n``."""
    return _LINE_END.sub("\n", text) if "\r" in text else text


def line_number(text: str, offset: int) -> int:
    """Number (from 1) of the line that contains ``offset``."""
    return (
        1 + sum(1 for _ in _LINE_END.finditer(text, 0, offset))
        if "\r" in text
        else text.count("\n", 0, offset) + 1
    )


def line_end_at(text: str, offset: int) -> str:
    """The line end a line inserted at ``offset`` should have: that of its line, else of the one before."""
    here = _LINE_END.search(text, offset)
    if here is not None:
        return here.group()
    before = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset))
    if before < 0:
        return "\n"
    return "\r\n" if text[before] == "\n" and text[before - 1 : before] == "\r" else text[before]


def splice(text: str, start: int, end: int, replacement: str) -> str:
    """``text`` with the span replaced; lines of ``replacement`` take the line ends of their neighbours.

    The n-th line end of the replacement becomes the n-th one of the replaced span, and when that has no more,
    the one that follows in the text.
    """
    ends = [found.group() for found in _LINE_END.finditer(text, start, end)]
    pieces = to_lf(replacement).split("\n")
    rest = ends[-1] if ends else line_end_at(text, start)
    out = [pieces[0]]
    for index, piece in enumerate(pieces[1:]):
        out.append(ends[index] if index < len(ends) else rest)
        out.append(piece)
    return text[:start] + "".join(out) + text[end:]


def splice_bytes(data: bytes, decoded: Text, spans: Sequence[tuple[int, int, str]]) -> bytes:
    """The bytes of a file with spans ``(start, end, replacement)`` of its text replaced, all others untouched.

    Spans are in rising order and disjoint; a replacement is taken as it is, line ends included. Raises
    ToolError when the encoding has no place for it, or has state, so that a span has no bytes of its own.
    """
    out = [decoded.bom]
    expected: list[str] = []
    at, offset = 0, len(decoded.bom)
    for start, end, replacement in spans:
        kept = len(decoded.encode_part(decoded.text[at:start]))
        gone = len(decoded.encode_part(decoded.text[start:end]))
        out += data[offset : offset + kept], decoded.encode_part(replacement)
        expected += decoded.text[at:start], replacement
        at, offset = end, offset + kept + gone
    out.append(data[offset:])
    expected.append(decoded.text[at:])
    result = b"".join(out)
    # Fails for codecs with shift states (ISO-2022, HZ), and for nothing else that is known.
    again = _round_trip(result, decoded.codec, decoded.bom)
    if again is None or again.text != "".join(expected):
        raise ToolError(
            f"A file encoded as {decoded.codec} cannot be changed in part without touching the rest."
        )
    return result
