"""Where an edit belongs: finds ``old_string`` in a file, and says what exactly to put there. Pure, no I/O.

A ladder of rungs; the first rung with a hit decides, and its hit must be unique. A looser rung may differ
only in what carries no meaning (line ends, trailing blanks, uniform indentation, tabs against spaces, Unicode
look-alikes, an escaped line end, a copied line number); words, numbers and operators are always equal.
Similarity is used only to show the nearest place in an error (source: conventions.md, "Edit matching").
"""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tools.match_adapt import LOOK_ALIKES, Reindent, retab, shift, transfer
from tools.match_doubt import begins_inside_indentation, doubt, indentation_before
from tools.match_error import MatchError, absent, already_applied, ambiguous, too_many, unclear
from tools.match_variants import Variant, variants
from tools.text import Line, line_number, split_lines, to_lf

__all__ = ["Edit", "MatchError", "Rung", "Span", "find_edit"]

Rung = Literal[
    "exact", "line ends", "trailing blanks", "indentation", "tabs and spaces", "look-alike characters",
    "escaped characters", "line numbers",
]  # fmt: skip
MAX_REPLACEMENTS = 10_000
"""Each place is looked at by itself; more of them is a job for a command."""
MAX_LISTED = 200
"""Lines of candidates that are looked up for an error."""
_MAX_CANDIDATES = 1000
_BLANKS = " \t"


@dataclass(frozen=True, slots=True)
class Span:
    """Replace ``text[start:end]`` by ``replacement``, whose line ends are final."""

    start: int
    end: int
    replacement: str


@dataclass(frozen=True, slots=True)
class Edit:
    """What to do: spans in rising order, the rung that found them, and words about what differed."""

    spans: tuple[Span, ...]
    rung: Rung
    note: str = ""
    """Empty on the exact rung; else how ``old_string`` differed and what was done about it."""

    def apply(self, text: str) -> str:
        """``text`` with all spans replaced."""
        for span in reversed(self.spans):
            text = text[: span.start] + span.replacement + text[span.end :]
        return text


@dataclass(frozen=True, slots=True)
class _Place:
    start: int
    end: int
    reindent: Reindent | None = None
    retabbed: bool = False


def find_edit(text: str, old: str, new: str, replace_all: bool = False) -> Edit:
    """The place of ``old`` in ``text`` and its replacement made from ``new``.

    ``replace_all`` replaces every hit of the exact rung (line ends aside, which a model does not see).
    Raises MatchError when nothing is to be changed, or the place is absent or ambiguous.
    """
    if old == new:
        raise MatchError("identical", "old_string and new_string are identical: nothing to change.")
    if old == "":
        raise MatchError("empty", "old_string is empty: say which text to replace.")
    hay = _Haystack(text)
    edit = _climb(hay, old, new, replace_all)
    if edit is None and not replace_all:
        for variant in variants(old, new):
            edit = _climb_variant(hay, variant)
            if edit is not None:
                break
    if edit is None:
        raise absent([line.body for line in hay.lines], old, new, exact_only=replace_all)
    return edit


class _Haystack:
    """The file's text, and the forms of it that the rungs search."""

    def __init__(self, text: str) -> None:
        self.text = text

    @functools.cached_property
    def lines(self) -> list[Line]:
        return split_lines(self.text)

    @functools.cached_property
    def plain(self) -> _Form:
        return _Form(self.lines, lambda body: body)

    @functools.cached_property
    def trimmed(self) -> _Form:
        return _Form(self.lines, lambda body: body.rstrip(_BLANKS))

    @functools.cached_property
    def folded(self) -> _Form:
        if self.text.isascii():
            return self.trimmed
        return _Form(self.lines, lambda body: body.translate(LOOK_ALIKES).rstrip(_BLANKS))

    @functools.cached_property
    def keys(self) -> _Keys:
        return _Keys([line.body.strip(_BLANKS) for line in self.lines])

    @functools.cached_property
    def folded_keys(self) -> _Keys:
        if self.text.isascii():
            return self.keys
        return _Keys([line.body.translate(LOOK_ALIKES).strip(_BLANKS) for line in self.lines])


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


class _Keys:
    """Lines without their indentation and trailing blanks, and where each stands."""

    def __init__(self, keys: list[str]) -> None:
        self.keys = keys
        self.index: dict[str, list[int]] = {}
        for number, key in enumerate(keys):
            self.index.setdefault(key, []).append(number)

    def places(self, wanted: Sequence[str]) -> Iterator[int]:
        """Indexes of the lines at which all of ``wanted`` stand one after the other."""
        solid = [(len(self.index.get(key, ())), at) for at, key in enumerate(wanted) if key]
        if not solid:
            return
        _, anchor = min(solid)
        for found in self.index.get(wanted[anchor], ()):
            first = found - anchor
            if first >= 0 and self.keys[first : first + len(wanted)] == list(wanted):
                yield first


