"""Files that are open in an editor: a change of one goes through the editor, and the buffer counts as the file.

The editor applies the change as an edit, so that its undo restores the user's text, and saves. Unsaved changes of a
file are part of the proposal that is approved. An open file without unsaved changes is written on disk where the editor
could not save exactly the approved bytes: its text is stale, or it shows the file in another way (mixed line ends,
another encoding). The editor then reloads the file. An editor that cannot save, like most LSP clients, applies the edit
while the file is written as well, so that the two are equal.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tools.localization import t
from tools.text.decoding import Text, decode
from tools.text.lines import split_lines
from tools.tool import FileChange, Files, ToolError
from tools.writing import atomic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tools.ports import OpenFile


class Buffered(Struct, frozen=True):
    """A change of a buffer: its text before and after."""

    change: FileChange
    before: str
    after: str
    on_disk: bytes | None
    """Content of the file on disk before, which differs from unsaved text."""
    unsaved: bool = True
    saves: bool = True
    """The editor writes the file; else it is written beside."""


class BufferRename(Struct, frozen=True):
    """A file that is renamed in its editor, so that its tab follows; its changes are then written on disk."""

    source: FileChange
    change: FileChange

    @property
    def rest(self) -> FileChange | None:
        """The change that remains at the new path."""
        before, after = self.source.before, self.change.after
        if before == after and self.change.mode is None:
            return None
        return replace(self.change, before=before, moved_from=None)


class Parts(Struct, frozen=True):
    """A plan: changes on disk, and changes through editors."""

    on_disk: Sequence[FileChange]
    buffered: Sequence[Buffered] = ()
    moved: Sequence[BufferRename] = ()


def as_saved(on_disk: bytes | None, unsaved: str) -> bytes:
    """Return the bytes the editor would write for a buffer. Raises ToolError when the file's encoding cannot hold
    them."""
    return (Text("", "utf-8") if on_disk is None else decode(on_disk)).encode(unsaved)


def split(plan: Sequence[FileChange], names: Mapping[Path, str], files: Files) -> Parts:
    """Split a plan into changes on disk and changes through an editor.

    Raises ToolError when a buffer is not what the change was planned on, or the change is none of its text. Blocking
    for an open file: it reads it.
    """
    on_disk: list[FileChange] = []
    buffered: list[Buffered] = []
    moved: list[BufferRename] = []
    sources = {change.path for change in plan if change.after is None}
    follow = {
        change.moved_from: change
        for change in plan
        if change.moved_from in sources and change.before is None and _can_follow(change.moved_from, files)
    }
    followed = {change.path for change in follow.values()}
    for change in plan:
        open_file = files.editors.opened(change.path)
        if open_file is not None and open_file.refusal:
            raise ToolError(open_file.refusal)
        if change.path in follow:
            moved.append(BufferRename(change, follow[change.path]))
        elif change.path in followed:
            continue
        elif open_file is None:
            on_disk.append(change)
        elif open_file.unsaved:
            buffered.append(_of_unsaved(change, open_file, names[change.path]))
        elif (item := _of_saved(change, open_file)) is not None:
            buffered.append(item)
        else:
            on_disk.append(change)
    return Parts(on_disk, buffered, moved)


def _can_follow(source: Path | None, files: Files) -> bool:
    open_file = None if source is None else files.editors.opened(source)
    return open_file is not None and open_file.movable and not open_file.unsaved and not open_file.refusal


def _of_unsaved(change: FileChange, open_file: OpenFile, name: str) -> Buffered:
    """Raises ToolError."""
    if change.after is None or change.before is None or change.mode is not None:
        raise ToolError(
            f"{name} has unsaved changes in the editor. Nothing was changed: ask the user to save or "
            "discard them, then read the file again.",
            told=t("The file has unsaved changes in the editor. Save or discard them."),
        )
    on_disk: bytes | None = None
    try:
        on_disk = atomic.read_or_none(change.path)
        same = as_saved(on_disk, open_file.text) == change.before
    except OSError:
        same = False
    if not same:
        raise ToolError(
            f"{name} changed in the editor in the meantime. Nothing was written: read it again and redo "
            "the change.",
            told=t("The file has changed since the agent read it."),
        )
    codec = decode(change.before).codec
    return Buffered(change, open_file.text, decode(change.after, codec).text, on_disk)


def _of_saved(change: FileChange, open_file: OpenFile) -> Buffered | None:
    """None when it is better done on disk."""
    can = open_file.writable or open_file.editable
    if not can or change.after is None or change.before is None or change.mode is not None:
        return None
    try:
        before = decode(change.before)
        after = decode(change.after, before.codec)
    except ToolError:
        return None
    if before.text != open_file.text or (before.codec, before.bom) != (after.codec, after.bom):
        return None
    if before.guessed or not _editor_keeps(before.text, after.text):
        return None
    try:
        if atomic.read_or_none(change.path) != change.before:
            return None  # the write on disk reports it
    except OSError:
        return None
    saves = open_file.writable
    return Buffered(change, before.text, after.text, change.before, unsaved=False, saves=saves)


def _editor_keeps(before: str, after: str) -> bool:
    """Return whether an editor that uses one kind of line end for a file writes the text unchanged."""
    ends, wanted = ({line.end for line in split_lines(text) if line.end} for text in (before, after))
    ends = ends or {os.linesep}
    return len(ends) == 1 and "\r" not in ends and wanted <= ends


async def settled(parts: Parts) -> dict[Path, bytes | None]:
    """Return the files that differ from the approved ones after the editor saved them (it may format), with their
    contents."""
    found: dict[Path, bytes | None] = {}
    for item in parts.buffered:
        data = await asyncio.to_thread(content, item.change.path)
        if data != item.change.after:
            found[item.change.path] = data
    return found


def content(path: Path) -> bytes | None:
    """Return the content on disk; None when there is no file, or it cannot be read. Blocking."""
    try:
        return atomic.read_or_none(path)
    except OSError:
        return None
