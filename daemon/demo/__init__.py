"""The demo: a sample workspace, and the script of the model that works in it without any key."""

from __future__ import annotations

import importlib.resources
import shutil
from pathlib import Path

from tools.localization import noted, t

PROMPT = noted("The test for discount codes fails. Make it pass.")
"""The task the script is written for."""


def prompt_for(workspace: Path) -> str:
    """Return the task that the demo can do in this workspace; empty when it is not the sample."""
    return t(PROMPT) if (workspace / "shop" / "cart.py").is_file() else ""


def script_path() -> Path:
    """Return the script of the demo model (``daemon.provider.scripted``)."""
    return Path(str(importlib.resources.files("daemon.demo") / "script.json"))


def copy_workspace(target: Path) -> None:
    """Make a fresh copy of the sample workspace at ``target``, which must not exist yet (or be empty)."""
    source = Path(str(importlib.resources.files("daemon.demo") / "workspace"))
    shutil.copytree(
        source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".trace")
    )
