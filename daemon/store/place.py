"""Where the traces of a workspace are: in it, or in the user's state folder when it cannot be written."""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

from daemon.store.base import StoreError
from daemon.store.files import FileTraceStore

log = logging.getLogger(__name__)


def open_store(workspace: Path, state_folder: Path) -> tuple[FileTraceStore, str]:
    """The store to write to, its folder made; and what the person should know of it, empty for nothing.

    ``workspace`` is absolute and resolved. Raises StoreError when neither folder can be written.
    """
    store = FileTraceStore(workspace / ".trace")
    try:
        store.prepare()
        return store, ""
    except StoreError as error:
        # A folder that cannot be written can still be read and talked about.
        fallback = FileTraceStore(_elsewhere(workspace, state_folder))
        fallback.prepare()
        log.warning("%s Using %s.", error, fallback.root)
        return fallback, f"{error} This session is kept in {fallback.root} instead."


def stored(workspace: Path, state_folder: Path) -> FileTraceStore:
    """The same store, only to be read: nothing is made. ``workspace`` is absolute and resolved."""
    here, elsewhere = workspace / ".trace", _elsewhere(workspace, state_folder)
    usable = here.is_dir() and not here.is_symlink() and os.access(here, os.W_OK)
    return FileTraceStore(elsewhere if not usable and elsewhere.is_dir() else here)


def _elsewhere(workspace: Path, state_folder: Path) -> Path:
    key = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:8]
    return state_folder / "traces" / f"{workspace.name}-{key}"
