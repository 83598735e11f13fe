"""Convert bytes to text and back, without changing any other byte.

A file is decoded with its own encoding, byte-order mark and line ends. The codec must give the identical bytes back, or
the file is rejected. Changes are spliced into the *bytes*, so that everything outside the replaced span stays unchanged
by construction.
"""

from __future__ import annotations

import codecs
import functools
import re
from typing import TYPE_CHECKING

from msgspec import Struct

from tools.errors import ToolError
from tools.text.lines import to_lf

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SNIFF_BYTES = 8192
"""Bytes to inspect when distinguishing text from binary (the habit of git and most editors)."""

_COMMENT = rb"^[ \t\f]*(?:#|//|/\*|<!--|<%|\{#|--|%|;|\"|').*?"
_DECLARED: tuple[tuple[re.Pattern[bytes], int], ...] = (
    # The first two lines of a file: PEP 263, which Ruby, Perl, Emacs and Vim share, and XML.
    (re.compile(_COMMENT + rb"coding[:=][ \t]*([-\w.]{2,40})", re.MULTILINE), 2),
    (re.compile(rb"\A\s*<\?xml[^>]*?encoding=[\"']([-\w.]{2,40})"), 2),
    (re.compile(rb"\A@charset \"([-\w.]{2,40})\";"), 1),
    (re.compile(rb"<meta[^>]{0,200}?charset=[\"']?([-\w.]{2,40})", re.IGNORECASE), 30),
)
"""Declarations of an encoding, and within how many lines from the top each counts."""
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_BOMS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # starts with the mark of UTF-16, so it must come first
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Plausible code pages. EBCDIC and DOS pages are left out: on short texts they win by accident.
_LEGACY = (
    "cp1252", "latin_1", "cp1250", "cp1251", "koi8_r", "cp1253", "cp1254", "cp1255", "cp1256",
    "cp932", "euc_jp", "gb18030", "big5", "euc_kr", "iso8859_2", "iso8859_15",
)  # fmt: skip


class BinaryFileError(ToolError):
    """The bytes are not text."""


class Text(Struct, frozen=True):
    """A decoded file. ``text`` has no byte-order mark and the line ends of the file."""

    text: str
    codec: str
    bom: bytes = b""
    rivals: tuple[str, ...] = ()
    """Other code pages the bytes could as well be in, when the codec is a guess."""
    guessed: bool = False
    """Neither certain by its bytes nor declared: text that was copied from the file is better evidence."""

    def encode(self, text: str) -> bytes:
        """Return ``text`` in this file's encoding, byte-order mark included.

        Raises ToolError when a character does not exist in the encoding.
        """
        return self.bom + self.encode_part(text)

    def encode_part(self, text: str) -> bytes:
        """Return a piece of the file's text, without byte-order mark. Raises ToolError like ``encode``."""
        try:
            made = text.encode(self.codec)
            if self.rivals and not text.isascii():
                self._refuse_if_doubtful(text)
            return made
        except UnicodeEncodeError as error:
            bad = error.object[error.start]
            message = (
                f"The file is encoded as {self.codec}, which has no character {bad!r} (U+{ord(bad):04X}). "
                "Nothing was changed: use other characters, or ask the user to convert the file to UTF-8."
            )
            raise ToolError(message) from error

    def _refuse_if_doubtful(self, text: str) -> None:
        """Raise if a guessed page gets characters that the file lacks, unless all its alternatives encode them
        alike."""
        for character in set(text) - set(self.text):
            if character.isascii():
                continue
            kinds = {character.encode(self.codec)}
            for rival in self.rivals:
                try:
                    kinds.add(character.encode(rival))
                except UnicodeEncodeError:
                    continue
            if len(kinds) > 1:
                raise ToolError(
                    f"The file's encoding is not certain ({self.codec}, or {', '.join(self.rivals[:3])}), "
                    f"so that {character!r} (U+{ord(character):04X}) has no certain bytes. Nothing was "
                    "changed: use characters that the file has, or ask the user to convert the file to "
                    "UTF-8."
                )


def decode(data: bytes, prefer: str | None = None) -> Text:
    """Decode a file. ``prefer`` is a codec to try first (that of the file's version before a change).

    Order: byte-order mark, ``prefer``, UTF-8, UTF-16 when certain, an encoding declared in the first two
    lines (PEP 263, XML), a guessed code page. Raises BinaryFileError for binary data and ToolError when no
    encoding gives the same bytes back.
    """
    marks = [(bom, codec) for bom, codec in _BOMS if data.startswith(bom)]
    for bom, codec in marks:
        if found := _round_trip(data, codec, bom):
            return found
    if marks:
        codec = marks[-1][1]
        raise ToolError(f"The file begins with a {codec} byte-order mark but is not valid {codec}.")
    if prefer is not None and (found := _round_trip(data, prefer)):
        return found
    head = data[:SNIFF_BYTES]
    if b"\0" in head:
        found = _utf16_without_bom(data)
        if found is None:
            raise BinaryFileError("The file is binary.")
        return found
    if found := _round_trip(data, "utf-8"):
        # A file that is ASCII so far gets its declared codec as soon as another character is added.
        declared = _declared(data) if found.text.isascii() else None
        return (declared and _round_trip(data, declared)) or found
    if len(_CONTROL.findall(head)) * 20 > len(head):
        raise BinaryFileError("The file is binary.")
    if (name := _declared(data)) and (found := _round_trip(data, name)):
        return found
    for codec, rivals in _guesses(data):
        if found := _round_trip(data, codec):
            return Text(found.text, codec, b"", rivals, guessed=True)
    raise ToolError("The file's encoding could not be detected: no known one gives the same bytes.")


