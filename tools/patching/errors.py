"""Messages for the model when a hunk has no certain place. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.matching.nearest import nearest_region
from tools.patching.model import Hunk, HunkLine, PatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.patching.hunk_search import FileLines, HunkPlace

_NOTHING = "Nothing was changed."


def _listed(lines: Sequence[int]) -> str:
    return ", ".join(map(str, lines[:20])) + (", …" if len(lines) > 20 else "")


def ambiguous(hunk: Hunk, lines: Sequence[int], dropped: int = 0) -> PatchError:
    """Several places; ``dropped`` context lines had to be left out to find them."""
    how = f" (with {dropped} of its context lines left out)" if dropped else ""
    return PatchError(
        f"{hunk.name} fits {len(lines)} places{how}, at lines {_listed(lines)}. {_NOTHING} Give it more context "
        "lines, or @@ with the line of the function or class it is in."
    )


def applied(hunk: Hunk, line: int) -> PatchError:
    """Return the error for a hunk whose result the file has already."""
    return PatchError(
        f"{hunk.name} is probably already applied: its new lines are at line {line}. {_NOTHING} Leave out "
        "this hunk, or read the file again and be more exact about the change."
    )


def plain_insertion(hunk: Hunk) -> PatchError:
    """Return the error for a hunk with only added lines, which have no place."""
    return PatchError(
        f"{hunk.name} only adds lines, so their place is unknown. {_NOTHING} Give the lines before and "
        "after them as context, or end it with *** End of File to append."
    )


def out_of_order(hunks: Sequence[Hunk]) -> PatchError:
    """Return the error for hunks that have places, but not in order."""
    names = ", ".join(hunk.name for hunk in hunks[:6])
    return PatchError(
        f"Its hunks ({names}) overlap or are not in the order of the file. {_NOTHING} Put them in the "
        "order of their lines in the file, and join those that overlap."
    )


def unclear(hunk: Hunk, why: str) -> PatchError:
    """Return the error for a hunk that cannot be applied literally."""
    return PatchError(f"{hunk.name}: {why} {_NOTHING}")


def absent(file: FileLines, hunk: Hunk, lines: Sequence[HunkLine], cut: Sequence[HunkPlace]) -> PatchError:
    """No place. ``cut``: places that the heading after ``@@`` excludes."""
    if cut:
        return PatchError(
            f"{hunk.name}: its lines are at line {_listed([place.first + 1 for place in cut])}, but not "
            f"below {hunk.anchors[-1]!r}. {_NOTHING} Give the heading before them, or none."
        )
    old = [line.text for line in lines if line.kind != "+"]
    removed = [line.text for line in lines if line.kind == "-"]
    gone = [text for text in removed if text.strip() and text.strip() not in file.keys.where]
    what = "the lines it removes are" if removed and gone else "its context and removed lines are"
    message = f"{hunk.name} fits nowhere: {what} not in the file. {_NOTHING}"
    region = nearest_region(file.bodies, "\n".join(old))
    if region is None:
        return PatchError(f"{message} No similar place was found: read the file again.")
    return PatchError(
        f"{message} The nearest place is at line {region.line} (- the hunk, + the file):\n{region.diff}"
    )
