"""The sandbox that commands may run in: what it lets through, and how it is made (``bwrap`` on Linux)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class SandboxPolicy:
    """What a command in the sandbox may do. ``off``: commands run as they are, after a question."""

    kind: Literal["off", "workspace-write", "read-only"] = "off"
    network: bool = False
    writable: tuple[Path, ...] = ()
    """More folders that may be written, absolute and resolved."""
