"""Write a plan of which some files are open in editors: all of it, or nothing.

Everything is tried before anything is saved: the disk is compared with the plan, the buffers take their edits (unsaved:
an edit can be undone there without a trace on disk), open files are renamed, the other files are written, and the
editors save last. After a failure everything is undone in reverse order. The state on disk counts for more than an
editor's answer: a save may be answered late, or wrongly.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import stat
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from tools.diff.merge import MergeConflictError, merge
from tools.ports import AppliedEdit, EditorGoneError, EditRejectedError, NotSavedError
from tools.process.background import Background
from tools.tool import FileChange, Files, ToolError, VersionKeeper
from tools.writing import atomic, disk
from tools.writing.buffers import Buffered, BufferRename, Parts, content
from tools.writing.type_changes import write_groups

_log = logging.getLogger(__name__)


class RollbackFailure(Struct, frozen=True):
    """A part of a failed change that could not be undone."""

    change: FileChange
    content: bytes | None = None
    """Content on disk, when the change is still in there."""
    on_disk: bool = False
    in_buffer: bool = False
    """It is in an editor, unsaved."""


class IncompleteRollbackError(Exception):
    """Raised when a write failed, and not all of it could be undone."""

    def __init__(self, cause: Exception, left: Sequence[RollbackFailure]) -> None:
        super().__init__(f"{cause}; {len(left)} files could not be rolled back")
        self.cause = cause
        self.left = tuple(left)


Late = Callable[[RollbackFailure], Awaitable[None]]
"""Called when an editor saved a change after all, long after it was undone, and it is on disk now."""


class _EditedBuffer(Struct, frozen=True):
    item: Buffered
    edit: AppliedEdit


_watching = Background("watching a late save")


async def write_through(parts: Parts, files: Files, journal: Path | None, late: Late) -> Parts:
    """Do all of ``parts``, or nothing. Raises the cause of a failure, or IncompleteRollbackError. Returns the results
    by place."""
    work = _Transaction(files, journal, late, list(parts.on_disk))
    try:
        await work.do(parts)
    except BaseException as error:
        # Roll back after a cancellation too: all or nothing.
        left = await work.take_back()
        if left and isinstance(error, Exception):
            raise IncompleteRollbackError(error, left) from error
        raise
    saved = [standing.item for standing in work.standing if standing.item.saves]
    return Parts(work.on_disk, saved, work.moved)


class _Transaction(Struct):
    files: Files
    journal: Path | None
    late: Late
    on_disk: list[FileChange]
    standing: list[_EditedBuffer] = field(default_factory=list["_EditedBuffer"])
    moved: list[BufferRename] = field(default_factory=list[BufferRename])
    written: bool = False
    modes: dict[Path, int] = field(default_factory=dict[Path, int])
    folders: list[Path] = field(default_factory=list[Path])
    """Folders that the write makes."""
    pending: list[_EditedBuffer] = field(default_factory=list["_EditedBuffer"])
    """Changes that an editor may still save."""

    async def do(self, parts: Parts) -> None:
        if self.on_disk and (parts.buffered or parts.moved):
            # A changed file is the most likely obstacle: check before any buffer is touched.
            await asyncio.to_thread(atomic.verify, self.on_disk)
        for item in parts.buffered:
            try:
                edit = await self.files.editors.apply(item.change.path, item.before, item.after)
            except EditRejectedError:
                # No unsaved text is at stake: an editor that refuses shows the file's old text.
                if item.saves or await self._is_unsaved(item):
                    raise
                self.on_disk.append(item.change)
            except EditorGoneError:
                if item.unsaved:
                    raise
                self.on_disk.append(item.change)
            else:
                self.standing.append(_EditedBuffer(item, edit))
                if not item.saves:
                    self.on_disk.append(item.change)
        for move in parts.moved:
            await self._move(move)
        self.on_disk += [rest for move in self.moved if (rest := move.rest) is not None]
        if self.on_disk:
            if self.standing or self.moved:
                await asyncio.to_thread(self._note)
            await asyncio.to_thread(atomic.write_all, self.on_disk, self.journal)
            self.written = True
        # Save buffers with other unsaved text last, because that text cannot be removed from the disk again.
        for standing in sorted(self.standing, key=lambda one: one.item.unsaved):
            if standing.item.saves:
                await self._save(standing)

    async def _is_unsaved(self, item: Buffered) -> bool:
        opened = await asyncio.to_thread(self.files.editors.opened, item.change.path)
        return opened is not None and opened.unsaved

    async def _move(self, move: BufferRename) -> None:
        try:
            await self.files.editors.move(move.source.path, move.change.path)
        except EditorGoneError:
            self.on_disk += move.source, move.change
            return
        except ToolError:
            # The editor may have renamed the file before it disconnected, or sent an answer that cannot be read.
            if not await asyncio.to_thread(_has_moved, move):
                raise
        self.moved.append(move)
        if not await asyncio.to_thread(_has_moved, move):
            name = move.source.path.name
            raise ToolError(f"The editor did not move {name} as it was asked to. Nothing was changed.")

    async def _save(self, standing: _EditedBuffer) -> None:
        item, failed = standing.item, None
        path = item.change.path
        try:
            await standing.edit.save()
        except ToolError as error:
            failed = error
        now = await asyncio.to_thread(content, path)
        if failed is not None and holds(now, item):
            return  # an editor may save without reporting it, or disconnect before it does
        if failed is None and now == item.on_disk and now != item.change.after:
            opened = await asyncio.to_thread(self.files.editors.opened, path)
            if opened is not None and opened.unsaved:
                failed = NotSavedError(f"The editor said that it saved {path.name}, and did not.")
        if failed is not None:
            if isinstance(failed, NotSavedError) and failed.pending:
                self.pending.append(standing)
            raise failed

    def _note(self) -> None:
        for change in self.on_disk:
            if change.before is not None:
                with contextlib.suppress(OSError):
                    self.modes[change.path] = stat.S_IMODE(change.path.stat().st_mode)
            else:
                self.folders += [folder for folder in change.path.parents if not folder.exists()]

    # -- rollback

    async def take_back(self) -> list[RollbackFailure]:
        left: list[RollbackFailure] = []
        if self.written:
            left += await asyncio.to_thread(self._undo_on_disk)
        for standing in reversed(self.standing):
            if (one := await self._take_back(standing)) is not None:
                left.append(one)
        for move in reversed(self.moved):
            with contextlib.suppress(ToolError):
                await self.files.editors.move(move.change.path, move.source.path)
            now = await asyncio.to_thread(content, move.change.path)
            if now is not None:
                left.append(RollbackFailure(move.change, now, on_disk=True))
                if await asyncio.to_thread(content, move.source.path) is None:
                    left.append(RollbackFailure(move.source, None, on_disk=True))
        for standing in self.pending:
            _watching.start(self._watch(standing))
        return left

    def _undo_on_disk(self) -> list[RollbackFailure]:
        left: list[RollbackFailure] = []
        for changes in write_groups(list(reversed(self.on_disk))):
            try:
                atomic.write_all([self._turned_round(change) for change in changes], self.journal)
            except (OSError, atomic.ChangedOnDiskError) as error:
                for change in changes:
                    _log.warning("%s could not be undone: %s", change.path, error)
                    left.append(RollbackFailure(change, content(change.path), on_disk=True))
        for folder in sorted(set(self.folders), key=lambda one: len(one.parts), reverse=True):
            with contextlib.suppress(OSError):
                disk.remove_folder(folder)
        return left

    def _turned_round(self, change: FileChange) -> FileChange:
        mode = self.modes.get(change.path) if change.after is None or change.mode is not None else None
        return FileChange(change.path, change.after, change.before, mode)

    async def _take_back(self, standing: _EditedBuffer) -> RollbackFailure | None:
        item = standing.item
        path = item.change.path
        saved = await asyncio.to_thread(lambda: holds(content(path), item))
        opened = await asyncio.to_thread(self.files.editors.opened, path)
        in_buffer = False
        # An unmodified buffer follows the disk automatically; editing it would prevent that.
        if not saved or item.unsaved or opened is None or opened.unsaved:
            in_buffer = not await standing.edit.take_back()
        now = await asyncio.to_thread(self._disk_back, item)
        if now is None and not in_buffer:
            return None
        return RollbackFailure(item.change, now, now is not None, in_buffer)

    def _disk_back(self, item: Buffered) -> bytes | None:
        """Return the content when the edit is still in there."""
        path = item.change.path
        now = content(path)
        if now is None or not holds(now, item):
            return None
        try:
            if now == item.change.after:
                wanted = item.on_disk
            else:  # the user typed, or the editor formatted: other changes stay
                wanted = merge(item.change.after or b"", now, item.change.before or b"", close=True)
            if wanted == now:
                return None
            atomic.write_all([FileChange(path, now, wanted)], self.journal)
        except (MergeConflictError, OSError, atomic.ChangedOnDiskError) as error:
            _log.warning("%s could not be undone: %s", path, error)
            return content(path)
        return None

    async def _watch(self, standing: _EditedBuffer) -> None:
        """Watch an abandoned save, which may still happen: the disk would then have an unnoticed change."""
        await standing.edit.saved_late()
        if not await asyncio.to_thread(lambda: holds(content(standing.item.change.path), standing.item)):
            return
        if (left := await self._take_back(standing)) is not None and left.on_disk:
            await self.late(left)


async def keep_left(
    history: VersionKeeper, versions: Mapping[Path, str], left: Sequence[RollbackFailure]
) -> None:
    """Record the parts of a failed change that are still on disk, so that they can be seen and undone."""
    if found := {one.change.path: one.content for one in left if one.on_disk}:
        names = [versions[path] for path in found]
        await history.settle(names, {path: data for path, data in found.items() if data is not None})
        history.remained(names)


def holds(data: bytes | None, item: Buffered) -> bool:
    """Return whether the change is in the current content on disk, perhaps among others."""
    before, after = item.change.before, item.change.after
    if data is None or after is None or data == after:
        return data is not None and data == after
    if data in (item.on_disk, before):
        return False
    try:
        return merge(after, data, before or b"", close=True) != data
    except MergeConflictError:
        pass
    try:
        # If neither merge works, the answer is unknown: treat the edit as present.
        merge(before or b"", data, after, close=True)
    except MergeConflictError:
        return True
    return False


def _has_moved(move: BufferRename) -> bool:
    try:
        there, here = atomic.read_or_none(move.source.path), atomic.read_or_none(move.change.path)
    except OSError:
        return False
    return there is None and here == move.source.before
