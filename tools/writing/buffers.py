"""Files that stand in an editor with unsaved changes: the buffer counts as the file.

A change of such a file is planned on the buffer's text and written through the editor, which applies it as an edit
(so that its undo works) and saves. The person's unsaved changes are part of what is shown and approved.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.base import FileChange, Files, ToolError
from tools.text import Text, decode
from tools.writing import atomic

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Buffered:
    """A change of a buffer: its text before and after."""

    change: FileChange
    before: str
    after: str


def as_saved(on_disk: bytes | None, unsaved: str) -> bytes:
    """The bytes the editor would write for a buffer. Raises ToolError when the file's encoding cannot hold them."""
    return (Text("", "utf-8") if on_disk is None else decode(on_disk)).encode(unsaved)


def split(
    plan: Sequence[FileChange], names: Mapping[Path, str], files: Files
) -> tuple[list[FileChange], list[Buffered]]:
    """What of a plan goes to the disk, and what goes through an editor.

    Raises ToolError when a buffer is not what the change was planned on, or the change is none of its text.
    Blocking for a buffer: it reads the file.
    """
    on_disk: list[FileChange] = []
    buffered: list[Buffered] = []
    for change in plan:
        unsaved = files.unsaved(change.path)
        if unsaved is None:
            on_disk.append(change)
            continue
        name = names[change.path]
        if change.after is None or change.before is None or change.mode is not None:
            raise ToolError(
                f"{name} has unsaved changes in the editor. Nothing was changed: ask the person to save or discard "
                "them, then read the file again."
            )
        try:
            same = as_saved(atomic.read_or_none(change.path), unsaved) == change.before
        except OSError:
            same = False
        if not same:
            raise ToolError(
                f"{name} changed in the editor meanwhile. Nothing was written: read it again and redo the change."
            )
        codec = decode(change.before).codec
        buffered.append(Buffered(change, unsaved, decode(change.after, codec).text))
    return on_disk, buffered


async def write_through(buffered: Sequence[Buffered], files: Files) -> None:
    """Change and save all buffers, or none. Raises ToolError."""
    done: list[Buffered] = []
    try:
        for item in buffered:
            await files.write_unsaved(item.change.path, item.before, item.after)
            done.append(item)
    except ToolError:
        await take_back(done, files)
        raise


async def take_back(done: Sequence[Buffered], files: Files) -> None:
    """Give buffers their text back after another file of the same change could not be written. Best effort."""
    for item in reversed(done):
        with contextlib.suppress(ToolError):
            await files.write_unsaved(item.change.path, item.after, item.before)
            continue
        _log.warning("the buffer of %s could not be taken back", item.change.path)


async def settled(plan: Sequence[Buffered]) -> list[Path]:
    """The files that do not read as they were meant to after the editor saved them (it may format on save)."""
    return [item.change.path for item in plan if not await asyncio.to_thread(_reads_as, item.change)]


def _reads_as(change: FileChange) -> bool:
    try:
        return atomic.read_or_none(change.path) == change.after
    except OSError:
        return False
