"""Find the project folder of a file: the nearest one above it with a marker such as ``pyproject.toml``."""

from __future__ import annotations

import fnmatch
import os
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MAX_LEVELS = 64
_MAX_ENTRIES = 5000
"""Most entries of a folder that are compared with globs."""
_MAX_KNOWN = 2000
_RACY_NS = 2_000_000_000
"""A folder that changed so recently may change again without another time of change (coarse clocks)."""


class Roots:
    """Finds project roots in a workspace. A known folder costs one ``stat``: its time of change reveals changes."""

    def __init__(self, workspace: Path, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._workspace = workspace
        self._now_ns = now_ns
        self._known: OrderedDict[tuple[Path, tuple[str, ...]], tuple[int, bool]] = OrderedDict()

    def root_of(self, path: Path, markers: tuple[str, ...]) -> Path:
        """Return the root of ``path``, which is below the workspace; the workspace where there is no marker."""
        if markers:
            for _, folder in zip(range(_MAX_LEVELS), path.parents, strict=False):
                if self._marked(folder, markers):
                    return folder
                if folder == self._workspace:
                    break
        return self._workspace

    def _marked(self, folder: Path, markers: tuple[str, ...]) -> bool:
        try:
            changed = folder.stat().st_mtime_ns
        except (OSError, ValueError):
            return False  # it does not exist yet
        key = folder, markers
        known = self._known.get(key)
        if known is not None and known[0] == changed:
            self._known.move_to_end(key)
            return known[1]
        marked = any(_has(folder, marker) for marker in markers)
        if abs(self._now_ns() - changed) > _RACY_NS:
            self._known[key] = changed, marked
            if len(self._known) > _MAX_KNOWN:
                self._known.popitem(last=False)
        else:
            self._known.pop(key, None)
        return marked


def _has(folder: Path, marker: str) -> bool:
    try:
        if not any(char in marker for char in "*?["):
            return os.path.lexists(folder / marker)
        with os.scandir(folder) as entries:
            return any(
                fnmatch.fnmatchcase(entry.name, marker)
                for _, entry in zip(range(_MAX_ENTRIES), entries, strict=False)
            )
    except (OSError, ValueError):
        return False
