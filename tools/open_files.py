"""Files that are open in an editor: what tools must know of them, and the port through which they are changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tools.errors import ToolError


class EditorGone(ToolError):
    """The editor went away before it was asked for anything: neither its buffer nor the file was touched."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that is open in an editor."""

    text: str
    unsaved: bool
    """The text has changes that are not on disk."""
    writable: bool = True
    """The editor can be asked to change the text and to save it."""
    movable: bool = False
    """The editor can be asked to rename the file, so that its tab follows."""
    refusal: str = ""
    """Why the file must not be changed now, and what the person can do about it, for the model."""


class Editors(Protocol):
    """The open files of all attached editors. Paths are absolute, symlinks resolved."""

    def unsaved(self, path: Path) -> str | None:
        """The text of ``path`` in an editor when it has unsaved changes there, else None."""
        ...

    def unsaved_paths(self) -> Sequence[Path]:
        """The files with unsaved changes."""
        ...

    def opened(self, path: Path) -> OpenFile | None:
        """What is known of an open file; None when it is open nowhere."""
        ...

    async def write(self, path: Path, before: str, after: str) -> None:
        """Turn ``before``, the text of an open file, into ``after`` and save it, in its editor.

        Raises EditorGone when there is no such editor (any more), ToolError when it did not take the change or could
        not save it: the buffer is then as it was, as far as the editor could be asked.
        """
        ...

    async def move(self, source: Path, target: Path) -> None:
        """Rename an open file, so that its tab follows. Raises like ``write``."""
        ...


class NoEditors:
    """No editor is attached."""

    def unsaved(self, path: Path) -> str | None:
        """See Editors."""
        return None

    def unsaved_paths(self) -> Sequence[Path]:
        """See Editors."""
        return ()

    def opened(self, path: Path) -> OpenFile | None:
        """See Editors."""
        return None

    async def write(self, path: Path, before: str, after: str) -> None:
        """See Editors."""
        raise EditorGone(f"{path.name} is open in no editor.")

    async def move(self, source: Path, target: Path) -> None:
        """See Editors."""
        raise EditorGone(f"{source.name} is open in no editor.")
