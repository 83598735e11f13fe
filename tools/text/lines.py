"""Split texts into lines. Three meanings differ, and each function says which one is its own.

In a file, ``\\n``, ``\\r\\n`` and ``\\r`` end a line, and nothing else does: not a form feed or U+2028, as for
``str.splitlines``. A line end at the end of the file begins no further line. For the language server protocol it does:
an empty one, in which the cursor can be. For diff, git and grep, ``\\r`` alone ends no line.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINE_END = re.compile(r"\r\n|\n|\r")


class Line(NamedTuple):
    """One line of a file: where it begins, its body and its line end (empty only on the last line)."""

    start: int
    body: str
    end: str


def split_lines(text: str) -> list[Line]:
    """Return the lines of a file; the empty text has none."""
    return list(each_line(text))


def each_line(text: str) -> Iterator[Line]:
    """Yield the lines of ``split_lines`` one by one: all at once take twenty times the memory of a text of short
    lines."""
    at = 0
    for found in _LINE_END.finditer(text):
        yield Line(at, text[at : found.start()], found.group())
        at = found.end()
    if at < len(text):
        yield Line(at, text[at:], "")


def lines_with_ends(text: str) -> list[str]:
    """Return the lines of a file as strings that joined are the text: the fastest way."""
    return io.StringIO(text, newline="").readlines()


def lsp_lines(text: str) -> list[str]:
    """Return the lines of a text without their ends, as the language server protocol counts them: at least one."""
    return to_lf(text).split("\n")


def lsp_line_starts(text: str) -> list[int]:
    """Return where each of the ``lsp_lines`` begins."""
    return [0, *(found.end() for found in _LINE_END.finditer(text))]


def diff_lines(text: str) -> list[str]:
    """Return the lines of a file without their ends, as diff, git and grep count them."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def diff_lines_and_ends(text: str) -> tuple[list[str], list[str]]:
    """Return the ``diff_lines`` and the end of each, empty only for the last one.

    Separate lists built in C, because this takes most of the time of a patch of many files.
    """
    bodies = diff_lines(text)
    ends = ["\n"] * len(bodies)
    if "\r\n" in text:
        ends = ["\r\n" if line.endswith("\r") else "\n" for line in text.split("\n")[: len(bodies)]]
    if bodies and not text.endswith("\n"):
        ends[-1] = ""
    return bodies, ends


def to_lf(text: str) -> str:
    """Return ``text`` with every line end as ``\\n``."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def line_number(text: str, offset: int) -> int:
    """Number (from 1) of the line that contains ``offset``."""
    return (
        1 + sum(1 for _ in _LINE_END.finditer(text, 0, offset))
        if "\r" in text
        else text.count("\n", 0, offset) + 1
    )


def line_end_at(text: str, offset: int) -> str:
    """Return the line end a line inserted at ``offset`` should have: that of its line, else of the one before."""
    here = _LINE_END.search(text, offset)
    if here is not None:
        return here.group()
    before = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset))
    if before < 0:
        return "\n"
    return "\r\n" if text[before] == "\n" and text[before - 1 : before] == "\r" else text[before]
