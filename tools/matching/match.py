"""Find ``old_string`` in a file, and the exact replacement to put there. Pure, no I/O.

Match strategies in order: an exact match decides, if it is unique. A looser match counts only if no other strategy,
reading or depth points elsewhere. It may differ only in insignificant ways (line ends, trailing blanks, uniform
indentation, tabs against spaces, Unicode look-alikes, escapes, copied line numbers, a code fence or blank lines around
the text); words, numbers and operators are always equal. Text that only ``new_string`` has is written unchanged,
typography included. Similarity is used only to show the nearest place in an error.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from tools.matching import ambiguity
from tools.matching.adapt import transfer, written_for_the_file
from tools.matching.error import (
    MatchError,
    absent,
    already_applied,
    ambiguous,
    differing,
    stands_already,
    too_many,
    unclear,
)
from tools.matching.strategies import (
    FoundText,
    Haystack,
    by_indentation,
    by_look_alikes,
    by_look_alikes_and_indentation,
    by_trailing_blanks,
    exact,
    same_words,
)
from tools.matching.variants import Variant, variants, with_real_line_ends
from tools.text.lines import line_number, to_lf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

MatchStrategy = Literal[
    "exact", "line ends", "trailing blanks", "indentation", "tabs and spaces", "look-alike characters",
    "escaped characters", "line numbers", "code fence", "blank lines",
]  # fmt: skip
MAX_REPLACEMENTS = 10_000
"""Most replacements: each place is checked separately; more of them is a job for a command."""
MAX_LISTED = 200
"""Lines of candidates that are looked up for an error."""
_MAX_LINES_COMPARED = 10_000
"""With a looser strategy, in all candidates together; two are always compared."""


class Span(Struct, frozen=True):
    """Replace ``text[start:end]`` by ``replacement``, whose line ends are final."""

    start: int
    end: int
    replacement: str


class Edit(Struct, frozen=True):
    """The edit to make: spans in rising order, the strategy that found them, and a note on differences."""

    spans: tuple[Span, ...]
    strategy: MatchStrategy
    note: str = ""
    """How ``old_string`` differed and how that was handled; empty when the edit is literal."""

    def apply(self, text: str) -> str:
        """Return ``text`` with all spans replaced."""
        for span in reversed(self.spans):
            text = text[: span.start] + span.replacement + text[span.end :]
        return text


def find_edit(text: str, old: str, new: str, replace_all: bool = False) -> Edit:
    """Return the place of ``old`` in ``text`` and its replacement made from ``new``.

    ``replace_all`` replaces every match of the exact strategy (ignoring line ends, which a model does not see). Raises
    MatchError when there is nothing to change, or the place is absent or ambiguous.
    """
    if old == new:
        raise MatchError("identical", "old_string and new_string are identical: nothing to change.")
    if old == "":
        raise MatchError("empty", "old_string is empty: say which text to replace.")
    if not replace_all and (plain := with_real_line_ends(to_lf(old), to_lf(new))) != to_lf(new):
        edit = find_edit(text, old, plain)
        return Edit(edit.spans, "escaped characters", " ".join(filter(None, (_ESCAPED_NEW, edit.note))))
    hay = Haystack(text)
    if replace_all:
        edit = _everywhere(hay, old, new)
    else:
        edit = _try_strategies(hay, old, new) or _without_surplus_end(hay, old, new)
        edit = _read_otherwise(hay, edit, variants(old, new))
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
    strategy = _exact_strategy(hay, places, sought, old)
    spans = [_literal_span(hay, place, sought, made) for place in places]
    return _edit(hay, strategy, spans)


def _try_strategies(hay: Haystack, old: str, new: str) -> Edit | None:
    old, literal, new = to_lf(old), old, to_lf(new)
    places = list(itertools.islice(exact(hay, old), MAX_LISTED + 1))
    if len(places) > 1 and "\r" in literal:
        # The caller sees line ends, so they may decide among places that differ in nothing else.
        places = [p for p in places if hay.text[p.start : p.end] == literal] or places
    if not old.strip():
        # A final line end missing in the file may be assumed, but must not be the whole match.
        places = [p for p in places if to_lf(hay.text[p.start : p.end]) == old]
    exact_rung = _exact_strategy(hay, places, old, literal)
    if len(places) > 1:
        raise _ambiguous(hay, places, "")
    if places and (edit := _exact_edit(hay, exact_rung, places[0], old, new)) is not None:
        return edit
    if not old.strip():
        return None
    found = _loose_places(hay, old)
    here = bool(places) and all(place.start <= places[0].start < place.end for _, place in found)
    for strategy, place in found if here or not places else ():
        if (edit := _loose_edit(hay, strategy, place, old, new)) is not None:
            return edit
    if here and "\n" not in old + new:
        # No line of the file equals this one except for indentation, so it is part of a line.
        return _edit(hay, exact_rung, [_literal_span(hay, places[0], old, new)])
    if places:
        # Only now, because a looser strategy that finds the line as a whole would know its indentation.
        raise unclear(line_number(hay.text, places[0].start), ambiguity.UNCLEAR_INDENT)
    return None


_LOOSE_STRATEGIES: tuple[tuple[MatchStrategy, Callable[[Haystack, str], Iterator[FoundText]]], ...] = (
    ("trailing blanks", by_trailing_blanks),
    ("indentation", by_indentation),
    ("look-alike characters", by_look_alikes),
    ("look-alike characters", by_look_alikes_and_indentation),
)


def _loose_places(hay: Haystack, old: str) -> list[tuple[MatchStrategy, FoundText]]:
    """Return the one place that the looser strategies find, in the order of the strategies, each in its own terms.

    Raises MatchError when two point to different places, or when the same lines occur elsewhere at whatever depths: no
    difference is more plausible than another.
    """
    found: list[tuple[MatchStrategy, FoundText]] = []
    limit = max(2, _MAX_LINES_COMPARED // (old.count("\n") + 1))
    for strategy, finder in _LOOSE_STRATEGIES:
        if strategy != "look-alike characters" or not (hay.text.isascii() and old.isascii()):
            for place in itertools.islice(finder(hay, old), limit):
                found.append((strategy, place))
    apart: dict[int, tuple[MatchStrategy, FoundText]] = {}
    for strategy, place in found:
        apart.setdefault(_first_solid(hay.text, place), (strategy, place))
    for place in itertools.islice(same_words(hay, old), limit) if found else ():
        apart.setdefault(_first_solid(hay.text, place), ("indentation", place))
    if len(apart) > 1:
        raise _rivals(hay, [apart[at] for at in sorted(apart)])
    return found


def _first_solid(text: str, place: FoundText | Span) -> int:
    """Return where the words of a place begin, so that two strategies that find one place agree on it."""
    piece = text[place.start : place.end]
    return place.start + len(piece) - len(piece.lstrip())


def _rivals(hay: Haystack, found: Sequence[tuple[MatchStrategy, FoundText]]) -> MatchError:
    strategies = {strategy for strategy, _ in found}
    lines = [(_line_of(hay, place), strategy) for strategy, place in found[:MAX_LISTED]]
    if len(strategies) == 1:
        return ambiguous([line for line, _ in lines], strategies.pop())
    return differing(lines)


def _exact_strategy(hay: Haystack, places: Iterable[FoundText], old: str, literal: str) -> MatchStrategy:
    same = all(hay.text[place.start : place.end] in (old, literal) for place in places)
    return "exact" if same else "line ends"


def _exact_edit(hay: Haystack, strategy: MatchStrategy, place: FoundText, old: str, new: str) -> Edit | None:
    """Return the edit at the only exact match; None when the match leaves the indentation open."""
    depth = _depth(hay, place, old, new)
    if depth == "relative":
        return None
    if depth == "whole first line":
        before = ambiguity.indentation_before(hay.text, place.start)
        place = FoundText(place.start - len(before), place.end)
        old = before + old
    completed = _with_lost_line_ends(hay, place, old, new)
    spans = [_literal_span(hay, place, old, new)]
    kept = completed != new and not _stands_already(hay.text, spans[0])
    if kept:
        spans = [_literal_span(hay, place, old, completed)]
    return _edit(hay, strategy, spans, ambiguity.KEPT_END if kept else "")


def _loose_edit(hay: Haystack, strategy: MatchStrategy, place: FoundText, old: str, new: str) -> Edit | None:
    """Return the edit at the only match of a looser strategy; None like ``_exact_edit``."""
    if place.reindent is None and _depth(hay, place, old, new) != "literal":
        return None
    if place.reindent is not None and ambiguity.one_line_less_deep(hay.text[place.start : place.end], old):
        raise unclear(line_number(hay.text, place.start), ambiguity.UNCLEAR_LINE)
    completed, folded = _with_lost_line_ends(hay, place, old, new), strategy == "look-alike characters"
    reindent, note = place.reindent, ambiguity.KEPT_END if completed != new else ""
    if reindent is not None and (there := _at_its_depth(hay, place, old, completed)):
        old, reindent, note = there, None, " ".join(filter(None, (_AS_IT_IS, note)))
    made = transfer(hay.text, place.start, place.end, old, completed, reindent, loose=True, folded=folded)
    if made is None:
        raise unclear(line_number(hay.text, place.start), _NOT_TRANSFERABLE)
    retabbed = place.retabbed and strategy == "indentation"
    start = place.start - len(_deleted_indentation(hay, place, old, new))
    return _edit(hay, "tabs and spaces" if retabbed else strategy, [Span(start, place.end, made)], note)


_ESCAPED_NEW = "new_string had \\\\n where lines of old_string end; line ends were written."
_AS_IT_IS = "new_string already had the file's indentation and was used unchanged."


def _at_its_depth(hay: Haystack, place: FoundText, old: str, new: str) -> str:
    """Return ``old`` with the file's indentation if new_string has that already; else an empty string."""
    found = hay.text[place.start : place.end]
    above = hay.text[: place.start].rstrip()
    last = above[max(above.rfind("\n"), above.rfind("\r")) + 1 :]
    if place.retabbed or place.reindent is None or not written_for_the_file(last, found, old, new):
        return ""
    lines = [place.reindent(line) for line in old.split("\n")]
    adapted = [line for line in lines if line is not None]
    return "\n".join(adapted) if len(adapted) == len(lines) else ""


