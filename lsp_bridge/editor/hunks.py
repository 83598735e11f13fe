"""Where the hunks of a proposed change would land in the text that the editor shows now. Pure."""

from __future__ import annotations

import bisect
from dataclasses import dataclass

from daemon.model.permissions import FileDiff
from tools.base import ProposedFile, ToolError
from tools.diff import hunk_spans, opcodes
from tools.text import decode, split_lines, to_lf


@dataclass(frozen=True, slots=True)
class Landing:
    """``lines``: for each hunk the line (from 0) where it lands, or None where that cannot be said any more.

    ``current``: the text is still the one that the change was made for.
    """

    lines: tuple[int | None, ...]
    current: bool


def landing(file: ProposedFile, text: str) -> Landing:
    """Where the hunks of ``file`` land in ``text``. Slow for long files: call it in a thread."""
    base, after = file.base, file.change.after
    if base is None:
        return Landing((), not text)
    try:
        old = decode(base)
        new = None if after is None else decode(after, old.codec)
    except ToolError:
        return Landing((), True)  # binary: there is no text to compare
    current = to_lf(old.text) == to_lf(text)
    if new is None:
        return Landing((), current)
    before = split_lines(old.text)
    starts = [line.start for line in before]
    spans = [
        (_line(starts, start, len(old.text)), _line(starts, end, len(old.text)))
        for start, end, _, _ in hunk_spans(old.text, new.text)
    ]
    shown = split_lines(text)
    last = max(len(shown) - 1, 0)
    if current:
        return Landing(tuple(min(first, last) for first, _ in spans), True)
    codes = opcodes([line.body for line in before], [line.body for line in shown])
    kept = [(i1, i2, j1) for tag, i1, i2, j1, _ in codes if tag == "equal"]

    def mapped(first: int, end: int) -> int | None:
        return next((min(first - i1 + j1, last) for i1, i2, j1 in kept if i1 <= first and end <= i2), None)

    return Landing(tuple(mapped(first, end) for first, end in spans), False)


def parts(file: FileDiff) -> int:
    """How many parts of a file can be accepted one by one; 1: only the whole file.

    As the VS Code extension counts (``diff/choice.ts``): hunks that the person cannot see, because the diff was cut
    off, are not decided one by one.
    """
    seen = sum(line.startswith("@@ -") for line in file.diff.split("\n"))
    return file.hunks if file.hunks > 1 and seen == file.hunks else 1


def _line(starts: list[int], offset: int, length: int) -> int:
    """The line that begins at ``offset``; behind the last one for the end of the text."""
    return len(starts) if offset >= length else bisect.bisect_right(starts, offset) - 1
