"""The name of a workspace where things of many workspaces are kept side by side."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def workspace_key(workspace: Path) -> str:
    """16 hex digits; ``workspace`` is absolute and resolved."""
    # normcase, because on Windows the same folder may have another spelling.
    return hashlib.sha256(os.fsencode(os.path.normcase(workspace))).hexdigest()[:16]
