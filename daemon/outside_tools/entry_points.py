"""Functions that installed packages offer to Goalwright, found in their metadata; nothing of them is imported."""

from __future__ import annotations

import os
import sys
import threading
from functools import lru_cache
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HOOKS, TOOLS = "goalwright.hooks", "goalwright.tools"
"""The groups."""
_ours = threading.Lock()


def entry_points(group: str) -> Sequence[metadata.EntryPoint]:
    """Return the entry points of a group, in no order. Blocks for some 20 ms.

    The packages are read again only when the import path has changed, or something was installed in a folder of it.
    Broken metadata of any package may raise anything.
    """
    with _ours:  # two groups are asked for at once
        return _found(tuple((folder, _changed(folder)) for folder in sys.path))[group]


@lru_cache(maxsize=1)
def _found(_state: tuple[tuple[str, int], ...]) -> Mapping[str, Sequence[metadata.EntryPoint]]:
    every = metadata.entry_points()
    return {group: tuple(every.select(group=group)) for group in (HOOKS, TOOLS)}


def _changed(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 - a path of Python is a text
    except OSError:
        return 0
