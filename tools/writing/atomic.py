"""Write files so that each is wholly old or wholly new, and several together all or none.

Used by ``tools/change.py`` only. Blocking: call it in a thread.

The order of a write: record (journal) → folders and new contents beside their targets, flushed → disk compared with the
plan again → mark ``commit`` → each target replaced, with the old file kept under a second name → folders flushed → mark
``done`` → backups and record removed. An error puts everything back. After a crash ``recover`` completes it: without
the first mark back, with it forward. A single file needs no marks, no backup and no flushed record: its rename is the
commit, and the record only lists what to tidy up.

A replaced file keeps: permission bits, owner and extended attributes (access lists), as far as the system permits. It
does not keep other hard links: they still have the old content. That is on purpose: they are other files to their users
(a package store, a snapshot), and their change was not approved.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import stat
from typing import TYPE_CHECKING

from tools.files.regular_files import sha256
from tools.writing import disk
from tools.writing.apply_rollback import (
    ChangedOnDiskError,
    clean,
    in_order,
    is_backup_untouched,
    place,
    put_back,
)
from tools.writing.journal import Batch, Journal, new_batch
from tools.writing.type_changes import TypeChanges, type_changes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tools.tool import FileChange
    from tools.writing.disk import Stamp

_OPEN_AT_ONCE = 64
"""Files that are open until they are flushed together: systems permit a few hundred."""


class NotUndoneError(OSError):
    """Raised when a write failed, and undoing it failed as well. The record stays: the next start tries again."""

    def __init__(self, failed: Sequence[tuple[Path, OSError]], cause: BaseException, recorded: bool) -> None:
        names = ", ".join(str(path) for path, _ in failed[:3]) + (" …" if len(failed) > 3 else "")
        again = "; the next start of the daemon tries again" if recorded else ""
        first = failed[0][1]
        super().__init__(
            first.errno, f"{cause}; {names} could not be restored ({first.strerror or first}){again}"
        )
        self.paths = tuple(path for path, _ in failed)


def read_or_none(path: Path) -> bytes | None:
    """Return the bytes of a regular file, or None when nothing is there. Raises OSError otherwise."""
    found = disk.read_stamped(path)
    return None if found is None else found[0]


def verify(changes: Sequence[FileChange]) -> None:
    """Compare the disk with each ``before``. Raises ChangedOnDiskError if one differs, OSError if it is unreadable."""
    _verified(changes, type_changes(changes))


def write_all(changes: Sequence[FileChange], journal: Path | None = None) -> None:
    """Write all changes or none of them.

    ``journal``: a private folder outside of the workspace for the record that ``recover`` needs; it is made when
    missing. On an error all is put back and the error raised: OSError, Moved, or NotUndoneError when that failed too.
    """
    alone = len(changes) == 1
    turns = type_changes(changes)
    if turns:  # deletions come first
        changes = sorted(changes, key=lambda change: change.after is not None)
    batch = _batch(changes, alone, turns)
    record = None if journal is None else Journal.begin(journal, batch, durable=not alone)
    placed = False
    try:
        late = set(batch.late_folders() if turns else ())
        for folder in batch.folders:
            if folder not in late:
                disk.make_folder(folder)
        _stage(changes, batch)
        stamps = _verified(changes, turns)
        if record is not None and not alone:
            record.mark(batch, "commit")
        placed = True
        for item, stamp in zip(in_order(batch), stamps, strict=True):
            place(item, stamp, alone=alone)
        if not alone:
            # Sync before the record is removed. A single file needs no sync: after a power cut it is entirely old or
            # new.
            for folder in {item.path.parent for item in batch.items}:
                disk.sync_folder(folder)
            _check_backups(batch, stamps)
    except BaseException as error:
        _roll_back(batch, record, error, placed=placed)
        raise
    _finish(batch, record, alone)


def _batch(changes: Sequence[FileChange], alone: bool, turns: TypeChanges) -> Batch:
    """Return the batch to write. Raises OSError for changes that cannot work, before anything is touched."""
    batch = new_batch()
    deleted = [change.path for change in changes if change.after is None]
    for change in changes:
        _check(change, deleted)
        # A single file needs no hashes: it is never restored, and its rename is the commit.
        hashes = ("", "") if alone else (_sha256(change.before), _sha256(change.after))
        batch.add(change.path, change.kind, *hashes, up=turns.up(change.path))
    parents = {change.path.parent: change.path for change in changes if change.after is not None}
    turning = frozenset(turns.opened.values())
    batch.folders = sorted(
        {folder for parent, path in parents.items() for folder in _missing(parent, path, turning)}
    )
    for folder in turns.folders():
        if (found := disk.look(folder)) is not None:
            batch.emptied.append((folder, stat.S_IMODE(found.st_mode)))
    return batch


def _check(change: FileChange, deleted: Sequence[Path]) -> None:
    found = disk.look(change.path)
    if found is None:
        if change.before is not None:
            raise ChangedOnDiskError(change.path, "was deleted")
        return
    if change.before is None:
        for path in deleted:
            if path.name.casefold() == change.path.name.casefold() and disk.same_file(path, change.path):
                said = (
                    f"{path.name} and {change.path.name} are one file here, where case is ignored: use git mv"
                )
                raise OSError(errno.EINVAL, said, str(change.path))
    elif not found.st_mode & 0o222 and change.before != change.after:
        raise PermissionError(errno.EACCES, "the file is read-only", str(change.path))


def _missing(folder: Path, path: Path, turning: frozenset[Path]) -> list[Path]:
    """Return the folders to create for ``path``. ``turning``: files in the way that are gone by then."""
    missing: list[Path] = []
    while (found := disk.look(folder)) is None or folder in turning:
        missing.append(folder)
        folder = folder.parent
    if stat.S_ISLNK(found.st_mode):
        raise ChangedOnDiskError(path, "leads somewhere else now")
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(folder))
    if not disk.leads_here(folder):
        raise ChangedOnDiskError(path, "leads somewhere else now")  # write no temporary file there
    return missing


def _stage(changes: Sequence[FileChange], batch: Batch) -> None:
    waiting: list[int] = []
    try:
        for change, item in zip(changes, batch.items, strict=True):
            if change.after is not None:
                like = change.moved_from if change.before is None else change.path
                waiting.append(disk.begin_new(item.temp, change.after, change.mode, like))
            if len(waiting) == _OPEN_AT_ONCE:
                waiting, full = [], waiting
                disk.flush(full)
    except BaseException:
        for descriptor in waiting:
            with contextlib.suppress(OSError):
                disk.close(descriptor)
        raise
    disk.flush(waiting)


def _verified(changes: Sequence[FileChange], turns: TypeChanges) -> list[Stamp | None]:
    stamps: list[Stamp | None] = []
    emptied = turns.folders()
    _check_emptied(emptied, turns)
    folders: set[Path] = set()
    for change in changes:
        folder = change.path.parent
        if folder not in folders:
            # A folder of the path may have been swapped for a symlink since the path was resolved.
            if not disk.leads_here(folder):
                raise ChangedOnDiskError(change.path, "leads somewhere else now")
            folders.add(folder)
        if change.path in turns.opened or change.path in emptied:
            stamps.append(None)  # the file above it, or the files in it, are compared
            continue
        try:
            found = disk.read_stamped(change.path, follow=False)
        except OSError as error:
            if change.path.is_symlink():
                raise ChangedOnDiskError(change.path, "leads somewhere else now") from error
            raise
        if (None if found is None else found[0]) != change.before:
            raise ChangedOnDiskError(change.path, "changed")
        stamps.append(None if found is None else found[1])
    return stamps


def _check_emptied(emptied: Mapping[Path, Path], turns: TypeChanges) -> None:
    """Check that a folder that becomes a file holds nothing but entries that are deleted."""
    for folder, target in emptied.items():
        if disk.is_folder(folder):
            inside = (folder / name for name in disk.names_in(folder))
            if any(path not in turns.closed and path not in emptied for path in inside):
                raise ChangedOnDiskError(target, "now contains another file")


def _check_backups(batch: Batch, stamps: Sequence[Stamp | None]) -> None:
    """An editor that had a file open while it was replaced has written into the backup: its text must win."""
    for item, stamp in zip(batch.items, stamps, strict=True):
        if stamp is not None and not is_backup_untouched(item, stamp):
            raise ChangedOnDiskError(item.path, "changed")


def _roll_back(batch: Batch, record: Journal | None, error: BaseException, *, placed: bool) -> None:
    """Undo the batch. Raises NotUndoneError when something is left that only ``recover`` can fix."""
    marked = (
        record is None or "commit" not in batch.marks or _works(functools.partial(record.mark, batch, "undo"))
    )
    undone = put_back(batch, placed=placed)
    if undone.failed:
        undone = put_back(batch, placed=placed)  # a disk that has just failed may work again
    if undone.failed:
        if record is not None:
            record.close()
        raise NotUndoneError(undone.failed, error, record is not None) from error
    if record is not None and not (_works(record.remove) or _works(record.remove)) and not marked:
        # Otherwise the next start would carry it out.
        raise NotUndoneError([(record.path, OSError(errno.EIO, "cannot be removed"))], error, True) from error


def _finish(batch: Batch, record: Journal | None, alone: bool) -> None:
    """Finish a change that is committed. Failures from here on are tidied up at the next start."""
    if not alone:
        if record is not None:
            _works(functools.partial(record.mark, batch, "done"))
        cleaning = functools.partial(clean, batch)
        if not (_works(cleaning) or _works(cleaning)):
            if record is not None:
                record.close()
            return
    if record is not None and not _works(record.remove):
        _works(record.remove)


def _works(step: Callable[[], object]) -> bool:
    """Return whether a step raised no OSError."""
    with contextlib.suppress(OSError):
        step()
        return True
    return False


def _sha256(data: bytes | None) -> str:
    return "" if data is None else sha256(data)
