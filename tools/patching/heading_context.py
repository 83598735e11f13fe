"""Heading lines after ``@@``: which places of a hunk they leave. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.patching.hunk_search import FileLines, HunkPlace

_BLANKS = " \t"
_CLOSERS = "{}()[]"
_MAX_HEADINGS = 200
_MAX_ABOVE = 3_000
_MIN_HEADING = 4
_FIRST_WORD = re.compile(r"[A-Za-z_$]\w*")


class MissingHeadingError(Exception):
    """No line of the file reads like the heading that is its message (after those before it)."""


def after_headings(file: FileLines, headings: Sequence[str], places: Sequence[HunkPlace]) -> list[HunkPlace]:
    """Return the places after (or at) the last of ``headings``; only those in its block when there are several.

    A block is indented deeper than its heading: "after" alone would let a hunk land in the next function when its own
    is gone. Raises MissingHeadingError.
    """
    found = _chain(file, headings)
    after = [place for place in places if place.first >= found[0]]
    if len(places) == 1:
        return after
    blocks = [(line, _block_end(file, line)) for line in found]
    if any(end is None for _, end in blocks):
        return after
    return [p for p in after if any(line <= p.first < (end or 0) for line, end in blocks)]


def contradicts(file: FileLines, heading: str, first: int) -> bool:
    """Return whether a place is below another line than the one git names behind the numbers, which is elsewhere in the
    file.

    Only for a heading in the first column, as git finds it where nothing else is configured, and another one that
    begins with the same word (``class``, ``def``): other lines may have come in between.
    """
    here = _heading_above(file, heading, first)
    if here is None or file.bodies[here].startswith(heading):
        return False
    return any(body.startswith(heading) for body in file.bodies)


def confirms(file: FileLines, heading: str, first: int) -> bool:
    """Return whether a place is below the very line that git names behind the numbers."""
    here = _heading_above(file, heading, first)
    return here is not None and file.bodies[here].startswith(heading)


def _heading_above(file: FileLines, heading: str, first: int) -> int | None:
    """Return the nearest line above that begins with the same word as the heading, in the first column."""
    word = _FIRST_WORD.match(heading)
    if word is None or len(heading) < _MIN_HEADING:
        return None
    kind = re.compile(re.escape(word.group()) + r"(?!\w)")
    above = range(first - 1, max(-1, first - 1 - _MAX_ABOVE), -1)
    return next((at for at in above if kind.match(file.bodies[at])), None)


def _chain(file: FileLines, headings: Sequence[str]) -> list[int]:
    """Return lines (from 0) where the last heading may be, each after (better: within) the one before it."""
    previous: list[int] = []
    for number, heading in enumerate(headings):
        lines = _heading_lines(file, heading)
        if number:
            inside: list[int] = []
            for line in previous:
                end = _block_end(file, line)
                if end is not None:
                    inside += [at for at in lines if line < at < end]
            lines = sorted(set(inside)) or [at for at in lines if at > previous[0]]
        if not lines:
            raise MissingHeadingError(heading)
        previous = lines
    return previous


def _heading_lines(file: FileLines, heading: str) -> list[int]:
    wanted = heading.strip(_BLANKS)
    exact = file.keys.where.get(wanted)
    if exact:
        return exact[:_MAX_HEADINGS]
    # Models shorten headings ("def run", "class Cart"), and git cuts them, so only whole words are compared.
    whole = re.compile(rf"{_edge(wanted[:1], True)}{re.escape(wanted)}{_edge(wanted[-1:], False)}")
    starts = [at for at, key in enumerate(file.keys.lines) if key.startswith(wanted) and whole.match(key)]
    if starts:
        return starts[:_MAX_HEADINGS]
    if len(wanted) >= 40:
        cut = [at for at, key in enumerate(file.keys.lines) if key.startswith(wanted)]
        if cut:
            return cut[:_MAX_HEADINGS]
    return [at for at, key in enumerate(file.keys.lines) if wanted in key and whole.search(key)][
        :_MAX_HEADINGS
    ]


def _edge(character: str, before: bool) -> str:
    if not re.match(r"\w", character):
        return ""
    return r"(?<!\w)" if before else r"(?!\w)"


def _block_end(file: FileLines, line: int) -> int | None:
    """Return the line after the heading's block; None when nothing is indented deeper after it."""
    own = file.indents[line]
    deeper = False
    for at in range(line + 1, len(file.bodies)):
        indent = file.indents[at]
        if indent > own:
            deeper = True
        elif indent >= 0 and file.keys.lines[at][0] not in _CLOSERS:
            return at if deeper else None
    return len(file.bodies) if deeper else None
