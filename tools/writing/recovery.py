"""Finish or undo changes that a crash interrupted, at the next start."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from tools.localization import t
from tools.writing import disk
from tools.writing.apply_rollback import (
    ChangedOnDiskError,
    RollbackResult,
    clean,
    digest,
    in_order,
    place,
    put_back,
)
from tools.writing.journal import Batch, Item, Journal, left_behind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Outcome = Literal["completed", "undone", "untouched", "failed"]
_MAX_NAMED = 3
_DYING_S = 1.0
_PAUSE_S = 0.01


class Recovered(Struct, frozen=True):
    """One interrupted change. ``untouched``: it had not started to replace files; ``failed``: the next start
    continues."""

    outcome: Outcome
    files: tuple[Path, ...]
    """All that the change was about."""
    text: str
    """Message for the user: what happened, and which files differ from the outcome."""


def recover(journal: Path, *, dying_s: float = _DYING_S) -> list[Recovered]:
    """Make every interrupted change of a journal wholly done or wholly undone. Never raises.

    Only at start: changes of live processes are left alone, but their files are not locked. May itself be killed at any
    point: the next call continues. For ``dying_s`` seconds in all it waits for locks: a process that a killed daemon
    had just started holds them until it runs its own program.
    """
    found: list[Recovered] = []
    deadline = time.monotonic() + dying_s
    for path in left_behind(journal):
        try:
            while (opened := Journal.open(path)) is None and time.monotonic() < deadline:
                time.sleep(_PAUSE_S)
        except FileNotFoundError:
            continue
        except OSError as error:
            said = t(
                "The journal {path} of an interrupted change cannot be read ({strerror}).",
                path=path,
                strerror=error.strerror or error,
            )
            found.append(Recovered("failed", (), said))
            continue
        if opened is not None:
            record, batch = opened
            try:
                found += _recover(record, batch)
            finally:
                record.close()
    return found


def _recover(record: Journal, batch: Batch) -> list[Recovered]:
    paths = tuple(item.path for item in batch.items)
    try:
        if "done" in batch.marks:
            clean(batch)
            record.remove()
            return []
        begun = "commit" in batch.marks and "undo" not in batch.marks
        # Not if a file that was still to be replaced has changed: the new contents belong together.
        if begun and all(_state(batch, item) != "against" for item in batch.items):
            return [_forward(record, batch)]
        alone = len(batch.items) == 1 and disk.look(batch.items[0].temp) is None
        came = _back(record, batch)
        # A single file whose new content no longer waits was practically written, so its record is of no use.
        return [] if alone and came.outcome == "untouched" else [came]
    except OSError as error:
        said = t(
            "An interrupted change of {paths} could not be repaired ({strerror}).",
            paths=_named(paths),
            strerror=error.strerror or error,
        )
        return [Recovered("failed", paths, t("{said} Goalwright tries again at the next start.", said=said))]


def _forward(record: Journal, batch: Batch) -> Recovered:
    try:
        for item in in_order(batch):
            if _state(batch, item) == "pending":
                place(item, None, alone=False)
            else:
                disk.remove(item.temp)
    except (OSError, ChangedOnDiskError):
        return _back(record, batch)
    for folder in {item.path.parent for item in batch.items}:
        disk.sync_folder(folder)
    saved = [item.backup for item in batch.items if _digest(item.backup) not in (None, item.before)]
    kept = [item.path for item in batch.items if not _is_as_planned(batch, item)]
    record.mark(batch, "done")
    if not saved:
        clean(batch)
    record.remove()
    paths = tuple(item.path for item in batch.items)
    text = t("The daemon stopped while it changed {paths}. The change was completed.", paths=_named(paths))
    return Recovered("completed", paths, text + _about(RollbackResult(kept=kept, saved=saved)))


def _back(record: Journal, batch: Batch) -> Recovered:
    paths = tuple(item.path for item in batch.items)
    # A damaged record has lost its marks; a backup shows that renaming had started.
    placed = "commit" in batch.marks or any(disk.look(item.backup) is not None for item in batch.items)
    if placed and batch.complete and "undo" not in batch.marks:
        record.mark(batch, "undo")
    undone = put_back(batch, placed=placed)
    if undone.failed:
        path, error = undone.failed[0]
        text = t(
            "An interrupted change of {paths} could not be undone: {path} ({strerror}).",
            paths=_named(paths),
            path=path,
            strerror=error.strerror or error,
        )
        return Recovered(
            "failed",
            paths,
            t("{text} Goalwright tries again at the next start.{undone}", text=text, undone=_about(undone)),
        )
    for folder in {item.path.parent for item in batch.items} if placed else ():
        disk.sync_folder(folder)
    record.remove()
    if not placed:
        text = t("The daemon stopped before it changed {paths}. Nothing was written.", paths=_named(paths))
        return Recovered("untouched", paths, text)
    text = t("The daemon stopped while it changed {paths}. The change was undone.", paths=_named(paths))
    return Recovered("undone", paths, text + _about(undone))


def _is_as_planned(batch: Batch, item: Item) -> bool:
    try:
        return digest(batch, item) == (item.after or None)
    except OSError:
        return False


def _state(batch: Batch, item: Item) -> Literal["pending", "done", "against"]:
    now, staged, backup = digest(batch, item), disk.look(item.temp), disk.look(item.backup)
    if item.kind == "delete":
        if now is None:
            return "done"
        if backup is None:
            return "pending" if now == item.before else "against"
        return "against" if now == item.before else "done"  # it was created again
    old = item.before or None
    if staged is None:
        return "against" if now == old and item.before != item.after else "done"
    if now == old and disk.digest(item.temp) == item.after:
        return "pending"
    return "done" if now == item.after else "against"


def _digest(path: Path) -> str | None:
    with contextlib.suppress(OSError):
        return disk.digest(path)
    return ""


def _named(paths: Sequence[Path]) -> str:
    if len(paths) == 1:
        return str(paths[0])
    return f"{len(paths)} files" if paths else t("unknown files")


def _about(undone: RollbackResult) -> str:
    said = ""
    for paths, what in (
        (undone.kept, t("changed since and left unchanged")),
        (
            undone.stuck,
            t(
                "still has the new content, because the old content is no longer in the folder; the file "
                "history has it"
            ),
        ),
        (undone.saved, t("an older content that somebody wrote in between; check it, then delete it")),
    ):
        if paths:
            more = t(" and {count} more", count=len(paths) - _MAX_NAMED) if len(paths) > _MAX_NAMED else ""
            said += f" {', '.join(str(path) for path in paths[:_MAX_NAMED])}{more}: {what}."
    return said
