"""Files that become folders, and folders that become files, within one change. Pure.

Of such a change no file has room beside its target: where the new one goes there is still a file in the way, where the
old one was there is no folder any more. So it is deleted first and made then, and what waits meanwhile, waits beside
the file or folder that turns.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.tool import FileChange


class TypeChanges(Struct, frozen=True):
    """The type changes within a change; both empty for nearly all of them."""

    opened: dict[Path, Path] = field(default_factory=dict[Path, Path])
    """New files, each with the deleted file that becomes a folder above it."""
    closed: dict[Path, Path] = field(default_factory=dict[Path, Path])
    """Deleted files, each with the new file that a folder above it becomes."""

    def __bool__(self) -> bool:
        return bool(self.opened or self.closed)

    def up(self, path: Path) -> int:
        """Return which of the folders above ``path`` is still a file; 0: its own folder."""
        turning = self.opened.get(path) or self.closed.get(path)
        return 0 if turning is None else len(path.parts) - len(turning.parts)

    def folders(self) -> dict[Path, Path]:
        """Return the folders that must then be empty, inner ones first, each with the file that replaces it."""
        found: dict[Path, Path] = {}
        for path, target in self.closed.items():
            for folder in path.parents:
                if folder in found:
                    break
                found[folder] = target
                if folder == target:
                    break
        return dict(sorted(found.items(), key=lambda item: len(item[0].parts), reverse=True))


def type_changes(changes: Sequence[FileChange]) -> TypeChanges:
    """Return the type changes in ``changes``."""
    made = {change.path for change in changes if change.before is None and change.after is not None}
    gone = {change.path for change in changes if change.before is not None and change.after is None}
    if not made or not gone:
        return TypeChanges()
    return TypeChanges(_above(made, gone), _above(gone, made))


def write_groups(changes: Sequence[FileChange]) -> list[list[FileChange]]:
    """Return the groups to write: one by one, but all type changes at once."""
    turns = type_changes(changes)
    knot = {path for pairs in (turns.opened, turns.closed) for pair in pairs.items() for path in pair}
    groups = [[change] for change in changes if change.path not in knot]
    tied = [change for change in changes if change.path in knot]
    return [tied, *groups] if tied else groups


def _above(paths: set[Path], others: set[Path]) -> dict[Path, Path]:
    found: dict[Path, Path] = {}
    for path in paths:
        above = next((folder for folder in path.parents if folder in others), None)
        if above is not None:
            found[path] = above
    return found
