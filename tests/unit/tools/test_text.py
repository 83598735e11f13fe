from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.text.decoding import BinaryFileError, decode, splice_bytes
from tools.tool import ToolError

CODECS = [
    ("utf-8", b""),
    ("utf-8", codecs.BOM_UTF8),
    ("utf-16-le", codecs.BOM_UTF16_LE),
    ("utf-16-be", codecs.BOM_UTF16_BE),
]
BODY = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff"), max_size=12)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
TEXT = st.lists(st.tuples(BODY, ENDS), max_size=8).flatmap(
    lambda lines: BODY.map(lambda last: "".join(b + e for b, e in lines) + last)
)


@given(TEXT, st.sampled_from(CODECS))
def test_text_in_any_unicode_encoding_round_trips(text: str, kind: tuple[str, bytes]) -> None:
    codec, bom = kind
    data = bom + text.encode(codec)
    if not bom and codec != "utf-8":
        return
    decoded = decode(data)
    assert decoded.text == text
    assert decoded.encode(decoded.text) == data


@given(st.binary(max_size=200))
def test_decoded_text_encodes_to_the_same_bytes(data: bytes) -> None:
    try:
        decoded = decode(data)
    except ToolError:
        return
    assert decoded.encode(decoded.text) == data


@given(TEXT, st.sampled_from(CODECS), st.data())
def test_bytes_outside_the_spliced_span_are_identical(
    text: str, kind: tuple[str, bytes], data: st.DataObject
) -> None:
    codec, bom = kind
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    replacement = data.draw(BODY)
    raw = bom + text.encode(codec)
    decoded = decode(raw, prefer=codec)
    after = splice_bytes(raw, decoded, [(start, end, replacement)])
    head, tail = bom + text[:start].encode(codec), text[end:].encode(codec)
    assert after == head + replacement.encode(codec) + tail


def test_legacy_encoding_is_kept_and_new_text_uses_it() -> None:
    raw = "naïve café — déjà vu\r\nplain\n".encode("cp1252")
    decoded = decode(raw)
    start = decoded.text.index("plain")
    after = splice_bytes(raw, decoded, [(start, start + 5, "garçon")])
    assert after == raw[: raw.index(b"plain")] + "garçon".encode(decoded.codec) + b"\n"


def test_a_character_the_encoding_lacks_is_refused_by_name() -> None:
    decoded = decode("größe\n".encode("latin-1"))
    with pytest.raises(ToolError, match=r"no character .* \(U\+1F600\)"):
        decoded.encode("\N{GRINNING FACE}")


def test_a_declared_source_encoding_is_honoured() -> None:
    raw = "# -*- coding: koi8-r -*-\ns = 'привет'\n".encode("koi8-r")
    assert "привет" in decode(raw).text


def test_utf16_without_mark_is_read_only_when_certain() -> None:
    assert decode("hello\nworld\n".encode("utf-16-le")).codec == "utf-16-le"
    assert decode("hello\nworld\n".encode("utf-16-be")).codec == "utf-16-be"
    with pytest.raises(BinaryFileError):
        decode(b"\x00\x01\x02\x00\x00\x05")


@pytest.mark.parametrize(
    "data",
    [b"a\0b\n", b"a\0b\n" * 50, b"a\0\n\0", b"a\0b\0c\0d\0e\0f\0", b"one\0two\0\n", b"\0a\0b\0c\0d\0e"],
)
def test_text_with_nul_characters_is_not_utf16(data: bytes) -> None:
    with pytest.raises(BinaryFileError):
        decode(data)


def test_invalid_text_after_a_byte_order_mark_is_refused() -> None:
    with pytest.raises(ToolError, match="not valid utf-8"):
        decode(codecs.BOM_UTF8 + b"\xff\xfe")


@pytest.mark.parametrize(
    "data", [b"\x7fELF\x00\x00\x01", b"PK\x03\x04\x00\x00", b"\xff" + bytes(range(1, 32)) * 20]
)
def test_binary_data_is_refused(data: bytes) -> None:
    with pytest.raises(BinaryFileError):
        decode(data)


def test_stateful_encodings_are_refused_rather_than_mangled() -> None:
    raw = "日本語\nabc\n".encode("iso2022_jp")
    decoded = decode(raw, prefer="iso2022_jp")
    with pytest.raises(ToolError, match="cannot be changed in part"):
        splice_bytes(raw, decoded, [(1, 2, "x")])
