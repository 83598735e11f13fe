"""Exact hits that are not what they seem: where taking the edit at its word would write the wrong thing. Pure.

Measured on mutated edits of real files: each rule here stands for writes that went wrong without it.
"""

from __future__ import annotations

import re

_BLANKS = " \t"
_UNCLEAR_INDENT = (
    "it begins after the indentation of that line, so the indentation meant for the further lines of new_string "
    "is unclear. Begin old_string and new_string with the whole indentation of their first line."
)
_UNCLEAR_ESCAPE = (
    "new_string has a literal \\n outside of quotes where a line end seems to be meant. Send a real line end."
)


def indentation_before(text: str, start: int) -> str:
    """The blanks between the beginning of the line and ``start``; empty when anything else stands there."""
    line = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
    before = text[line:start]
    return before if not before.strip(_BLANKS) else ""


def begins_inside_indentation(text: str, start: int, old: str) -> bool:
    """Whether ``old`` was found within the indentation of a deeper line, so that its own is not the file's."""
    return old[:1] in (" ", "\t") and indentation_before(text, start) != ""


def doubt(text: str, start: int, old: str, new: str) -> str:
    """Why the exact hit at ``start`` cannot be taken at its word; empty when it can.

    ``old`` and ``new`` have ``\\n`` line ends.
    """
    indent = indentation_before(text, start)
    if indent and old[:1] not in (" ", "\t") and not old.partition("\n")[2].strip():
        further = [line for line in new.split("\n")[1:] if line.strip()]
        if any(not line.startswith(indent) for line in further):
            return _UNCLEAR_INDENT
    return _UNCLEAR_ESCAPE if _has_stray_escape(old, new) else ""


def _has_stray_escape(old: str, new: str) -> bool:
    r"""Whether ``new`` adds a literal ``\n`` that reads like a line end: unquoted, before an indentation or old."""
    if "\\n" in old or "\n" in new:
        return False
    beside_old = new.startswith(old + "\\n") or new.endswith("\\n" + old)
    for found in re.finditer(r"(?<!\\)\\n", new):
        before = new[: found.start()]
        quoted = before.count('"') % 2 or before.count("'") % 2 or before.count("`") % 2
        if not quoted and (beside_old or re.match(r"\\n|\t| {2}", new[found.end() :])):
            return True
    return False
