"""The file's text in the forms that the strategies of ``tools.matching.match`` search, and their matches. Pure.

Everything here is linear in the file: splitting happens only when the exact text is absent, and sequences of lines are
found as strings of one character a line.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import re
import sys
from typing import TYPE_CHECKING

from msgspec import Struct

from tools.matching.adapt import Reindent, indents_of, may_be_shifted, reindents
from tools.matching.ambiguity import begins_inside_indentation
from tools.matching.typography import LOOK_ALIKES
from tools.text.lines import Line, split_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

BLANKS = " \t"
_FANCY = re.compile(f"[{''.join(map(chr, LOOK_ALIKES))}]")
_WITHIN_WORD = re.compile(r"(?<=\w)(?=\w)")
_UNKNOWN = chr(sys.maxunicode)


class FoundText(Struct, frozen=True):
    """Where a text was found: offsets in the file, and how its lines there are indented differently."""

    start: int
    end: int
    reindent: Reindent | None = None
    retabbed: bool = False


class Haystack:
    """The file's text, and the forms of it that the strategies search."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.line_end = _only_line_end(text)
        """The one line end of the text; empty when it has several kinds."""

    @functools.cached_property
    def lines(self) -> list[Line]:
        return split_lines(self.text)

    @functools.cached_property
    def plain(self) -> _Form:
        return _Form(self.lines, str)

    @functools.cached_property
    def trimmed(self) -> _Form:
        return _Form(self.lines, lambda body: body.rstrip(BLANKS))

    @functools.cached_property
    def folded(self) -> _Form:
        if not _FANCY.search(self.text):
            return self.trimmed
        return _Form(self.folded_lines, lambda body: body.rstrip(BLANKS))

    @functools.cached_property
    def folded_lines(self) -> list[Line]:
        # Characters are replaced one by one, so offsets stay those of the text.
        return split_lines(fold(self.text))

    @functools.cached_property
    def keys(self) -> LineKinds:
        return LineKinds([line.body.strip(BLANKS) for line in self.lines])

    @functools.cached_property
    def folded_keys(self) -> LineKinds:
        if not _FANCY.search(self.text):
            return self.keys
        return LineKinds([line.body.strip(BLANKS) for line in self.folded_lines])


def fold(text: str) -> str:
    """Return ``text`` with plain characters for typographic ones, one for one."""
    return _FANCY.sub(lambda found: LOOK_ALIKES[ord(found.group())], text)


def _only_line_end(text: str) -> str:
    if "\r" not in text:
        return "\n"
    crs, lfs, both = text.count("\r"), text.count("\n"), text.count("\r\n")
    if crs == both == lfs:
        return "\r\n"
    return "\r" if lfs == 0 else ""


class _Form:
    """The text with ``\\n`` line ends, every body shortened at most at its end, and the way back to offsets.

    It always ends with a line end: a final one that the file lacks carries no meaning.
    """

    def __init__(self, lines: Sequence[Line], body: Callable[[str], str]) -> None:
        self._lines = lines
        bodies = [body(line.body) for line in lines]
        self.text = "\n".join(bodies) + ("\n" if bodies else "")
        self._starts = list(itertools.accumulate((len(b) + 1 for b in bodies), initial=0))
        self._size = lines[-1].start + len(lines[-1].body) + len(lines[-1].end) if lines else 0

    def original(self, offset: int) -> int:
        index = bisect.bisect_right(self._starts, offset) - 1
        if index >= len(self._lines):
            return self._size
        return self._lines[index].start + offset - self._starts[index]

    def line_end(self, offset: int) -> int:
        """Original offset of the end of the body of the line that contains ``offset``."""
        index = min(bisect.bisect_right(self._starts, offset) - 1, len(self._lines) - 1)
        return self._lines[index].start + len(self._lines[index].body)


class LineKinds:
    """Lines as a string of one character for each kind of line, so that lines are found as text is. ``only``: the lines
    that are looked for; all others are of one kind."""

    def __init__(self, lines: list[str], only: Collection[str] | None = None) -> None:
        self.lines = lines
        self._kinds = {line: _nth_character(number) for number, line in enumerate(only or ())}
        if only is None:
            kinds = [self._kinds.setdefault(line, _nth_character(len(self._kinds))) for line in lines]
        else:
            kinds = [self._kinds.get(line, _UNKNOWN) for line in lines]
        self._text = "".join(kinds)

    @functools.cached_property
    def where(self) -> dict[str, list[int]]:
        """The places of each line."""
        found: dict[str, list[int]] = {}
        for number, line in enumerate(self.lines):
            found.setdefault(line, []).append(number)
        return found

    def places(self, wanted: Sequence[str]) -> Iterator[int]:
        """Yield the indexes of the lines where all of ``wanted`` follow one another; none of blank lines alone."""
        sought = "".join([self._kinds.get(line, _UNKNOWN) for line in wanted])
        if _UNKNOWN in sought or not any(wanted):
            return
        at = self._text.find(sought)
        while at >= 0:
            yield at
            at = self._text.find(sought, at + 1)


