"""Locate the traces of a workspace: in it, or in the user's state folder when it cannot be written.

A folder that is writable today may not have been yesterday: new traces go to the one, and those in the other stay
available.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from daemon.store.files import FileTraceStore
from daemon.store.trace_store import StoreError
from daemon.workspace_key import workspace_key
from tools.files.regular_files import is_real_folder
from tools.localization import t

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger(__name__)


def open_store(workspace: Path, state_folder: Path) -> tuple[FileTraceStore, str]:
    """Return the store to write to, with its folder created, and a message for the user about it, empty for none.

    ``workspace`` is absolute and resolved. Raises StoreError when neither folder can be written.
    """
    here, elsewhere = workspace / ".trace", _elsewhere(workspace, state_folder)
    store = _store(here, elsewhere)
    try:
        store.prepare()
        return store, ""
    except StoreError as error:
        # A session in a read-only folder can still read it and talk about it.
        fallback = _store(elsewhere, here)
        fallback.prepare()
        log.warning("%s Using %s.", error, fallback.root)
        return fallback, t(
            "{error} This session is stored in {root} instead.", error=error, root=fallback.root
        )


def stored(workspace: Path, state_folder: Path) -> FileTraceStore:
    """Return the store for reading only: nothing is created. ``workspace`` is absolute and resolved."""
    here, elsewhere = workspace / ".trace", _elsewhere(workspace, state_folder)
    usable = is_real_folder(here) and os.access(here, os.W_OK)
    if not usable and is_real_folder(elsewhere):
        return _store(elsewhere, here)
    return _store(here, elsewhere)


def _store(root: Path, other: Path) -> FileTraceStore:
    return FileTraceStore(root, also=other if is_real_folder(other) else None)


def _elsewhere(workspace: Path, state_folder: Path) -> Path:
    return state_folder / "traces" / f"{workspace.name}-{workspace_key(workspace)[:8]}"
