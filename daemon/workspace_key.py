"""Where a workspace really is, and its name where things of many workspaces are kept side by side."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def real_workspace(workspace: Path) -> Path:
    """Return the folder with links followed. Links in a circle, for which ``Path.resolve`` fails, lead nowhere, as a
    name that does not exist."""
    return Path(os.path.realpath(workspace))


def workspace_key(workspace: Path) -> str:
    """16 hex digits; ``workspace`` is absolute and resolved."""
    # normcase, because on Windows the same folder may have another spelling.
    return hashlib.sha256(os.fsencode(os.path.normcase(workspace))).hexdigest()[:16]
