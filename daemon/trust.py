"""Folders that the user trusts: their own settings, hooks and instructions then count.

Stored where no repository can put anything: ``trusted.json`` in the state folder. An editor that knows better (VS
Code's workspace trust) decides for its own prompts, see ``lsp_bridge.protocol.sessions.InitializationOptions``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tools.files.regular_files import write_private
from tools.json_access import strings

if TYPE_CHECKING:
    from daemon.model.permissions import Mode, Trust


def mode_in_force(wanted: Mode, trust: Trust) -> Mode:
    """Return the mode that holds in a folder of this trust when the user or the settings ask for ``wanted``."""
    if trust == "restricted":
        return "plan"
    return "ask" if wanted == "auto" and trust != "trusted" else wanted


class TrustedFolders:
    """The list of trusted folders; a folder below a trusted one is trusted. Reads the disk on each call."""

    def __init__(self, state_folder: Path) -> None:
        self._file = state_folder / "trusted.json"

    def trust(self, workspace: Path) -> Trust:
        """Return ``trusted`` or ``unknown``. ``workspace``: absolute, resolved."""
        folders = self.folders()
        return "trusted" if any(workspace.is_relative_to(folder) for folder in folders) else "unknown"

    def folders(self) -> list[Path]:
        """Return all of them; none when the list is damaged."""
        try:
            value: object = json.loads(self._file.read_text("utf-8"))
        except (OSError, ValueError):
            return []
        return [path for path in map(Path, strings(value)) if path.is_absolute()]

    def add(self, workspace: Path) -> None:
        """Trust a folder. Raises OSError."""
        if workspace not in (known := self.folders()):
            self._write([*known, workspace])

    def remove(self, workspace: Path) -> bool:
        """Trust a folder no longer; False when it was not in the list itself. Raises OSError."""
        known = self.folders()
        if workspace not in known:
            return False
        self._write([folder for folder in known if folder != workspace])
        return True

    def _write(self, folders: list[Path]) -> None:
        text = json.dumps([str(folder) for folder in folders], indent=2) + "\n"
        write_private(self._file, text.encode())