def _climb(hay: _Haystack, old: str, new: str, replace_all: bool) -> Edit | None:
    old, literal = to_lf(old), old
    if "\r" not in hay.text and old in hay.text:
        places = list(_in_text(hay.text, old))
    else:
        places = list(_in_form(hay.plain, old, whole_tokens=False))
    if len(places) > 1 and "\r" in literal:
        # The caller does see line ends: among places that differ in nothing else, they may decide.
        places = [p for p in places if hay.text[p.start : p.end] == literal] or places
    if not old.strip():
        # The final line end that a file lacks can be taken as there, but not be all that is meant.
        places = [p for p in places if to_lf(hay.text[p.start : p.end]) == old]
    if places:
        exact = all(hay.text[p.start : p.end] in (old, literal) for p in places)
        rung: Rung = "exact" if exact else "line ends"
        if replace_all:
            if len(places) > MAX_REPLACEMENTS:
                raise too_many(len(places), MAX_REPLACEMENTS)
            return _build(hay, rung, _disjoint(places), old, new)
        if not _of_another_depth(hay, places, old, new):
            return _only(hay, rung, places, old, new)
    if replace_all or not old.strip():
        return None
    for rung, finder in _RUNGS:
        places = list(itertools.islice(finder(hay, old), _MAX_CANDIDATES))
        if places:
            return _only(
                hay,
                "tabs and spaces" if places[0].retabbed and rung == "indentation" else rung,
                places,
                old,
                new,
            )
    return None


def _of_another_depth(hay: _Haystack, places: Sequence[_Place], old: str, new: str) -> bool:
    """Whether the only hit lies within a deeper indentation: then it is one of the indentation rung, if at all.

    One line for one line is safe all the same when nothing else in the file reads like it.
    """
    if len(places) != 1 or not begins_inside_indentation(hay.text, places[0].start, old):
        return False
    return "\n" in old + to_lf(new) or hay.plain.text.count(old.lstrip(_BLANKS)) > 1


def _only(hay: _Haystack, rung: Rung, places: Sequence[_Place], old: str, new: str) -> Edit:
    if len(places) > 1:
        lines = [line_number(hay.text, place.start) for place in places[:MAX_LISTED]]
        raise ambiguous(lines, "" if rung in ("exact", "line ends") else rung)
    return _build(hay, rung, places, old, new)


def _build(hay: _Haystack, rung: Rung, places: Sequence[_Place], old: str, new: str) -> Edit:
    spans: list[Span] = []
    for place in places:
        if rung in ("exact", "line ends"):
            if why := doubt(hay.text, place.start, old, to_lf(new)):
                raise unclear(line_number(hay.text, place.start), why)
            if new == "" and old.endswith("\n") and old[:1] not in _BLANKS:
                # The rest of a line and its end are deleted: its indentation must not move to the next line.
                indent = indentation_before(hay.text, place.start)
                spans.append(Span(place.start - len(indent), place.end, ""))
                continue
        piece = hay.text[place.start : place.end]
        if piece == old and "\r" not in hay.text:
            replacement = to_lf(new)
        else:
            folded = rung == "look-alike characters"
            made = transfer(hay.text, place.start, place.end, old, to_lf(new), place.reindent, folded)
            if made is None:
                raise unclear(line_number(hay.text, place.start), _NOT_TRANSFERABLE)
            replacement = made
        spans.append(Span(place.start, place.end, replacement))
    if all(_stands_already(hay.text, span) for span in spans):
        raise already_applied(line_number(hay.text, spans[0].start))
    changed = tuple(span for span in spans if hay.text[span.start : span.end] != span.replacement)
    return Edit(changed, rung, _NOTES.get(rung, ""))


_NOT_TRANSFERABLE = (
    "its indentation differs from the file's, and new_string has lines with less indentation than can be adapted. "
    "Send both with the file's own indentation."
)
_NOTES: dict[Rung, str] = {
    "trailing blanks": "old_string differed from the file in blanks at line ends.",
    "indentation": "old_string differed from the file in indentation; new_string was re-indented alike.",
    "tabs and spaces": "old_string differed from the file in tabs and spaces; the file's own were used.",
    "look-alike characters": "old_string differed from the file in look-alike characters (quotes, dashes, "
    "blanks); the file's own were kept.",
    "escaped characters": "old_string and new_string had escaped characters, which were unescaped.",
    "line numbers": "old_string had copied line numbers, which were removed.",
}


