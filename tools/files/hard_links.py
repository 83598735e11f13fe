"""Find other names of a file: protection must hold through hard links, too. Blocking."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tools.files.protected_names import SECRET_FOLDERS

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_ENTRIES = 5000
MAX_S = 0.1
_HOME_FOLDERS = ("", *dict.fromkeys(name.rpartition("/")[0] for name in SECRET_FOLDERS if "/" in name))
"""Folders of the home with secrets among other things: what lies below them is not looked at."""
_PASSED_BY = frozenset({"node_modules", ".venv", "__pycache__", "objects"})


def other_names(path: Path, workspace: Path) -> list[Path]:
    """Return other paths of the file at ``path``: among the user's secrets and in the workspace.

    Searched only when other names exist at all, and within limits: first where secrets are.
    """
    try:
        wanted = path.stat(follow_symlinks=False)
    except OSError:
        return []
    if wanted.st_nlink < 2 or not stat.S_ISREG(wanted.st_mode):
        return []
    found: list[Path] = []
    deadline = time.monotonic() + MAX_S
    for number, entry in enumerate(_entries(workspace)):
        if number >= MAX_ENTRIES or time.monotonic() > deadline:
            break
        try:
            if entry.inode() != wanted.st_ino or entry.path == str(path):
                continue
            info = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if (info.st_dev, info.st_ino) == (wanted.st_dev, wanted.st_ino):
            found.append(Path(entry.path))
    return list(dict.fromkeys(found))


def _entries(workspace: Path) -> Iterator[os.DirEntry[str]]:
    home = Path(os.path.realpath(Path.home()))
    for folder in (*(home / name for name in _HOME_FOLDERS), workspace / ".git"):
        yield from _listed(folder)
    waiting = [*(home / name for name in SECRET_FOLDERS), workspace]
    while waiting:
        below: list[Path] = []
        for entry in _listed(waiting.pop(0)):
            if not entry.is_dir(follow_symlinks=False):
                yield entry
            elif entry.name not in _PASSED_BY:
                below.append(Path(entry.path))
        waiting += below


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
