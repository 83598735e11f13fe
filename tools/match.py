"""Where an edit belongs: finds ``old_string`` in a file, and says what exactly to put there. Pure, no I/O.

A ladder of rungs; the first rung with a hit decides, and its hit must be unique. A looser rung may differ
only in what carries no meaning (line ends, trailing blanks, uniform indentation, tabs against spaces, Unicode
look-alikes, an escaped line end, a copied line number); words, numbers and operators are always equal.
Similarity is used only to show the nearest place in an error (source: conventions.md, "Edit matching").
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tools.matching import doubt
from tools.matching.adapt import transfer
from tools.matching.error import MatchError, absent, already_applied, ambiguous, too_many, unclear
from tools.matching.forms import (
    Haystack,
    Place,
    by_indentation,
    by_look_alikes,
    by_look_alikes_and_indentation,
    by_trailing_blanks,
    exact,
    in_line_ends,
)
from tools.matching.variants import Variant, variants
from tools.text import line_number, to_lf

__all__ = ["Edit", "MatchError", "Rung", "Span", "find_edit"]

Rung = Literal[
    "exact", "line ends", "trailing blanks", "indentation", "tabs and spaces", "look-alike characters",
    "escaped characters", "line numbers",
]  # fmt: skip
MAX_REPLACEMENTS = 10_000
"""Each place is looked at by itself; more of them is a job for a command."""
MAX_LISTED = 200
"""Lines of candidates that are looked up for an error."""
_MAX_LINES_COMPARED = 10_000
"""On a looser rung, in all candidates together; two are always compared."""


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


def find_edit(text: str, old: str, new: str, replace_all: bool = False) -> Edit:
    """The place of ``old`` in ``text`` and its replacement made from ``new``.

    ``replace_all`` replaces every hit of the exact rung (line ends aside, which a model does not see).
    Raises MatchError when nothing is to be changed, or the place is absent or ambiguous.
    """
    if old == new:
        raise MatchError("identical", "old_string and new_string are identical: nothing to change.")
    if old == "":
        raise MatchError("empty", "old_string is empty: say which text to replace.")
    hay = Haystack(text)
    if replace_all:
        edit = _everywhere(hay, old, new)
    else:
        edit = _climb(hay, old, new)
        edit = edit or _without_surplus_end(hay, old, new)
        readings = iter(()) if edit is not None else variants(old, new)
        while edit is None and (variant := next(readings, None)) is not None:
            edit = _climb_variant(hay, variant)
    if edit is None:
        raise absent([line.body for line in hay.lines], old, new, exact_only=replace_all)
    return edit


def _everywhere(hay: Haystack, old: str, new: str) -> Edit | None:
    sought, made = to_lf(old), to_lf(new)
    places = list(itertools.islice(exact(hay, sought, overlapping=False), MAX_REPLACEMENTS + 1))
    if len(places) > MAX_REPLACEMENTS:
        raise too_many(MAX_REPLACEMENTS)
    if not sought.strip():
        places = [p for p in places if to_lf(hay.text[p.start : p.end]) == sought]
    if not places:
        return None
    rung = _exact_rung(hay, places, sought, old)
    spans = [_literal_span(hay, place, sought, made) for place in places]
    return _edit(hay, rung, spans)


def _climb(hay: Haystack, old: str, new: str) -> Edit | None:
    old, literal, new = to_lf(old), old, to_lf(new)
    places = list(itertools.islice(exact(hay, old), MAX_LISTED + 1))
    if len(places) > 1 and "\r" in literal:
        # The caller does see line ends: among places that differ in nothing else, they may decide.
        places = [p for p in places if hay.text[p.start : p.end] == literal] or places
    if not old.strip():
        # The final line end that a file lacks can be taken as there, but not be all that is meant.
        places = [p for p in places if to_lf(hay.text[p.start : p.end]) == old]
    exact_rung = _exact_rung(hay, places, old, literal)
    if len(places) > 1:
        raise _ambiguous(hay, places, "")
    if places and (edit := _exact_edit(hay, exact_rung, places[0], old, new)) is not None:
        return edit
    if not old.strip():
        return None
    for rung, finder in _RUNGS:
        if rung == "look-alike characters" and hay.text.isascii() and old.isascii():
            continue
        limit = max(2, _MAX_LINES_COMPARED // (old.count("\n") + 1))
        found = list(itertools.islice(finder(hay, old), limit))
        if len(found) > 1:
            raise _ambiguous(hay, found, rung)
        if not found:
            continue
        if places and not found[0].start <= places[0].start < found[0].end:
            break
        if (edit := _loose_edit(hay, rung, found[0], old, new)) is not None:
            return edit
    else:
        if places and "\n" not in old + new:
            # No line of the file is this one but for its indentation: it is meant as a part of a line.
            return _edit(hay, exact_rung, [_literal_span(hay, places[0], old, new)])
    if places:
        # Only now: had a looser rung found the line as a whole, its indentation would be known.
        raise unclear(line_number(hay.text, places[0].start), doubt.UNCLEAR_INDENT)
    return None


_RUNGS: tuple[tuple[Rung, Callable[[Haystack, str], Iterator[Place]]], ...] = (
    ("trailing blanks", by_trailing_blanks),
    # One rung for both kinds: a place of the one must not hide a place of the other.
    ("indentation", by_indentation),
    ("look-alike characters", by_look_alikes),
    ("look-alike characters", by_look_alikes_and_indentation),
)


def _exact_rung(hay: Haystack, places: Iterable[Place], old: str, literal: str) -> Rung:
    same = all(hay.text[place.start : place.end] in (old, literal) for place in places)
    return "exact" if same else "line ends"


def _exact_edit(hay: Haystack, rung: Rung, place: Place, old: str, new: str) -> Edit | None:
    """The edit at the only exact hit; None when the hit says nothing about the indentation that is meant."""
    depth = _depth(hay, place, old, new)
    if depth == "relative":
        return None
    if depth == "whole first line":
        before = doubt.indentation_before(hay.text, place.start)
        place = Place(place.start - len(before), place.end)
        old = before + old
    mended = _mended(hay, place, old, new)
    spans = [_literal_span(hay, place, old, new)]
    if mended != new and not _stands_already(hay.text, spans[0]):
        spans = [_literal_span(hay, place, old, mended)]
    return _edit(hay, rung, spans)


def _loose_edit(hay: Haystack, rung: Rung, place: Place, old: str, new: str) -> Edit | None:
    """The edit at the only hit of a looser rung; None like ``_exact_edit``."""
    if place.reindent is None and _depth(hay, place, old, new) != "literal":
        return None
    if place.reindent is not None and doubt.one_line_less_deep(hay.text[place.start : place.end], old):
        raise unclear(line_number(hay.text, place.start), doubt.UNCLEAR_LINE)
    mended, folded = _mended(hay, place, old, new), rung == "look-alike characters"
    made = transfer(hay.text, place.start, place.end, old, mended, place.reindent, loose=True, folded=folded)
    if made is None:
        raise unclear(line_number(hay.text, place.start), _NOT_TRANSFERABLE)
    retabbed = place.retabbed and rung == "indentation"
    start = place.start - len(_deleted_indentation(hay, place, old, new))
    return _edit(hay, "tabs and spaces" if retabbed else rung, [Span(start, place.end, made)])


def _depth(hay: Haystack, place: Place, old: str, new: str) -> doubt.Depth:
    """How ``new`` is indented when ``old`` was found as it is. Raises MatchError when that is unclear."""
    before = doubt.indentation_before(hay.text, place.start)
    if not before:
        return "literal"
    after, alone = doubt.indentation_after(hay.text, place.end), _occurs_once(hay.text, old.strip())
    depth = doubt.depth(before, old, new, after, alone)
    if depth == "unclear":
        raise unclear(line_number(hay.text, place.start), doubt.UNCLEAR_INDENT)
    return depth


def _mended(hay: Haystack, place: Place, old: str, new: str) -> str:
    """``new`` with a line end that it lost. Raises MatchError when it cannot be what is meant."""
    mended, why = doubt.lost_line_end(hay.text, place.start, place.end, old, new)
    why = why or doubt.stray_escape(old, new)
    if why:
        raise unclear(line_number(hay.text, place.start), why)
    return mended


def _occurs_once(text: str, piece: str) -> bool:
    at = text.find(piece)
    return at < 0 or text.find(piece, at + 1) < 0


def _literal_span(hay: Haystack, place: Place, old: str, new: str) -> Span:
    if indent := _deleted_indentation(hay, place, old, new):
        return Span(place.start - len(indent), place.end, "")
    piece = hay.text[place.start : place.end]
    if hay.line_end and piece == in_line_ends(old, hay.line_end):
        return Span(place.start, place.end, in_line_ends(new, hay.line_end))
    made = transfer(hay.text, place.start, place.end, old, new)
    if made is None:
        raise unclear(line_number(hay.text, place.start), _NOT_TRANSFERABLE)
    return Span(place.start, place.end, made)


def _deleted_indentation(hay: Haystack, place: Place, old: str, new: str) -> str:
    """What goes with the deleted rest of a line and its end: its indentation must not move to the next line."""
    deletes = new == "" and old.endswith("\n") and old.strip() != ""
    return doubt.indentation_before(hay.text, place.start) if deletes else ""


def _edit(hay: Haystack, rung: Rung, spans: Sequence[Span]) -> Edit:
    if all(_stands_already(hay.text, span) for span in spans):
        raise already_applied(line_number(hay.text, spans[0].start))
    changed = tuple(span for span in spans if hay.text[span.start : span.end] != span.replacement)
    return Edit(changed, rung, _NOTES.get(rung, ""))


def _ambiguous(hay: Haystack, places: Sequence[Place], differing: str) -> MatchError:
    return ambiguous([line_number(hay.text, place.start) for place in places[:MAX_LISTED]], differing)


_NOT_TRANSFERABLE = (
    "it differs from the file in blanks, indentation or typography, and what new_string is to be in the file's own "
    "is unclear. Send both exactly as the file has them."
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
    if len(new) <= len(piece) or not new.replace(piece, "", 1).strip():
        return False
    at = new.find(piece)
    for _ in range(_MAX_TRIED):
        if at < 0:
            break
        first = span.start - at
        if first >= 0 and (text.startswith(new, first) or text[first:] == _without_last_end(new)):
            return True
        at = new.find(piece, at + 1)
    return False


_MAX_TRIED = 100


def _without_last_end(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")


def _without_surplus_end(hay: Haystack, old: str, new: str) -> Edit | None:
    """At the end of the file both may have one line end more than there is."""
    old, new = to_lf(old), to_lf(new)
    if not (old.endswith("\n\n") and new.endswith("\n\n")) or not to_lf(hay.text[-2 * len(old) :]).endswith(
        old[:-1]
    ):
        return None
    places = list(itertools.islice(exact(hay, old[:-1]), 2))
    if len(places) != 1 or not old.strip():
        return None
    return _exact_edit(hay, "line ends", places[0], old[:-1], new[:-1])


def _climb_variant(hay: Haystack, variant: Variant) -> Edit | None:
    if variant.old == variant.new or not variant.old:
        return None
    try:
        edit = _climb(hay, variant.old, variant.new)
    except MatchError:
        if variant.at_its_depth:
            return None  # The same reading follows without that limit, and says it then.
        raise
    if edit is None or (variant.at_its_depth and edit.rung in ("indentation", "tabs and spaces")):
        return None
    line = line_number(hay.text, edit.spans[0].start)
    if variant.line not in (0, line):
        # The number speaks for another place: then there must be none that reads like it.
        twins = [place for place in itertools.islice(by_indentation(hay, variant.old), MAX_LISTED)]
        if any(line_number(hay.text, place.start) != line for place in twins):
            if variant.at_its_depth:
                return None
            raise _ambiguous(hay, twins, "line numbers and indentation")
    if variant.only_at_line is not None and line != variant.only_at_line:
        return None
    if variant.refuse:
        raise unclear(line, variant.refuse)
    return Edit(edit.spans, variant.rung, " ".join(filter(None, (_NOTES[variant.rung], edit.note))))