def read_as_quoted(data: bytes, decoded: Text, piece: str) -> Text:
    """Return the reading of a file in which ``piece`` occurs, ignoring line ends; ``decoded`` when none has it.

    If the code page is a guess, text that was copied from the file is better evidence than statistics: it rules out the
    code pages that lack it. The guess itself comes first, because the model was shown the file in it.
    """
    if not decoded.guessed or piece.isascii():
        return decoded
    known = to_lf(piece) in to_lf(decoded.text)
    found = _having(piece, data, (decoded.codec, *decoded.rivals) if known else _LEGACY)
    if not found:
        return decoded
    first, *others = found
    # Files in ISO pages are so rare beside those in cp1252 that they must not prevent "€" or "œ".
    rivals = tuple(one.codec for one in others if first.codec != "cp1252" or one.codec.startswith("cp"))
    return Text(first.text, first.codec, b"", rivals, guessed=True)


def _having(piece: str, data: bytes, names: Sequence[str]) -> list[Text]:
    read = (_round_trip(data, codec) for codec in names)
    return [one for one in read if one is not None and to_lf(piece) in to_lf(one.text)]


def _round_trip(data: bytes, codec: str, bom: bytes = b"") -> Text | None:
    try:
        text = data[len(bom) :].decode(codec)
        # UTF-8 encodes each text in one way only, and nothing else is decoded, so there is nothing to compare.
        same = codec == "utf-8" or text.encode(codec) == data[len(bom) :]
        return Text(text, codec, bom) if same else None
    except (UnicodeError, LookupError):
        return None


def _utf16_without_bom(data: bytes) -> Text | None:
    """Decode only if certain: nearly all Latin text, NULs on one side only, valid, with blanks and no control
    characters.

    Otherwise a NUL is a NUL: ``a\\0b\\n`` is also valid UTF-16, but no plausible text.
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


def _declared(data: bytes) -> str | None:
    """Return the codec that a file declares; None when it declares none, or none that can be used."""
    for pattern, lines in _DECLARED:
        head = b"\n".join(data[:4096].split(b"\n", lines)[:lines])
        if (found := pattern.search(head)) is not None:
            name = found.group(1).decode("ascii").lower()
            if lines == 30 and name in ("iso-8859-1", "latin1", "us-ascii"):
                name = "cp1252"  # as browsers read these labels (source: WHATWG Encoding)
            return name if _keeps_ascii(name) and codecs.lookup(name).name != "utf-8" else None
    return None


def _guesses(data: bytes) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield possible code pages of the bytes, the likelier first, each with its alternatives."""
    import charset_normalizer

    sample = data if len(data) <= 65536 else data[: data.rfind(b"\n", 0, 65536) + 1 or 65536]
    matches = charset_normalizer.from_bytes(sample, cp_isolation=list(_LEGACY))
    best = matches.best()
    if best is not None:
        equals = [m for m in matches if m.chaos <= best.chaos + 0.01 and m.coherence >= best.coherence / 2]
        names = dict.fromkeys(name for match in equals for name in match.could_be_from_charset)
        same = {name for m in equals if m.coherence == best.coherence for name in m.could_be_from_charset}
        # Equally likely codecs are tried in our order, by how common they are.
        ranked = sorted(names, key=lambda name: (name not in same, _LEGACY.index(name)))
        for name in ranked[:1]:
            yield name, tuple(ranked[1:])
    yield "cp1252", ("latin_1",)
    yield "latin-1", ()


@functools.lru_cache(maxsize=64)
def _keeps_ascii(codec: str) -> bool:
    """Guards against codecs such as UTF-7 or punycode, in which ASCII bytes are not ASCII characters."""
    plain = bytes(range(32, 127)) + b"\t\n\r"
    try:
        return plain.decode(codec) == plain.decode("ascii") and codecs.lookup(codec).name != "unicode_escape"
    except (UnicodeError, LookupError):
        return False


def splice_bytes(data: bytes, decoded: Text, spans: Sequence[tuple[int, int, str]]) -> bytes:
    """Return the bytes of a file with spans ``(start, end, replacement)`` of its text replaced, all others untouched.

    Spans are in rising order and disjoint; a replacement is used unchanged, including line ends. Raises ToolError when
    the encoding cannot represent it, or has state, so that a span has no bytes of its own.
    """
    out, made = [decoded.bom], list[str]()
    text, codec = decoded.text, decoded.codec
    one_byte = len(text) == len(data) - len(decoded.bom)
    at, offset = 0, len(decoded.bom)
    for start, end, replacement in spans:
        kept = start - at if one_byte else len(text[at:start].encode(codec))
        gone = end - start if one_byte else len(text[start:end].encode(codec))
        out += data[offset : offset + kept], decoded.encode_part(replacement)
        made += text[at:start], replacement
        at, offset = end, offset + kept + gone
    out.append(data[offset:])
    result = b"".join(out)
    # This fails for codecs with shift states (ISO-2022, HZ) or combined characters, and for no other known one.
    again = _round_trip(result, codec, decoded.bom)
    if again is None or again.text != "".join(made) + text[at:]:
        raise ToolError(f"A file encoded as {codec} cannot be changed in part without touching the rest.")
    return result
