from __future__ import annotations

import codecs
from dataclasses import dataclass

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tools.matching.match import MatchError, find_edit
from tools.text.decoding import decode, splice_bytes
from tools.text.lines import split_lines
from tools.tool import ToolError
from tools.write import _plan  # pyright: ignore[reportPrivateUsage]  the pure part of the tool

ENDS = ("\n", "\r\n", "\r")


@dataclass(frozen=True)
class Kind:
    codec: str
    bom: bytes
    letters: str
    certain: bool = True
    """Whether the bytes alone tell the encoding."""


LATIN = "abcxyz_ =({['\"]}):.,#0123456789"
KINDS = [
    Kind("utf-8", b"", LATIN + "é“–日\u2028\u0085\x0c"),
    Kind("utf-8", codecs.BOM_UTF8, LATIN + "é“–日😀"),
    Kind("utf-16-le", codecs.BOM_UTF16_LE, LATIN + "é日😀\u2028"),
    Kind("utf-16-be", codecs.BOM_UTF16_BE, LATIN + "é日😀"),
    Kind("utf-32-le", codecs.BOM_UTF32_LE, LATIN + "é日😀"),
    Kind("utf-32-be", codecs.BOM_UTF32_BE, LATIN + "é日😀"),
    Kind("cp1252", b"", LATIN + "éàüñ–“”", certain=False),
    Kind("latin-1", b"", LATIN + "éàüñ§°", certain=False),
    Kind("koi8_r", b"", LATIN + "приветмир", certain=False),
    Kind("cp932", b"", LATIN + "日本語テキスト", certain=False),
    Kind("euc_jp", b"", LATIN + "日本語テキスト", certain=False),
    Kind("gb18030", b"", LATIN + "中文注释说明", certain=False),
    Kind("euc_kr", b"", LATIN + "한국어주석", certain=False),
]


@st.composite
def files(draw: st.DrawFn, ends: tuple[str, ...] = ENDS) -> tuple[Kind, list[str], list[str]]:
    """An encoding, lines (all different) and their ends; the last may be empty."""
    kind = draw(st.sampled_from(KINDS))
    bodies = draw(st.lists(st.text(st.sampled_from(kind.letters), max_size=8), min_size=1, max_size=9))
    kinds = draw(st.lists(st.sampled_from(ends), min_size=len(bodies), max_size=len(bodies)))
    if draw(st.booleans()):
        kinds[-1] = ""
    return kind, [f"{body}<{number}>" for number, body in enumerate(bodies)], kinds


def text_of(bodies: list[str], ends: list[str]) -> str:
    return "".join(body + end for body, end in zip(bodies, ends, strict=True))


def edited(kind: Kind, raw: bytes, old: str, new: str) -> bytes:
    decoded = decode(raw, prefer=kind.codec)
    edit = find_edit(decoded.text, old, new)
    return splice_bytes(raw, decoded, [(span.start, span.end, span.replacement) for span in edit.spans])


@given(files(), st.data())
def test_bytes_outside_of_the_replaced_lines_are_identical(
    file: tuple[Kind, list[str], list[str]], data: st.DataObject
) -> None:
    kind, bodies, ends = file
    raw = kind.bom + text_of(bodies, ends).encode(kind.codec)
    first = data.draw(st.integers(0, len(bodies) - 1))
    last = data.draw(st.integers(first, len(bodies) - 1))
    made = data.draw(st.lists(st.text(st.sampled_from(kind.letters), max_size=8), max_size=4))
    old = "".join(body + "\n" for body in bodies[first : last + 1])
    new = "".join(f"{body}<new>\n" for body in made)
    after = edited(kind, raw, old, new)
    head = kind.bom + text_of(bodies[:first], ends[:first]).encode(kind.codec)
    tail = text_of(bodies[last + 1 :], ends[last + 1 :]).encode(kind.codec)
    assert after.startswith(head)
    assert after.endswith(tail)
    middle = after[len(head) : len(after) - len(tail)].decode(kind.codec)
    assert [line.body for line in split_lines(middle)] == [f"{body}<new>" for body in made]
    near = set(ends[max(0, first - 1) : last + 2])
    assert {line.end for line in split_lines(middle)} <= near | ({"\n"} if near == {""} else set())
    assert bool(ends[-1]) or not made or last + 1 < len(bodies) or not middle.endswith(("\n", "\r"))


@given(files(), st.data())
def test_inserted_lines_take_the_end_of_the_line_above(
    file: tuple[Kind, list[str], list[str]], data: st.DataObject
) -> None:
    kind, bodies, ends = file
    at = data.draw(st.integers(0, len(bodies) - 1))
    assume(ends[at])
    raw = kind.bom + text_of(bodies, ends).encode(kind.codec)
    after = edited(kind, raw, f"{bodies[at]}\n", f"{bodies[at]}\ninserted\n")
    expected = text_of(
        [*bodies[: at + 1], "inserted", *bodies[at + 1 :]], [*ends[: at + 1], ends[at], *ends[at + 1 :]]
    )
    assert after == kind.bom + expected.encode(kind.codec)


