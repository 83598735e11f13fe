"""The two halves of a write, file by file: new contents into place, and old ones back.

Both can be interrupted at any point and restarted, also by another process: the remaining work follows from the state
on disk. A file that is neither the old nor the new one is newer work, and is never touched.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from tools.writing import disk
from tools.writing.disk import Stamp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.writing.journal import Batch, Item


class ChangedOnDiskError(Exception):
    """The file on disk is not the one the change was planned on."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path}: {what}")
        self.path = path
        self.what = what


class RollbackResult(Struct):
    """The result of restoring a batch."""

    kept: list[Path] = field(default_factory=list[Path])
    """Left unchanged, because they have been changed since."""
    stuck: list[Path] = field(default_factory=list[Path])
    """Still new, because the old content is gone (our files were removed); the file history has it."""
    saved: list[Path] = field(default_factory=list[Path])
    """Backups left in place, because their content exists nowhere else."""
    failed: list[tuple[Path, OSError]] = field(default_factory=list[tuple[Path, OSError]])
    """Not possible now."""


# -- forward --


def in_order(batch: Batch) -> Iterator[Item]:
    """Yield the items in the order of placing. Files that become folders, and folders that become files, change in
    between, when all deletions are done (see ``tools.writing.type_changes``). Raises OSError, Moved."""
    has_turned = False
    for item in batch.items:
        if item.kind != "delete" and not has_turned:
            has_turned = True
            _turn(batch)
        yield item


def _turn(batch: Batch) -> None:
    for folder, _ in batch.emptied:
        if not disk.remove_folder(folder):
            made = (item.path for item in batch.items if item.path in (folder, *folder.parents))
            raise ChangedOnDiskError(next(made, folder), "now contains another file")
    for folder in batch.late_folders():
        disk.make_folder(folder)


def digest(batch: Batch, item: Item) -> str | None:
    """Return the digest as ``disk`` does; a folder that has turned from or into the item's file counts as nothing.
    Raises OSError."""
    found = disk.digest(item.path)
    if found == "" and disk.is_folder(item.path):
        turning = batch.folders if item.kind == "delete" else [folder for folder, _ in batch.emptied]
        return None if item.path in turning else found
    return found


def place(item: Item, stamp: Stamp | None, *, alone: bool) -> None:
    """Put the staged content at its target, or remove the target. Raises OSError, Moved.

    ``stamp``: of the old file when it was compared with the plan; None: it was compared by hash. ``alone``: it is the
    only file of its batch, so that nothing can fail after it and no backup is needed.
    """
    # Check again just before: since the comparison, a folder of the path may have become a link.
    if not disk.leads_here(item.path.parent):
        raise ChangedOnDiskError(item.path, "leads somewhere else now")
    if item.kind == "create":
        try:
            disk.move_new(item.temp, item.path)
        except FileExistsError as error:
            raise ChangedOnDiskError(item.path, "was created by another program") from error
    elif item.kind == "update":
        if not alone:
            _back_up(item, stamp)
        disk.replace(item.temp, item.path)
    elif alone:
        disk.remove(item.path)
    else:
        disk.move(item.path, item.backup)
        _compare(item, stamp)


def is_backup_untouched(item: Item, stamp: Stamp) -> bool:
    """Return whether no program wrote through a handle that was open when the file was replaced. Raises OSError."""
    found = disk.look(item.backup)
    # A copy, made where hard links are not supported, is a separate file that no one else has open.
    return found is None or found.st_ino != stamp.inode or Stamp.of(found) == stamp


def clean(batch: Batch) -> None:
    """All are in place: remove backups and what else is left. Raises OSError."""
    for item in batch.items:
        if item.kind != "create":
            disk.remove(item.backup)


def _back_up(item: Item, stamp: Stamp | None) -> None:
    try:
        linked = disk.second_name(item.path, item.backup)
    except FileExistsError:
        # Left by a crash, perhaps only half a copy. The target is known to be the old file.
        disk.remove(item.backup)
        linked = disk.second_name(item.path, item.backup)
    _compare(item, stamp if linked else None)


def _compare(item: Item, stamp: Stamp | None) -> None:
    """Somebody may have saved the file since it was compared with the plan."""
    if stamp is None:
        same = disk.digest(item.backup) == item.before
    else:
        found = disk.look(item.backup)
        same = found is not None and Stamp.of(found) == stamp
    if not same:
        raise ChangedOnDiskError(item.path, "changed")


# -- rollback --


def put_back(batch: Batch, *, placed: bool) -> RollbackResult:
    """Undo whatever of a batch was done. Never raises for a single file.

    ``placed``: some targets may have their new content already; else nothing but our own files is touched.
    """
    undone = RollbackResult()
    for item in reversed(batch.items):
        if item.kind != "delete":
            _put_back(item, undone, placed)
    # Remove folders before deleted files return: a folder may be in their way, or their folder may have become a file.
    for folder in reversed(batch.folders):
        try:
            disk.remove_folder(folder)
        except OSError as error:
            undone.failed.append((folder, error))
    for folder, mode in reversed(batch.emptied) if placed else ():
        try:
            disk.make_again(folder, mode)
        except OSError as error:
            undone.failed.append((folder, error))
    for item in reversed(batch.items):
        if item.kind == "delete":
            _put_back(item, undone, placed)
    return undone


def _put_back(item: Item, undone: RollbackResult, placed: bool) -> None:
    back = {"create": _remove_created, "update": _put_back_updated, "delete": _put_back_deleted}[item.kind]
    try:
        if placed:
            back(item, undone)
        disk.remove(item.temp)
    except OSError as error:
        undone.failed.append((item.path, error))


def _remove_created(item: Item, undone: RollbackResult) -> None:
    now = disk.look(item.path)
    if now is None:
        return
    if disk.look(item.temp) is not None and not disk.same_file(item.temp, item.path):
        return  # ours was never placed
    if item.after and disk.digest(item.path) != item.after:
        undone.kept.append(item.path)
    elif item.after or disk.same_file(item.temp, item.path):
        disk.remove(item.path)


def _put_back_updated(item: Item, undone: RollbackResult) -> None:
    backup = disk.look(item.backup) is not None
    if disk.look(item.temp) is not None:
        disk.remove(item.backup)  # never replaced
        return
    if not item.after:
        return  # alone: nothing comes after the rename that could fail
    now = disk.digest(item.path)
    if now == item.after and backup and not disk.same_file(item.path, item.backup):
        disk.replace(item.backup, item.path)
    elif now == item.after and now != item.before and not backup:
        undone.stuck.append(item.path)
    else:
        _leave(item, now, undone)


def _put_back_deleted(item: Item, undone: RollbackResult) -> None:
    if disk.look(item.backup) is None:
        return
    now = disk.digest(item.path)
    if now is None and not disk.is_folder(item.path.parent):
        undone.saved.append(item.backup)  # its folder has been replaced by something else
    elif now is None:
        disk.move_new(item.backup, item.path)
    elif disk.same_file(item.path, item.backup):
        disk.remove(item.backup)
    else:
        _leave(item, now, undone)


def _leave(item: Item, now: str | None, undone: RollbackResult) -> None:
    """Leave the target unchanged; the backup is removed when its content is the planned one, which the history has."""
    if now not in (item.before, item.after):
        undone.kept.append(item.path)
    backup = disk.digest(item.backup)
    if backup is None:
        return
    if backup == item.before or now == item.before:
        disk.remove(item.backup)
    else:
        undone.saved.append(item.backup)
