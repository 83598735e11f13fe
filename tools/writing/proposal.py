"""A proposed change of files as the user sees it, and the rest when only parts of it are accepted. Pure.

The user accepts a file unchanged, some of its hunks, or a text of their own; parts that are not accepted stay byte for
byte as they were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tools.diff.unified_diff import hunk_spans, of_change, opcodes, shown_name
from tools.localization import t
from tools.text.decoding import decode, splice_bytes
from tools.text.lines import line_end_at, split_lines
from tools.tool import Diff, DiffHunk, FileChange, ProposedFile, ToolError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path


def propose(plan: Sequence[FileChange], names: Mapping[Path, str]) -> tuple[ProposedFile, ...]:
    """Return the files of a plan with their diffs; the two changes of a plain move become one file.

    Where a move replaces a file, or its old name gets other content, all is shown file by file: nothing that is lost
    may hide behind a "moved".
    """
    deleted = {change.path: change for change in plan if change.after is None}
    moves = {
        change.moved_from: change
        for change in plan
        if change.before is None and change.after is not None and change.moved_from in deleted
    }
    files: list[ProposedFile] = []
    for change in plan:
        name = names[change.path]
        if change.path in moves and change.after is None:
            continue
        if change.moved_from is not None and moves.get(change.moved_from) is change:
            source = deleted[change.moved_from]
            files.append(_move(change, source, name, names[source.path]))
        else:
            files.append(ProposedFile(name, change, _with_mode(of_change(change, name), change)))
    return tuple(files)


def choosable_hunks(file: ProposedFile) -> tuple[DiffHunk, ...]:
    """Return the hunks that can be accepted one by one; none when only the whole file can."""
    return file.diff.hunks if file.base is not None and file.change.after is not None else ()


def with_hunks(file: ProposedFile, wanted: Collection[int]) -> tuple[FileChange, ...]:
    """Return the changes left of ``file`` when only the hunks ``wanted`` (from 0) are accepted; none for none.

    Raises ToolError for a hunk that does not exist.
    """
    count = len(choosable_hunks(file))
    if bad := sorted(number for number in wanted if not 0 <= number < count):
        shown = ", ".join(map(str, bad))
        raise ToolError(
            t("{name} has no hunk {shown}: ", name=file.name, shown=shown)
            + (t("its hunks are 0 to {count}.", count=count - 1) if count else t("accept it whole."))
        )
    base, after = file.base, file.change.after
    if not wanted:
        return ()
    if len(set(wanted)) == count or base is None or after is None:
        return file.changes
    old = decode(base)
    new = decode(after, old.codec)
    spans = [
        (start, end, new.text[first:last])
        for number, (start, end, first, last) in enumerate(hunk_spans(old.text, new.text))
        if number in wanted
    ]
    return _replaced(file, splice_bytes(base, old, spans))


def with_text(file: ProposedFile, text: str) -> tuple[FileChange, ...]:
    """Return the changes of ``file`` when the user edited its new content; none when it equals the old one.

    Encoding, byte-order mark and line ends are those of the proposal. Raises ToolError when the file is deleted,
    binary, or cannot hold a character.
    """
    after = file.change.after
    if after is None:
        raise ToolError(
            t("{name} is to be deleted, so there is no text to edit. Accept or reject it.", name=file.name)
        )
    base = file.base
    proposed = decode(after, None if base is None else decode(base).codec)
    made = proposed.encode(keep_line_ends(proposed.text, text))
    if made == base and file.source is None:
        return ()
    return _replaced(file, made)


def keep_line_ends(old: str, new: str) -> str:
    """Return ``new`` with the line ends that ``old`` has: neither models nor editors show them line by line.

    Lines that stay keep their own; new ones get that of the line before, at the top of the one after.
    """
    if "\r" not in old and "\r" not in new:
        return new
    before, after = split_lines(old), split_lines(new)
    ends = [""] * len(after)
    for tag, i1, i2, j1, j2 in opcodes([line.body for line in before], [line.body for line in after]):
        for offset in range(j2 - j1):
            near = before[i1 + offset].end if tag != "insert" and i1 + offset < i2 else ""
            ends[j1 + offset] = near
    last = next((end for end in ends if end), line_end_at(old, 0))
    for number, end in enumerate(ends):
        last = ends[number] = end or last
    return "".join(line.body + (end if line.end else "") for line, end in zip(after, ends, strict=True))


def alterations(
    proposal: Sequence[ProposedFile], written: Sequence[ProposedFile]
) -> list[tuple[str, Diff | None]]:
    """Return the user's changes of a proposal: for each altered file a diff from proposed to written, None if left
    out."""
    done = {file.change.path: file for file in written}
    found: list[tuple[str, Diff | None]] = []
    for file in proposal:
        real = done.get(file.change.path)
        if real is None:
            found.append((file.name, None))
        elif real.change.after != file.change.after:
            change = FileChange(file.change.path, file.change.after, real.change.after)
            found.append((file.name, of_change(change, file.name)))
    return found


def _replaced(file: ProposedFile, after: bytes) -> tuple[FileChange, ...]:
    changed = replace(file.change, after=after)
    return (changed,) if file.source is None else (file.source, changed)


def _move(change: FileChange, source: FileChange, name: str, old_name: str) -> ProposedFile:
    diff = of_change(change, name, source.before)
    head = f"rename from {shown_name(old_name)}\nrename to {shown_name(name)}\n"
    if change.mode is not None and change.mode & 0o111:
        head += f"mode 100{change.mode:03o}\n"
    body = diff.text.replace(f"--- a/{shown_name(name)}", f"--- a/{shown_name(old_name)}", 1)
    return ProposedFile(name, change, _headed(head, replace(diff, text=body)), source, old_name)


def _with_mode(diff: Diff, change: FileChange) -> Diff:
    """Add the permission bits before the diff, as git does, because they are no line of text."""
    if change.mode is None:
        return diff
    word = "new file mode" if change.before is None else "new mode"
    return _headed(f"{word} 100{change.mode:03o}\n", diff)


def _headed(head: str, diff: Diff) -> Diff:
    """Add rows before a diff."""
    rows = head.count("\n")
    hunks = tuple(replace(hunk, row=hunk.row + rows) for hunk in diff.hunks)
    return replace(diff, text=head + diff.text, hunks=hunks)
