"""Files that are open in an editor: a change of one goes through the editor, and the buffer counts as the file.

The editor applies the change as an edit, so that its undo brings back what the person had, and saves. Of a file with
unsaved changes, these are part of what is shown and approved. An open file without unsaved changes is written on disk
all the same where the editor could not give exactly the approved bytes: its text is stale, or it shows the file in
another way (mixed line ends, another encoding), or it cannot save. The editor then reads the file again by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tools.base import FileChange, Files, ToolError
from tools.open_files import EditorGone, OpenFile
from tools.text import Text, decode
from tools.writing import atomic

_log = logging.getLogger(__name__)

_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Buffered:
    """A change of a buffer: its text before and after."""

    change: FileChange
    before: str
    after: str
    unsaved: bool = True


@dataclass(frozen=True, slots=True)
class Moved:
    """A file that is renamed in its editor, so that its tab follows; what is new in it is written on disk then."""

    source: FileChange
    change: FileChange

    @property
    def rest(self) -> FileChange | None:
        """What is left to be done at the new place."""
        before, after = self.source.before, self.change.after
        if before == after and self.change.mode is None:
            return None
        return replace(self.change, before=before, moved_from=None)


@dataclass(frozen=True, slots=True)
class Parts:
    """A plan: what goes to the disk, and what goes through editors."""

    on_disk: Sequence[FileChange]
    buffered: Sequence[Buffered] = ()
    moved: Sequence[Moved] = ()


def as_saved(on_disk: bytes | None, unsaved: str) -> bytes:
    """The bytes the editor would write for a buffer. Raises ToolError when the file's encoding cannot hold them."""
    return (Text("", "utf-8") if on_disk is None else decode(on_disk)).encode(unsaved)


def split(plan: Sequence[FileChange], names: Mapping[Path, str], files: Files) -> Parts:
    """What of a plan goes to the disk, and what goes through an editor.

    Raises ToolError when a buffer is not what the change was planned on, or the change is none of its text.
    Blocking for an open file: it reads it.
    """
    on_disk: list[FileChange] = []
    buffered: list[Buffered] = []
    moved: list[Moved] = []
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
            moved.append(Moved(change, follow[change.path]))
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
            f"{name} has unsaved changes in the editor. Nothing was changed: ask the person to save or discard "
            "them, then read the file again."
        )
    try:
        same = as_saved(atomic.read_or_none(change.path), open_file.text) == change.before
    except OSError:
        same = False
    if not same:
        raise ToolError(
            f"{name} changed in the editor meanwhile. Nothing was written: read it again and redo the change."
        )
    codec = decode(change.before).codec
    return Buffered(change, open_file.text, decode(change.after, codec).text)


def _of_saved(change: FileChange, open_file: OpenFile) -> Buffered | None:
    """None when it is better done on disk."""
    if change.after is None or change.before is None or change.mode is not None or not open_file.writable:
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
            return None  # which the way over the disk then says
    except OSError:
        return None
    return Buffered(change, before.text, after.text, unsaved=False)


def _editor_keeps(before: str, after: str) -> bool:
    """Whether an editor that knows one kind of line end a file writes the text as it is."""
    ends = {found.group() for found in _LINE_END.finditer(before)} or {os.linesep}
    return len(ends) == 1 and "\r" not in ends and {f.group() for f in _LINE_END.finditer(after)} <= ends


async def write_through(parts: Parts, files: Files) -> Parts:
    """Change and save all buffers, and rename what is to be renamed, or none. Raises ToolError.

    Returns what was done by editors, and what is left for the disk: also what no editor could be asked for.
    """
    on_disk, buffered, moved = list(parts.on_disk), list[Buffered](), list[Moved]()
    try:
        for item in parts.buffered:
            if await _through(item, files):
                buffered.append(item)
            else:
                on_disk.append(item.change)
        for move in parts.moved:
            try:
                await files.editors.move(move.source.path, move.change.path)
            except EditorGone:
                on_disk += move.source, move.change
                continue
            moved.append(move)
            if not await asyncio.to_thread(_has_moved, move):
                name = move.source.path.name
                raise ToolError(f"The editor did not move {name} as it was asked to. Nothing was changed.")
    except BaseException:
        # Also when canceled: all or nothing.
        await take_back(Parts((), buffered, moved), files)
        raise
    return Parts([*on_disk, *(rest for move in moved if (rest := move.rest) is not None)], buffered, moved)


async def _through(item: Buffered, files: Files) -> bool:
    """False when no editor was asked, and the disk is the place. Raises ToolError."""
    try:
        await files.editors.write(item.change.path, item.before, item.after)
    except EditorGone:
        if item.unsaved:
            raise
        return False
    except ToolError:
        # An editor may save and be gone before it says so.
        if await asyncio.to_thread(_reads_as, item.change):
            return True
        raise
    return True


def _has_moved(move: Moved) -> bool:
    try:
        there, here = atomic.read_or_none(move.source.path), atomic.read_or_none(move.change.path)
    except OSError:
        return False
    return there is None and here == move.source.before


async def take_back(parts: Parts, files: Files) -> None:
    """Give buffers their text back after another file of the same change could not be written. Best effort."""
    for move in reversed(parts.moved):
        with contextlib.suppress(ToolError):
            await files.editors.move(move.change.path, move.source.path)
            continue
        _log.warning("%s could not be moved back", move.change.path)
    for item in reversed(parts.buffered):
        with contextlib.suppress(ToolError):
            await files.editors.write(item.change.path, item.after, item.before)
            continue
        _log.warning("the buffer of %s could not be taken back", item.change.path)


async def settled(parts: Parts) -> dict[Path, bytes | None]:
    """The files that read otherwise than approved after the editor saved them (it may format), and what they hold."""
    found: dict[Path, bytes | None] = {}
    for item in parts.buffered:
        data = await asyncio.to_thread(_content, item.change.path)
        if data != item.change.after:
            found[item.change.path] = data
    return found


def _content(path: Path) -> bytes | None:
    try:
        return atomic.read_or_none(path)
    except OSError:
        return None


def _reads_as(change: FileChange) -> bool:
    return _content(change.path) == change.after
