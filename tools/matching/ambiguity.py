"""Exact matches that are misleading: applying the edit literally would write the wrong text. Pure.

Measured on mutated edits of real files: each rule here prevents writes that went wrong without it.
"""

from __future__ import annotations

import itertools
import re
from typing import Literal

from tools.matching.adapt import indent_of

_BLANKS = " \t"
_MAX_LOOKED_AT = 50
UNCLEAR_INDENT = (
    "it begins after the indentation of that line, so the indentation meant for the lines of new_string "
    "is unclear. Begin old_string and new_string with the whole indentation of their first line."
)
UNCLEAR_ESCAPE = (
    "new_string has a literal \\n outside of quotes where a line end seems to be meant. Send a real line end."
)
KEPT_END = "A line end that new_string lacked was kept: without it two lines would have been joined."
_UNCLEAR_JOIN = (
    "old_string ends with a line end and new_string does not, so the next line would be joined to it. "
    "Include the next line in both if that is meant."
)

UNCLEAR_LINE = (
    "it has less indentation there, and a single line is too little to tell whether that place is meant. "
    "Send its indentation, or lines around it."
)

Depth = Literal["literal", "relative", "whole first line", "unclear"]


def indentation_before(text: str, start: int) -> str:
    """Return the blanks between the beginning of the line and ``start``; empty when there is anything else."""
    line = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start) if "\r" in text else -1) + 1
    before = text[line:start]
    return before if not before.strip(_BLANKS) else ""


def begins_inside_indentation(text: str, start: int, old: str) -> bool:
    """Return whether ``old`` was found within the indentation of a deeper line, so that its own is not the file's."""
    return old[:1] in (" ", "\t") and indentation_before(text, start) != ""


def indentation_after(text: str, end: int) -> str:
    """Return the indentation of the first line behind the one with ``end`` that is not blank."""
    rest = re.compile(r"[^\r\n]*[\r\n]\s*?^([ \t]*)(?=[^\s])", re.MULTILINE).match(text, end)
    return rest.group(1) if rest else ""


def depth(before: str, old: str, new: str, after: str, alone: bool) -> Depth:
    """Return how the lines of ``new`` are indented when ``old`` was found after the blanks ``before`` of its line.

    ``literal``: as the file's lines are, but for the first. ``relative``: like ``old``, i.e. all of them lack
    ``before``. ``whole first line``: like the file's lines, the first one too. ``after``: the
    indentation of the file's next line. ``alone``: nothing else in the file reads like old. Lines have ``\\n`` ends.
    """
    if not before:
        return "literal"
    first, _, rest = old.partition("\n")
    new_first, _, new_rest = new.partition("\n")
    doubled = bool(before) and not old.startswith((" ", "\t")) and indent_of(new_first) == before
    if rest.strip() or (rest and rest.split("\n")[-1]):
        # The further lines are indented as in the file: only the first was cut.
        if doubled and new_first.strip() == first.strip() and _solid(rest) & _solid(new_rest):
            return "whole first line"
        # The first line occurs again further down, cut as before. Should it lose its indentation in the file?
        again = first.strip() and first in _solid(new_rest) - _solid(rest)
        return "unclear" if again and before + first not in new_rest.split("\n") else "literal"
    further = [line for line in new_rest.split("\n") if line.strip()]
    if doubled and new_first.strip() and new.strip() != old.strip():
        return "unclear"
    if not further:
        return "literal" if alone or not old.startswith((" ", "\t")) else "relative"
    if _mixes(before, further) and _mixes(after or before, further):
        return "unclear"
    literal = _reads_well(before + new_first, further)
    relative = _reads_well(new_first, further)
    as_in_file, as_in_old = before + first in further, first in further
    if as_in_file != as_in_old:
        # The new text repeats the line. If the result reads well, that decides.
        if as_in_file:
            return "literal" if literal else "unclear"
        return "relative" if relative else "unclear"
    if literal and relative:
        # Choose the one that aligns with the file's own next line.
        here, cut = _columns(further[0]), _columns(before + further[0])
        goes_on = _columns(after + "x")
        return "literal" if here == goes_on else "relative" if cut == goes_on else "unclear"
    if not literal and not relative:
        return "unclear"
    if literal:
        return "literal"
    # A text without any indentation may have lines left of its first one because a block ends here.
    here = _columns(before + first)
    goes_on = old.startswith((" ", "\t")) or _columns(after + "x") >= here
    # Lines at exactly the depth of the file's line may be siblings, although that reads oddly.
    return "relative" if goes_on and min(map(_columns, further)) != here else "unclear"


def _mixes(depth: str, lines: list[str]) -> bool:
    """Return whether one of ``lines`` has spaces where ``depth`` has tabs, or the other way round."""
    return any(indent and indent[0] != depth[0] for indent in map(indent_of, lines)) if depth else False


def _solid(text: str) -> set[str]:
    return {line for line in text.split("\n") if line.strip()}


def one_line_less_deep(found: str, old: str) -> bool:
    """Return whether ``old`` is one line that was found at a lesser depth: as likely the twin of one that is gone."""
    if len(_solid(old)) != 1 or "\t" in found + old:
        return False
    ours, theirs = _solid(found).pop(), _solid(old).pop()
    return len(indent_of(ours)) < len(indent_of(theirs))


