"""Folders of records, made where they are needed, but never in a workspace that is gone."""

from __future__ import annotations

import errno
import os
from pathlib import Path

TRACES = ".trace"
"""The folder of a workspace that holds the records of its sessions."""


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder and those above it. Raises OSError.

    The folder of traces itself is not made: who deleted or renamed its workspace does not want it back.
    """
    above = next((parent for parent in (folder, *folder.parents) if parent.name == TRACES), None)
    if above is not None and not above.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(above))
    folder.mkdir(mode=mode, parents=True, exist_ok=True)
