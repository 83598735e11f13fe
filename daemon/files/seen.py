"""The port ``Files`` of tools: which version the model saw, and the editor's unsaved text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from tools.base import ToolError


async def no_editor(path: Path, before: str, after: str) -> None:
    """There is no editor that could change the buffer of ``path``. Raises ToolError."""
    raise ToolError(
        f"{path.name} has unsaved changes in an editor that cannot be changed from here. Nothing was changed: ask "
        "the person to save or discard them, then read the file again."
    )


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """``seen`` is the session's own record (see SessionState.seen_files), shared and updated in place."""

    seen: dict[str, str]
    unsaved_text: Callable[[Path], str | None]
    on_read: Callable[[Path], None] = lambda path: None
    write_through: Callable[[Path, str, str], Awaitable[None]] = no_editor

    def unsaved(self, path: Path) -> str | None:
        """See tools.base.Files."""
        return self.unsaved_text(path)

    async def write_unsaved(self, path: Path, before: str, after: str) -> None:
        """See tools.base.Files."""
        await self.write_through(path, before, after)

    def note_read(self, path: Path, sha256: str) -> None:
        """See tools.base.Files."""
        self.seen[str(path)] = sha256
        self.on_read(path)

    def last_read(self, path: Path) -> str | None:
        """See tools.base.Files."""
        return self.seen.get(str(path))