def _depth(hay: Haystack, place: FoundText, old: str, new: str) -> ambiguity.Depth:
    """Return how ``new`` is indented when ``old`` was found exactly. Raises MatchError when that is ambiguous."""
    before = ambiguity.indentation_before(hay.text, place.start)
    if not before:
        return "literal"
    after, alone = ambiguity.indentation_after(hay.text, place.end), _occurs_once(hay.text, old.strip())
    depth = ambiguity.depth(before, old, new, after, alone)
    if depth == "unclear":
        raise unclear(line_number(hay.text, place.start), ambiguity.UNCLEAR_INDENT)
    return depth


def _with_lost_line_ends(hay: Haystack, place: FoundText, old: str, new: str) -> str:
    """Return ``new`` with the line ends that it lost. Raises MatchError when it cannot be intended."""
    completed, why = ambiguity.lost_line_end(hay.text, place.start, place.end, old, new)
    if not why and ambiguity.has_stray_escape(old, new):
        why = ambiguity.UNCLEAR_ESCAPE
    if why:
        raise unclear(line_number(hay.text, place.start), why)
    return ambiguity.lost_first_end(hay.text, place.start, old, completed)


def _occurs_once(text: str, piece: str) -> bool:
    at = text.find(piece)
    return at < 0 or text.find(piece, at + 1) < 0


