"""Messages for the model when an edit has no certain place. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from tools.localization import noted, t
from tools.matching.nearest import nearest_region
from tools.text.lines import to_lf
from tools.tool import ToolError

if TYPE_CHECKING:
    from collections.abc import Sequence

MatchProblem = Literal["identical", "empty", "ambiguous", "absent", "already_applied", "unclear"]
_UNFIT = noted("The edit does not fit the file.")
_TOLD: dict[MatchProblem, str] = {
    "identical": noted("The file already has the agent's change."),
    "already_applied": noted("The file already has the agent's change."),
    "absent": noted("The text to replace is not in the file."),
    "ambiguous": noted("The text to replace occurs several times in the file."),
}


class MatchError(ToolError):
    """Why the edit has no place. ``lines`` are the candidates' or the nearest place's line numbers."""

    def __init__(self, kind: MatchProblem, message: str, lines: Sequence[int] = ()) -> None:
        super().__init__(message, told=t(_TOLD.get(kind, _UNFIT)))
        self.kind: MatchProblem = kind
        self.lines = tuple(lines)


def ambiguous(lines: Sequence[int], differing: str) -> MatchError:
    """Return the error for several places. ``differing`` names the looser strategy, empty for the exact one."""
    shown = ", ".join(map(str, lines[:20])) + (", …" if len(lines) > 20 else "")
    how = f" (differing in {differing} only)" if differing else ""
    more = "and copy them exactly" if differing else "or set replace_all to change all of them"
    message = (
        f"old_string matches {len(lines)} places{how}, at lines {shown}. Nothing was changed. "
        f"Add lines around it until it is unique, {more}."
    )
    return MatchError("ambiguous", message, lines)


def differing(places: Sequence[tuple[int, str]]) -> MatchError:
    """Several places, each of which ``old_string`` misses in another way: pairs of a line and that way."""
    shown = ", ".join(f"line {line} (differs in {kind})" for line, kind in places[:20])
    message = (
        f"old_string is not in the file exactly, and {len(places)} places are similar, each with different "
        f"deviations: {shown}{', …' if len(places) > 20 else ''}. Nothing was changed. Copy the meant "
        "lines exactly from the file, or add lines around them."
    )
    return MatchError("ambiguous", message, [line for line, _ in places])


def too_many(limit: int) -> MatchError:
    """Return the error for ``replace_all`` with more places than one call may change."""
    return MatchError(
        "ambiguous",
        f"old_string occurs more than {limit:,} times, which is the most that one call replaces: give more context, "
        "or use a command for it. Nothing was changed.",
    )


def already_applied(line: int) -> MatchError:
    """Return the error for an edit whose result the file has already."""
    message = f"Already applied: new_string is at line {line}. Nothing was changed."
    return MatchError("already_applied", message, [line])


def unclear(line: int, why: str) -> MatchError:
    """Return the error for a place whose replacement is ambiguous."""
    return MatchError(
        "unclear", f"old_string was found at line {line}, but nothing was changed: {why}", [line]
    )


def absent(lines: Sequence[str], old: str, new: str, exact_only: bool) -> MatchError:
    """No place: perhaps since the edit is applied already, else with the nearest region as a small diff."""
    line = _stands_at(lines, to_lf(new))
    if line and _adds_words(old, new):
        message = (
            f"Probably already applied: old_string is not in the file, but new_string is at line {line}. "
            "Nothing was changed; read the file if in doubt."
        )
        return MatchError("already_applied", message, [line])
    message = "old_string is not in the file. Nothing was changed."
    if exact_only:
        message += " With replace_all it must match exactly."
    if line:
        message += f" What new_string keeps of it is at line {line}: it may already be applied."
    region = nearest_region(lines, to_lf(old))
    if region is None:
        return MatchError("absent", message + " No similar place was found: read the file again.")
    message += f" The nearest place is at line {region.line} (- old_string, + the file):\n{region.diff}"
    return MatchError("absent", message, [region.line])


def _solid(text: str) -> list[str]:
    return [line.strip() for line in to_lf(text).split("\n") if line.strip()]


def stands_already(lines: Sequence[str], old: str, new: str) -> bool:
    """Return whether the file has the text of ``new``, and ``old`` does not: the edit may be done already."""
    return _stands_at(lines, to_lf(new)) > 0 and _adds_words(old, new)


def _adds_words(old: str, new: str) -> bool:
    return not set(_solid(new)) <= set(_solid(old))


def _stands_at(lines: Sequence[str], new: str) -> int:
    """Return the number of the line where ``new`` is, ignoring trailing blanks; 0 when it is nowhere."""
    if not re.search(r"\w", new):
        return 0
    text = "\n".join(line.rstrip(" \t") for line in lines) + "\n"
    at = text.find("\n".join(line.rstrip(" \t") for line in new.split("\n")))
    return 1 + text.count("\n", 0, at) if at >= 0 else 0
