"""What turns one text into another, as edits of LSP."""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence

from lsprotocol import types

from tools.diff import hunk_spans

_LINE_END = re.compile(r"\r\n|\n|\r")


def text_edits(
    before: str, after: str, encoding: types.PositionEncodingKind | str
) -> list[types.TextEdit | types.AnnotatedTextEdit | types.SnippetTextEdit]:
    """The edits, hunk by hunk, that turn one text into the other; columns in units of the negotiated encoding."""
    starts = [0, *(found.end() for found in _LINE_END.finditer(before))]
    return [
        types.TextEdit(
            types.Range(_position(before, starts, start, encoding), _position(before, starts, end, encoding)),
            after[first:last],
        )
        for start, end, first, last in hunk_spans(before, after)
    ]


def _position(
    text: str, starts: Sequence[int], offset: int, encoding: types.PositionEncodingKind | str
) -> types.Position:
    line = bisect.bisect_right(starts, offset) - 1
    before = text[starts[line] : offset]
    if encoding == types.PositionEncodingKind.Utf32:
        return types.Position(line, len(before))
    if encoding == types.PositionEncodingKind.Utf8:
        return types.Position(line, len(before.encode("utf-8", "surrogatepass")))
    return types.Position(line, len(before.encode("utf-16-le", "surrogatepass")) // 2)
