"""Folders that the user trusts: their own settings, hooks and instructions then count.

Stored where no repository can put anything: ``trusted.json`` in the state folder. An editor that knows better (VS
Code's workspace trust) decides for its own prompts, see ``lsp_bridge.protocol.sessions.InitializationOptions``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tools.files.regular_files import Stamp, stamp_of, write_private
from tools.json_access import strings

if TYPE_CHECKING:
    from daemon.model.permissions import Mode, Trust


def mode_in_force(wanted: Mode, trust: Trust) -> Mode:
    """Return the mode that holds in a folder of this trust when the user or the settings ask for ``wanted``."""
    if trust == "restricted":
        return "plan"
    return "ask" if wanted == "auto" and trust != "trusted" else wanted


class TrustedFolders:
    """The list of trusted folders; a folder below a trusted one is trusted.

    Looks at the file on each call, because another process may withdraw trust, and reads it when it has changed.
    """

    def __init__(self, state_folder: Path) -> None:
        self._file = state_folder / "trusted.json"
        self._known: tuple[Stamp | None, list[Path]] = None, []
        """The stamp of the file when it was read, and what was in it. One value, because threads ask, too."""

    def trust(self, workspace: Path) -> Trust:
        """Return ``trusted`` or ``unknown``. ``workspace``: absolute, resolved."""
        folders = self.folders()
        return "trusted" if any(workspace.is_relative_to(folder) for folder in folders) else "unknown"

    def folders(self) -> list[Path]:
        """Return all of them; none when the list is damaged."""
        stamp = stamp_of(self._file)
        if stamp is None or stamp != self._known[0]:
            # The stamp is taken first, so that the next check finds a write in between.
            try:
                self._known = stamp, self._read()
            except OSError:
                self._known = None, []  # the next call tries again
        return self._known[1]

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

    def _read(self) -> list[Path]:
        try:
            value: object = json.loads(self._file.read_text("utf-8"))
        except ValueError:
            return []
        return [path for path in map(Path, strings(value)) if path.is_absolute()]

    def _write(self, folders: list[Path]) -> None:
        text = json.dumps([str(folder) for folder in folders], indent=2) + "\n"
        write_private(self._file, text.encode())