def _literal_span(hay: Haystack, place: FoundText, old: str, new: str) -> Span:
    if indent := _deleted_indentation(hay, place, old, new):
        return Span(place.start - len(indent), place.end, "")
    piece = hay.text[place.start : place.end]
    if hay.line_end and piece == old.replace("\n", hay.line_end):
        return Span(place.start, place.end, new.replace("\n", hay.line_end))
    made = transfer(hay.text, place.start, place.end, old, new)
    if made is None:
        raise unclear(line_number(hay.text, place.start), _NOT_TRANSFERABLE)
    return Span(place.start, place.end, made)


def _deleted_indentation(hay: Haystack, place: FoundText, old: str, new: str) -> str:
    """Return the indentation to delete with the rest of a line and its end: it must not move to the next line."""
    deletes = new == "" and old.endswith("\n") and old.strip() != ""
    return ambiguity.indentation_before(hay.text, place.start) if deletes else ""


def _edit(hay: Haystack, strategy: MatchStrategy, spans: Sequence[Span], more: str = "") -> Edit:
    if all(_stands_already(hay.text, span) for span in spans):
        raise already_applied(line_number(hay.text, spans[0].start))
    changed = tuple(span for span in spans if hay.text[span.start : span.end] != span.replacement)
    return Edit(changed, strategy, " ".join(filter(None, (_NOTES.get(strategy, ""), more))))


def _ambiguous(hay: Haystack, places: Sequence[FoundText], differing: str) -> MatchError:
    return ambiguous([line_number(hay.text, place.start) for place in places[:MAX_LISTED]], differing)


_NOT_TRANSFERABLE = (
    "it differs from the file in blanks, indentation or typography, so it is unclear how to adapt "
    "new_string. Send both exactly as in the file."
)
_NOTES: dict[MatchStrategy, str] = {
    "trailing blanks": "old_string differed from the file in blanks at line ends.",
    "indentation": "old_string differed from the file in indentation; new_string was re-indented the same way.",
    "tabs and spaces": "old_string differed from the file in tabs and spaces; the file's own were used.",
    "look-alike characters": "old_string differed from the file in look-alike characters (quotes, dashes, "
    "blanks); the file's own were kept.",
    "escaped characters": "old_string and new_string had escaped characters, which were unescaped.",
    "line numbers": "old_string had copied line numbers, which were removed.",
    "code fence": "The code fence around old_string and new_string was left out.",
    "blank lines": "old_string had blank lines around it that are not in the file; they were left out.",
}


