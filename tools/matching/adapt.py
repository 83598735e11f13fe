"""Adapt ``new_string`` to the place where ``old_string`` was found. Pure.

Text that ``new_string`` repeats from ``old_string`` keeps the file's own bytes (blanks, line ends, look-alike
characters); added text is adapted by the difference between the two, e.g. re-indented.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from tools.diff.unified_diff import opcodes
from tools.matching.typography import Spelling, plain_edges
from tools.text.lines import Line, line_end_at, split_lines

Reindent = Callable[[str], "str | None"]
"""Gives a line of old_string or new_string the file's indentation; None when that is not possible."""

_TAB_WIDTHS = (4, 2, 8, 3)


def indent_of(body: str) -> str:
    """Return the blanks at the beginning of a line."""
    return body[: len(body) - len(body.lstrip(" \t"))]


def _pairs(old: Sequence[str], found: Sequence[str]) -> list[tuple[str, str]]:
    both = zip(old, found, strict=True)
    return [(indent_of(theirs), indent_of(ours)) for theirs, ours in both if theirs.strip(" \t")]


def shift(old: Sequence[str], found: Sequence[str]) -> Reindent | None:
    """Return how to re-indent when all lines of ``found`` are ``old``'s with one more (or less) common prefix."""
    pairs = _pairs(old, found)
    theirs, ours = pairs[0]
    if ours.endswith(theirs):
        more = ours[: len(ours) - len(theirs)]
        if all(there == more + here for here, there in pairs):
            return _deeper(more, "".join(here for here, _ in pairs))
    if theirs.endswith(ours):
        less = theirs[: len(theirs) - len(ours)]
        if all(here == less + there for here, there in pairs):
            return lambda body: _without(body, less)
    return None


def _deeper(more: str, known: str) -> Reindent:
    """Puts ``more`` before a line, unless that mixes tabs and spaces in a way that old_string (``known``) does not."""

    def adapt(body: str) -> str | None:
        indent = indent_of(body)
        mixes = ("\t" in more and " " in indent and " " not in known) or (
            " " in more and "\t" in indent and "\t" not in known
        )
        if mixes and len(indent) < len(body):
            return None
        return more + body if len(indent) < len(body) else body

    return adapt


def _without(body: str, prefix: str) -> str | None:
    if not body.strip(" \t"):
        return None if body else body  # unknown whether the blanks of an empty line were shifted too
    return body[len(prefix) :] if body.startswith(prefix) else None


def retab(old: Sequence[str], found: Sequence[str]) -> Reindent | None:
    """Return how to re-indent when the indentations are equal in columns (up to one common distance).

    With a distance other than zero the tab width may be ambiguous: then only what holds for all widths is used.
    """
    pairs = _pairs(old, found)
    at_once: list[Reindent] = []
    fits: list[Reindent] = []
    for width in _TAB_WIDTHS:
        distances = {_columns(ours, width) - _columns(theirs, width) for theirs, ours in pairs}
        if distances == {0}:
            at_once.append(_retabber(pairs, width, 0))
        if len(distances) == 1:
            fits.append(_retabber(pairs, width, distances.pop()))
    if at_once and len({theirs for theirs, _ in pairs if theirs}) > 1:
        return at_once[0]
    # One tab for eight spaces may also be one tab for two levels.
    sure = at_once[:1] if not any(ours == " " * 8 and theirs == "\t" for theirs, ours in pairs) else fits
    return _unanimous(pairs, sure or fits) if fits else None


def _unanimous(pairs: Sequence[tuple[str, str]], fits: Sequence[Reindent]) -> Reindent:
    """Return the reindentation on which all ``fits`` agree, with the tab width that the known indentation suggests."""
    known = [theirs for theirs, _ in pairs if theirs]

    def adapt(body: str) -> str | None:
        said = {fit(body) for fit in fits}
        indent = indent_of(body)
        if "\t" not in indent and indent not in known and known and "\t" not in known[0]:
            step = math.gcd(len(indent), len(known[0]))
            if step in _TAB_WIDTHS and any("\t" in ours for _, ours in pairs):
                distance = _columns(pairs[0][1], step) - len(pairs[0][0])
                said.add(_retabber(pairs, step, distance)(body))
        return said.pop() if len(said) == 1 else None

    return adapt


def _columns(indent: str, width: int) -> int:
    return len(indent.expandtabs(width))


