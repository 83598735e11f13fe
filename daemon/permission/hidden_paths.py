"""Finds what rules hide of the disk outside of the workspace, for the sandbox. Reads the disk; blocking.

Rules that name a place (``/data/*``, ``~/notes/private.txt``) are looked up. A pattern that names no place (``*.pem``)
hides files of the workspace only: the whole disk cannot be searched before each command.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.permission.matching import fold, matches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.permission.rules import RuleSet

_ANY_FILE = ".any-file"
MAX_ENTRIES = 20_000
"""Entries that are looked at for one pattern. A folder with more is hidden as a whole."""


def concealed(rules: RuleSet, workspace: Path) -> tuple[Path, ...]:
    """Return the existing files and folders outside of ``workspace`` that a rule names and does not let pass."""
    named = dict.fromkeys(each for one in rules.places_outside() for each in _named(one, workspace))
    hidden = (path for path, target in named if rules.decide("read", target).action != "allow")
    return tuple(dict.fromkeys(hidden))


def _asked(path: Path) -> tuple[Path, str]:
    """Return a path, and the name that rules are asked about: for a folder, that of any file in it."""
    return path, f"{path.as_posix()}/{_ANY_FILE}" if path.is_dir() else path.as_posix()


def _named(pattern: str, workspace: Path) -> Iterator[tuple[Path, str]]:
    fixed = pattern[: min((pattern.find(c) for c in "*?" if c in pattern), default=len(pattern))]
    if fixed == pattern:
        if os.path.lexists(pattern):
            yield _asked(Path(pattern))
        return
    folder = Path(fixed.rpartition("/")[0] or "/")
    if not folder.is_dir():
        return
    if pattern == f"{fixed}*" and fixed.endswith("/"):
        yield from map(_asked, _around(folder, workspace))
        return
    left = MAX_ENTRIES
    found: list[Path] = []
    wanted = fold(pattern)
    for place, folders, files in os.walk(folder):
        left -= len(folders) + len(files)
        if left < 0:  # all of it is hidden, if a file that the pattern names would be
            sample = pattern.replace("*", "x").replace("?", "x")
            yield from ((path, sample) for path in _around(folder, workspace))
            return
        if Path(place) == workspace:
            folders.clear()
            continue
        found += [
            Path(place, name) for name in (*folders, *files) if matches(wanted, fold(f"{place}/{name}"))
        ]
    yield from map(_asked, found)


def _around(folder: Path, workspace: Path) -> Iterator[Path]:
    """Yield a folder, or all in it that does not lead to the workspace."""
    if not workspace.is_relative_to(folder):
        yield folder
        return
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for path in entries:
        if workspace != path:
            yield from _around(path, workspace) if workspace.is_relative_to(path) else (path,)
