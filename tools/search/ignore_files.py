"""Ignore files that programs would never come to the end of: pipes, devices, links to them.

git and ripgrep open the ``.gitignore`` of each folder that they pass, whatever it is, and a folder may come from
anybody. To look for such files takes as long as the search itself, so it is done for those that take long alone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection
from pathlib import Path

SLOW_S = 0.5
"""How long a program may take before somebody looks for what it waits for."""
_NAMES = (".gitignore", ".ignore", ".rgignore", ".gitattributes")
_MOST_BYTES = 16 * 1024 * 1024


def endless(root: Path, excluded: Collection[str] = (), stopped: Callable[[], bool] = lambda: False) -> bool:
    """Whether there is one in ``root``, below it (but for ``excluded`` folders) or above it. Blocking.

    ``stopped``: nobody wants to know any more.
    """
    if any(_is_endless(folder / name) for folder in (root, *root.parents) for name in _NAMES):
        return True
    if _is_endless(root / ".git" / "info" / "exclude"):
        return True
    waiting = [str(root)]
    while waiting and not stopped():
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.name in _NAMES and _is_endless(Path(entry.path)):
                        return True
                    if entry.name not in excluded and entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue
    return False


def _is_endless(path: Path) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    return not stat.S_ISDIR(found.st_mode) and (
        not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES
    )
