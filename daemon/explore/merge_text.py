"""Describe a merge: its conflicts, and its result. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.diff.unified_diff import shown_name
from tools.localization import n, t
from tools.text.truncate import head, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from daemon.explore.merge_plan import MergePlan, UnmergeableFile

_MAX_CONFLICTS = 5
"""Most conflicts to show in full; of the others only the names."""
_MAX_CLASHES = 3
_MAX_LINES = 8
_MAX_WIDTH = 160
_MAX_NAMED = 20


def conflicts_text(plan: MergePlan, kept: Mapping[str, Sequence[str]], *, by_user: bool = False) -> str:
    """Return why nothing was written. ``kept``: by name of a file, where the branches' versions of it can be read; for
    a user, with which commands."""
    conflicts = plan.conflicts
    lines = [
        n(
            "Nothing was written: {count} file cannot be merged, and a merge is all or nothing.",
            "Nothing was written: {count} files cannot be merged, and a merge is all or nothing.",
            len(conflicts),
        )
    ]
    for conflict in conflicts[:_MAX_CONFLICTS]:
        lines += _conflict(conflict, kept.get(conflict.name, ()), by_user)
    lines += [
        f"- {shown_name(conflict.name)}: {conflict.reason}"
        for conflict in conflicts[_MAX_CONFLICTS : _MAX_CONFLICTS + _MAX_NAMED]
    ]
    if (more := len(conflicts) - _MAX_CONFLICTS - _MAX_NAMED) > 0:
        lines.append(t("- and {more} more", more=more))
    if others := _others(plan):
        lines.append(t("The other files can be merged: select them by name: {others}.", others=names(others)))
    if by_user:
        lines.append(
            t(
                "Use Show Changes in the editor to see what each branch changed, and add what is "
                "missing by hand."
            )
        )
    else:
        lines.append(t("Then add what is missing by hand: read the branch's version and edit the file."))
    return "\n".join(lines)


def _others(plan: MergePlan) -> list[str]:
    """Return the files that can be selected without a conflict; a folder's name covers all files below it."""
    above = {
        conflict.name[:end]
        for conflict in plan.conflicts
        for end, sign in enumerate(conflict.name)
        if sign == "/"
    }
    return [file.name for file in plan.files if file.name not in above]


def remarks(plan: MergePlan) -> str:
    """Return notes on selected files that are not written, and why; empty when there are none."""
    lines: list[str] = []
    if plan.same:
        lines.append(t("Already the same as in the branch: {same}.", same=names(plan.same)))
    reasons: dict[str, list[str]] = {}
    for name, reason in plan.left_out:
        reasons.setdefault(reason, []).append(name)
    lines += [
        t("Skipped: {left}: {reason}.", left=names(left), reason=reason) for reason, left in reasons.items()
    ]
    return "\n".join(lines)


def names(files: Sequence[str]) -> str:
    """Return the names in a line, not too many."""
    shown = ", ".join(shown_name(name) for name in files[:_MAX_NAMED])
    more = len(files) - _MAX_NAMED
    return t("{shown} and {more} more", shown=shown, more=more) if more > 0 else shown


def _conflict(conflict: UnmergeableFile, kept: Sequence[str], by_user: bool) -> list[str]:
    lines = [f"- {shown_name(conflict.name)}: {conflict.reason}"]
    for clash in conflict.clashes[:_MAX_CLASHES]:
        place = t("line {line}, ", line=clash.line) if len(clash.base) + len(clash.ours) else ""
        lines += [f"  {place}{conflict.sides[0]}:", *_quoted(clash.ours)]
        lines += [f"  {conflict.sides[1]}:", *_quoted(clash.theirs)]
    if (more := len(conflict.clashes) - _MAX_CLASHES) > 0:
        lines.append(t("  and {more} more places", more=more))
    if kept:
        lines.append(f"  {t('See') if by_user else t('Read')} {', '.join(kept)}")
    return lines


def _quoted(text: str) -> list[str]:
    if not text:
        return [t("    (nothing)")]
    rows = text.splitlines()
    shown = [f"    {_row(row)}" for row in rows[:_MAX_LINES]]
    more = len(rows) - _MAX_LINES
    if len({end for end in ("\r\n", "\n") if end in text}) == 1 and "\r\n" in text:
        shown[0] += t("  (lines end with CRLF)")
    return [*shown, t("    … {more} more lines", more=more)] if more > 0 else shown


def _row(row: str) -> str:
    return head(shown_name(row.expandtabs(4)), _MAX_WIDTH) if row.strip() else one_line(row, _MAX_WIDTH)