def _stands_already(text: str, span: Span) -> bool:
    """Whether the file already reads as it would after the edit, around the place of the edit.

    Blank lines and blanks are no evidence: to add one more is a usual wish.
    """
    piece, new = text[span.start : span.end], span.replacement
    if piece == new:
        return True
    if not new.replace(piece, "", 1).strip():
        return False
    at = new.find(piece)
    while at >= 0:
        first = span.start - at
        if first >= 0 and text.startswith(new, first):
            return True
        at = new.find(piece, at + 1)
    return False


def _disjoint(places: Sequence[_Place]) -> list[_Place]:
    chosen: list[_Place] = []
    for place in places:
        if not chosen or place.start >= chosen[-1].end:
            chosen.append(place)
    return chosen


def _word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _cuts_a_token(text: str, offset: int) -> bool:
    return 0 < offset < len(text) and _word(text[offset - 1]) and _word(text[offset])


def _in_form(form: _Form, old: str, whole_tokens: bool, to_line_end: bool = False) -> Iterator[_Place]:
    at = form.text.find(old)
    while at >= 0:
        end = at + len(old)
        fits = not whole_tokens or not (
            _cuts_a_token(form.text, at)
            or _cuts_a_token(form.text, end)
            or begins_inside_indentation(form.text, at, old)
        )
        if fits and to_line_end:
            fits = form.text.startswith("\n", end)
        if fits:
            yield _Place(form.original(at), form.line_end(end) if to_line_end else form.original(end))
        at = form.text.find(old, at + 1)


def _in_text(text: str, old: str) -> Iterator[_Place]:
    """The common case, without the cost of splitting the file into lines."""
    at = text.find(old)
    while at >= 0:
        yield _Place(at, at + len(old))
        at = text.find(old, at + 1)
    lacks_final = old.endswith("\n") and not text.endswith("\n")
    if lacks_final and text.endswith(old[:-1]):
        yield _Place(len(text) - len(old) + 1, len(text))


def _trim_lines(old: str) -> tuple[str, bool]:
    """``old`` without blanks at line ends, and whether its last line lost some."""
    pieces = old.split("\n")
    trimmed = [piece.rstrip(_BLANKS) for piece in pieces]
    return "\n".join(trimmed), trimmed[-1] != pieces[-1]


def _by_trailing_blanks(hay: _Haystack, old: str) -> Iterator[_Place]:
    trimmed, lost = _trim_lines(old)
    return _in_form(hay.trimmed, trimmed, whole_tokens=True, to_line_end=lost)


def _by_look_alikes(hay: _Haystack, old: str) -> Iterator[_Place]:
    folded = old.translate(LOOK_ALIKES)
    trimmed, lost = _trim_lines(folded)
    found = list(_in_form(hay.folded, trimmed, whole_tokens=True, to_line_end=lost))
    if found:
        yield from found
        return
    yield from _by_lines(hay, folded, hay.folded_keys, fold=True)


def _by_lines(hay: _Haystack, old: str, keys: _Keys, fold: bool = False) -> Iterator[_Place]:
    """Whole lines that differ in indentation: uniformly, or in tabs and spaces."""
    wanted = split_lines(old)
    bodies = [line.body for line in wanted]
    for first in keys.places([body.strip(_BLANKS) for body in bodies]):
        there = hay.lines[first : first + len(wanted)]
        found = [line.body.translate(LOOK_ALIKES) if fold else line.body for line in there]
        adapt, retabbed = shift(bodies, found), False
        if adapt is None:
            adapt, retabbed = retab(bodies, found), True
        if adapt is not None:
            last = there[-1]
            end = last.start + len(last.body) + (len(last.end) if wanted[-1].end else 0)
            yield _Place(there[0].start, end, adapt, retabbed)


_RUNGS: tuple[tuple[Rung, Callable[[_Haystack, str], Iterator[_Place]]], ...] = (
    ("trailing blanks", _by_trailing_blanks),
    # One rung for both kinds: a place of the one must not hide a place of the other.
    ("indentation", lambda hay, old: _by_lines(hay, old, hay.keys)),
    ("look-alike characters", _by_look_alikes),
)


def _climb_variant(hay: _Haystack, variant: Variant) -> Edit | None:
    if variant.old == variant.new:
        return None
    edit = _climb(hay, variant.old, variant.new, replace_all=False)
    if edit is None:
        return None
    if (
        variant.only_at_line is not None
        and line_number(hay.text, edit.spans[0].start) != variant.only_at_line
    ):
        return None
    if variant.refuse:
        raise unclear(line_number(hay.text, edit.spans[0].start), variant.refuse)
    return Edit(edit.spans, variant.rung, " ".join(filter(None, (_NOTES[variant.rung], edit.note))))