def _stands_already(text: str, span: Span) -> bool:
    """Return whether the file already reads as it would after the edit, around the place of the edit.

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
        if first >= 0 and (
            text.startswith(new, first) or text[first:] == new.removesuffix("\n").removesuffix("\r")
        ):
            return True
        at = new.find(piece, at + 1)
    return False


_MAX_TRIED = 100


def _read_otherwise(hay: Haystack, edit: Edit | None, readings: Iterator[Variant]) -> Edit | None:
    """Return ``edit``, or else that of the first reading that has a place.

    Raises MatchError when another kind of reading points elsewhere, unless ``edit`` is exact.
    """
    if edit is not None and edit.strategy in _CERTAIN:
        return edit
    for variant in readings:
        if edit is None:
            edit = _try_variant(hay, variant)
        elif variant.strategy not in (edit.strategy, *_WIDER) and (lines := _lines_of(hay, variant)):
            line = _line_of(hay, edit.spans[0])
            if lines != [line]:
                raise differing([(line, edit.strategy), *((n, variant.strategy) for n in lines if n != line)])
    return edit


_WIDER: tuple[MatchStrategy, ...] = ("code fence", "blank lines")
"""Readings with less around them: they find more places than the originals, not other ones."""
_CERTAIN: tuple[MatchStrategy, ...] = ("exact", "line ends")


def _line_of(hay: Haystack, place: FoundText | Span) -> int:
    return line_number(hay.text, _first_solid(hay.text, place))


def _bounded(text: str, span: Span, variant: Variant) -> bool:
    """Return whether the place begins and ends as the variant asks."""
    before, after = text[: span.start], text[span.end :]
    if variant.whole_lines and (before if variant.from_first_column else before.rstrip(" \t"))[-1:] not in (
        "",
        *"\r\n",
    ):
        return False
    ended = text[span.start : span.end].endswith(("\n", "\r"))
    rest = after if ended else re.sub(r"\A[ \t]*(?:\r\n?|\n|\Z)", "", after, count=1)
    if variant.whole_lines and not ended and after.strip(" \t") and len(rest) == len(after):
        return False
    above, below = variant.no_blank_line
    return not (above and _blank_near(to_lf(before[-_NEAR:]).split("\n")[-2::-1])) and not (
        below and _blank_near(to_lf(rest[:_NEAR]).removesuffix("\n").split("\n"))
    )


_NEAR = 2_000
"""Characters that are looked at for blank lines beside a place."""


def _blank_near(lines: Sequence[str]) -> bool:
    """Return whether blank lines come so soon that they may be those of old_string, which lacks or skips the lines
    between."""
    solid = [line.strip() != "" for line in itertools.islice(lines, 3)]
    return not all(solid) and any(line.strip() for line in lines)


def _lines_of(hay: Haystack, variant: Variant) -> Sequence[int]:
    try:
        edit = _try_variant(hay, variant)
    except MatchError as error:
        return list(error.lines)
    return [] if edit is None else [_line_of(hay, edit.spans[0])]


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


def _try_variant(hay: Haystack, variant: Variant) -> Edit | None:
    if variant.old == variant.new or not variant.old or (variant.absent and variant.absent in hay.text):
        return None
    try:
        edit = _try_strategies(hay, variant.old, variant.new)
    except MatchError:
        if variant.at_its_depth:
            return None  # the same reading follows without that limit, and reports the error then
        raise
    if edit is None or (variant.at_its_depth and edit.strategy in ("indentation", "tabs and spaces")):
        return None
    if not _bounded(hay.text, edit.spans[0], variant):
        return None
    if variant.strategy == "blank lines" and stands_already(
        [line.body for line in hay.lines], variant.old, variant.new
    ):
        return None  # with less context, old_string may match beside the finished edit
    line = line_number(hay.text, edit.spans[0].start)
    if variant.strategy != "line numbers" and edit.strategy in _CERTAIN:
        lines = {_line_of(hay, place) for _, place in _loose_places(hay, variant.old)}
        if lines - {_line_of(hay, edit.spans[0])}:
            raise ambiguous(sorted({_line_of(hay, edit.spans[0]), *lines}), f"{variant.strategy} and more")
    if variant.line not in (0, line):
        # The line number points at another place, so no other place may read like it.
        twins = [place for place in itertools.islice(by_indentation(hay, variant.old), MAX_LISTED)]
        if any(line_number(hay.text, place.start) != line for place in twins):
            if variant.at_its_depth:
                return None
            raise _ambiguous(hay, twins, "line numbers and indentation")
    if variant.only_at_line is not None and line != variant.only_at_line:
        return None
    if variant.refuse:
        raise unclear(line, variant.refuse)
    return Edit(edit.spans, variant.strategy, " ".join(filter(None, (_NOTES[variant.strategy], edit.note))))