@given(files(), st.data())
def test_undoing_a_replacement_line_by_line_gives_the_same_bytes(
    file: tuple[Kind, list[str], list[str]], data: st.DataObject
) -> None:
    kind, bodies, ends = file
    raw = kind.bom + text_of(bodies, ends).encode(kind.codec)
    first = data.draw(st.integers(0, len(bodies) - 1))
    last = data.draw(st.integers(first, len(bodies) - 1))
    old = "".join(body + "\n" for body in bodies[first : last + 1])
    new = "".join(f"changed<{number}>\n" for number in range(first, last + 1))
    once = edited(kind, raw, old, new)
    assert once != raw
    assert edited(kind, once, new, old) == raw


@given(files(("\n",)) | files(("\r\n",)) | files(("\r",)), st.data())
def test_undoing_any_exact_replacement_gives_the_same_bytes(
    file: tuple[Kind, list[str], list[str]], data: st.DataObject
) -> None:
    kind, bodies, ends = file
    raw = kind.bom + text_of(bodies, ends).encode(kind.codec)
    first = data.draw(st.integers(0, len(bodies) - 1))
    last = data.draw(st.integers(first, len(bodies) - 1))
    old = "\n".join(bodies[first : last + 1])
    new = "\n".join(
        data.draw(st.lists(st.sampled_from(["alpha<>", "beta<>", "", "gamma<>"]), min_size=1, max_size=5))
    )
    assume(new.strip())
    once = edited(kind, raw, old, new)
    assume(ends[0] == "\n" or decode(once, prefer=kind.codec).text.count(ends[0] or "\n"))
    try:
        back = edited(kind, once, new, old)
    except MatchError:
        return
    assert back == raw


@given(files(), st.data())
def test_the_same_edit_again_is_refused(file: tuple[Kind, list[str], list[str]], data: st.DataObject) -> None:
    kind, bodies, ends = file
    raw = kind.bom + text_of(bodies, ends).encode(kind.codec)
    first = data.draw(st.integers(0, len(bodies) - 1))
    last = data.draw(st.integers(first, len(bodies) - 1))
    kept = bodies[first : last + 1]
    made = data.draw(
        st.sampled_from([[*kept, "new<>"], ["new<>", *kept], ["new<>"], [kept[0], "new<>", *kept[1:]]])
    )
    old, new = ("".join(f"{line}\n" for line in lines) for lines in (kept, made))
    once = edited(kind, raw, old, new)
    with pytest.raises(MatchError):
        edited(kind, once, old, new)


@given(files(), st.data())
def test_write_keeps_encoding_and_line_ends_of_unchanged_lines(
    file: tuple[Kind, list[str], list[str]], data: st.DataObject
) -> None:
    kind, bodies, ends = file
    assume(kind.certain)
    ends = [end or "\n" for end in ends]
    raw = kind.bom + text_of(bodies, ends).encode(kind.codec)
    drop = data.draw(st.integers(0, len(bodies) - 1))
    kept = [(b, e) for number, (b, e) in enumerate(zip(bodies, ends, strict=True)) if number != drop]
    after = _plan(raw, "".join(f"{body}\n" for body, _ in kept))
    assert after == kind.bom + "".join(body + end for body, end in kept).encode(kind.codec)


@given(files())
def test_written_text_is_read_unchanged(file: tuple[Kind, list[str], list[str]]) -> None:
    kind, bodies, ends = file
    text = text_of(bodies, ends)
    raw = kind.bom + text.encode(kind.codec)
    decoded = decode(raw, prefer=None if kind.certain else kind.codec)
    assert (decoded.text, decoded.bom) == (text, kind.bom)
    assert decoded.encode(text) == raw


@settings(max_examples=examples(40))
@given(st.sampled_from(KINDS), st.text(max_size=6), st.binary(max_size=40))
def test_guessed_encoding_never_changes_the_kept_bytes(kind: Kind, new: str, noise: bytes) -> None:
    raw = noise + f"\n{kind.letters}\nmarker\n".encode(kind.codec, errors="ignore")
    try:
        decoded = decode(raw)
        start = decoded.text.index("marker")
        after = splice_bytes(raw, decoded, [(start, start + 6, new)])
    except (ToolError, ValueError):
        return
    at = raw.rindex(decoded.encode_part("marker"))
    assert after[:at] == raw[:at]
    assert after.endswith(raw[at + len(decoded.encode_part("marker")) :])
