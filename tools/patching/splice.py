"""From placed hunks to the spans of the file's text that change. Pure; every other byte stays by construction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from tools.matching.adapt import transfer
from tools.patching.errors import unclear
from tools.patching.hunk_shape import ChangeGroup, final_end, groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.patching.hunk_placement import Placed
    from tools.patching.hunk_search import FileLines
    from tools.patching.model import HunkLine

Splice = tuple[int, int, str]
"""Replace ``text[start:end]``; line ends are final."""


class _LineEdit(Struct):
    """The lines ``[first, end)`` of the file become ``lines``, each a body and a line end."""

    first: int
    end: int
    lines: list[tuple[str, str]]


def splices(file: FileLines, placed: Sequence[Placed]) -> list[Splice]:
    """Spans in rising order, disjoint. Raises PatchError when added lines cannot get the file's indentation."""
    edits: list[_LineEdit] = []
    for one in placed:
        for edit in _edits(file, one):
            if edits and edits[-1].end == edit.first:
                edits[-1].end = edit.end
                edits[-1].lines += edit.lines
            else:
                edits.append(edit)
    if edits:
        _final_line(file, placed[-1], edits)
    out: list[Splice] = []
    for edit in edits:
        start, end = file.starts[edit.first], file.starts[edit.end]
        made = "".join(body + line_end for body, line_end in edit.lines)
        if file.text[start:end] != made:
            out.append((start, end, made))
    return out


def _edits(file: FileLines, one: Placed) -> list[_LineEdit]:
    if one.strategy == "look-alike characters":
        return [_whole(file, one)]
    edits: list[_LineEdit] = []
    for group in groups(one.lines, one.hunk.ends_stated or one.literal):
        if group.removed or group.added:
            first = one.place.first + group.at
            made = [
                (_body(one, line), _end(file, one, group, index, line))
                for index, line in enumerate(group.added)
            ]
            edits.append(_LineEdit(first, first + len(group.removed), made))
    return edits


def _whole(file: FileLines, one: Placed) -> _LineEdit:
    """Return the new text; where look-alike characters differ, repeated parts of the old lines keep the file's
    spelling."""
    place = one.place
    marks = final_end(one.lines)
    if marks is not None and marks.one_sided:
        raise unclear(one.hunk, "it differs from the file in look-alike characters (quotes, dashes, blanks).")
    start, end = file.starts[place.first], file.starts[place.end]
    old = "".join(line.text + "\n" for line in one.lines if line.kind != "+")
    new = "".join(line.text + "\n" for line in one.lines if line.kind != "-")
    made = transfer(file.text, start, end, old, new, place.reindent, loose=True, folded=True)
    if made is None:
        raise _not_indentable(one)
    return _LineEdit(place.first, place.end, [(made, "")])


def _not_indentable(one: Placed) -> Exception:
    return unclear(
        one.hunk,
        f"its place is line {one.place.first + 1}, but the indentation there differs, and its new lines cannot be "
        "indented alike. Copy the indentation of the file.",
    )


def _body(one: Placed, line: HunkLine) -> str:
    if one.place.reindent is None:
        return line.text
    made = one.place.reindent(line.text)
    if made is None:
        raise _not_indentable(one)
    return made


def _end(file: FileLines, one: Placed, group: ChangeGroup, index: int, line: HunkLine) -> str:
    """Return the line end of an added line: as the patch states, else that of the line it replaces or follows."""
    if one.literal:
        return "\r\n" if line.cr else "\n"
    first = one.place.first + group.at
    near = first + min(index, len(group.removed) - 1) if group.removed else max(first - 1, 0)
    return _usual_end(file, near)


def _usual_end(file: FileLines, near: int) -> str:
    """Return the end of line ``near``, or of the one before it when it is the last and has none."""
    for at in (near, near - 1):
        if 0 <= at < len(file) and file.ends[at]:
            return file.ends[at]
    return "\n"


def _final_line(file: FileLines, last: Placed, edits: list[_LineEdit]) -> None:
    """Add or remove the line end of the last line, according to the patch or the file."""
    edit = edits[-1]
    size = len(file)
    if edit.end < size or (last.strategy == "look-alike characters"):
        return
    lacks = size > 0 and file.ends[-1] == ""
    if edit.first == size > 0:
        # Lines are appended, so the line before needs an end now.
        edit.first -= 1
        edit.lines.insert(0, (file.bodies[-1], file.ends[-1]))
    marks = final_end(last.lines)
    wants_end = not lacks
    if marks is not None and marks.one_sided:
        wants_end = marks.old_lacks
    if not edit.lines and edit.first and not wants_end:
        edit.first -= 1
        edit.lines.append((file.bodies[edit.first], file.ends[edit.first]))
    usual = _usual_end(file, size - 1)
    edit.lines = [(body, end or usual) for body, end in edit.lines]
    # A blank last line without an end would not be a line.
    if edit.lines and edit.lines[-1][0] and not wants_end:
        edit.lines[-1] = (edit.lines[-1][0], "")
