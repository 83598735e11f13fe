"""The port ``Files`` of tools: which version the model saw, and the editor's unsaved text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tools.ports import Editors


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """``seen`` is the session's own record (see SessionState.seen_files), shared and updated in place."""

    seen: dict[str, str]
    editors: Editors
    on_read: Callable[[Path], None] = lambda path: None

    def unsaved(self, path: Path) -> str | None:
        """See tools.tool.Files."""
        return self.editors.unsaved(path)

    def note_read(self, path: Path, sha256: str) -> None:
        """See tools.tool.Files."""
        self.seen[str(path)] = sha256
        self.on_read(path)

    def last_read(self, path: Path) -> str | None:
        """See tools.tool.Files."""
        return self.seen.get(str(path))