def _nth_character(number: int) -> str:
    """Never a surrogate. The last one for all that is too much: it is not looked for."""
    return chr(min(number if number < 0xD000 else number + 0x1000, sys.maxunicode))


def exact(hay: Haystack, old: str, overlapping: bool = True) -> Iterator[FoundText]:
    """Places of ``old``, whose line ends are ``\\n``, in the file with its own line ends."""
    if hay.line_end:
        text, sought, original = hay.text, old.replace("\n", hay.line_end), int
    else:
        text, sought, original = hay.plain.text, old, hay.plain.original
    at, end = text.find(sought), 0
    while at >= 0:
        end = at + len(sought)
        yield FoundText(original(at), original(end))
        at = text.find(sought, at + 1 if overlapping else end)
    if old.endswith("\n") and text and text[-1] not in "\r\n":
        # The final line end that the file lacks has no meaning.
        body = sought[: -len(hay.line_end)]
        first = len(text) - len(body)
        if text.endswith(body) and (overlapping or first >= end):
            yield FoundText(first, len(text))


def in_form(form: _Form, old: str, to_line_end: bool) -> Iterator[FoundText]:
    """Places of ``old`` in a form of the file. ``to_line_end``: it must end where a line's body does."""
    at = form.text.find(old)
    while at >= 0:
        end = at + len(old)
        fits = not (
            _WITHIN_WORD.match(form.text, at)
            or _WITHIN_WORD.match(form.text, end)
            or begins_inside_indentation(form.text, at, old)
        )
        if fits and to_line_end:
            fits = form.text.startswith("\n", end)
        if fits:
            yield FoundText(form.original(at), form.line_end(end) if to_line_end else form.original(end))
        at = form.text.find(old, at + 1)


def _trim_lines(old: str) -> tuple[str, bool]:
    """Return ``old`` without blanks at line ends, and whether its last line lost some."""
    pieces = old.split("\n")
    trimmed = [piece.rstrip(BLANKS) for piece in pieces]
    return "\n".join(trimmed), trimmed[-1] != pieces[-1]


def by_trailing_blanks(hay: Haystack, old: str) -> Iterator[FoundText]:
    """Lines that differ in blanks at their ends."""
    trimmed, lost = _trim_lines(old)
    yield from in_form(hay.trimmed, trimmed, to_line_end=lost)


def by_indentation(hay: Haystack, old: str) -> Iterator[FoundText]:
    """Whole lines that differ in indentation: uniformly, or in tabs and spaces."""
    return _by_lines(hay.lines, old, hay.keys)


def by_look_alikes(hay: Haystack, old: str) -> Iterator[FoundText]:
    """Text that differs in look-alike characters, and perhaps in blanks at line ends."""
    trimmed, lost = _trim_lines(fold(old))
    return in_form(hay.folded, trimmed, to_line_end=lost)


def by_look_alikes_and_indentation(hay: Haystack, old: str) -> Iterator[FoundText]:
    """Whole lines that differ in look-alike characters and in indentation."""
    return _by_lines(hay.folded_lines, fold(old), hay.folded_keys)


def same_words(hay: Haystack, old: str) -> Iterator[FoundText]:
    """Whole lines that differ in indentation, even from line to line, and in look-alikes: too loose to be edited."""
    keys = [line.body.strip(BLANKS) for line in split_lines(fold(old))]
    for first in hay.folded_keys.places(keys):
        last = hay.lines[first + len(keys) - 1]
        yield FoundText(hay.lines[first].start, last.start + len(last.body))


def _by_lines(lines: Sequence[Line], old: str, keys: LineKinds) -> Iterator[FoundText]:
    wanted = split_lines(old)
    bodies = [line.body for line in wanted]
    indents = indents_of(bodies)
    for first in keys.places([body.strip(BLANKS) for body in bodies]):
        if not may_be_shifted(indents, lines, first):
            continue
        there = lines[first : first + len(wanted)]
        adapt, retabbed = reindents(bodies, [line.body for line in there])
        if adapt is not None:
            last = there[-1]
            end = last.start + len(last.body) + (len(last.end) if wanted[-1].end else 0)
            yield FoundText(there[0].start, end, adapt, retabbed)