def _retabber(pairs: Sequence[tuple[str, str]], width: int, distance: int) -> Reindent:
    seen: dict[str, set[str]] = {}
    for theirs, ours in pairs:
        seen.setdefault(theirs, set()).add(ours)
    tabs = any("\t" in ours for _, ours in pairs)

    def adapt(body: str) -> str | None:
        if not body.strip(" \t"):
            return body
        indent = indent_of(body)
        if indent in seen:
            # A file that indents one depth in two ways does not show which one a new line needs.
            return min(seen[indent]) + body[len(indent) :] if len(seen[indent]) == 1 else None
        columns = _columns(indent, width) + distance
        if columns < 0 or (tabs and columns % width):
            # A remainder aligns the line with something: by tabs and then spaces, or in another way.
            return None
        made = "\t" * (columns // width) if tabs else " " * columns
        return made + body[len(indent) :]

    return adapt


def indents_of(bodies: Iterable[str]) -> list[tuple[int, str]]:
    """Number and indentation of each line that is not blank."""
    return [(number, indent_of(body)) for number, body in enumerate(bodies) if body.strip(" \t")]


def may_be_shifted(indents: Sequence[tuple[int, str]], found: Sequence[Line], first: int) -> bool:
    """Return whether ``reindents`` can succeed for lines of these ``indents`` at ``found[first:]``.

    Says no at the first line that is out of step, so that a place among many like it costs next to nothing.
    """
    begun: tuple[int, ...] = ()
    for number, theirs in indents:
        ours = indent_of(found[first + number].body)
        steps = (len(ours) - len(theirs),) * (1 + len(_TAB_WIDTHS))
        if "\t" in ours or "\t" in theirs:
            steps = (steps[0], *(_columns(ours, width) - _columns(theirs, width) for width in _TAB_WIDTHS))
        begun = begun or steps
        if steps != begun and not any(map(operator.eq, steps, begun)):
            return False
    return True


def reindents(old: Sequence[str], found: Sequence[str]) -> tuple[Reindent | None, bool]:
    """Return how to re-indent when ``found`` are the lines of ``old`` but for indentation, and whether by tabs and
    spaces."""
    by_prefix = shift(old, found)
    return (by_prefix, False) if by_prefix is not None else (retab(old, found), True)


class _Piece(Struct, frozen=True):
    body: str
    end: str


def _pieces(text: str, count: int = 0) -> list[_Piece]:
    pieces = [_Piece(line.body, line.end) for line in split_lines(text)]
    return pieces + [_Piece("", "")] * (count - len(pieces))


def transfer(
    text: str,
    start: int,
    end: int,
    old: str,
    new: str,
    reindent: Reindent | None = None,
    *,
    loose: bool = False,
    folded: bool = False,
) -> str | None:
    """Return the text to put at ``text[start:end]``, where ``old`` was found, so that it matches ``new``.

    ``old`` and ``new`` have ``\\n`` line ends; the result has those of the file. ``loose``: ``old`` and the text may
    differ in blanks at line ends, and by ``reindent``; ``folded``: in look-alike characters too. None when the
    indentation of ``new`` is unclear.
    """
    if folded:
        old, new = plain_edges(text[start:end], old, new)
    there, wanted = _pieces(text[start:end]), _pieces(old)
    size = max(len(there), len(wanted))
    there, wanted = _pieces(text[start:end], size), _pieces(old, size)
    made = _pieces(new)
    excess = _excess_blanks(there, wanted) if loose else frozenset[str]()
    if reindent is not None and not _indented_like(wanted, there, made):
        return None
    outer_end = line_end_at(text, end)
    out: list[str] = []
    if excess and any(_bare(piece.body) != piece.body for piece in there) and _brings(made, wanted, excess):
        return None  # the file has such blanks too, so it is ambiguous which of them count
    if (
        loose
        and _other_blanks(there, wanted)
        and any(_bare(p.body) != p.body for p in made if p not in wanted)
    ):
        return None  # three kinds of line ends: the file's, old_string's and new_string's
    said = [_without_excess(piece.body, excess) for piece in wanted]
    made = [_Piece(_without_excess(piece.body, excess), piece.end) for piece in made]
    codes = opcodes(said, [piece.body for piece in made])
    spelling = _spelling(there, wanted, made, codes, text) if folded else None
    for tag, i1, i2, j1, j2 in codes:
        if tag == "equal":
            for i, j in zip(range(i1, i2), range(j1, j2), strict=True):
                out += there[i].body, (there[i].end or outer_end) if made[j].end else ""
            continue
        bodies = _adapt_block([piece.body for piece in made[j1:j2]], reindent)
        if bodies is None or (reindent is not None and _brings_tabs(bodies, text)):
            return None
        if spelling is not None and bodies:
            theirs = [_aligned(piece.body, reindent) for piece in wanted[i1:i2]]
            bodies = spelling.of_lines([piece.body for piece in there[i1:i2]], theirs, bodies)
            if bodies is None:
                return None
        for k, body in enumerate(bodies):
            near = there[min(i1 + k, i2 - 1)] if i2 > i1 else there[i1 - 1] if i1 else there[0]
            out += body, (near.end or outer_end) if made[j1 + k].end else ""
    result = "".join(out)
    lacks_final = bool(wanted[-1].end) and not there[-1].end
    if lacks_final and made and made[-1].end:
        # The file lacks the final line end that old_string has, so it stays without one.
        result = result[: len(result) - len(out[-1])]
    return result


def _spelling(
    there: Sequence[_Piece],
    wanted: Sequence[_Piece],
    made: Sequence[_Piece],
    codes: Sequence[tuple[str, int, int, int, int]],
    text: str,
) -> Spelling:
    changed = [made[j].body for tag, _, _, j1, j2 in codes if tag != "equal" for j in range(j1, j2)]
    return Spelling(zip((p.body for p in there), (p.body for p in wanted), strict=True), changed, text)


def _bare(body: str) -> str:
    return body.rstrip(" \t")


def _excess_blanks(there: Sequence[_Piece], wanted: Sequence[_Piece]) -> frozenset[str]:
    """Blanks at line ends of old_string that the file does not have there: the model's habit, not its wish."""
    return frozenset(
        theirs.body[len(_bare(theirs.body)) :]
        for ours, theirs in zip(there, wanted, strict=True)
        if _bare(theirs.body) != theirs.body and _bare(ours.body) == ours.body
    )


def _other_blanks(there: Sequence[_Piece], wanted: Sequence[_Piece]) -> bool:
    """Return whether a line with text ends in blanks both in the file and in old_string, and in different ones."""
    pairs = ((ours.body, theirs.body) for ours, theirs in zip(there, wanted, strict=True) if _bare(ours.body))
    tails = ((ours[len(_bare(ours)) :], theirs[len(_bare(theirs)) :]) for ours, theirs in pairs)
    return any(ours and theirs and ours != theirs for ours, theirs in tails)


def _brings(made: Sequence[_Piece], wanted: Sequence[_Piece], excess: frozenset[str]) -> bool:
    """Return whether a line that old_string does not have ends in blanks of ``excess``."""
    known = {piece.body for piece in wanted if _bare(piece.body)}
    return any(piece.body[len(_bare(piece.body)) :] in excess for piece in made if piece.body not in known)


def _brings_tabs(bodies: Sequence[str], text: str) -> bool:
    """Return whether lines that were re-indented begin with tabs in a file whose lines all begin with spaces."""
    tabbed = any(body.startswith("\t") for body in bodies)
    return (
        tabbed
        and re.search(r"^\t", text, re.MULTILINE) is None
        and re.search(r"^ ", text, re.MULTILINE) is not None
    )


def _without_excess(body: str, excess: frozenset[str]) -> str:
    bare = _bare(body)
    return bare if excess and body[len(bare) :] in excess else body


def _indented_like(wanted: Sequence[_Piece], there: Sequence[_Piece], made: Sequence[_Piece]) -> bool:
    """Return whether new_string is certainly indented like old_string, and not like the file already.

    The lines that it repeats decide. That they have the file's indentation is no proof of the contrary: they may be
    moved to there.
    """
    ours, theirs = [piece.body for piece in there], [piece.body for piece in wanted]
    new = [piece.body for piece in made]
    like_old = like_file = 0
    for tag, i1, i2, j1, j2 in opcodes([b.strip(" \t") for b in theirs], [b.strip(" \t") for b in new]):
        for i, j in zip(range(i1, i2), range(j1, j2), strict=False):
            if tag == "equal" and new[j].strip(" \t") and indent_of(ours[i]) != indent_of(theirs[i]):
                like_old += indent_of(new[j]) == indent_of(theirs[i])
                like_file += indent_of(new[j]) == indent_of(ours[i])
    if like_old or like_file:
        return not like_file
    # No line is repeated, or all of them at another depth: use the position of the leftmost line.
    return _leftmost(new) in (None, _leftmost(theirs))


def written_for_the_file(before: str, found: str, old: str, new: str) -> bool:
    """Return whether ``new`` certainly has the indentation of ``found``, although ``old`` has another.

    The lines that it repeats are all where the file's are, none is before the leftmost of them, and some words differ.
    ``before`` is the last line with text above: if new_string could equally belong deeper, it either opens a block or
    is placed there.
    """
    ours, theirs, made = ([piece.body for piece in _pieces(text)] for text in (found, old, new))
    repeated = 0
    for tag, i1, i2, j1, j2 in opcodes([b.strip(" \t") for b in theirs], [b.strip(" \t") for b in made]):
        if tag != "equal" or not (j2 - j1):
            continue
        for i, j in zip(range(i1, i2), range(j1, j2), strict=True):
            if made[j].strip(" \t") and indent_of(made[j]) != indent_of(ours[i]):
                return False
            repeated += made[j].strip(" \t") != ""
    here, there = _leftmost(ours) or "", _leftmost(theirs) or ""
    if not repeated or _leftmost(made) != here or "\t" in here + there or said(theirs) == said(made):
        return False
    deeper = 2 * len(here) - len(there)
    return len(indent_of(before)) != deeper and not before.rstrip().endswith((":", "{", "(", "["))


def said(bodies: Sequence[str]) -> list[str]:
    """Return the text of lines, without surrounding blanks."""
    return [body.strip(" \t") for body in bodies if body.strip(" \t")]


def _leftmost(bodies: Sequence[str]) -> str | None:
    return min((indent_of(body) for body in bodies if body.strip(" \t")), key=len, default=None)


def _adapt_block(made: Sequence[str], reindent: Reindent | None) -> list[str] | None:
    bodies = list(made) if reindent is None else [reindent(body) for body in made]
    adapted = [body for body in bodies if body is not None]
    return adapted if len(adapted) == len(bodies) else None


def _aligned(body: str, reindent: Reindent | None) -> str:
    adapted = body if reindent is None else reindent(body)
    return body if adapted is None else adapted