_COMMENT = r"\s*(?:#.*|//.*|/\*.*)?$"
_IS_COMMENT = re.compile(r"\s*(?:#(?!include|if|define)|//|/?\*|--|;|%|<!--)")
_OPENS = re.compile(r"(?:[:{(\[]|->|=>|\b(?:do|then|else))" + _COMMENT)
_MAY_GO_ON = re.compile(r"(?:[\\,=+|&]|\b(?:and|or))" + _COMMENT)
_CLOSES = re.compile(r"[)\]}]|(?:else|elif|except|finally|end|fi|done|esac|endif|endfor)\b|</")
_GOES_ON = re.compile(r"[.?:+]|&&|\|\||(?:and|or)\b")


def _reads_well(first: str, further: list[str]) -> bool:
    """Return whether ``further`` lines are where code after ``first`` belongs: in it, beside it, but not before it."""
    base, following = _columns(first), [_columns(line) for line in further]
    if min(following) < base:
        return False
    step, begin = following[0] - base, further[0].lstrip()
    if _CLOSES.match(begin):
        return step == 0
    if not first.strip():
        return step == 0
    if _IS_COMMENT.match(first):
        return step == 0
    inside = step in (2, 3, 4, 8) or (step > 0 and following[0] in _bracket_columns(first))
    if _OPENS.search(first) or _GOES_ON.match(begin):
        return inside
    return step == 0 or (inside and _MAY_GO_ON.search(first) is not None)


def _columns(line: str) -> int:
    return len(indent_of(line).expandtabs(4))


def _bracket_columns(line: str) -> list[int]:
    return [found.end() for found in re.finditer(r"[(\[{]\s*", line.expandtabs(4))]


def has_stray_escape(old: str, new: str) -> bool:
    r"""Whether ``new`` adds a literal ``\n`` that reads like a line end: unquoted, before an indentation or old."""
    if "\\n" not in new or "\n" in new.rstrip("\n"):
        return False
    if "\\n" in old:
        return "\n" in old and _ends_escaped(new) and not _ends_escaped(old.rstrip("\n"))
    if "\n" in old and (_ends_escaped(new) or any(_unquoted(new, at) for at in _escapes(new))):
        return True
    beside_old = new.startswith(old + "\\n") or new.endswith("\\n" + old)
    return any(
        _unquoted(new, at) and (beside_old or re.match(r"\\n|\t| {2}", new[at + 2 :])) for at in _escapes(new)
    )


def _escapes(text: str) -> list[int]:
    return [found.start() for found in itertools.islice(re.finditer(r"(?<!\\)\\n", text), _MAX_LOOKED_AT)]


def _ends_escaped(text: str) -> bool:
    return re.search(r"(?<!\\)\\n$", text) is not None


def _unquoted(text: str, at: int) -> bool:
    before = text[:at]
    return not any(before.count(quote) % 2 for quote in ('"', "'", "`"))


def lost_line_end(text: str, start: int, end: int, old: str, new: str) -> tuple[str, str]:
    """Return ``new`` with the line end that it lacks where old's last line has one, and why not when that is ambiguous.

    Applied literally, such an edit joins the next line to the last one of ``new``. Where the next line is blank or
    there is none, nothing is joined and the literal text counts. Two lines with text are not joined, except by a call
    that begins within a line; where a call may intend to join whole lines, that is ambiguous.
    """
    last, only_end = new.rpartition("\n")[2], new == old.removesuffix("\n")
    if not (old.endswith("\n") and old.strip() and last.strip()) or not _joins(text, end):
        return new, ""
    if start and text[start - 1] not in "\r\n" and not indentation_before(text, start):
        # The text begins within a line, so it may also end within one, unless that leaves a gap there.
        meant = only_end or last[-1] in _BLANKS or not text.startswith(("  ", "\t"), end)
        return (new, "") if meant else (new + "\n", "")
    context = last == old.removesuffix("\n").rpartition("\n")[2]
    if only_end or (not context and (last[-1] in _BLANKS or old.rstrip("\n").endswith("\\"))):
        return new, _UNCLEAR_JOIN
    return new + "\n", ""


def lost_first_end(text: str, start: int, old: str, new: str) -> str:
    """Return ``new`` with the line end that it lacks where old begins with one, if whole lines would be joined without
    it.

    A call that takes away nothing else means to join, and one whose first line is not where old's was may do so.
    """
    if not old.startswith("\n") or new.startswith("\n") or new == old[1:] or not old.strip():
        return new
    before = text[max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1 : start]
    first, was = new.partition("\n")[0], old.lstrip("\n").partition("\n")[0]
    same_depth = indent_of(first) == indent_of(was)
    sure = indent_of(was) != "" or (old.endswith("\n") and new.endswith("\n"))
    joins = before.strip(_BLANKS) != "" and first.strip() != ""
    return "\n" + new if joins and (first == was or (same_depth and sure)) else new


def _joins(text: str, end: int) -> bool:
    """Return whether there is text in the line that begins at ``end``."""
    rest = re.compile(r"[^\r\n]*").match(text, end)
    return rest is not None and rest.group().strip(_BLANKS) != ""
