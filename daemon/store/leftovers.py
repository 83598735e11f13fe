"""What is no trace, or not yet and never will be: left by an import or a beginning that was killed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.store.ids import TRACE_ID

if TYPE_CHECKING:
    from collections.abc import Collection

STAGING = ".import-"
"""How folders begin in which archives are unpacked."""
_BEGINNING = timedelta(hours=1)
"""No session takes so long to begin: an unfinished one that is older belongs to nobody."""
_HALF = re.compile(r"goal\.json|\.(?:goal|meta)\.json\..*")
"""What a trace's folder has before it has metadata."""


def holds_trace(folder: Path) -> bool:
    """Whether a folder is a trace: without log and metadata there is nothing to show, nor to go on with."""
    return os.path.lexists(folder / "events.jsonl") or os.path.lexists(folder / "meta.json")


def remove_leftovers(root: Path) -> None:
    """Remove what an import left that was killed. Blocking; nobody may be importing."""
    if root.is_symlink():
        return
    for left in root.glob(f"{STAGING}*"):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)


def remove_unfinished(root: Path, own: Collection[str], now: datetime) -> None:
    """Remove sessions of ours that were killed while they began, and so hold nothing. Blocking.

    Only what a beginning leaves is removed, and only empty folders: with anything else in it, a folder stays.
    """
    if root.is_symlink():
        return
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(root)):
            if (
                entry.name in own
                and TRACE_ID.fullmatch(entry.name)
                and entry.is_dir(follow_symlinks=False)
                and not holds_trace(Path(entry.path))
                and now.timestamp() - entry.stat(follow_symlinks=False).st_mtime > _BEGINNING.total_seconds()
            ):
                _remove_unfinished(Path(entry.path))


def _remove_unfinished(folder: Path) -> None:
    entries = list(os.scandir(folder))
    if all(e.name == "messages" or _HALF.fullmatch(e.name) for e in entries):
        with contextlib.suppress(OSError):  # there are messages
            (folder / "messages").rmdir()
        if not (folder / "messages").exists():
            for entry in entries:
                if entry.name != "messages":
                    Path(entry.path).unlink()
            folder.rmdir()
