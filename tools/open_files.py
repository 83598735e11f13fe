"""Files that are open in an editor: what tools must know of them, and the port through which they are changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tools.errors import ToolError


class EditorGone(ToolError):
    """The editor went away before it was asked for anything: neither its buffer nor the file was touched."""


class NotTaken(ToolError):
    """An editor did not do what it was asked to. ``why`` is that alone: what stands where may be another question."""

    def __init__(self, why: str, rest: str) -> None:
        super().__init__(f"{why} {rest}")
        self.why = why


class NotSaved(NotTaken):
    """An editor does not say that it has saved a file. ``pending``: it may do so yet."""

    def __init__(self, why: str, *, pending: bool = False) -> None:
        rest = "Its text is as it was; nothing was written. Ask the person to save it, then read it again."
        super().__init__(why, rest)
        self.pending = pending


class AppliedEdit(Protocol):
    """A change that stands in the buffer of an editor, and is not saved."""

    async def save(self) -> None:
        """Have the editor save it. Raises NotSaved; what is on disk then, only the disk tells."""
        ...

    async def saved_late(self) -> None:
        """After ``save`` was given up: return when the editor says that it has saved, or will not any more."""
        ...

    async def take_back(self) -> bool:
        """Undo it, also when the text elsewhere changed since; nothing is saved.

        False when it still stands there, as what was typed does not fit.
        """
        ...


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
    editable: bool = False
    """The editor can be asked to change the text, but not to save it: the file is written beside."""


class Editors(Protocol):
    """The open files of all attached editors. Paths are absolute, symlinks resolved."""

    def unsaved(self, path: Path) -> str | None:
        """The text of ``path`` in an editor when it has unsaved changes there, else None."""
        ...

    def unsaved_paths(self) -> Sequence[Path]:
        """The files with unsaved changes."""
        ...

    async def settle(self, path: Path | None = None) -> None:
        """Compare long texts with changed files in a thread; of one file or of all. Until then they are unsaved."""
        ...

    def opened(self, path: Path) -> OpenFile | None:
        """What is known of an open file; None when it is open nowhere."""
        ...

    async def apply(self, path: Path, before: str, after: str) -> AppliedEdit:
        """Turn ``before``, the text of an open file, into ``after`` in its editor; nothing is saved.

        Raises EditorGone when there is no such editor (any more), ToolError when it did not take the change.
        """
        ...

    async def move(self, source: Path, target: Path) -> None:
        """Rename an open file, so that its tab follows. Raises like ``apply``."""
        ...


class NoEditors:
    """No editor is attached."""

    def unsaved(self, path: Path) -> str | None:
        """See Editors."""
        return None

    def unsaved_paths(self) -> Sequence[Path]:
        """See Editors."""
        return ()

    async def settle(self, path: Path | None = None) -> None:
        """See Editors."""

    def opened(self, path: Path) -> OpenFile | None:
        """See Editors."""
        return None

    async def apply(self, path: Path, before: str, after: str) -> AppliedEdit:
        """See Editors."""
        raise EditorGone(f"{path.name} is open in no editor.")

    async def move(self, source: Path, target: Path) -> None:
        """See Editors."""
        raise EditorGone(f"{source.name} is open in no editor.")
